"""Limits of intervals, moved step by step by two factors (paper: dynamic adjustment of QoD)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from headgate.engine.protocol.adjustments import Adjustment, Assessment, Vote
from headgate.engine.spec.conditions import Dimension
from headgate.engine.spec.dataflow import Bound, Interval, SequenceUnit
from headgate.engine.spec.references import AdjustmentSpec, FrequencyUnit

_USUAL_WINDOWS = 10
"""Windows over which the usual frequency of writes is taken."""
_FIRST_USUAL = 2
"""Windows that must have passed before anything is usual."""
_END = 1e-9
"""Distance from an end of the interval that is only rounding."""

_TOGETHER: dict[frozenset[Vote], Vote] = {
    frozenset({Vote.RESTRICT}): Vote.RESTRICT,
    frozenset({Vote.NONE}): Vote.NONE,
    frozenset({Vote.RELAX}): Vote.RELAX,
    frozenset({Vote.RESTRICT, Vote.NONE}): Vote.RESTRICT,
    frozenset({Vote.RELAX, Vote.NONE}): Vote.RELAX,
    frozenset({Vote.RESTRICT, Vote.RELAX}): Vote.NONE,
}


def together(one: Vote, other: Vote) -> Vote:
    """Return the outcome of two votes: equal, that; one is none, the other; opposed, none."""
    return _TOGETHER[frozenset({one, other})]


class UpdateCount(Struct, frozen=True, array_like=True):
    """How many updates had ever come at a time (Unix seconds)."""

    time: float
    updates: int


class AdjusterState(Struct):
    """What is remembered of one bound. ``share`` is its place in the interval, 0 the minimum."""

    share: float
    moved: Vote = Vote.NONE
    """The direction of the last move."""
    moved_at: float | None = None
    streak: Vote = Vote.NONE
    agreed: int = 0
    """Equal outcomes in a row."""
    marks: list[UpdateCount] = []
    last: tuple[Assessment, Assessment] | None = None
    """What both factors said last."""


class Adjuster:
    """Moves the limits of one bound's intervals; all its vectors move together."""

    def __init__(self, bound: Bound, spec: AdjustmentSpec) -> None:
        self.bound = bound
        self.spec = spec
        self.intervals = dict(intervals_of(bound))
        self.state = AdjusterState(spec.start)

    @property
    def limits(self) -> dict[Dimension, float]:
        """The limits that hold now."""
        return {d: self._limit(d, interval) for d, interval in self.intervals.items()}

    def _limit(self, dimension: Dimension, interval: Interval) -> float:
        limit = interval.minimum + self.state.share * (interval.maximum - interval.minimum)
        sequence = self.bound.sequence
        if dimension is Dimension.SEQUENCE and sequence and sequence.unit is SequenceUnit.UPDATES:
            return float(round(limit))
        return limit

    def assess(self, now: float, updates: int, resources: Assessment) -> Adjustment | None:
        """Let both factors vote; return the move that came of it.

        Args:
            now: Unix seconds; calls come every ``AdjustmentSpec.every``.
            updates: all that ever came for the bound's container.
            resources: the vote of the second factor.
        """
        state = self.state
        writes = self._writes(now, updates)
        state.last = (writes, resources)
        outcome = together(writes.vote, resources.vote)
        if outcome is not state.streak:
            state.streak, state.agreed = outcome, 0
        state.agreed += 1
        if outcome is Vote.NONE or state.agreed < self.spec.confirmations:
            return None
        if self._at_end(outcome) or self._too_early(outcome, now):
            return None
        before = self.limits
        step = 1 / self.spec.steps if outcome is Vote.RELAX else -1 / self.spec.steps
        state.share = min(1.0, max(0.0, state.share + step))
        state.moved, state.moved_at, state.agreed = outcome, now, 0
        return Adjustment(
            self.bound.name,
            outcome,
            writes,
            resources,
            state.share,
            self.limits,
            self._words(outcome, before, writes, resources),
        )

    def move_times(self, by: float) -> None:
        """Have everything that is remembered happen so many seconds later."""
        self.state.marks = [UpdateCount(mark.time + by, mark.updates) for mark in self.state.marks]
        if self.state.moved_at is not None:
            self.state.moved_at += by

    def _at_end(self, outcome: Vote) -> bool:
        share = self.state.share
        return share >= 1 - _END if outcome is Vote.RELAX else share <= _END

    def _too_early(self, outcome: Vote, now: float) -> bool:
        """Return whether the move would undo one that was made not long ago."""
        state = self.state
        if state.moved in (Vote.NONE, outcome) or state.moved_at is None:
            return False
        return now - state.moved_at < self.spec.reversal

    def _writes(self, now: float, updates: int) -> Assessment:
        spec, marks = self.spec, self.state.marks
        if marks and updates < marks[-1].updates:
            marks.clear()  # the container is another one now, and is counted from zero
        marks.append(UpdateCount(now, updates))
        horizon = now - _USUAL_WINDOWS * spec.window
        while len(marks) > 1 and marks[1].time <= horizon:
            del marks[0]
        start = self._start_of_window(now)
        if start is None:
            return Assessment(Vote.NONE, f"writes not watched for {spec.window:g} s yet")
        span = now - start.time
        recent = (updates - start.updates) * spec.window / span
        words = f"{recent:.4g} updates in {spec.window:g} s"
        rare, frequent = spec.writes.rare, spec.writes.frequent
        if spec.writes.unit is FrequencyUnit.USUAL:
            watched = now - marks[0].time
            if watched < _FIRST_USUAL * spec.window:
                return Assessment(Vote.NONE, f"{words}, what is usual is not known yet")
            usual = (updates - marks[0].updates) * spec.window / watched
            rare, frequent = rare * usual, frequent * usual
            words += f", usually {usual:.4g}"
        # In this order: where nothing has come for long, nothing is rare, not many.
        if recent <= rare:
            return Assessment(Vote.RESTRICT, words)
        return Assessment(Vote.RELAX if recent >= frequent else Vote.NONE, words)

    def _start_of_window(self, now: float) -> UpdateCount | None:
        """Return the newest mark that is at least a window old."""
        found = None
        for mark in self.state.marks:
            if now - mark.time < self.spec.window * (1 - _END):
                break
            found = mark
        return found

    def _words(
        self,
        outcome: Vote,
        before: dict[Dimension, float],
        writes: Assessment,
        resources: Assessment,
    ) -> str:
        moves = ", ".join(
            f"{_SYMBOLS[d]} {_said(self.bound, d, before[d])} to {_said(self.bound, d, after)}"
            for d, after in self.limits.items()
        )
        return (
            f"bound `{self.bound.name}` {_DONE[outcome]}: {moves} "
            f"(writes say {writes.vote}: {writes.words}; "
            f"resources say {resources.vote}: {resources.words})"
        )


_SYMBOLS = {Dimension.TIME: "θ", Dimension.SEQUENCE: "σ", Dimension.VALUE: "ν"}
_DONE = {Vote.RELAX: "relaxed", Vote.RESTRICT: "restricted"}


def _said(bound: Bound, dimension: Dimension, limit: float) -> str:
    if dimension is Dimension.TIME:
        return f"{limit:g} s"
    if dimension is Dimension.SEQUENCE:
        percent = bound.sequence is not None and bound.sequence.unit is SequenceUnit.PERCENT
        return f"{limit:.4g} %" if percent else f"{limit:g}"
    return f"{limit:.4g}"


def intervals_of(bound: Bound) -> Iterator[tuple[Dimension, Interval]]:
    """Yield the vectors of a bound whose limit is an interval."""
    for dimension, limit in (
        (Dimension.TIME, bound.time),
        (Dimension.SEQUENCE, bound.sequence and bound.sequence.limit),
        (Dimension.VALUE, bound.value and bound.value.limit),
    ):
        if isinstance(limit, Interval):
            yield dimension, limit
