"""Bounds measured: θ, σ and ν against their limits, in numbers and in words (design: section 4)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import reduce

from headgate.engine.cells.pending import NO_INCREASE, Pending
from headgate.engine.spec.conditions import BoundResult, Dimension, VectorResult
from headgate.engine.spec.dataflow import (
    Bound,
    Interval,
    Limit,
    SequenceBound,
    SequenceUnit,
    ValueBound,
)
from headgate.engine.spec.metrics.divergence import Divergence, ratio
from headgate.engine.spec.metrics.table import Metric, definition_of
from headgate.engine.spec.metrics.user import UserMetric
from headgate.engine.triggers.bounds.asked import AskedMetrics
from headgate.engine.triggers.policy import Clock, Limits, Part, PossibleIncreases


class Precision(Enum):
    """How value bounds are measured."""

    RUNNING = "running"
    """From sums kept update by update, counted again where rounding may have taken them over."""
    EXACT = "exact"
    """From scratch: the same whatever the order of updates was."""
    OPTIMISTIC = "optimistic"
    """Running, and what is not known yet is taken as reached: may anything come of it?"""
    SHOWN = "shown"
    """Running, but what has to be counted again is counted for this answer alone."""


_TRUST = 1e-6
"""Share of the limit by which the most that updates may add must miss it: it is a rough sum."""
_NOTHING_COMES: PossibleIncreases = {}


def current_limit(limits: Limits, bound: str, dimension: Dimension, limit: Limit) -> float:
    """Return the limit that holds now: of an interval its current value."""
    if isinstance(limit, Interval):
        return limits.get((bound, dimension), limit.minimum)
    return limit


def measure(
    bound: Bound,
    limits: Limits,
    parts: Sequence[Part],
    clock: Clock,
    precision: Precision,
    asked: AskedMetrics,
) -> BoundResult:
    """Return how far each vector of the bound is; one whose limit is infinite is left out.

    Args:
        bound: what to measure.
        limits: current limits of intervals.
        parts: the bound's container, table by table, with what the action has pending there.
        clock: since when time counts.
        precision: how to take value bounds.
        asked: what users' metrics have answered.
    """
    vectors = []
    if bound.time is not None:
        limit = current_limit(limits, bound.name, Dimension.TIME, bound.time)
        vectors.append(_time(clock, limit))
    if bound.sequence is not None:
        limit = current_limit(limits, bound.name, Dimension.SEQUENCE, bound.sequence.limit)
        if limit < math.inf:
            vectors.append(_sequence(bound, bound.sequence, limit, parts, precision))
    if bound.value is not None:
        limit = current_limit(limits, bound.name, Dimension.VALUE, bound.value.limit)
        if limit < math.inf:
            if isinstance(bound.value.metric, UserMetric):
                vectors.append(_asked(bound, limit, parts, precision, asked))
            else:
                vectors.append(_value(bound, bound.value, limit, parts, precision))
    reached = any(vector.reached for vector in vectors)
    return BoundResult(bound.name, bound.container, reached, tuple(vectors))


def is_below(
    bound: Bound,
    limits: Limits,
    parts: Sequence[Part],
    clock: Clock,
    increases: PossibleIncreases,
    asked: AskedMetrics,
) -> bool:
    """Return cheaply whether surely no vector of the bound is reached, nor any of it unknown.

    With ``increases``: nor will be at any time while these updates are taken, which are all puts.
    False says nothing: then ``measure`` decides. Between two runs most evaluations end here.
    """
    if bound.time is not None and clock.since is not None:
        limit = current_limit(limits, bound.name, Dimension.TIME, bound.time)
        if clock.now >= clock.since + limit:
            return False
    sequence, value = bound.sequence, bound.value
    if sequence is not None:
        limit = current_limit(limits, bound.name, Dimension.SEQUENCE, sequence.limit)
        known = sequence.unit is not SequenceUnit.PERCENT or _scanned(parts)
        if not known or _uncounted(parts):
            return False
        if _counted(sequence, parts, increases, most=True)[2] >= limit:
            return False
    if value is not None:
        limit = current_limit(limits, bound.name, Dimension.VALUE, value.limit)
        if not _scanned(parts) or _unsettled(parts):
            return False
        if isinstance(value.metric, UserMetric):
            answer = asked.current(bound.name, parts)
            known = answer is not None and answer.amount is not None and answer.amount < limit
            return known and not any(pending in increases for _, pending in parts)
        amount = _amount(value, _extreme(parts, value.metric, increases, most=True))
        if not amount < limit - _TRUST * limit:
            return False
    return True


def _counted(
    sequence: SequenceBound,
    parts: Sequence[Part],
    increases: PossibleIncreases = _NOTHING_COMES,
    *,
    most: bool = False,
) -> tuple[int, int, float]:
    """Return updates (or distinct elements), all elements, and the bound's value of them.

    With ``most`` it is the most that the value may be: cells that only a read can show are gone.
    """
    updates = elements = 0
    for cells, pending in parts:
        elements += cells.columns.elements
        if most and cells.reads.unsettled:
            elements -= min(len(cells.reads.unsettled), cells.columns.elements)
        increase = increases.get(pending, NO_INCREASE)
        if sequence.distinct:
            updates += len(pending.distinct) + increase.distinct
        else:
            updates += pending.updates + increase.updates
    if sequence.unit is SequenceUnit.PERCENT:
        # Not 100 * (updates / elements): of 100 elements 29 would be 28.999999999999996 %.
        return updates, elements, ratio(100 * updates, elements)
    return updates, elements, float(updates)


def _scanned(parts: Iterable[Part]) -> bool:
    return all([cells.scans.complete for cells, _ in parts])  # noqa: C419 -- asked at every write


def _uncounted(parts: Iterable[Part]) -> bool:
    return any([pending.uncounted for _, pending in parts])  # noqa: C419 -- asked at every write


def _unsettled(parts: Iterable[Part]) -> int:
    unsettled = 0
    for cells, _ in parts:
        unsettled += len(cells.reads.unsettled)
    return unsettled


def _time(clock: Clock, limit: float) -> VectorResult:
    if clock.since is None:
        words = f"θ starts when every predecessor has run (limit {seconds_words(limit)})"
        return VectorResult(Dimension.TIME, None, limit, "s", reached=False, words=words)
    elapsed = clock.now - clock.since
    # Not elapsed >= limit: rounding must not make a timer come too early for its own bound.
    reached = clock.now >= clock.since + limit
    verb = "reached" if reached else "is at"
    words = f"θ {verb} {seconds_words(elapsed)} of {seconds_words(limit)}"
    missing = "" if reached else seconds_words(limit - elapsed)
    return VectorResult(Dimension.TIME, elapsed, limit, "s", reached, words, missing)


def _sequence(
    bound: Bound,
    sequence: SequenceBound,
    limit: float,
    parts: Sequence[Part],
    precision: Precision,
) -> VectorResult:
    percent = sequence.unit is SequenceUnit.PERCENT
    unit = "%" if percent else "updates"
    if percent and not _scanned(parts):
        return _unknown(Dimension.SEQUENCE, bound, limit, unit, precision)
    updates, elements, value = _counted(sequence, parts)
    unsettled = _unsettled(parts) if percent else 0
    may_be = value
    if unsettled and precision is Precision.OPTIMISTIC:
        may_be = _counted(sequence, parts, most=True)[2]
    uncounted = _uncounted(parts)
    # Twice, never not at all: of what is missing there may have been any number.
    reached = uncounted or may_be >= limit
    verb = "reached" if reached else "is at"
    kind = "distinct elements" if sequence.distinct else "updates"
    if percent:
        shown = _compared(value, f"{limit:g} %", "%")
        amount = f"{shown} ({updates} {_plural(kind, updates)} of {elements})"
    else:
        amount = f"{updates} of {limit:g} {kind}"
    words = f"σ of `{bound.container}` {verb} {amount}"
    if uncounted:
        words += ", for updates are missing and nobody knows how many"
    if unsettled:
        words += f", with {unsettled} cells to be read again"
    missing = ""
    if not reached:
        needed = limit * elements / 100 if percent else limit
        left = max(1, math.ceil(needed - updates - _TRUST))
        missing = f"{left} more {_plural(kind, left)} of `{bound.container}`"
    return VectorResult(Dimension.SEQUENCE, value, limit, unit, reached, words, missing)


def _value(
    bound: Bound, value: ValueBound, limit: float, parts: Sequence[Part], precision: Precision
) -> VectorResult:
    unit, scale = ("%", 100.0) if definition_of(value.metric).percent else ("", 1.0)
    if not _scanned(parts):
        return _unknown(Dimension.VALUE, bound, limit, unit, precision)
    metric = value.metric
    if precision is not Precision.EXACT and _is_certain(value, limit, parts):
        amount = _amount(value, divergence_of(parts, metric))
    elif precision is Precision.SHOWN:
        amount = _amount(value, _counted_divergence(parts))
    else:
        for _, pending in parts:
            pending.recount()
        amount = _amount(value, divergence_of(parts, metric))
    reached = amount >= limit
    unsettled = _unsettled(parts)
    if unsettled and precision is Precision.OPTIMISTIC:
        reached = True
    verb = "reached" if reached else "is at"
    words = (
        f"ν of `{bound.container}` ({value.metric.value}) {verb} "
        f"{_compared(amount * scale, _figure(limit * scale, unit), unit)}"
    )
    if unsettled:
        words += f", with {unsettled} cells to be read again"
    missing = ""
    if not reached:
        missing = (
            f"{_figure((limit - amount) * scale, unit)} more divergence of `{bound.container}`"
        )
    return VectorResult(Dimension.VALUE, amount, limit, unit, reached, words, missing)


def _asked(
    bound: Bound, limit: float, parts: Sequence[Part], precision: Precision, asked: AskedMetrics
) -> VectorResult:
    """Measure a user's metric by what it has answered."""
    if not _scanned(parts):
        return _unknown(Dimension.VALUE, bound, limit, "", precision)
    metric = bound.value.metric.value if bound.value is not None else ""
    subject = f"ν of `{bound.container}` ({metric})"
    answer = asked.current(bound.name, parts)
    if answer is None:
        last = asked.last(bound.name)
        words = f"{subject} is being computed"
        if last is not None and last.amount is not None:
            words += f", and was {_compared(last.amount, _figure(limit, ''), '')} before"
        reached = precision is Precision.OPTIMISTIC
        missing = "" if reached else f"an answer of {metric}"
        return VectorResult(Dimension.VALUE, None, limit, "", reached, words, missing)
    if answer.amount is None:
        words = f"{subject} counts as reached: {answer.failure}"
        return VectorResult(Dimension.VALUE, None, limit, "", reached=True, words=words)
    reached = answer.amount >= limit
    verb = "reached" if reached else "is at"
    words = f"{subject} {verb} {_compared(answer.amount, _figure(limit, ''), '')}"
    missing = ""
    if not reached:
        missing = f"{_figure(limit - answer.amount, '')} more divergence of `{bound.container}`"
    return VectorResult(Dimension.VALUE, answer.amount, limit, "", reached, words, missing)


