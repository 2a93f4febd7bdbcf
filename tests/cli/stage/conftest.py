"""What tests of ``headgate stage`` have in common."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
for folder in (HERE.parent / "flow", HERE.parents[1] / "incremental"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))  # for ``answering``, and for ``scripted_runs``

from answering import Agent  # noqa: E402


@pytest.fixture
def agent() -> Iterator[Agent]:
    made = Agent()
    yield made
    made.close()
