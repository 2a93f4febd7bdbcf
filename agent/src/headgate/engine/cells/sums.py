"""Distances of values, and their sums kept update by update, with a bound of rounding errors."""

from __future__ import annotations

import math
import sys

import numpy as np

from headgate.engine.cells.storage import Array
from headgate.engine.cells.totals import LARGEST_TERM, limb_totals
from headgate.engine.spec.codecs import Number
from headgate.engine.spec.exact_numbers import gap, gaps, numbers_in

Value = complex | bytes
"""A decoded number, see ``exact_numbers``; the bytes where the codec is opaque."""
_ROUNDING = 2.0**-52
"""Relative error of one addition and of one subtraction together, at most."""
MANY = 1024
"""Terms from which on limbs are faster than a list: by measurement."""
LARGEST_TOTAL = sys.float_info.max
"""What stands for sums of magnitudes that are larger."""


def number(value: Value | None) -> complex:
    """Return the number that stands for a value in sums: 0 for none and for what has no number."""
    return value if isinstance(value, float | complex) and value == value else 0.0


def differs(new: Value | None, old: Value | None) -> bool:
    """Return whether a cell has changed. No cell is the same as 0; no number differs from all."""
    if new is None:
        new = 0.0 if isinstance(old, float | complex) else None
    elif old is None and isinstance(new, float | complex):
        old = 0.0
    return new != old


def distance(new: Value | None, old: Value | None) -> Number:
    """Return |x−x′|."""
    return gap(number(new), number(old))


def distances(new: Array, old: Array) -> Array:
    """Return |x−x′| of each cell; 0 where there are no numbers."""
    if new.dtype == object:
        return np.zeros(len(new))
    with np.errstate(over="ignore"):
        found: Array = gaps(new, old)
        if np.isnan(found).any():
            found = gaps(_without_nan(new), _without_nan(old))
    return found


def _without_nan(values: Array) -> Array:
    return np.where(values == values, values, 0.0)


class RunningSum:
    """A sum of terms that come and go; the exact one lies within ``error`` of ``value``.

    A single large term that comes and goes takes the digits of all others with it: then ``error``
    is large, and whoever depends on the sum has it counted again.
    """

    __slots__ = ("error", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self.error = 0.0

    def set(self, value: Number) -> None:
        """Take the sum as it was counted from scratch."""
        self.value = value
        self.error = 0.0

    def move(self, added: Number, gone: Number, terms: int) -> None:
        """Add the sum of so many terms, all at least 0, and take as many others away."""
        if self.value == math.inf and not self.error and not gone:
            return  # counted, and whatever makes it infinite has not gone
        self.error += _ROUNDING * terms * (abs(self.value) + added + gone)
        self.value += added - gone
        if not math.isfinite(self.value):
            self.error = math.inf

    @property
    def most(self) -> Number:
        """The largest sum that it may be."""
        return self.value + self.error if self.error < math.inf else math.inf

    @property
    def least(self) -> Number:
        """The smallest sum that it may be."""
        return max(0.0, self.value - self.error) if self.error < math.inf else 0.0


def exact_total(terms: Array) -> Number:
    """Return Σ of terms that are at least 0, rounded once; infinity where it is too large."""
    try:
        return signed_total(terms)
    except OverflowError:
        return math.inf


def signed_total(terms: Array) -> Number:
    """Return Σ of terms of either sign, shape (n,), rounded once.

    Raises:
        OverflowError: it may be too large.
        ValueError: there are infinities of both signs among the terms.
    """
    if len(terms) >= MANY and terms.min() >= -LARGEST_TERM and terms.max() <= LARGEST_TERM:
        return math.fsum(limb_totals(np.asarray(terms, np.float64)).tolist())
    return math.fsum(terms.tolist())


def rough_total(terms: Array) -> Number:
    """Return Σ of terms that are at least 0, with an error that a ``RunningSum`` allows for."""
    with np.errstate(over="ignore"):
        return float(terms.sum())


def magnitude(values: Array) -> Number:
    """Return Σ|x|, exactly rounded, so that it is the same in whatever order cells came.

    It is finite: a change against values that are too large for their sum comes out too large,
    never too small. What has no number counts as 0.
    """
    if values.dtype == object:
        return 0.0
    values = numbers_in(values)
    found = exact_total(np.abs(values))
    if found != found:
        found = exact_total(np.abs(np.nan_to_num(values)))
    return min(found, LARGEST_TOTAL)


def rough_magnitude(values: Array) -> Number:
    """Return Σ|x| with an error that a ``RunningSum`` allows for."""
    if values.dtype == object:
        return 0.0
    values = numbers_in(values)
    found = rough_total(np.abs(values))
    return rough_total(np.abs(np.nan_to_num(values))) if found != found else found
