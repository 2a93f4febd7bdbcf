"""Recorded years as tables of all their synchronous waves: those of training, those of service."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from aqhi.grid import Grid
from aqhi.stations import REFERENCE, read_stations, replay
from msgspec import Struct

from evaluation.aqhi.histories import histories
from evaluation.learned.applications import HORIZON, aqhi
from evaluation.learned.forest_floor import STEPS, summer
from headgate.learning import ContainerHistory, MeasuredPairs, levels_of, measured_pairs

AIR: Final = "air_quality"
"""The folder of the stations' files in the folder of data."""
FIRE: Final = "fire/PRF2007_standard_hourly_FWI.csv.gz"
"""The file of a summer there."""
_YEAR: Final = 8760
"""Hours of training."""
_TRAINED: Final = datetime(2013, 3, 1)  # noqa: DTZ001 -- the record states local time
_SERVED: Final = datetime(2015, 3, 1)  # noqa: DTZ001 -- likewise
_SERVICE: Final = 2 * _YEAR + 24
"""Hours from then to the record's end: 2016 has a day more."""

Histories = Mapping[str, ContainerHistory]


class Record(Struct, frozen=True):
    """A dataflow over recorded input."""

    name: str
    steps: Mapping[str, tuple[str, tuple[str, ...]]]
    """By step: its output and what it reads."""
    training: Mapping[str, MeasuredPairs]
    """By container, with its deciles."""
    service: Mapping[str, MeasuredPairs]
    """By container, with the deciles of training."""
    months: npt.NDArray[np.datetime64]
    """The calendar month of each wave of service, shape (w,)."""
    years: npt.NDArray[np.int64]
    """How many years of service have gone by before each wave, shape (w,)."""


def air_quality(data: Path, side: int) -> Record:
    """Return the air quality index over so many detectors a side: Beijing's from 2013 to 2017.

    Args:
        data: holds the folder ``AIR``.
        side: detectors.
    """
    trained, served = (_air(data, side, *span) for span in ((_TRAINED, _YEAR), (_SERVED, _SERVICE)))
    return recorded("AQHI", aqhi(side).singles, trained, served)


def _air(data: Path, side: int, start: datetime, hours: int) -> Histories:
    grid = Grid(side)
    readings = list(replay(grid, read_stations(data / AIR, start, hours)))
    return histories(readings, grid, REFERENCE, start=start.replace(tzinfo=UTC).timestamp())


def recorded(
    name: str,
    steps: Mapping[str, tuple[str, tuple[str, ...]]],
    trained: Histories,
    served: Histories,
) -> Record:
    """Return the pairs of two spans of waves; what steps write is not counted."""
    written = {output for output, _ in steps.values()}
    levels = {each: levels_of(states.values.ravel()) for each, states in trained.items()}

    def pairs(states: Histories) -> dict[str, MeasuredPairs]:
        return {
            each: measured_pairs(
                ContainerHistory(
                    known.values, known.elements, known.updates * (each not in written), known.times
                ),
                HORIZON,
                levels[each],
            )
            for each, known in states.items()
        }

    times = next(iter(served.values())).times.astype("datetime64[s]")
    months = times.astype("datetime64[M]")
    years = (months - months[0]).astype(np.int64) // 12
    return Record(name, steps, pairs(trained), pairs(served), months, years)


def fire_risk(data: Path) -> Record:
    """Return the fire risk of a forest: the first half of a recorded summer, then the second.

    Args:
        data: holds the file ``FIRE``.
    """
    states = summer(data / FIRE)
    half = len(next(iter(states.values())).times) // 2
    trained, served = (
        {
            name: ContainerHistory(
                each.values[span], each.elements[span], each.updates[span], each.times[span]
            )
            for name, each in states.items()
        }
        for span in (slice(half), slice(half, None))
    )
    return recorded("fire", STEPS, trained, served)
