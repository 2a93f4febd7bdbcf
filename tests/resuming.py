"""Runs of long tests that go on where they stopped."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).resolve().parents[1]
PASSED: Final = _ROOT / ".cache" / "passed"
"""A line for each test that has passed: versions of the product and of its file, and the test."""


def add_option(parser: pytest.Parser) -> None:
    """Let whoever runs the tests ask for it."""
    parser.addoption(
        "--resume",
        action="store_true",
        help="leave out tests that have passed with --resume since the last commit that changed "
        "their file or the product",
    )


class Resumed:
    """Leaves out tests that have passed, and notes those that pass.

    Args:
        product: the version of what is tested.
        files: the version of each file of tests, by its path; tests of others are never left out.
        passed: the file that names what has passed.
    """

    def __init__(self, product: str, files: Mapping[str, str], passed: Path = PASSED) -> None:
        self._product = product
        self._files = files
        self._passed = passed
        self._before = set(passed.read_text().splitlines()) if passed.exists() else set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out what has passed."""
        left_out = [item for item in items if self._line(item.nodeid) in self._before]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if self._line(item.nodeid) not in self._before]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that has passed."""
        line = self._line(report.nodeid)
        if report.when == "call" and report.passed and line is not None:
            self._passed.parent.mkdir(parents=True, exist_ok=True)
            with self._passed.open("a") as file:
                file.write(f"{line}\n")

    def _line(self, test: str) -> str | None:
        version = self._files.get(test.partition("::")[0])
        return None if version is None else f"{self._product} {version} {test}"


def committed() -> Resumed:
    """Return what goes by what is committed: edits that are not committed do not count.

    Raises:
        pytest.UsageError: there is no checkout of git.
    """
    trees = _git("rev-parse", "HEAD:agent", "HEAD:observer").split()
    listed = (line.split(None, 3) for line in _git("ls-tree", "-r", "HEAD", "tests").splitlines())
    return Resumed("-".join(trees), {path: blob for _, _, blob, path in listed})


def _git(*arguments: str) -> str:
    asked = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True)
    if asked.returncode:
        message = f"--resume needs a checkout of git: {asked.stderr.strip()}"
        raise pytest.UsageError(message)
    return asked.stdout
