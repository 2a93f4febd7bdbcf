"""The containers of the synchronous dataflow in all waves, as learned triggers are fitted to them.

By the formulas: without HBase and without Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from aqhi import model
from aqhi.grid import Grid
from aqhi.readings import Readings
from numpy.typing import NDArray

from evaluation.aqhi.figures import Series
from evaluation.aqhi.synchronous import last_readings, synchronous
from headgate.learning import ContainerHistory

MONDAY = 1_704_067_200.0
"""Unix seconds of a Monday's midnight (UTC): 2024-01-01."""

_HOUR = 3600.0


def histories(
    readings: Sequence[Readings],
    grid: Grid,
    reference: float = model.HOTSPOT_REFERENCE,
    resolution: float = model.ZONE_RESOLUTION,
    start: float = MONDAY,
) -> dict[str, ContainerHistory]:
    """Return the states of every container of ``aqhi.yaml`` after each wave, by its name.

    An element is a cell. ``index`` is left out: it has a row for each run, so it is never the same
    container twice; ``now`` holds what it says.

    Args:
        readings: of each wave.
        grid: where the detectors stand.
        reference: concentration above which a zone is a hotspot.
        resolution: units in whose steps C writes zones.
        start: of the first wave in Unix seconds; each of the others is an hour later.
    """
    shown, concentrations = synchronous(readings, grid, reference, resolution)
    states = {
        "sensors": np.array([known for _, known in last_readings(readings, grid)]),
        "detectors": concentrations,
        "zones": shown.zones,
        "hotspots": np.where(np.isnan(shown.zones), np.nan, shown.hotspots),
        "map": shown.maps,
        "now": shown.index,
    }
    flat = {name: state.reshape(len(readings), -1) for name, state in states.items()}
    known = {name: ~np.isnan(state) for name, state in flat.items()}
    written = {
        "sensors": np.array([(~np.isnan(wave.values)).sum() for wave in readings]),
        "detectors": np.array(
            [
                now[wave.detectors].sum()
                for wave, now in zip(readings, known["detectors"], strict=True)
            ]
        ),
        "zones": _differing(flat["zones"]),
        "hotspots": _differing(flat["hotspots"]),
        "map": known["map"].sum(axis=1),
        "now": known["now"].sum(axis=1),
    }
    times = start + _HOUR * np.arange(len(readings), dtype=np.float64)
    return {
        name: ContainerHistory(np.nan_to_num(state), known[name].sum(axis=1), written[name], times)
        for name, state in flat.items()
    }


def _differing(states: Series) -> NDArray[np.int64]:
    """Return how many elements are there that were not, or not so, the wave before."""
    differs = np.ones(states.shape, np.bool_)
    differs[1:] = states[1:] != states[:-1]
    count: NDArray[np.int64] = (differs & ~np.isnan(states)).sum(axis=1)
    return count
