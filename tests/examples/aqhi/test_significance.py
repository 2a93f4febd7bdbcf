"""On the city's own data: the limit of step C is found from the change of the zones that matters.

The readings are the evaluation's generator, the zones its model; only Spark and HBase are left out.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from aqhi.generator import Trend, generate
from aqhi.grid import Grid
from aqhi.model import combined, zones
from msgspec import Struct
from numpy.typing import NDArray

from headgate.engine import (
    SOUGHT_SEQUENCE,
    SOUGHT_VALUE,
    ActionRole,
    ActionSpec,
    Bound,
    DataflowSpec,
    Dimension,
    EngineTester,
    SignificanceSpec,
    WatchedContainer,
    launched,
)
from headgate.engine.triggers.significance.policy import Searched
from headgate.engine.triggers.significance.search import MOST_UPDATES, Search, Taken
from headgate.events import Container, ContainerId, Item

SIDE = 50
TARGET = 0.03
"""Of the zones' concentration: about three waves of input."""
BUDGET = 3 * math.log2(MOST_UPDATES * SIDE * SIDE)
"""Waves in which a limit between 1 and 100 updates of each detector is to be found: 53."""


class Wave(Struct, frozen=True):
    """What the detectors that report bring about."""

    detectors: NDArray[np.int64]
    concentration: NDArray[np.float64]
    zones: NDArray[np.float64]


def waves(
    seed: int, trend: Trend, number: int = 168, *, side: int = SIDE, speed: int = 1
) -> Iterator[Wave]:
    """Yield waves of input; with ``speed`` so many times as much happens from one to the next."""
    readings = np.full((side * side, 3), np.nan)
    for wave, found in enumerate(generate(Grid(side), number * speed, seed, trend)):
        if wave % speed == 0:
            readings[found.detectors] = found.values
            concentration = combined(readings).reshape(side, side)
            yield Wave(found.detectors, concentration, zones(concentration))


def change(new: NDArray[np.float64], old: NDArray[np.float64]) -> float:
    return float(np.abs(new - old).sum() / np.abs(old).sum())


def search_over(coming: Iterator[Wave], search: Search) -> list[Wave]:
    """Run step C wherever the search's limit says so; return the waves until it was found."""
    received = pending = 0
    last: Wave | None = None
    seen = []
    for wave in coming:
        seen.append(wave)
        received += len(wave.detectors)
        pending += len(wave.detectors)
        moved = math.inf if last is None else change(wave.concentration, last.concentration)
        limits = search.limits
        if pending >= limits[Dimension.SEQUENCE] or moved >= limits[Dimension.VALUE]:
            search.launched(Taken(pending, moved))
            search.finished(math.inf if last is None else change(wave.zones, last.zones))
            last, pending = wave, 0
        search.wave(received, SIDE * SIDE)
        if search.found:
            return seen
    raise AssertionError(search.words())


def mean_change(found: list[Wave], limit: float) -> float:
    """Return how much the zones change between two runs under a fixed limit."""
    last, pending, changes = found[0], 0, []
    for wave in found[1:]:
        pending += len(wave.detectors)
        if pending >= limit:
            changes.append(change(wave.zones, last.zones))
            last, pending = wave, 0
    return statistics.fmean(changes)


@pytest.mark.parametrize("trend", list(Trend))
def test_a_limit_is_found_in_time_at_which_the_output_changes_by_the_target(trend):
    shares = []
    for seed in (1, 2, 3, 4, 5):
        search = Search(0.1, 5)
        search.open(TARGET)
        seen = search_over(waves(seed, trend), search)
        assert len(seen) <= BUDGET
        assert search.state.dimension is Dimension.SEQUENCE
        assert search.change == pytest.approx(TARGET, rel=0.1)
        # The same waves again, with the limit as if somebody had written it into the file.
        shares.append(mean_change(seen, search.state.limit) / TARGET)
    assert statistics.fmean(shares) == pytest.approx(1, abs=0.1)
    assert all(0.75 < share < 1.25 for share in shares)


class City:
    """The engine with steps B (done by the feed) and C, whose runs end at once."""

    def __init__(self, side: int) -> None:
        detectors, output = ContainerId("detectors"), ContainerId("zones")
        bound = Bound("detectors", detectors, 1e9, SOUGHT_SEQUENCE, SOUGHT_VALUE)
        self.tester = EngineTester(
            DataflowSpec(
                "aqhi",
                tuple(
                    WatchedContainer(Container(name, (Item(name),))) for name in (detectors, output)
                ),
                (
                    ActionSpec("combine", ActionRole.INPUT, writes=(detectors,)),
                    ActionSpec(
                        "zones",
                        after=("combine",),
                        reads=(detectors,),
                        writes=(output,),
                        bounds=(bound,),
                    ),
                ),
                significance=SignificanceSpec(output, TARGET, ("zones",)),
            )
        )
        self.rows = Grid(side).rows()

    @property
    def search(self) -> Search:
        policy = self.tester.engine.actions["zones"].policy
        assert isinstance(policy, Searched)
        return policy.search

    def wave(self, wave: Wave) -> None:
        self._write("detectors", wave.concentration.ravel(), wave.detectors)
        if launched(self.tester.wave("combine")):
            self._write("zones", wave.zones.ravel(), np.arange(len(self.rows)), by="zones")
            self.tester.finish("zones")

    def until(self, holds: Callable[[Search], bool], found: Iterator[Wave]) -> int:
        """Let waves come until it holds; return how many."""
        for number, wave in enumerate(found, start=1):
            self.wave(wave)
            if holds(self.search):
                return number
        raise AssertionError(self.search.words())

    def _write(
        self,
        table: str,
        values: NDArray[np.float64],
        places: NDArray[np.int64],
        by: str | None = None,
    ) -> None:
        cells = {self.rows[i]: {b"c:concentration": b"%.6f" % values[i]} for i in places}
        self.tester.write(table, cells, by=by)


def test_a_limit_is_found_again_after_the_trend_of_the_input_has_changed():
    side = 20
    budget = 3 * math.log2(MOST_UPDATES * side * side)
    city = City(side)
    assert city.until(lambda search: search.found, waves(1, Trend.UNIFORM, side=side)) <= budget
    first, opened = city.search.state.limit, city.search.state.opened

    faster = waves(2, Trend.UNIFORM, side=side, speed=3)
    city.until(lambda search: search.state.opened > opened, faster)
    assert city.until(lambda search: search.found, faster) <= budget
    assert city.search.change == pytest.approx(TARGET, rel=0.1)
    assert city.search.state.limit < first
