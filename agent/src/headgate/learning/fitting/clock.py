"""What a training may learn from the clock: of a day or a week that it has not seen whole, nothing.

Every hour comes, whatever training has seen. A model that was learned in one morning would take the
afternoon for a wave unlike all others, and never skip in it.
"""

from __future__ import annotations

from typing import Final

from headgate.learning.features import HOUR, WEEKEND, Row, Rows

_CYCLES: Final = ((HOUR, -1.0, 1.0), (WEEKEND, 0.0, 1.0))
"""Columns of the clock with the smallest and the largest that each of them takes."""
_MISSING = 0.1
"""Of a cycle's range, that may be missing at either end: waves need not hit noon."""


def without_partial_cycles(rows: Rows) -> Rows:
    """Return rows, shape (..., k), with 0 for what the clock says of a cycle not seen whole."""
    lowest, highest = _ranges(rows)
    found = rows
    for columns, low, high in _CYCLES:
        missing = _MISSING * (high - low)
        if (lowest[columns] > low + missing).any() or (highest[columns] < high - missing).any():
            found = found.copy() if found is rows else found
            found[..., columns] = 0.0
    return found


def _ranges(rows: Rows) -> tuple[Row, Row]:
    """Return the smallest and the largest of each column, shape (k,) each, of rows (..., k)."""
    flat = rows.reshape(-1, rows.shape[-1])
    return flat.min(0), flat.max(0)


def known_ranges(rows: Rows) -> tuple[Row, Row]:
    """Return the smallest and the largest of each column, shape (k,) each, of rows (..., k).

    Where rows say nothing of the clock it is the whole cycle.
    """
    lowest, highest = _ranges(rows)
    for columns, low, high in _CYCLES:
        if (lowest[columns] == highest[columns]).all():
            lowest[columns], highest[columns] = low, high
    return lowest, highest
