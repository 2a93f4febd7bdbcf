"""How far a container has moved since a cut: the metrics of value bounds (design: section 4).

A metric is a function of a ``Divergence``, which is kept up to date update by update, so that none
needs to look at the cells again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from headgate.engine.cells.sums import LARGEST
from headgate.engine.spec.codecs import Number
from headgate.engine.spec.dataflow import Metric


class Divergence(Struct, frozen=True):
    """x (now) against x′ (at the cut) over the cells of a container; a missing x or x′ is 0."""

    changed: int
    """m: cells with x ≠ x′."""
    cells: int
    """n: cells present now."""
    difference: Number
    """Σ|x−x′|."""
    largest: Number
    """max |x−x′|."""
    magnitude: Number
    """Σ|x′|; finite, as a change against more than a double can hold must not count as none."""

    def __add__(self, other: Divergence) -> Divergence:
        return Divergence(
            self.changed + other.changed,
            self.cells + other.cells,
            self.difference + other.difference,
            max(self.largest, other.largest),
            min(self.magnitude + other.magnitude, LARGEST),
        )


NO_DIVERGENCE = Divergence(0, 0, 0.0, 0.0, 0.0)


def ratio(part: float, whole: float) -> float:
    """Return part / whole, with 0/0 = 0 and infinity for anything else over 0, and for infinity."""
    if whole == 0 or part == math.inf:
        return math.inf if part else 0.0
    return part / whole


def relative(divergence: Divergence, _constant: float) -> float:
    """Return Σ|x−x′| / Σ|x′|."""
    return ratio(divergence.difference, divergence.magnitude)


def absolute(divergence: Divergence, _constant: float) -> float:
    """Return max |x−x′| in the values' units."""
    return divergence.largest


def against(divergence: Divergence, constant: float) -> float:
    """Return Σ|x−x′| / (n·c)."""
    return ratio(divergence.difference, divergence.cells * constant)


def changed(divergence: Divergence, _constant: float) -> float:
    """Return m / n: Fluχ's modified keys / total keys."""
    return ratio(divergence.changed, divergence.cells)


METRICS: dict[Metric, Callable[[Divergence, float], float]] = {
    Metric.RELATIVE: relative,
    Metric.ABSOLUTE: absolute,
    Metric.AGAINST: against,
    Metric.CHANGED: changed,
}
