"""What tests of training have in common."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
LEARNING = HERE.parents[1] / "learning"
for folder in (str(HERE), str(LEARNING), str(LEARNING / "triggers")):
    if folder not in sys.path:
        sys.path.insert(0, folder)  # for ``taught``, and for ``lived`` and ``lived_models``


@pytest.fixture(scope="module", autouse=True)
def _few_trees() -> Iterator[None]:
    """Have forests of few trees: what comes of a training is looked at here, not how good it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headgate.learning.fitting.training._TREES", 10)
        yield
