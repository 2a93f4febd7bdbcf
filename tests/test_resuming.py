"""Runs of tests that go on where they stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.resuming import Resumed, committed

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
    path = pytester.makepyfile(TESTS)

    def run(product: str, file: str, bad: int) -> tuple[int, int]:
        monkeypatch.setenv("BAD", str(bad))
        resumed = Resumed(product, {path.name: file}, tmp_path / "of" / "passed")
        result = pytester.inline_run("-p", "no:cacheprovider", "-x", plugins=[resumed])
        passed, _, failed = result.countoutcomes()
        return passed, failed

    return run


def test_what_has_passed_is_left_out_until_it_or_the_product_changes(run) -> None:
    assert run("one", "a", bad=2) == (2, 1)
    assert run("one", "a", bad=0) == (2, 0)
    assert run("one", "a", bad=0) == (0, 0)
    assert run("one", "b", bad=1) == (1, 1)
    assert run("two", "a", bad=9) == (4, 0)


@pytest.mark.skipif(
    not (Path(__file__).parents[1] / ".git").exists(), reason="the project is no checkout of git"
)
def test_files_that_are_committed_have_versions() -> None:
    files = committed()._files
    assert files["tests/conftest.py"] != files["tests/seeds.py"]
