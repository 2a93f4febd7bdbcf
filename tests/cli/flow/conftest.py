"""What tests of ``headgate flow`` have in common."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
LEARNING = HERE.parents[1] / "learning"
for folder in (HERE, LEARNING, LEARNING / "triggers"):
    if str(folder) not in sys.path:
        # For ``answering``, and for ``lived`` and ``lived_models`` of learning.
        sys.path.insert(0, str(folder))

from answering import Agent  # noqa: E402


@pytest.fixture
def agent() -> Iterator[Agent]:
    made = Agent()
    yield made
    made.close()
