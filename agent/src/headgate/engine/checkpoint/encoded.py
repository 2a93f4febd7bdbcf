"""Actions and cells as bytes, each kept for as long as it stays what it is.

A checkpoint comes before every launch. It looks at each action and container, and encodes anew
those that have changed since the last. What changes with nearly every update, how many of them are
pending, stands beside them in columns.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from headgate.engine.actions.action import Action
from headgate.engine.actions.state import EngineState
from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.columns import Detail
from headgate.engine.checkpoint.changelog import Changelog
from headgate.engine.checkpoint.saved import LEVEL, SNAPSHOT_VERSION, Counts, plain_of
from headgate.engine.checkpoint.snapshot import action_state, cells_state, frame_of, list_state
from headgate.engine.stages.coordination import Stages
from headgate.temporal import Reflections

Mark = Sequence[Any]
"""Of two states with equal marks the bytes are the same, but for how many updates are pending."""
Known = tuple[Mark | None, Raw]
"""Bytes, and the mark of what they say; None where that may change and the mark would not."""
T = TypeVar("T", bound=Hashable)

_encode = msgspec.msgpack.Encoder().encode


class EncodedState:
    """An engine's state in bytes, as it was written last."""

    def __init__(self) -> None:
        self._actions: dict[Action, Known] = {}
        self._cells: dict[ContainerCells, Known] = {}
        self._reflections = Reflections(), Raw(_encode(Reflections()))

    def write(self, state: EngineState, log: Changelog | None = None) -> bytes:
        """Return a snapshot of the state, without what the log has where there is one."""
        self._actions = _renewed(
            self._actions,
            state.actions.values(),
            partial(_mark_of_action, state.stages),
            partial(_state_of_action, state.stages),
        )
        self._cells = _renewed(
            self._cells,
            state.cells.values(),
            partial(_mark_of_cells, log),
            partial(_state_of_cells, log),
        )
        reflections = state.reflected.value
        if self._reflections[0] is not reflections:
            self._reflections = reflections, Raw(_encode(reflections))
        head = msgspec.structs.asdict(frame_of(state, log)) | {
            "version": SNAPSHOT_VERSION,
            "reflections": self._reflections[1],
            "actions": [data for _, data in self._actions.values()],
            "cells": [data for _, data in self._cells.values()],
            "counts": Counts.of(state.cells.values()),
        }
        return zlib.compress(_encode(head), LEVEL)


def _renewed(
    known: Mapping[T, Known],
    things: Iterable[T],
    mark_of: Callable[[T], Mark | None],
    state_of: Callable[[T], Struct],
) -> dict[T, Known]:
    """Return the bytes of things: those of before, where their marks are what they were."""
    renewed: dict[T, Known] = {}
    for thing in things:
        mark = mark_of(thing)
        found = known.get(thing)
        if mark is None or found is None or found[0] != mark:
            found = mark, Raw(_encode(state_of(thing)))
        renewed[thing] = found
    return renewed


def _mark_of_action(stages: Stages, action: Action) -> Mark | None:
    if action.run is not None or action.adjusters or action.marks:
        return None  # these change in place
    ended = frozenset(action.ended) if action.ended else ()
    return plain_of(action), ended, action.policy.save(), stages.save(action.name)


def _state_of_action(stages: Stages, action: Action) -> Struct:
    return action_state(action, stages)


def _state_of_cells(log: Changelog | None, cells: ContainerCells) -> Struct:
    return cells_state(cells, log)


def _mark_of_cells(log: Changelog | None, cells: ContainerCells) -> Mark | None:
    reads, watchers, scans = cells.reads, cells.watchers, cells.scans
    if reads.unsettled or watchers.consumed or scans.current is not None or cells.strangers.writes:
        return None  # these change in place
    if cells.lifetimes.own:
        return None
    columns = cells.columns
    logged: tuple[object, ...] = ()
    if cells.detail is not Detail.COUNTS:
        if log is None:
            return None  # they are among the bytes themselves
        known, grid = log.of(cells), columns.grid
        logged = (known.keys.number, grid.keys_known, known.keys.merged)
        logged += (known.names.number, grid.names_known, known.names.merged, grid.shape)
    elif columns.stamps is not None:
        return None
    mark = [
        log is None,
        cells.watched,
        cells.detail,
        cells.hidden_until,
        tuple(cells.lifetimes.ttls.items()),
        reads.awaited,
        scans.complete,
        columns.dead_letters,
        logged,
    ]
    for pending in watchers.pendings:
        past, distinct = pending.past, pending.distinct
        if log is None and distinct:
            return None
        mark += (
            pending.action,
            pending.keeps_values,
            pending.fresh,
            pending.uncounted,
            0 if past is None else past.logged,
            list_state(distinct) if distinct else None,
        )
    return mark
