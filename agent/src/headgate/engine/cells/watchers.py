"""Who counts the updates of a container's part in one table, and how far its cells have moved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from headgate.engine.cells.columns import CellColumns
from headgate.engine.cells.elements import Element
from headgate.engine.cells.pending import Change, Consumed, Pending
from headgate.engine.cells.storage import Array


class Watchers:
    """What each action that watches the cells has not consumed yet."""

    __slots__ = (
        "_columns",
        "_former",
        "consumed",
        "pendings",
    )

    def __init__(self, columns: CellColumns) -> None:
        self._columns = columns
        self.pendings: list[Pending] = []
        self.consumed: dict[str, Consumed] = {}
        """What the active run of an action took, by action."""
        self._former: dict[str, Pending] = {}

    def add(
        self, action: str, *, values: bool, distinct: bool, own: bool, writer: str | None = None
    ) -> Pending:
        """Count for one more action from now on; ``values``: also how far cells have moved.

        ``writer`` is whose updates are its own, where it is not the action's name.
        """
        column = self._columns.values if values else None
        pending = self._former.pop(action, None)
        if pending is None:
            pending = Pending(
                action, self._columns.grid, column, distinct=distinct, own=own, writer=writer
            )
        else:
            consumed = self.consumed.get(action)
            pending.adapt(column, distinct=distinct, own=own, consumed=consumed)
        self.pendings.append(pending)
        return pending

    def begin_change(self) -> None:
        """Have those count on who are added from here on, until ``end_change``."""
        self._former = {pending.action: pending for pending in self.pendings}
        self.pendings = []

    def end_change(self) -> None:
        """Forget who does not watch any more."""
        for action, pending in self._former.items():
            pending.release()
            consumed = self.consumed.pop(action, None)
            if consumed is not None:
                consumed.release()
        self._former = {}

    @property
    def keep_distinct(self) -> bool:
        """Whether some action counts each element once."""
        return any(pending.keeps_distinct for pending in self.pendings)

    def follows(self, writer: str | None) -> bool:
        """Return whether x′ of some action follows this writer, even where x stays as it is."""
        return writer is not None and any(
            p.writer == writer and p.keeps_values and not p.own for p in self.pendings
        )

    def count(self, writer: str | None, updates: int, elements: Iterable[Element]) -> None:
        """Count updates of a writer, for all whose own they are not."""
        for pending in self.pendings:
            if pending.own or pending.writer != writer:
                pending.count(updates, elements)

    def count_found(self, elements: Sequence[Element]) -> None:
        """Count an update of each of these elements, which no event announced, for everybody."""
        for pending in self.pendings:
            pending.count(len(elements), elements)

    def miss(self) -> None:
        """Note that updates are missing."""
        for pending in self.pendings:
            pending.uncounted = True

    def moved(self, writer: str | None, slots: Array, old: Array, new: Array) -> None:
        """Note cells that changed, each of them once."""
        for pending in self.pendings:
            if not pending.keeps_values:
                continue
            if pending.own or pending.writer != writer:
                pending.apply(slots, old, new)
            else:
                pending.follow(slots, old, new, self.consumed.get(pending.action))

    def moved_each(self, writer: str | None, changes: Sequence[Change]) -> None:
        """Note cells that changed, in their order."""
        column_of = self._columns.column_of
        for pending in self.pendings:
            if not pending.keeps_values or not changes:
                continue
            if pending.own or pending.writer != writer:
                pending.apply_each(changes)
            else:
                consumed = self.consumed.get(pending.action)
                for slot, old, new in changes:
                    place = np.array([slot])
                    pending.follow(place, column_of([old]), column_of([new]), consumed)

    def moved_by_scan(self, slots: Array, old: Array, new: Array, *, first: bool) -> None:
        """Note cells that a scan found otherwise than they were known; the first finds x′ too."""
        if not len(slots):
            return
        for pending in self.pendings:
            if pending.keeps_values and (pending.fresh or not first):
                pending.apply(slots, old, new)
            elif pending.keeps_values:
                pending.find(slots, old, new, self.consumed.get(pending.action))
