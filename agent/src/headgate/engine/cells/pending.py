"""What one action has not consumed yet of one container's part in one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import DTypeLike

from headgate.engine.cells.elements import Element, Elements
from headgate.engine.cells.grid import Column, Grid
from headgate.engine.cells.storage import Array, blank
from headgate.engine.cells.sums import (
    RunningSum,
    Value,
    differs,
    distance,
    distances,
    exact_total,
    magnitude,
    rough_magnitude,
    rough_total,
)
from headgate.engine.spec.codecs import Number
from headgate.engine.spec.exact_numbers import numbers_in

Change = tuple[int, Value | None, Value | None]
"""A cell's slot with its value before and after; None where there is no cell."""


class PreviousValues:
    """x′ of the cells that changed since a cut."""

    def __init__(self, grid: Grid, dtype: DTypeLike) -> None:
        self._grid = grid
        self.values = grid.column(dtype)
        self.touched = grid.column(np.bool_)
        self.logged = 0
        """By which number a changelog knows it; 0 for none."""

    @property
    def slots(self) -> Array:
        """The slots of these cells."""
        return np.flatnonzero(self.touched.data)

    def put(self, slots: Array, values: Array | Sequence[Value | None]) -> None:
        """Remember x′ of cells."""
        self.values.data[slots] = values
        self.touched.data[slots] = True
        self._grid.mark(slots)

    def forget(self, slots: Array) -> None:
        """Forget x′ of cells."""
        self.values.data[slots] = None if self.values.data.dtype == object else 0.0
        self.touched.data[slots] = False
        self._grid.mark(slots)

    def over(self, slots: Array, values: Array) -> tuple[Array, Array]:
        """Return x′ where there is one and ``values`` elsewhere, and where there is one."""
        known = self.touched.data[slots]
        return np.where(known, self.values.data[slots], values), known

    def release(self) -> None:
        """Give the room back."""
        self._grid.release(self.values)
        self._grid.release(self.touched)


class PossibleIncrease(Struct, frozen=True):
    """How far updates that are not taken yet may raise what is pending, at most, meanwhile too."""

    updates: int = 0
    distinct: int = 0
    changed: int = 0
    difference: Number = 0.0
    largest: Number = 0.0


NO_INCREASE = PossibleIncrease()


class Steps(Struct, frozen=True):
    """What each of some puts may add to m and to Σ|x−x′|, and |x−x′| of its cell after it."""

    changed: Array
    difference: Array
    distance: Array

    def increase(self, puts: int) -> tuple[int, Number, Number]:
        """Return the most that the first so many puts may add, and their largest |x−x′|."""
        return (
            int(np.count_nonzero(self.changed[:puts])),
            rough_total(self.difference[:puts]),
            float(self.distance[:puts].max(initial=0.0)),
        )


class Consumed(Struct):
    """What a run took: enough to give it back when the run fails."""

    updates: int
    distinct: Elements[Element]
    past: PreviousValues | None
    fresh: bool
    uncounted: bool = False

    def release(self) -> None:
        """Give the room back: it will not be asked for again."""
        if self.past is not None:
            self.past.release()
            self.past = None


