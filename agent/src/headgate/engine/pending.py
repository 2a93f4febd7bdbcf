"""What one action has not consumed yet of one container's part in one table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from msgspec import Struct

from headgate.engine.codecs import Number

Key = tuple[bytes, bytes]
"""A cell: row and ``family:qualifier``."""
Element = bytes | Key
"""What sequence bounds count: a row, or a cell."""
Value = Number | bytes
"""A decoded number, or the bytes where the codec is opaque."""
Change = tuple[Key, Value | None, Value | None]
"""A cell with its value before and after; None where there is no cell."""
NumberChange = tuple[Key, Number | None, Number]
"""The same for a put of a readable number over a readable one, or over none."""


def number(value: Value | None) -> Number:
    """Return the number that stands for a value in sums: 0 for none and for what has no number."""
    return value if isinstance(value, float) and value == value else 0.0


def differs(new: Value | None, old: Value | None) -> bool:
    """Tell whether a cell has changed. No cell is the same as 0; no number differs from all."""
    if new is None:
        new = 0.0 if isinstance(old, float) else None
    elif old is None and isinstance(new, float):
        old = 0.0
    return new != old


def distance(new: Value | None, old: Value | None) -> Number:
    """Return |x−x′|."""
    return abs(number(new) - number(old))


class Consumed(Struct):
    """What a run took: enough to give it back when the run fails."""

    updates: int
    distinct: set[Element]
    previous: dict[Key, Value | None]
    magnitude: Number
    fresh: bool


class Pending:
    """Counts since the action's cut. ``previous`` holds x′ of the cells changed since."""

    def __init__(self, action: str, *, values: bool, distinct: bool, own: bool) -> None:
        self.action = action
        self.keeps_values = values
        self.keeps_distinct = distinct
        self.own = own
        self.updates = 0
        self.received = 0
        """All updates ever counted: committed, taken by the active run, and pending."""
        self.committed = 0
        """Updates that committed runs have consumed."""
        self.distinct: set[Element] = set()
        self.previous: dict[Key, Value | None] = {}
        self.changed = 0
        self.difference = 0.0
        self.magnitude = 0.0
        self.fresh = True
        """Whether no run has fixed a cut: then everything found in the container is new."""
        self._largest: float | None = 0.0

    def count(self, updates: int, elements: Iterable[Element]) -> None:
        """Add updates of these elements."""
        self.updates += updates
        self.received += updates
        if self.keeps_distinct:
            self.distinct.update(elements)

    def apply(self, changes: Iterable[Change]) -> None:
        """Take note of cells that changed."""
        previous, largest = self.previous, self._largest
        changed, difference = self.changed, self.difference
        for key, old, new in changes:
            if key in previous:
                before = previous[key]
                gone = distance(old, before)
                changed -= differs(old, before)
                difference -= gone
                if gone == largest and gone > 0:
                    largest = None
            else:
                before = previous[key] = old
            added = distance(new, before)
            changed += differs(new, before)
            difference += added
            if largest is not None and added > largest:
                largest = added
        self.changed, self.difference, self._largest = changed, difference, largest

    def apply_numbers(self, changes: Iterable[NumberChange]) -> None:
        """Do the same as ``apply`` where no value was ever unreadable, in half the time."""
        previous: dict[Key, Number | None] = self.previous  # type: ignore[assignment]
        largest = self._largest
        changed, difference = self.changed, self.difference
        for key, old, new in changes:
            if key in previous:
                before = previous[key] or 0.0
                gone = abs((old or 0.0) - before)
                if gone:
                    changed -= 1
                    difference -= gone
                    if gone == largest:
                        largest = None
            else:
                previous[key] = old
                before = old or 0.0
            added = abs(new - before)
            if added:
                changed += 1
                difference += added
                if largest is not None and added > largest:
                    largest = added
        self.changed, self.difference, self._largest = changed, difference, largest

    def follow(self, changes: Iterable[Change], consumed: Consumed | None) -> None:
        """Take note of changes that do not count: x′ follows x, also in what a run has taken."""
        for key, old, new in changes:
            before = old
            if key in self.previous:
                before = self.previous.pop(key)
                self.changed -= differs(old, before)
                self.difference -= abs(number(old) - number(before))
                self._largest = None
            self.magnitude += abs(number(new)) - abs(number(before))
            if consumed is not None:
                taken = consumed.previous.pop(key, before)
                consumed.magnitude += abs(number(new)) - abs(number(taken))

    def take(self, values: Mapping[Key, Value]) -> Consumed:
        """Fix a cut: return what was pending and start from zero with x′ = x."""
        consumed = Consumed(self.updates, self.distinct, self.previous, self.magnitude, self.fresh)
        self.updates = 0
        self.distinct = set()
        self.previous = {}
        self.changed = 0
        self.difference = 0.0
        self._largest = 0.0
        self.fresh = False
        if self.keeps_values:
            self.magnitude = math.fsum(abs(number(value)) for value in values.values())
        return consumed

    def restore(self, consumed: Consumed, values: Mapping[Key, Value]) -> None:
        """Give back what a failed run took: x′ is again what it was before the run."""
        self.updates += consumed.updates
        self.distinct |= consumed.distinct
        self.previous.update(consumed.previous)
        self.magnitude = consumed.magnitude
        self.fresh = consumed.fresh
        self.recount(values)

    def recount(self, values: Mapping[Key, Value]) -> None:
        """Compute the sums again, exactly and independently of the order of updates."""
        self.changed, self.difference, self._largest = self.measured(values)

    def measured(self, values: Mapping[Key, Value]) -> tuple[int, float, float]:
        """Return m, Σ|x−x′| and max |x−x′| from scratch."""
        pairs = [(values.get(key), before) for key, before in self.previous.items()]
        differences = [abs(number(new) - number(before)) for new, before in pairs]
        return (
            sum(differs(new, before) for new, before in pairs),
            math.fsum(differences),
            max(differences, default=0.0),
        )

    def largest(self, values: Mapping[Key, Value]) -> float:
        """Return max |x−x′|."""
        if self._largest is None:
            self._largest = self.measured(values)[2]
        return self._largest
