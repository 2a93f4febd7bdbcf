"""How much of a container has changed since a version of it: input impact and output error.

SmartFlux, section 2, equations 1 to 4. All sums are rounded once, at their end, so that they are
the same in whatever order cells come: what is measured while updates arrive is bit for bit what is
measured again from a recording.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from headgate.engine import LARGEST_TOTAL, UserMetric, exact_total, signed_total

Values = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class Version(Struct, frozen=True):
    """A container as it was at one moment: what later moments are measured against."""

    magnitude: float
    """Σₙ|x′|, finite."""
    sum: float
    """Σₙ x′."""
    above: tuple[int, ...] = ()
    """Number of elements present with x′ above a level, by level."""
    elements: int = 0
    """n′: elements present then; it counts only where a level is negative."""


class Impact(Struct, frozen=True):
    """x (now) against x′ (in a version): all that metrics and features are computed from.

    A missing x or x′ is 0. Where signs differ, |x| + |x′| stands for the larger of the two.
    """

    changed: int = 0
    """m: elements with x ≠ x′, those without a number included."""
    elements: int = 0
    """n: elements present now."""
    difference: float = 0.0
    """Σₘ|x−x′|."""
    largest: float = 0.0
    """max |x−x′|."""
    squares: float = 0.0
    """Σₘ(x−x′)²."""
    signed: float = 0.0
    """Σₘ(x−x′)."""
    changed_magnitude: float = 0.0
    """Σₘ max(|x|, |x′|)."""
    magnitude: float = 0.0
    """Σₙ max(|x|, |x′|)."""
    current: float = 0.0
    """Σₙ|x|."""
    sum: float = 0.0
    """Σₙ x."""
    unknown: int = 0
    """Changed elements of which a value is no number: what depends on them is not known."""
    crossed: tuple[int, ...] = ()
    """By level, the elements that it lies between: x on one side, x′ on the other."""
    above: tuple[int, ...] = ()
    """Number of elements present now with x above a level, by level; missing ones are above no
    level."""
    above_before: tuple[int, ...] = ()
    """Number of elements present at the version with x′ above a level, by level."""


class Impacts(Struct, frozen=True, eq=False):
    """Many impacts as columns of one shape (...), field by field as in ``Impact``."""

    changed: Counts
    elements: Counts
    difference: Values
    largest: Values
    squares: Values
    signed: Values
    changed_magnitude: Values
    magnitude: Values
    current: Values
    sum: Values
    unknown: Counts
    crossed: Counts
    """By level too, shape (..., k)."""
    above: Counts
    """By level too, shape (..., k)."""
    above_before: Counts
    """By level too, shape (..., k)."""

    @classmethod
    def blank(cls, shape: tuple[int, ...], levels: int) -> Impacts:
        """Return impacts of nothing, to be filled in.

        Args:
            shape: of each column.
            levels: k.
        """
        none = (0,) * levels
        one = Impact(crossed=none, above=none, above_before=none)
        columns = {}
        for field in Impact.__struct_fields__:
            default = np.array(getattr(one, field), np.int64 if field in _COUNTS else np.float64)
            columns[field] = np.zeros((*shape, *default.shape), default.dtype)
        return cls(**columns)

    def put(self, at: tuple[int, ...], one: Impact) -> None:
        """Fill one in."""
        for field in Impact.__struct_fields__:
            getattr(self, field)[at] = getattr(one, field)

    def until(self, last: int) -> Impacts:
        """Return those before a place of the first dimension."""
        return Impacts(**{field: getattr(self, field)[:last] for field in Impact.__struct_fields__})

    def one(self, at: tuple[int, ...]) -> Impact:
        """Return one of them."""
        found = {field: getattr(self, field)[at].tolist() for field in Impact.__struct_fields__}
        levels = {field: tuple(found[field]) for field in _BY_LEVEL}
        return Impact(**found | levels)


_BY_LEVEL = ("crossed", "above", "above_before")
_COUNTS = frozenset(("changed", "elements", "unknown", *_BY_LEVEL))


def version_of(
    values: Values, levels: Values | None = None, elements: int | None = None
) -> Version:
    """Return a container as it is.

    Args:
        values: x of all its elements, and 0 for others that are missing, shape (n,) or longer.
        levels: in rising order, shape (k,); none where crossings are not asked for.
        elements: n, where values of missing elements are among the others.
    """
    known = bounded(values)
    present = len(known) if elements is None else elements
    above: tuple[int, ...] = ()
    if levels is not None:
        missing = (len(known) - present) * (levels < 0.0)
        above = tuple(((known > levels[:, None]).sum(1) - missing).tolist())
    magnitude = min(exact_total(np.abs(known)), LARGEST_TOTAL)
    return Version(magnitude, _signed_total(known), above, present)


def measure(
    current: Values,
    previous: Values,
    version: Version,
    elements: int,
    levels: Values | None = None,
) -> Impact:
    """Return how far a container has moved from a version.

    Args:
        current: x of the touched elements, 0 where they are gone, NaN where x is no number; (t,).
        previous: their x′ in the version, 0 where they were not there, NaN likewise; (t,).
        version: the container as it was.
        elements: n, present now.
        levels: those of the version.

    Raises:
        ValueError: the two arrays differ in length.
    """
    if current.shape != previous.shape:
        message = f"{len(current)} values now stand against {len(previous)} before"
        raise ValueError(message)
    moved = current != previous  # NaN differs from all
    x, before = current[moved], previous[moved]
    numberless = np.isnan(x) | np.isnan(before)
    x, before = bounded(x), bounded(before)
    with np.errstate(over="ignore"):
        signed = x - before
        distance = np.abs(signed)
        size, size_before = np.abs(x), np.abs(before)
        larger = np.where(
            x * np.sign(before) < 0, size + size_before, np.maximum(size, size_before)
        )
        squares = exact_total(distance * distance)
    crossed: tuple[int, ...] = ()
    above: tuple[int, ...] = ()
    above_before: tuple[int, ...] = ()
    if levels is not None:
        above_before = version.above
        now, then = x > levels[:, None], before > levels[:, None]
        crossed = tuple((now != then).sum(1).tolist())
        # What was missing, or is now, stands as 0 above a negative level in one of both sums.
        came = (elements - version.elements) * (levels < 0.0)
        more = (now.sum(1) - then.sum(1) + came).tolist()
        above = tuple(a + b for a, b in zip(above_before, more, strict=True))
    return Impact(
        changed=len(x),
        elements=elements,
        difference=exact_total(distance),
        largest=float(distance.max(initial=0.0)),
        squares=squares,
        signed=_signed_total(bounded(signed)),
        changed_magnitude=min(exact_total(larger), LARGEST_TOTAL),
        magnitude=_moved(version.magnitude, larger, size_before),
        current=_moved(version.magnitude, size, size_before),
        sum=_signed_total(np.concatenate(([version.sum], x, -before))),
        unknown=int(np.count_nonzero(numberless)),
        crossed=crossed,
        above=above,
        above_before=above_before,
    )


def bounded(values: Values) -> Values:
    """Return what is summed of values: 0 for what is no number, the largest for infinities."""
    if np.isfinite(values).all():
        return values
    return np.nan_to_num(values, posinf=LARGEST_TOTAL, neginf=-LARGEST_TOTAL)


def _moved(magnitude: float, added: Values, gone: Values) -> float:
    return max(0.0, min(_signed_total(np.concatenate(([magnitude], added, -gone))), LARGEST_TOTAL))


def _signed_total(terms: Values) -> float:
    """Return a sum of terms of either sign, rounded once; the largest number where it is more."""
    try:
        return signed_total(terms)
    except OverflowError:
        return math.copysign(LARGEST_TOTAL, math.fsum((terms / (2.0 * len(terms))).tolist()))


def _share(part: float, whole: float) -> float:
    """Return part / whole in [0, 1], with 0/0 = 0."""
    if whole == 0.0:
        return 1.0 if part else 0.0
    return min(1.0, part / whole)


def _shares(part: Values | Counts, whole: Values | Counts) -> Values:
    """Return ``_share`` of each, shape (...)."""
    with np.errstate(over="ignore"):
        found: Values = np.minimum(1.0, part / np.where(whole == 0, 1, whole))
    return np.where(whole == 0, np.where(part != 0, 1.0, 0.0), found)


class ImpactMetric(StrEnum):
    """How much the input of a step has changed; in brackets the paper's equation."""

    ABSOLUTE = "absolute"
    """m · Σₘ|x−x′| (1)."""
    RELATIVE = "relative"
    """m · Σₘ|x−x′| / (n · Σₘ max(|x|, |x′|)), in [0, 1] (2)."""


