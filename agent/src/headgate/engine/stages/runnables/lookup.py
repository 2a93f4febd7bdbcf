"""A runnable for tables to look things up in, which are read again and again."""

from __future__ import annotations

from collections.abc import Collection

from headgate.engine.stages.connector import FlowView, Portion, Take
from headgate.engine.stages.runnables.runnable import (
    Flows,
    PureRunnable,
    RunnableState,
    Waits,
    listed,
    unread,
)


class Lookup(PureRunnable):
    """Of a table the newest increment is read in each run and stays; the others are as for `all`.

    So reading is apart from removal (BIPS, section 2.6, "static lookup tables"). A table that comes
    anew replaces the one before, which is then removed whether it was read or not; without another
    increment of another flow it makes no run.
    """

    def __init__(self, tables: Collection[str]) -> None:
        self.tables = frozenset(tables)
        """The flows that are tables; not all of the stage's."""

    def judge(self, flows: Flows, state: RunnableState) -> Take | Waits:
        """Return the newest of the tables and one unread of each other flow, once all are there."""
        tables = {name: view for name, view in flows.items() if name in self.tables}
        others = {name: view for name, view in flows.items() if name not in self.tables}
        there = (*unread(others), *(name for name, view in tables.items() if view.waiting))
        empty = tuple(name for name in flows if name not in there)
        if empty:
            return Waits(f"an increment of {listed(empty)}", empty)
        oldest = Take.oldest(others, state)
        newest = {name: _newest(view) for name, view in tables.items()}
        return Take({**oldest.portions, **newest}, state)


def _newest(view: FlowView) -> Portion:
    last = view.waiting - 1
    return Portion(start=last, stop=last + 1, removed=last)