def _unknown(
    dimension: Dimension, bound: Bound, limit: float, unit: str, precision: Precision
) -> VectorResult:
    symbol = "σ" if dimension is Dimension.SEQUENCE else "ν"
    words = f"{symbol} of `{bound.container}` waits for the container's first scan"
    missing = f"the first scan of `{bound.container}`"
    reached = precision is Precision.OPTIMISTIC
    return VectorResult(dimension, None, limit, unit, reached, words, missing)


def _is_certain(value: ValueBound, limit: float, parts: Sequence[Part]) -> bool:
    """Return whether rounding of the running sums cannot have moved them over the limit."""
    sums = (total for _, pending in parts for total in (pending.difference, pending.magnitude))
    if not all(total.error < math.inf for total in sums):
        return False  # a sum that overflowed stands for nothing, beside whatever others
    least = _amount(value, _extreme(parts, value.metric, _NOTHING_COMES, most=False))
    most = _amount(value, _extreme(parts, value.metric, _NOTHING_COMES, most=True))
    return most < limit or least >= limit


def _amount(value: ValueBound, divergence: Divergence) -> float:
    return definition_of(value.metric).compute(divergence, value.constant or 0.0)


def divergence_of(parts: Iterable[Part], metric: Metric | UserMetric) -> Divergence:
    """Return what the metric needs of how far the parts of a container have moved."""
    return _together(
        Divergence(
            pending.changed,
            cells.columns.size,
            pending.difference.value,
            _largest(pending, metric),
            pending.magnitude.value,
        )
        for cells, pending in parts
    )


