"""What tests of topics have in common."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).resolve().parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)  # for ``scripted_topics``

from scripted_topics import Orders  # noqa: E402


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path)
