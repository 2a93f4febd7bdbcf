"""What metrics are computed from (design: section 4)."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

from msgspec import Struct


class Divergence(Struct, frozen=True):
    """x (now) against x′ (at the cut) over the cells of a container; a missing x or x′ is 0.

    It is kept up to date update by update, so that no metric needs to look at the cells again.
    """

    changed: int
    """m: cells with x ≠ x′."""
    cells: int
    """n: cells present now."""
    difference: float
    """Σ|x−x′|."""
    largest: float
    """max |x−x′|; 0 where the metric does not ask for it."""
    magnitude: float
    """Σ|x′|; finite, as a change against more than a double can hold must not count as none."""

    def __add__(self, other: Divergence) -> Divergence:
        return Divergence(
            self.changed + other.changed,
            self.cells + other.cells,
            self.difference + other.difference,
            max(self.largest, other.largest),
            min(self.magnitude + other.magnitude, sys.float_info.max),
        )


class ValueMetric(Struct, frozen=True):
    """A metric of value bounds, and what people have to know of it."""

    compute: Callable[[Divergence, float], float]
    """Takes the constant, too, which is 0 for a metric that has none. It never falls while changes
    only grow and magnitudes shrink: what updates may bring is estimated so."""
    doc: str
    percent: bool = True
    """Whether it is a ratio, which people write in percent; otherwise in the values' own units."""
    numeric: bool = True
    """Whether values must be numbers."""
    constant: str = ""
    """What the constant is, for people; empty where it takes none."""
    largest: bool = False
    """Whether it needs max |x−x′|."""
    part: str = ""
    """What it is a part of all elements of, where it is one: then it is never above 1."""


def ratio(part: float, whole: float) -> float:
    """Return part / whole, with 0/0 = 0 and infinity for anything else over 0, and for infinity."""
    if whole == 0 or part == math.inf:
        return math.inf if part else 0.0
    return part / whole
