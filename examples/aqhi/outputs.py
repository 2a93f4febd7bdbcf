"""The outputs of a dataflow's steps, read from its tables as any client would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from aqhi.grid import filled

Square = NDArray[np.float64]
Cells = dict[bytes, bytes]


class Table(Protocol):
    """The part of ``happybase.Table`` that is used."""

    def scan(self, *, columns: list[bytes], batch_size: int) -> Iterator[tuple[bytes, Cells]]:
        """Yield the rows that have one of the columns."""
        ...

    def row(self, row: bytes) -> Cells:
        """Return the cells of a row."""
        ...


class Tables(Protocol):
    """The part of ``happybase.Connection`` that is used."""

    def table(self, name: str) -> Table:
        """Return a table by name."""
        ...


_BATCH = 5000
"""Rows that a scan brings at once: a whole table of the smallest city, so one round trip."""

_PLACES = {
    "combine": ("detectors", b"c:concentration", 0),
    "zones": ("zones", b"c:concentration", 0),
    "city-map": ("map", b"c:concentration", 1),
    "hotspots": ("zones", b"c:hotspots", 0),
}
"""Kind of the table, column, and points on a side fewer than detectors, by action."""


def read_output(tables: Tables, dataflow: str, action: str, side: int) -> Square:
    """Return the output of one step as it is now.

    Args:
        tables: a connection to HBase.
        dataflow: the dataflow whose tables are read.
        action: the step.
        side: detectors along each side of the city.

    Returns:
        Shape (side, side); (side - 1, side - 1) for the map; (1, 1) for the index. NaN where the
        step has written nothing yet.
    """
    if action == "index":
        cells = tables.table(f"{dataflow}-index").row(b"now")
        return np.array([[float(cells[b"c:index"]) if cells else np.nan]])
    kind, column, fewer = _PLACES[action]
    scan = tables.table(f"{dataflow}-{kind}").scan(columns=[column], batch_size=_BATCH)
    return filled(side - fewer, {row: float(cells[column]) for row, cells in scan})


def unwritten(action: str, side: int) -> Square:
    """Return the output of a step that has written nothing yet: see ``read_output``."""
    points = 1 if action == "index" else side - _PLACES[action][2]
    return np.full((points, points), np.nan)
