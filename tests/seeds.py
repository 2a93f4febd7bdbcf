"""Seeds of tests that draw what happens."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(few: int, many: int) -> list[Any]:
    """Parameters from 0: as few with all tests, and the rest of as many with ``make soak``."""
    rest = (pytest.param(seed, marks=pytest.mark.soak) for seed in range(few, many))
    return [*range(few), *rest]
