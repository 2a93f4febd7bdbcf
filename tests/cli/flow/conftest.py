"""What tests of ``headgate flow`` have in common."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
for folder in (str(HERE), str(HERE.parents[1] / "learning")):
    if folder not in sys.path:
        sys.path.insert(0, folder)  # for ``answering``, and for ``lived_models`` of learning

from answering import Agent  # noqa: E402


@pytest.fixture
def agent() -> Iterator[Agent]:
    made = Agent()
    yield made
    made.close()