class Pending:
    """Counts since the action's cut. ``past`` holds x′ of the cells changed since.

    Args:
        action: who consumes, or what else it is counted for.
        writer: whose updates are the consumer's own; the consumer where None.
        grid: where the container's cells are.
        values: x of the cells; None where only updates count.
        distinct: whether elements are remembered.
        own: whether the action's own updates count.
    """

    __slots__ = (
        "_grid",
        "_largest",
        "_values",
        "action",
        "begun",
        "changed",
        "committed",
        "difference",
        "distinct",
        "fresh",
        "keeps_cells",
        "keeps_distinct",
        "keeps_values",
        "magnitude",
        "own",
        "past",
        "received",
        "uncounted",
        "updates",
        "writer",
    )

    def __init__(
        self,
        action: str,
        grid: Grid,
        values: Column | None,
        *,
        distinct: bool,
        own: bool,
        writer: str | None = None,
    ) -> None:
        self.action = action
        self.writer = action if writer is None else writer
        self.keeps_values = values is not None
        self.keeps_cells = self.keeps_values
        """True if it matters to the action which cells are there."""
        self.keeps_distinct = distinct
        self.own = own
        self._grid = grid
        self._values = values
        self.updates = 0
        self.received = 0
        """All updates ever counted: committed, taken by the active run, and pending."""
        self.committed = 0
        """Updates that committed runs have consumed."""
        self.uncounted = False
        """Whether updates are missing, so that nobody knows how many there were."""
        self.distinct: Elements[Element] = Elements()
        self.past: PreviousValues | None = None
        self.changed = 0
        self.difference = RunningSum()
        """Σ|x−x′|."""
        self.magnitude = RunningSum()
        """Σ|x′|."""
        self.fresh = True
        """Whether no run has fixed a cut: then everything found in the container is new."""
        self.begun = False
        """Whether it knows how x′ of the cells stands that were there when it came."""
        self._largest: float | None = 0.0

    def adapt(
        self, values: Column | None, *, distinct: bool, own: bool, consumed: Consumed | None
    ) -> None:
        """Go on for other bounds of the action; ``consumed`` is what its run under way took."""
        self.own = own
        if distinct and not self.keeps_distinct:
            # Of which elements they were was not remembered.
            self.uncounted |= self.updates > 0
            if consumed is not None:
                consumed.uncounted |= consumed.updates > 0
        if not distinct:
            self.distinct = Elements()
            if consumed is not None:
                consumed.distinct = Elements()
        self.keeps_distinct = distinct
        if values is None and self.keeps_values:
            self.release()
            if consumed is not None:
                consumed.release()
        self.begun = self.begun and self.keeps_values
        self.keeps_values = values is not None
        self._values = values

    def begin(self, *, fresh: bool) -> None:
        """Take note of the cells that are there: all new to an action that never ran.

        For one that has run x′ starts where x is, since none was kept until now.
        """
        self.begun = True
        self.fresh = fresh
        if not self.keeps_values:
            return
        slots = np.flatnonzero(self._grid.present.data)
        if fresh and len(slots):
            self.past = self.past or self.new_past()
            new = slots[~self.past.touched.data[slots]]
            self.past.put(new, np.zeros(len(new)) if self.numeric else blank(len(new), object))
        self.recount()

    @property
    def numeric(self) -> bool:
        """Whether values are numbers."""
        return self._values is not None and self._values.data.dtype != object

    def release(self) -> None:
        """Forget x′, and give its room back."""
        if self.past is not None:
            self.past.release()
            self.past = None
        self.changed = 0
        self.difference.set(0.0)
        self.magnitude.set(0.0)
        self._largest = 0.0

    def new_past(self) -> PreviousValues:
        """Return an empty memory of x′."""
        if self._values is None:
            raise TypeError(f"{self.action} watches no values here")
        return PreviousValues(self._grid, self._values.data.dtype)

    def count(self, updates: int, elements: Iterable[Element]) -> None:
        """Add updates of these elements."""
        self.updates += updates
        self.received += updates
        if self.keeps_distinct:
            self.distinct.update(dict.fromkeys(elements))

    def count_on(self, updates: int) -> None:
        """Add updates that were counted before an edit, of elements that nobody remembers."""
        self.updates += updates
        self.received += updates
        self.uncounted |= self.keeps_distinct and updates > 0

    def nothing_taken(self) -> Consumed:
        """Return what a run took that began before there were these counts."""
        return Consumed(0, Elements(), None, self.fresh)

    def reach(self, slots: Array, old: Array, new: Array) -> tuple[Number, Number]:
        """Return the most that puts may add to Σ|x−x′|, roughly, and their largest |x−x′|."""
        before = old if self.past is None else self.past.over(slots, old)[0]
        then = distances(new, before)
        return rough_total(then), float(then.max())

    def steps(self, slots: Array, old: Array, new: Array) -> Steps:
        """Return what puts may add to the sums, whichever of them come to stay in their cells.

        At any time each cell holds what it holds now or one of the new values, so that Σ|x−x′| is
        never above what it is now and the sum of what each new value is farther away than that.
        """
        before = old if self.past is None else self.past.over(slots, old)[0]
        now, then = distances(old, before), distances(new, before)
        farther = np.where(then > now, then, 0.0) - np.where(then > now, now, 0.0)
        return Steps((new != before) & ~(old != before), farther, then)

    def apply(self, slots: Array, old: Array, new: Array) -> None:
        """Take note of cells that changed, each of them once."""
        if self.past is None:
            self.past = self.new_past()
        before, known = self.past.over(slots, old)
        if not known.all():
            unknown = slots[~known]
            self.past.put(unknown, old[~known])
        added = distances(new, before)
        self.changed += int(np.count_nonzero(new != before))
        left = top = 0.0
        if known.any():  # else x was x′, and nothing is left behind
            gone = distances(old, before)
            self.changed -= int(np.count_nonzero((old != before) & known))
            left, top = rough_total(gone), float(gone.max())
        self.difference.move(rough_total(added), left, len(slots))
        if top and top == self._largest:
            self._largest = None
        elif self._largest is not None:
            self._largest = max(self._largest, float(added.max()))

    def apply_each(self, changes: Iterable[Change]) -> None:
        """Do the same for cells one by one, in their order; a cell may come again."""
        if self.past is None:
            self.past = self.new_past()
        values, touched = self.past.values.data, self.past.touched.data
        unsaved = self._grid.unsaved.data
        came = left = 0.0
        terms = 0
        for slot, old, new in changes:
            terms += 1
            if touched.item(slot):
                before = values.item(slot)
                gone = distance(old, before)
                self.changed -= differs(old, before)
                left += gone
                if gone == self._largest and gone > 0:
                    self._largest = None
            else:
                before = values[slot] = 0.0 if old is None and values.dtype != object else old
                touched[slot] = unsaved[slot] = True
            added = distance(new, before)
            self.changed += differs(new, before)
            came += added
            if self._largest is not None and added > self._largest:
                self._largest = added
        self.difference.move(came, left, terms)

    def follow(self, slots: Array, old: Array, new: Array, consumed: Consumed | None) -> None:
        """Take note of changes that do not count: x′ follows x, also in what a run has taken."""
        before = old
        if self.past is not None:
            before, known = self.past.over(slots, old)
            if known.any():
                self.changed -= int(np.count_nonzero((old != before) & known))
                self.difference.move(0.0, rough_total(distances(old, before)), len(slots))
                self._largest = None
                self.past.forget(slots[known])
        self.magnitude.move(rough_magnitude(new), rough_magnitude(before), len(slots))
        if consumed is not None and consumed.past is not None:
            consumed.past.forget(slots[consumed.past.touched.data[slots]])

    def find(self, slots: Array, old: Array, new: Array, consumed: Consumed | None) -> None:
        """Take note of what the first scan found after a run had fixed a cut.

        The run reads it with the rest, so that x′ is what was found; but if the run was the first
        and fails, all of it is as new as it was before.
        """
        if consumed is not None and consumed.fresh:
            if consumed.past is None:
                consumed.past = self.new_past()
            before, known = consumed.past.over(slots, old)
            consumed.past.put(slots[~known], before[~known])
            consumed = None
        self.follow(slots, old, new, consumed)

    def take(self, since: Pending | None = None) -> Consumed:
        """Fix a cut: return what was pending and start from zero with x′ = x.

        With ``since``, which has counted from an earlier cut on, that one is fixed, and what came
        after it stays pending.
        """
        consumed = Consumed(self.updates, self.distinct, self.past, self.fresh, self.uncounted)
        if since is not None:
            consumed.updates -= since.updates
            self._stand_as(since)
            return consumed
        self.updates = 0
        self.uncounted = False
        self.distinct = Elements()
        self.past = None
        self.changed = 0
        self.difference.set(0.0)
        self._largest = 0.0
        self.fresh = False
        self.follow_all()
        return consumed

    def rest(self) -> None:
        """Forget how far cells have moved, and do not follow them until the next reset."""
        self.release()
        self.keeps_values = False

    def reset(self, since: Pending | None = None) -> None:
        """Start from zero, or from where ``since`` did: what was pending is consumed for good."""
        self.keeps_values = self.begun = self._values is not None
        consumed = self.take(since)
        self.committed += consumed.updates
        consumed.release()

    def _stand_as(self, other: Pending) -> None:
        self.updates = other.updates
        self.uncounted = other.uncounted
        self.distinct = Elements()
        self.distinct.update(other.distinct)
        self.past = None
        if other.past is not None:
            slots = other.past.slots
            self.past = self.new_past()
            self.past.put(slots, other.past.values.data[slots])
        self.fresh = False
        self.recount()

    def follow_all(self) -> None:
        """Let x′ start where x is."""
        if self._values is not None:
            self.magnitude.set(magnitude(self._values.data[self._grid.present.data]))

    def restore(self, consumed: Consumed) -> None:
        """Give back what a failed run took: x′ is again what it was before the run."""
        self.updates += consumed.updates
        self.uncounted |= consumed.uncounted
        self.distinct.update(consumed.distinct)
        if self.past is None:
            self.past = consumed.past
        elif consumed.past is not None:
            slots = consumed.past.slots
            self.past.put(slots, consumed.past.values.data[slots])
            consumed.past.release()
        self.fresh = consumed.fresh
        self.recount()

    def recount(self) -> None:
        """Compute the sums again, exactly and independently of the order of updates."""
        self.changed, difference, self._largest = self.measured()
        self.difference.set(difference)
        self.magnitude.set(self.measured_magnitude())

    def measured(self) -> tuple[int, float, float]:
        """Return m, Σ|x−x′| and max |x−x′| from scratch."""
        _, new, before = self._touched()
        found, changed = distances(new, before), int(np.count_nonzero(new != before))
        return changed, exact_total(found), float(found.max(initial=0.0))

    def _touched(self) -> tuple[Array, Array, Array]:
        """Return slots, x and x′ of the cells of which x′ is kept."""
        if self.past is None or self._values is None:
            return np.empty(0, np.int64), np.empty(0), np.empty(0)
        slots = self.past.slots
        return slots, self._values.data[slots], self.past.values.data[slots]

    def moved(self, until: Pending | None = None) -> tuple[Array, Array]:
        """Return x, at the later reset of ``until`` if given, and x′ of the cells that differ.

        Both as doubles: where these hold fewer digits than the cells, they may be the same.
        """
        slots, new, before = self._touched()
        if until is not None and until.past is not None:
            new, _ = until.past.over(slots, new)
        differ = new != before
        return _doubles(new[differ]), _doubles(before[differ])

    def previous(self) -> Array:
        """Return x′ of all cells that are there or were, the unchanged too, as doubles."""
        if self._values is None:
            return np.empty(0)
        values, held = self._values.data, self._grid.present.data
        if self.past is not None:
            values = np.where(self.past.touched.data, self.past.values.data, values)
            held = held | self.past.touched.data
        return _doubles(values[held])

    def measured_magnitude(self) -> float:
        """Return Σ|x′| from scratch; it looks at all cells."""
        return 0.0 if self._values is None else magnitude(self.previous())

    def largest(self) -> float:
        """Return max |x−x′|."""
        if self._largest is None:
            self._largest = self.measured()[2]
        return self._largest


def _doubles(values: Array) -> Array:
    return values if values.dtype == object else numbers_in(values)
