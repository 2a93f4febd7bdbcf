"""What step A feeds: the readings of one wave, and how they are written to HBase."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from aqhi.grid import Grid
from aqhi.model import SENSORS

RESOLUTION = 0.1
"""Sensors report in steps of this many units."""


class Readings(Struct, frozen=True):
    """One wave: the detectors that perceived a change, and what their sensors say."""

    label: str
    """What people call the wave: its number, or its hour."""
    detectors: NDArray[np.int64]
    """Positions in ``Grid.rows()``, ascending, shape (m,)."""
    values: NDArray[np.float64]
    """0 to 100, shape (m, 3): O3, PM2.5, NO2; NaN where the sensor has nothing new to say."""

    def puts(self, grid: Grid, family: str = "s") -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        """Yield (row, cells) of each changed detector, values as decimal text."""
        keys = grid.rows()
        columns = [f"{family}:{sensor}".encode() for sensor in SENSORS]
        for detector, row in zip(self.detectors.tolist(), self.values.tolist(), strict=True):
            yield (
                keys[detector],
                {
                    column: b"%.1f" % value
                    for column, value in zip(columns, row, strict=True)
                    if not math.isnan(value)
                },
            )
