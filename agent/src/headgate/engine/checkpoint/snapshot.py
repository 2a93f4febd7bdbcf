"""The engine's state as bytes: msgpack, compressed, with a version.

Cells are stored in columns; where they are many, they are in a log beside it (``changelog``). What
a specification no longer has, or has otherwise, is left out when a snapshot is read back: the rest
keeps its state.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from headgate.engine.actions.action import Action
from headgate.engine.actions.state import EngineState
from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.columns import PRESENT, Detail
from headgate.engine.cells.elements import Element, Elements
from headgate.engine.cells.grid import Column
from headgate.engine.cells.pending import Consumed, Pending, PreviousValues
from headgate.engine.cells.scans import ScanState
from headgate.engine.cells.storage import Array
from headgate.engine.checkpoint.changelog import Changelog
from headgate.engine.checkpoint.counted_on import count_on
from headgate.engine.checkpoint.log_reader import (
    ListState,
    LoggedState,
    LogReader,
    LogState,
    SnapshotError,
    listed,
)
from headgate.engine.checkpoint.saved import (
    LEVEL,
    NO_ELEMENTS,
    NO_KEYS,
    NOTHING,
    PLAIN_FIELDS,
    PLAIN_VERSION,
    SNAPSHOT_VERSION,
    ActionState,
    CellsState,
    ConsumedState,
    EngineSnapshot,
    KeyColumns,
    MarkState,
    PendingState,
    PolicyState,
    SavedValue,
    ScanningState,
    counted,
    element_columns,
    elements_of,
    key_columns,
    plain_of,
)
from headgate.engine.intake.rivals import Rivals
from headgate.engine.spec.reading import reading_of
from headgate.engine.stages.coordination import Stages
from headgate.engine.triggers.policy import TriggerPolicy
from headgate.events import CLOCKS_APART, Cut, Dated

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(EngineSnapshot)


def write_snapshot(state: EngineState) -> bytes:
    """Return the engine's state, whole."""
    return zlib.compress(_encoder.encode(state_of(state, state.cells.values())), LEVEL)


def state_of(state: EngineState, held: Iterable[ContainerCells]) -> EngineSnapshot:
    """Return the engine's state with these of its cells, whole."""
    return msgspec.structs.replace(
        frame_of(state),
        actions=tuple(action_state(action, state.stages) for action in state.actions.values()),
        cells=tuple(cells_state(cells) for cells in held),
    )


def frame_of(state: EngineState, log: Changelog | None = None) -> EngineSnapshot:
    """Return the engine's state without its actions and cells."""
    return EngineSnapshot(
        version=PLAIN_VERSION,
        dataflow=state.spec.name,
        incarnation=state.incarnation,
        paused=state.paused,
        positions={topic: tuple(p) for topic, p in state.deliveries.positions.items()},
        sources=tuple(state.deliveries.sources),
        actions=(),
        cells=(),
        retired=state.retired,
        samples=tuple(s for samples in state.machines.samples.values() for s in samples),
        log=None if log is None else LogState(log.items, log.small),
        saved=state.now,
        read=reading_of(state.spec),
        rivals=tuple(
            (table, observer, newest)
            for table, rivals in state.rivals.items()
            for observer, newest in rivals.newest.items()
        ),
        dated={table: dated.state() for table, dated in state.dated.items() if dated},
        reflections=state.reflected.value,
    )


def read_snapshot(data: bytes) -> EngineSnapshot:
    """Return the state in a snapshot.

    Raises:
        SnapshotError: the bytes are none, or a later version wrote them.
    """
    try:
        state = _decoder.decode(zlib.decompress(data))
    except (zlib.error, msgspec.MsgspecError) as error:
        raise SnapshotError(f"not a snapshot of an engine: {error}") from error
    if state.version > SNAPSHOT_VERSION:
        raise SnapshotError(
            f"a snapshot of version {state.version}; this headgate reads up to {SNAPSHOT_VERSION}: "
            "upgrade it"
        )
    return state if state.counts is None else counted(state, state.counts)


