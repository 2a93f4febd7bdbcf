"""Hostile worlds by chance find nothing: some lives of each here, many in ``make soak``."""

from __future__ import annotations

import pytest
from tests.seeds import seeds
from worlds import WORLDS, search

SOAK_SECONDS = 900.0
LIVES = {"agent": 9, "engine": 60, "observer": 60}
"""For each seed; an agent's life is long."""


@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize("world", sorted(WORLDS))
def test_nothing_contradicts_what_is_computed_again(world: str, seed: int) -> None:
    assert search(world, seed, most=LIVES[world]) == LIVES[world]


@pytest.mark.soak
@pytest.mark.timeout(4 * SOAK_SECONDS)
@pytest.mark.parametrize("seed", range(11, 16))
@pytest.mark.parametrize("world", sorted(WORLDS))
def test_nothing_contradicts_it_for_long(world: str, seed: int) -> None:
    found = search(world, seed, seconds=SOAK_SECONDS)
    assert isinstance(found, int), found
