"""An oracle that remembers every update, and computes everything from all of them each time."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from fractions import Fraction

from random_dataflows import Number, Update

from headgate.engine import (
    AllOf,
    AnyOf,
    AtLeast,
    Bound,
    BoundReached,
    CodecName,
    Condition,
    Count,
    DataflowSpec,
    Interval,
    Metric,
    SequenceBound,
    SequenceUnit,
    ValueBound,
)
from headgate.events import ContainerId


class Oracle:
    """Remembers every update and computes everything again each time."""

    def __init__(self, spec: DataflowSpec) -> None:
        self.spec = spec
        self.history: list[Update] = []
        self.steps = {a.name: a for a in spec.actions}
        self.watched = {w.id: w for w in spec.containers}
        self.cut = dict.fromkeys(self.steps, 0)
        self.before = dict.fromkeys(self.steps, 0)
        self.fresh = dict.fromkeys(self.steps, True)
        self.fresh_before = dict.fromkeys(self.steps, True)
        self.ended: dict[str, set[str]] = {name: set() for name in self.steps}
        self.ended_before: dict[str, set[str]] = {name: set() for name in self.steps}
        self.has_run: set[str] = set()
        self.active: set[str] = set()
        self.quarantined: set[str] = set()
        self.missed: set[str] = set()

    def cells(self, container: str, history: list[Update]) -> Iterator[Update]:
        items = self.watched[ContainerId(container)].container.items
        for update in history:
            if any(
                i.table == update.table and i.has_row(update.row) and i.has_column(update.column)
                for i in items
            ):
                yield update

    def measure(self, action: str, bound: Bound) -> tuple[float | None, float | None]:
        own = self.steps[action].own
        watched = self.watched[bound.container]
        known = list(self.cells(bound.container, self.history))
        old = list(self.cells(bound.container, self.history[: self.cut[action]]))
        new = known[len(old) :]
        present: dict[tuple[str, bytes, bytes], Number] = {}
        then: dict[tuple[str, bytes, bytes], Number] = {}
        for i, update in enumerate(known):
            key = (update.table, update.row, update.column)
            follows = i < len(old) and not self.fresh[action]
            follows |= i >= len(old) and update.writer == action and not own
            follows |= self.fresh[action] and update.writer == action and not own
            for state, applies in ((present, True), (then, follows)):
                if applies and update.value is None:
                    state.pop(key, None)
                elif applies and update.value is not None:
                    state[key] = update.value
        counting = [u for u in new if own or u.writer != action]
        by_row = watched.count is Count.ROWS
        elements = [(u.table, u.row, b"" if by_row else u.column) for u in counting]
        n = len({key[:2] for key in present}) if by_row else len(present)
        sigma = nu = None
        if bound.sequence is not None:
            each = set(elements)
            once = {(u.request, *e) for u, e in zip(counting, elements, strict=True)}
            sigma = float(len(each if bound.sequence.distinct else once))
            if bound.sequence.unit is SequenceUnit.PERCENT:
                sigma = float(Fraction(100 * int(sigma), n)) if n else _ratio(sigma, n)
        if bound.value is not None:
            opaque = watched.codec.name is CodecName.OPAQUE
            read = (lambda x: x) if opaque else (lambda x: Fraction(x or 0))
            both = {k: (read(present.get(k)), read(then.get(k))) for k in present | then}
            m = sum(x != y for x, y in both.values())
            if bound.value.metric is Metric.CHANGED:
                nu = _ratio(m, len(present))
            else:
                differences = [_double(abs(x - y)) for x, y in both.values()]
                before = _sum(abs(float(read(y))) for y in then.values())
                before = min(before, sys.float_info.max)
                assert isinstance(bound.value.metric, Metric)
                nu = {
                    Metric.RELATIVE: _ratio(_sum(differences), before),
                    Metric.ABSOLUTE: max(differences, default=0.0),
                    Metric.AGAINST: _ratio(_sum(differences), len(present) * 5.0),
                }[bound.value.metric]
        return sigma, nu

    def reached(self, action: str) -> bool:
        spec = self.steps[action]
        condition = spec.effective_condition
        if condition is None:
            return self.ended[action] >= set(spec.after)
        return _holds(condition, {b.name: self._bound(action, b) for b in spec.bounds})

    def _bound(self, action: str, bound: Bound) -> bool:
        sigma, nu = self.measure(action, bound)
        return _over(sigma, bound.sequence) or _over(nu, bound.value)

    def end(self, names: list[str]) -> list[str]:
        followers = {n for n, a in self.steps.items() if set(a.after) & set(names)}
        for follower in followers:
            self.ended[follower] |= set(names) & set(self.steps[follower].after)
        return [name for name in self.steps if name in followers and self.consider(name)]

    def consider(self, name: str) -> bool:
        if (
            name in self.active | self.quarantined
            or not set(self.steps[name].after) <= self.has_run
        ):
            self.missed.add(name)
            return False
        self.missed.discard(name)
        if not self.reached(name):
            return False
        self.active.add(name)
        self.before[name], self.cut[name] = self.cut[name], len(self.history)
        self.fresh_before[name], self.fresh[name] = self.fresh[name], False
        self.ended_before[name], self.ended[name] = self.ended[name], set()
        return True

    def finish(self, name: str) -> list[str]:
        self.active.discard(name)
        self.has_run.add(name)
        launched = self.end([name])
        if name in self.missed and self.consider(name):
            launched.append(name)
        return launched

    def give_up(self, name: str) -> None:
        self.active.discard(name)
        self.quarantined.add(name)
        self.cut[name] = self.before[name]
        self.fresh[name] = self.fresh_before[name]
        self.ended[name] |= self.ended_before[name]


def _double(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _over(measured: float | None, vector: SequenceBound | ValueBound | None) -> bool:
    if measured is None or vector is None:
        return False
    assert not isinstance(vector.limit, Interval)
    return measured >= vector.limit


def _sum(numbers: Iterable[float]) -> float:
    try:
        return math.fsum(numbers)
    except OverflowError:
        return math.inf


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else (float("inf") if part else 0.0)


def _holds(condition: Condition, reached: dict[str, bool]) -> bool:
    if isinstance(condition, BoundReached):
        return reached[condition.bound]
    true = sum(_holds(part, reached) for part in condition.parts)
    match condition:
        case AllOf():
            return true == len(condition.parts)
        case AnyOf():
            return true > 0
        case AtLeast():
            return true >= condition.number
