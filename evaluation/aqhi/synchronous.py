"""Outputs of the synchronous dataflow by the formulas, without HBase and without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from aqhi import model
from aqhi.grid import Grid
from aqhi.readings import Readings

from evaluation.aqhi.figures import Series, Waves


def synchronous(
    readings: Iterable[Readings],
    grid: Grid,
    reference: float = model.HOTSPOT_REFERENCE,
    resolution: float = model.ZONE_RESOLUTION,
) -> tuple[Waves, Series]:
    """Return what every step shows after each wave, and the detectors' concentrations.

    Args:
        readings: of each wave.
        grid: where the detectors stand.
        reference: concentration above which a zone is a hotspot.
        resolution: units in whose steps C writes zones.

    Returns:
        The outputs of C to F, and that of B with shape (waves, side, side).
    """
    changed, concentrations, zones = [], [], []
    for wave, known in last_readings(readings, grid):
        changed.append(len(wave.detectors) / grid.detectors)
        concentrations.append(model.combined(known).reshape(grid.side, grid.side))
        zones.append(model.stored(model.zones(concentrations[-1]), resolution))
    hotspots = [model.hotspots(square, reference) for square in zones]
    waves = Waves(
        changed=np.array(changed),
        zones=np.array(zones),
        maps=np.array([model.city_map(square) for square in concentrations]),
        hotspots=np.array(hotspots),
        index=np.array([model.index(square) for square in hotspots]),
    )
    return waves, np.array(concentrations)


def last_readings(readings: Iterable[Readings], grid: Grid) -> Iterator[tuple[Readings, Series]]:
    """Yield each wave with what all sensors have said last: shape (detectors, 3), NaN for silence.

    Args:
        readings: of each wave.
        grid: where the detectors stand.
    """
    known = np.full((grid.detectors, len(model.SENSORS)), np.nan)
    for wave in readings:
        silent = np.isnan(wave.values)
        known[wave.detectors] = np.where(silent, known[wave.detectors], wave.values)
        yield wave, known.copy()