def restore(
    state: EngineState,
    snapshot: EngineSnapshot,
    segments: Iterable[bytes] = (),
    log: Changelog | None = None,
) -> None:
    """Give a newly built engine the state of what it has in common with the snapshot.

    ``segments`` are those of the log, which then goes on as ``log``.

    Raises:
        SnapshotError: the log is not whole.
    """
    state.incarnation = snapshot.incarnation
    state.paused = snapshot.paused
    state.saved_at = snapshot.saved
    state.deliveries.positions = {topic: list(p) for topic, p in snapshot.positions.items()}
    state.deliveries.restore(snapshot.sources)
    rivals = snapshot.rivals
    for table in dict.fromkeys(table for table, _, _ in rivals):
        state.rivals[table] = Rivals((who, when) for of, who, when in rivals if of == table)
    state.dated = {table: Dated(dated) for table, dated in snapshot.dated.items()}
    state.reflect(snapshot.reflections)
    state.machines.take(snapshot.samples)
    common = [
        (cells, stored)
        for stored in snapshot.cells
        if (cells := state.cells.get((stored.watched.id, stored.table))) is not None
        and cells.watched == stored.watched
    ]
    reader = LogReader()
    for cells, stored in common:
        _want(cells, stored, reader)
    reader.read(segments)
    for cells, stored in common:
        _restore_cells(cells, stored, reader)
        if not cells.hidden_until and cells.detail is not Detail.COUNTS:  # in states of before
            cells.note_marker(int(snapshot.saved * 1000) + CLOCKS_APART)
        if log is not None and stored.logged is not None and cells.detail == stored.detail:
            log.adopt(cells, listed(stored.logged.keys), listed(stored.logged.names))
    for saved in snapshot.actions:
        action = state.actions.get(saved.name)
        if action is not None:
            _restore_action(action, saved)
            state.stages.load(saved.name, saved.stage)
    numbers = {**snapshot.retired, **{saved.name: saved.number for saved in snapshot.actions}}
    for action in state.actions.values():
        action.number = numbers.pop(action.name, 0)
    state.retired = {name: number for name, number in numbers.items() if number}
    for cells in state.cells.values():
        for pending in cells.watchers.pendings:
            if not pending.begun:
                watcher = state.actions.get(pending.action)
                has_run = watcher is not None and watcher.number > 0 and cells.scans.complete
                pending.begin(fresh=pending.fresh and not has_run)
    count_on(state, snapshot, {(stored.watched.id, stored.table) for _, stored in common})


def action_state(action: Action, stages: Stages) -> ActionState:
    """Return what is saved of an action, and of its flows."""
    return ActionState(
        **dict(zip(PLAIN_FIELDS, plain_of(action), strict=True)),
        name=action.name,
        ended=tuple(sorted(action.ended)),
        adjusters={adjuster.bound.name: adjuster.state for adjuster in action.adjusters},
        policy=policy_state(action.policy),
        marks=tuple(
            MarkState(name, mark.cut, tuple(sorted(mark.ended)))
            for name, mark in action.marks.items()
            if mark.cut is not None
        ),
        stage=stages.save(action.name),
    )


def policy_state(policy: TriggerPolicy) -> PolicyState | None:
    """Return what is saved of a policy."""
    saved = policy.save()
    return PolicyState(policy.kind, saved) if saved else None


def _restore_action(action: Action, state: ActionState) -> None:
    for field, value in zip(PLAIN_FIELDS, plain_of(state), strict=True):
        setattr(action, field, value)
    if state.seen is None:  # in states of before
        action.seen = Cut() if state.last is None else state.last.cut
    if state.seen_at is None and state.last is not None:
        action.seen_at = state.last.launched_at
    action.reading = state.reading and any(c.reads.awaited for c, _ in action.all_parts())
    if action.moments.every is None:
        action.next_evaluation = None
    action.ended = {name for name in state.ended if name in action.spec.after}
    for adjuster in action.adjusters:
        adjuster.state = state.adjusters.get(adjuster.bound.name, adjuster.state)
    if state.policy is not None and state.policy.kind == action.policy.kind:
        action.policy.load(state.policy.data)
    elif state.search != NOTHING:
        action.policy.load(bytes(state.search))
    for fixed in state.marks:
        if fixed.name in action.marks:
            mark = action.marks.pop(fixed.name)
            mark.cut, mark.ended = fixed.cut, frozenset(fixed.ended)
            action.marks[fixed.name] = mark
    action.take_limits()


def cells_state(cells: ContainerCells, log: Changelog | None = None) -> CellsState:
    """Return what is saved of cells, without what the log has of them where there is one."""
    known = _logged_state(cells, log) if log and cells.detail is not Detail.COUNTS else None
    stamped = np.flatnonzero(() if cells.columns.stamps is None else cells.columns.stamps.data)
    written, versions = cells.strangers.writes.all()
    return CellsState(
        watched=cells.watched,
        table=cells.table,
        detail=int(cells.detail),
        keys=NO_KEYS if known else _keys_at(cells, cells.columns.slots),
        values=()
        if known or cells.columns.values is None
        else _values_at(cells.columns.values, cells.columns.slots),
        stamped=NO_KEYS if known else _keys_at(cells, stamped),
        timestamps=() if known or not len(stamped) else _timestamps_at(cells, stamped),
        deletes=cells.hidden_until > 0,
        unsettled=key_columns(sorted(cells.reads.unsettled)),
        reading=key_columns(sorted(cells.reads.reading)),
        read_awaited=cells.reads.awaited,
        scanning=_scanning_state(cells, log),
        scanned=cells.scans.complete,
        dead_letters=cells.columns.dead_letters,
        pendings=tuple(_pending_state(cells, pending, log) for pending in cells.watchers.pendings),
        logged=known,
        strangers=key_columns(written),
        versions=versions,
        hidden_until=cells.hidden_until,
        ttls=cells.lifetimes.ttls,
        mortal=key_columns(list(cells.lifetimes.own)),
        own_ttls=tuple(cells.lifetimes.own.values()),
        ends=cells.lifetimes.ends_of(cells.lifetimes.own),
    )


