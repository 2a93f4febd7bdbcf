"""Runs of long tests that go on where they stopped."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

PASSED: Final = Path(__file__).resolve().parents[1] / ".cache" / "passed"
"""A line for each test that has passed: the commit and the test."""


def add_option(parser: pytest.Parser) -> None:
    """Let whoever runs the tests ask for it."""
    parser.addoption(
        "--resume",
        action="store_true",
        help="leave out tests that have passed with --resume since the last commit",
    )


class Resumed:
    """Leaves out tests that have passed at a commit, and notes those that pass.

    What was edited and not committed does not count as a change: commit it first.
    """

    def __init__(self, commit: str, passed: Path = PASSED) -> None:
        """Read what has passed."""
        self._commit = commit
        self._passed = passed
        lines = passed.read_text().splitlines() if passed.exists() else []
        pairs = (line.split(" ", 1) for line in lines)
        self._before = {test for at, test in pairs if at == commit}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out what has passed."""
        left_out = [item for item in items if item.nodeid in self._before]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item.nodeid not in self._before]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that has passed."""
        if report.when == "call" and report.passed:
            self._passed.parent.mkdir(exist_ok=True)
            with self._passed.open("a") as file:
                file.write(f"{self._commit} {report.nodeid}\n")


def commit() -> str:
    """Return the commit that is checked out.

    Raises:
        pytest.UsageError: none is.
    """
    asked = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    if asked.returncode:
        message = f"--resume needs a checkout of git: {asked.stderr.strip()}"
        raise pytest.UsageError(message)
    return asked.stdout.strip()