def _counted_divergence(parts: Iterable[Part]) -> Divergence:
    """Return how far the parts have moved, from scratch; the running sums stay as they are."""
    found = []
    for cells, pending in parts:
        changed, difference, largest = pending.measured()
        size, magnitude = cells.columns.size, pending.measured_magnitude()
        found.append(Divergence(changed, size, difference, largest, magnitude))
    return _together(found)


def _extreme(
    parts: Iterable[Part], metric: Metric | UserMetric, increases: PossibleIncreases, *, most: bool
) -> Divergence:
    """Return the most (or least) that it can be, whatever was rounded.

    With ``increases`` it is the most that these updates may make of it, all of them puts.
    """
    found = []
    for cells, pending in parts:
        increase = increases.get(pending, NO_INCREASE)
        difference, magnitude = pending.difference, pending.magnitude
        found.append(
            Divergence(
                pending.changed + increase.changed,
                cells.columns.size,
                (difference.most if most else difference.least) + increase.difference,
                max(_largest(pending, metric), increase.largest),
                magnitude.least if most else magnitude.most,
            )
        )
    return _together(found)


def _largest(pending: Pending, metric: Metric | UserMetric) -> float:
    return pending.largest() if definition_of(metric).largest else 0.0


def _together(found: Iterable[Divergence]) -> Divergence:
    one, *others = found
    return reduce(Divergence.__add__, others, one)


def _compared(value: float, limit: str, unit: str) -> str:
    """Return a figure beside its limit; it is infinite where there was nothing before."""
    if math.isinf(value):
        return f"{limit}, as there was nothing before"
    return f"{_figure(value, unit)} of {limit}"


def _figure(value: float, unit: str) -> str:
    return f"{value:.4g} {unit}".rstrip()


_MINUTE = 60
_HOUR = 3600


def seconds_words(seconds: float) -> str:
    """Return a duration for people: ``41 s``, ``5 min 20 s``, ``3 h 5 min``."""
    if seconds < _MINUTE:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"


def _plural(kind: str, number: int) -> str:
    return kind.removesuffix("s") if number == 1 else kind
