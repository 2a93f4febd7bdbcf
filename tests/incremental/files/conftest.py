"""What tests of files have in common."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).resolve().parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)  # for ``directories``

from directories import Directory  # noqa: E402


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path)
