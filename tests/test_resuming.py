"""Runs of tests that go on where they stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.resuming import Resumed

pytest_plugins = ["pytester"]

TESTS = """
import os
import pytest

@pytest.mark.parametrize("at", range(4))
def test_some(at):
    assert at != int(os.environ["BAD"])
"""


@pytest.fixture
def run(pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytester.makepyfile(TESTS)

    def run(commit: str, bad: int) -> dict[str, int]:
        monkeypatch.setenv("BAD", str(bad))
        result = pytester.inline_run(
            "-p", "no:cacheprovider", "-x", plugins=[Resumed(commit, tmp_path / "of" / "passed")]
        )
        passed, _, failed = result.countoutcomes()
        return {"passed": passed, "failed": failed}

    return run


def test_what_has_passed_at_a_commit_is_left_out(run) -> None:
    assert run("one", bad=2) == {"passed": 2, "failed": 1}
    assert run("one", bad=0) == {"passed": 2, "failed": 0}
    assert run("one", bad=0) == {"passed": 0, "failed": 0}
    assert run("two", bad=1) == {"passed": 1, "failed": 1}