def _logged_state(cells: ContainerCells, log: Changelog) -> LoggedState:
    known, grid = log.of(cells), cells.columns.grid
    return LoggedState(
        ListState(known.keys.number, grid.keys_known, known.keys.merged),
        ListState(known.names.number, grid.names_known, known.names.merged),
        grid.shape,
    )


def _scanning_state(cells: ContainerCells, log: Changelog | None) -> ScanningState | None:
    scanning = cells.scans.current
    if scanning is None:
        return None
    # Which cells a later scan has not seen is not saved, nor why it is to be followed by another.
    at = b"" if cells.scans.complete or scanning.again else scanning.at
    if log is not None:
        both = (list_state(scanning.written), list_state(scanning.deleted_rows))
        places = (list_state(scanning.deleted_families), list_state(scanning.doubtful))
        return ScanningState(
            NO_KEYS,
            (),
            scanning.emptied,
            both,
            places=places,
            at=at,
            found=scanning.found,
            lossless=scanning.lossless,
        )
    return ScanningState(
        key_columns(sorted(scanning.written)),
        tuple(sorted(scanning.deleted_rows)),
        scanning.emptied,
        deleted_families=key_columns(sorted(scanning.deleted_families)),
        doubtful=key_columns(sorted(scanning.doubtful)),
        at=at,
        found=scanning.found,
        lossless=scanning.lossless,
    )


def list_state(elements: Elements[Any]) -> ListState | None:
    """Return which list of the log has these elements; None where there are none."""
    known = elements.listed
    return ListState(known.number, len(elements), known.merged) if known and elements else None


def _values_at(column: Column, slots: Array) -> tuple[Any, ...]:
    found = column.data[slots].tolist()
    if column.data.dtype.kind == "c":
        return tuple((x.real, x.imag) if x.imag else x.real for x in found)
    return tuple(found)


def _loaded(values: Sequence[SavedValue]) -> Sequence[Any]:
    return [complex(*one) if isinstance(one, tuple) else one for one in values]


def _timestamps_at(cells: ContainerCells, slots: Array) -> tuple[int, ...]:
    return tuple(cells.columns.stamp_at(slot) or 0 for slot in slots.tolist())


def _want(cells: ContainerCells, state: CellsState, reader: LogReader) -> None:
    """Have read what the log has of cells and the new engine has too."""
    logged = state.logged if cells.detail == state.detail else None
    if logged is not None:
        reader.want(cells, logged)
    if state.scanning is not None:
        for elements in (*state.scanning.listed, *state.scanning.places):
            reader.want_elements(elements)
    for pending, stored in _matching(cells, state):
        for consumed in filter(None, (stored.now, stored.taken)):
            reader.want_elements(consumed.listed)
            if logged is not None and pending.keeps_values and consumed.past:
                reader.want_past(logged, pending.new_past(), consumed.past)


def _matching(cells: ContainerCells, state: CellsState) -> Iterator[tuple[Pending, PendingState]]:
    for stored in state.pendings:
        for pending in cells.watchers.pendings:
            if pending.action == stored.action:
                yield pending, stored


