"""Counts of updates from before an edit, for containers that the edit has changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from headgate.engine.actions.action import Action
from headgate.engine.actions.graph import CellsPlace
from headgate.engine.actions.state import EngineState
from headgate.engine.checkpoint.saved import (
    CellsState,
    EngineSnapshot,
    PendingState,
)
from headgate.engine.triggers.policy import Part
from headgate.events import ContainerId


def count_on(state: EngineState, before: EngineSnapshot, kept: Collection[CellsPlace]) -> None:
    """Add updates that were counted of containers as they were before an edit.

    They count for what the action watches instead, so that a limit that was reached stays reached:
    an update may count twice, but never not at all.

    Args:
        state: of the engine after the edit.
        before: the state before it.
        kept: the containers that the edit left as they were.
    """
    for stored in before.cells:
        if (stored.watched.id, stored.table) not in kept:
            for counted in stored.pendings:
                action = state.actions.get(counted.action)
                if action is not None:
                    watched = before.read.watched.get(action.name)
                    _count_on(_heirs(action, stored, watched), counted)


def _heirs(
    action: Action, stored: CellsState, watched: Collection[ContainerId] | None
) -> list[Part]:
    """Return what an action watches in the place of a container, the same table first."""
    same = action.parts.get(stored.watched.id)
    if same is None:
        known = action.parts if watched is None else watched
        same = [part for part in action.all_parts() if part[0].watched.id not in known]
    return sorted(same, key=lambda part: part[0].table != stored.table)


def _count_on(heirs: Iterable[Part], counted: PendingState) -> None:
    for cells, pending in heirs:
        pending.count_on(counted.now.updates)
        if counted.taken is not None:
            nothing = pending.nothing_taken()
            taken = cells.watchers.consumed.setdefault(pending.action, nothing)
            taken.updates += counted.taken.updates
            taken.uncounted |= pending.keeps_distinct and counted.taken.updates > 0
            pending.received += counted.taken.updates
        return