class ErrorMetric(StrEnum):
    """How far an output is from what it would be; in brackets the paper's equation."""

    RELATIVE = "relative"
    """Σₘ|x−x′| / Σₙ max(|x|, |x′|), in [0, 1] (3)."""
    RMSE = "rmse"
    """√(Σₘ(x−x′)² / n), in the values' units (4); where no element is left, n is 1."""


OutputMetric = ErrorMetric | UserMetric
"""Whatever an output's error may be measured by."""


class Changes(StrEnum):
    """What becomes of changes between two runs that undo each other (SmartFlux, section 2)."""

    CANCEL = "cancel"
    """They are no error: the output is held against what was shown after the last run."""
    ACCUMULATE = "accumulate"
    """Each wave is held against the one before it, and the sum may exceed 1."""


def impact(measured: Impact, metric: ImpactMetric) -> float:
    """Return ι."""
    if metric is ImpactMetric.ABSOLUTE:
        return min(measured.changed * measured.difference, LARGEST_TOTAL)
    return _share(measured.changed, measured.elements) * _share(
        measured.difference, measured.changed_magnitude
    )


def error(measured: Impact, metric: ErrorMetric) -> float:
    """Return ε; infinity where values are not known, which no bound admits."""
    if measured.unknown:
        return math.inf
    if metric is ErrorMetric.RELATIVE:
        return _share(measured.difference, measured.magnitude)
    return math.sqrt(measured.squares / max(1, measured.elements))


