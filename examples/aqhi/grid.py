"""Where the detectors stand: a square grid spread equally over the city."""

from __future__ import annotations

import re

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

SIDE_UNITS = 100.0
"""The city's side: 100 units, so that it covers 10,000 square units."""

_KEY = re.compile(rb"r(\d{3})c(\d{3})")


class Grid(Struct, frozen=True):
    """``side`` x ``side`` detectors, each in the middle of its own square of the city."""

    side: int

    @property
    def detectors(self) -> int:
        """How many detectors stand in the city."""
        return self.side * self.side

    @property
    def spacing(self) -> float:
        """The distance of two neighbours in units."""
        return SIDE_UNITS / self.side

    def positions(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return x and y of every detector in units, each of shape (side, side): [row, column]."""
        along = (np.arange(self.side) + 0.5) * self.spacing
        y, x = np.meshgrid(along, along, indexing="ij")
        return x, y

    def rows(self) -> list[bytes]:
        """Return the HBase row of every detector, row after row of the grid."""
        return [cell_key(row, column) for row in range(self.side) for column in range(self.side)]


def cell_key(row: int, column: int) -> bytes:
    """Return the HBase row of a detector, a zone or a map point: sorted as the grid is."""
    return b"r%03dc%03d" % (row, column)


def cell_place(key: bytes) -> tuple[int, int]:
    """Return (row, column) of a key made by :func:`cell_key`.

    Raises:
        ValueError: the key is not one of the grid's.
    """
    match = _KEY.fullmatch(key)
    if match is None:
        raise ValueError(f"{key!r} is no row of the grid: expected r and c with three digits each")
    return int(match[1]), int(match[2])


def filled(side: int, cells: dict[bytes, float]) -> NDArray[np.float64]:
    """Return an array of shape (side, side) with the cells in place, NaN where there is none."""
    square = np.full((side, side), np.nan)
    for key, value in cells.items():
        square[cell_place(key)] = value
    return square