def _restore_cells(cells: ContainerCells, state: CellsState, reader: LogReader) -> None:
    cells.columns.dead_letters = state.dead_letters
    if cells.detail == state.detail:
        if state.logged is None:
            values = _loaded(state.values) or [PRESENT] * len(state.keys.rows)
            cells.columns.load(*state.keys.apart(), values)
        if state.stamped.rows:
            slots = cells.columns.grid.slots(*state.stamped.apart())
            there = cells.columns.grid.present.data[slots]
            cells.columns.stamp(slots[there], np.array(state.timestamps)[there])
        cells.hidden_until = state.hidden_until
        cells.lifetimes.set_ttls(state.ttls)
        cells.scans.expiring = state.ttls
        cells.lifetimes.load(list(state.mortal.keys()), state.own_ttls, state.ends)
        cells.reads.unsettled = set(state.unsettled.keys())
        cells.reads.reading = set(state.reading.keys())
        cells.reads.awaited = state.read_awaited
        cells.scans.complete = state.scanned
        for key, version in zip(state.strangers.keys(), state.versions, strict=True):
            cells.strangers.writes.add(key, version, known=False)
        if state.scanning is not None:
            cells.scans.current = ScanState()
            written, deleted = state.scanning.listed
            cells.scans.current.written = reader.elements(written)
            cells.scans.current.written.update(dict.fromkeys(state.scanning.written.keys()))
            cells.scans.current.deleted_rows = reader.elements(deleted)
            cells.scans.current.deleted_rows.update(dict.fromkeys(state.scanning.deleted_rows))
            families, doubtful = state.scanning.places
            cells.scans.current.deleted_families = reader.elements(families)
            cells.scans.current.deleted_families.update(
                dict.fromkeys(state.scanning.deleted_families.keys())
            )
            cells.scans.current.doubtful = reader.elements(doubtful)
            cells.scans.current.doubtful.update(dict.fromkeys(state.scanning.doubtful.keys()))
            cells.scans.current.emptied = state.scanning.emptied
            cells.scans.current.at = state.scanning.at
            cells.scans.current.found = state.scanning.found
            cells.scans.current.lossless = state.scanning.lossless
    for pending, stored in _matching(cells, state):
        _restore_pending(cells, pending, stored, _Source(state.logged, reader))


class _Source(Struct, frozen=True):
    """Where x′ of a container's cells is, where it is in the log."""

    logged: LoggedState | None
    reader: LogReader


def _pending_state(cells: ContainerCells, pending: Pending, log: Changelog | None) -> PendingState:
    taken = cells.watchers.consumed.get(pending.action)
    now = Consumed(
        pending.updates, pending.distinct, pending.past, pending.fresh, pending.uncounted
    )
    return PendingState(
        action=pending.action,
        values=pending.keeps_values,
        now=_consumed_state(cells, now, log),
        received=pending.received,
        committed=pending.committed,
        taken=None if taken is None else _consumed_state(cells, taken, log),
    )


def _restore_pending(
    cells: ContainerCells, pending: Pending, state: PendingState, source: _Source
) -> None:
    now = _consumed(cells, pending, state.now, source)
    pending.updates = now.updates
    pending.distinct = now.distinct
    pending.past = now.past
    pending.fresh = now.fresh
    pending.uncounted = now.uncounted
    pending.received = state.received
    pending.committed = state.committed
    if pending.keeps_distinct and pending.updates and not pending.distinct:
        pending.uncounted = True  # of which elements they were was not remembered
    pending.begun = state.values
    pending.recount()
    if state.taken is not None:
        cells.watchers.consumed[pending.action] = _consumed(cells, pending, state.taken, source)


def _consumed_state(
    cells: ContainerCells, consumed: Consumed, log: Changelog | None
) -> ConsumedState:
    past = consumed.past
    if log is not None:
        return ConsumedState(
            consumed.updates,
            NO_ELEMENTS,
            NO_KEYS,
            (),
            consumed.fresh,
            list_state(consumed.distinct),
            0 if past is None else past.logged,
            consumed.uncounted,
        )
    return ConsumedState(
        consumed.updates,
        element_columns(consumed.distinct),
        key_columns(()) if past is None else _keys_at(cells, past.slots),
        () if past is None else _values_at(past.values, past.slots),
        consumed.fresh,
        uncounted=consumed.uncounted,
    )


def _consumed(
    cells: ContainerCells, pending: Pending, state: ConsumedState, source: _Source
) -> Consumed:
    past: PreviousValues | None = None
    if source.logged is not None:
        past = source.reader.past(source.logged, state.past)
    elif pending.keeps_values and state.previous:
        slots = cells.columns.grid.slots(*state.keys.apart())
        past = pending.new_past()
        past.put(slots, cells.columns.column_of(_loaded(state.previous)))
    distinct: Elements[Element] = source.reader.elements(state.listed)
    distinct.update(dict.fromkeys(elements_of(state.distinct)))
    if not pending.keeps_distinct:
        distinct = Elements()
    return Consumed(state.updates, distinct, past, state.fresh, state.uncounted)


def _keys_at(cells: ContainerCells, slots: Array) -> KeyColumns:
    if not len(slots):
        return NO_KEYS  # without a look at all rows
    rows, columns = cells.columns.grid.keys(slots)
    known = sorted(set(columns), key=cells.columns.grid.names.__getitem__)
    places = {number: place for place, number in enumerate(known)}
    names = tuple(cells.columns.grid.names[number] for number in known)
    return KeyColumns(tuple(rows), tuple(map(places.__getitem__, columns)), names)