def impacts(measured: Impacts, metric: ImpactMetric) -> Values:
    """Return ι of each, shape (...): bit for bit what ``impact`` returns of it."""
    if metric is ImpactMetric.ABSOLUTE:
        with np.errstate(over="ignore"):
            return np.minimum(measured.changed * measured.difference, LARGEST_TOTAL)
    return _shares(measured.changed, measured.elements) * _shares(
        measured.difference, measured.changed_magnitude
    )


def errors_of(measured: Impacts, metric: ErrorMetric) -> Values:
    """Return ε of each, shape (...): bit for bit what ``error`` returns of it."""
    if metric is ErrorMetric.RELATIVE:
        found = _shares(measured.difference, measured.magnitude)
    else:
        found = np.sqrt(measured.squares / np.maximum(1, measured.elements))
    return np.where(measured.unknown > 0, math.inf, found)


def error_of_current(measured: Impact) -> float:
    """Return Σₘ|x−x′| / Σₙ|x|: the other denominator that equation 3 allows; may be infinite."""
    if measured.unknown:
        return math.inf
    if measured.current == 0.0:
        return math.inf if measured.difference else 0.0
    return measured.difference / measured.current


def geometric_mean(impacts: Iterable[float]) -> float:
    """Return the mean of the impacts of several predecessors; 0 where one of them is quiet."""
    found = tuple(impacts)
    if not found or min(found) == 0.0:
        return 0.0
    return math.exp(math.fsum(map(math.log, found)) / len(found))
