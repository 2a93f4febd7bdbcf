"""The engine's state as bytes: msgpack, compressed, with a version.

Cells are stored in columns; where they are many, they are in a log beside it (``changelog``). What
a specification no longer has, or has otherwise, is left out when a snapshot is read back: the rest
keeps its state.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Struct

from headgate.engine.actions import Action
from headgate.engine.adjustment import AdjusterState
from headgate.engine.cells import Cells
from headgate.engine.changelog import Changelog
from headgate.engine.duplicates import Source
from headgate.engine.elements import Element, Elements, Key
from headgate.engine.grid import Column
from headgate.engine.known import PRESENT, Detail, Scanning
from headgate.engine.logged import (
    ListState,
    LoggedState,
    LogReader,
    LogState,
    SnapshotError,
    listed,
)
from headgate.engine.pending import Consumed, Past, Pending, Value
from headgate.engine.resources import ResourceSample
from headgate.engine.rivals import Rivals
from headgate.engine.runs import ActiveRun, PastRun, RunState
from headgate.engine.significance import SearchState
from headgate.engine.spec import WatchedContainer
from headgate.engine.storage import Array
from headgate.engine.told import Version
from headgate.events import Cut

if TYPE_CHECKING:
    from headgate.engine.foundation import Foundation

SNAPSHOT_VERSION = 2
"""Version of the snapshots that this code writes with a log; those before knew of none."""
_WHOLE_VERSION = 1  # of those without, which earlier versions can read

_LEVEL = 1  # zlib's fastest: a snapshot is written before every launch


class KeyColumns(Struct, frozen=True, array_like=True):
    """Cells in columns; ``columns[i]`` is the position in ``names`` of cell i's column."""

    rows: tuple[bytes, ...]
    columns: tuple[int, ...]
    names: tuple[bytes, ...]

    def keys(self) -> Iterator[Key]:
        """Yield the cells."""
        return zip(*self.apart(), strict=True)

    def apart(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Return the rows and the columns of the cells."""
        return self.rows, [self.names[c] for c in self.columns]


_NO_KEYS = KeyColumns((), (), ())


def key_columns(keys: Collection[Key]) -> KeyColumns:
    """Return cells in columns, in their order."""
    if not keys:
        return _NO_KEYS  # most containers have nothing unsettled, stamped or consumed
    names: dict[bytes, int] = {}
    columns = tuple(names.setdefault(column, len(names)) for _, column in keys)
    return KeyColumns(tuple(row for row, _ in keys), columns, tuple(names))


class ElementColumns(Struct, frozen=True, array_like=True):
    """Elements: rows and cells."""

    rows: tuple[bytes, ...]
    cells: KeyColumns


_NO_ELEMENTS = ElementColumns((), _NO_KEYS)


def _element_columns(elements: Iterable[Element]) -> ElementColumns:
    rows = [e for e in elements if isinstance(e, bytes)]
    cells = [e for e in elements if not isinstance(e, bytes)]
    return ElementColumns(tuple(sorted(rows)), key_columns(sorted(cells)))


def _elements(state: ElementColumns) -> set[Element]:
    return {*state.rows, *state.cells.keys()}


class ConsumedState(Struct, frozen=True):
    """See ``Consumed``."""

    updates: int
    distinct: ElementColumns
    keys: KeyColumns
    previous: tuple[float | bytes | None, ...]
    fresh: bool
    listed: ListState | None = None
    """``distinct``, where it is in the log."""
    past: int = 0
    """x′, where it is in the log; 0 for none."""
    uncounted: bool = False


class PendingState(Struct, frozen=True):
    """See ``Pending``; its sums are computed again."""

    action: str
    values: bool
    now: ConsumedState
    received: int
    committed: int
    taken: ConsumedState | None


class ScanningState(Struct, frozen=True):
    """See ``Scanning``."""

    written: KeyColumns
    deleted_rows: tuple[bytes, ...]
    emptied: bool
    listed: tuple[ListState | None, ListState | None] = (None, None)
    """Both, where they are in the log."""
    deleted_families: KeyColumns = _NO_KEYS
    doubtful: KeyColumns = _NO_KEYS
    places: tuple[ListState | None, ListState | None] = (None, None)
    """Both of these, where they are in the log."""
    at: bytes = b""
    """Where the scan goes on; from the first row on where it is to begin anew."""
    found: int = 0
    lossless: bool = False


class CellsState(Struct, frozen=True):
    """See ``Cells``. ``values`` is empty where only keys are kept."""

    watched: WatchedContainer
    table: str
    detail: int
    keys: KeyColumns
    values: tuple[float | bytes, ...]
    stamped: KeyColumns
    timestamps: tuple[int, ...]
    deletes: bool
    unsettled: KeyColumns
    reading: KeyColumns
    read_awaited: bool
    scanning: ScanningState | None
    scanned: bool
    dead_letters: int
    pendings: tuple[PendingState, ...]
    logged: LoggedState | None = None
    """Where the log has the cells."""
    strangers: KeyColumns = _NO_KEYS
    versions: tuple[Version, ...] = ()
    """What strangers wrote into these cells."""


class ActionState(Struct, frozen=True):
    """See ``Action``."""

    name: str
    state: RunState
    run: ActiveRun | None
    last: PastRun | None
    number: int
    has_run: bool
    since: float | None
    ended: tuple[str, ...]
    missed: str | None
    requested: bool
    reading: bool
    next_evaluation: float | None
    failure: str
    shown: str
    looked_at: float
    wait_until: float | None = None
    adjusters: dict[str, AdjusterState] = {}
    """By bound."""
    search: SearchState | None = None
    found: tuple[str, ...] = ()
    seen: Cut | None = None
    """None in states of before: the cut of the last run."""


class EngineState(Struct, frozen=True):
    """See ``Engine``."""

    version: int
    dataflow: str
    incarnation: str
    paused: bool
    positions: dict[str, tuple[int, ...]]
    sources: tuple[tuple[str, int, str, int, Source], ...]
    actions: tuple[ActionState, ...]
    cells: tuple[CellsState, ...]
    retired: dict[str, int] = {}
    samples: tuple[ResourceSample, ...] = ()
    log: LogState | None = None
    """None where everything is here."""
    saved: float = 0.0
    """Unix time in seconds."""
    rivals: tuple[tuple[str, str, float], ...] = ()
    """By table and observer, when it received the newest request of which it told."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(EngineState)


def write_snapshot(engine: Foundation, log: Changelog | None = None) -> bytes:
    """Return the engine's state, without what the log has where there is one."""
    state = state_of(engine, engine.cells.values(), log)
    return zlib.compress(_encoder.encode(state), _LEVEL)


def state_of(
    engine: Foundation, held: Iterable[Cells], log: Changelog | None = None
) -> EngineState:
    """Return the engine's state with these of its cells, without what the log has of them."""
    return EngineState(
        version=_WHOLE_VERSION if log is None else SNAPSHOT_VERSION,
        dataflow=engine.spec.name,
        incarnation=engine.incarnation,
        paused=engine.paused,
        positions={topic: tuple(p) for topic, p in engine.deliveries.positions.items()},
        sources=tuple(engine.deliveries.sources),
        actions=tuple(_action_state(action) for action in engine.actions.values()),
        cells=tuple(_cells_state(cells, log) for cells in held),
        retired=engine.retired,
        samples=tuple(s for samples in engine.machines.samples.values() for s in samples),
        log=None if log is None else LogState(log.items, log.small),
        saved=engine.now,
        rivals=tuple(
            (table, observer, newest)
            for table, rivals in engine.rivals.items()
            for observer, newest in rivals.newest.items()
        ),
    )


def read_snapshot(data: bytes) -> EngineState:
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
    return state


def restore(
    engine: Foundation,
    state: EngineState,
    pieces: Iterable[bytes] = (),
    log: Changelog | None = None,
) -> None:
    """Give a newly built engine the state of what it has in common with the snapshot.

    ``pieces`` are those of the log, which then goes on as ``log``.

    Raises:
        SnapshotError: the log is not whole.
    """
    engine.incarnation = state.incarnation
    engine.paused = state.paused
    engine.saved_at = state.saved
    engine.deliveries.positions = {topic: list(p) for topic, p in state.positions.items()}
    engine.deliveries.restore(state.sources)
    for table in dict.fromkeys(table for table, _, _ in state.rivals):
        engine.rivals[table] = Rivals((who, when) for of, who, when in state.rivals if of == table)
    engine.machines.take(state.samples)
    common = [
        (cells, stored)
        for stored in state.cells
        if (cells := engine.cells.get((stored.watched.id, stored.table))) is not None
        and cells.watched == stored.watched
    ]
    reader = LogReader()
    for cells, stored in common:
        _want(cells, stored, reader)
    reader.read(pieces)
    for cells, stored in common:
        _restore_cells(cells, stored, reader)
        if log is not None and stored.logged is not None and cells.detail == stored.detail:
            log.adopt(cells, listed(stored.logged.keys), listed(stored.logged.names))
    for saved in state.actions:
        action = engine.actions.get(saved.name)
        if action is not None:
            _restore_action(action, saved)
    numbers = {**state.retired, **{saved.name: saved.number for saved in state.actions}}
    for action in engine.actions.values():
        action.number = numbers.pop(action.name, 0)
    engine.retired = {name: number for name, number in numbers.items() if number}
    for cells in engine.cells.values():
        for pending in cells.pendings:
            if not pending.begun:
                watcher = engine.actions.get(pending.action)
                has_run = watcher is not None and watcher.number > 0 and cells.scanned
                pending.begin(fresh=pending.fresh and not has_run)


def _action_state(action: Action) -> ActionState:
    return ActionState(
        name=action.name,
        state=action.state,
        run=action.run,
        last=action.last,
        number=action.number,
        has_run=action.has_run,
        since=action.since,
        ended=tuple(sorted(action.ended)),
        missed=action.missed,
        requested=action.requested,
        reading=action.reading,
        next_evaluation=action.next_evaluation,
        failure=action.failure,
        shown=action.shown,
        found=action.found,
        looked_at=action.looked_at,
        wait_until=action.wait_until,
        adjusters={adjuster.bound.name: adjuster.state for adjuster in action.adjusters},
        search=None if action.search is None else action.search.state,
        seen=action.seen,
    )


def _restore_action(action: Action, state: ActionState) -> None:
    action.state = state.state
    action.run = state.run
    action.last = state.last
    before = Cut() if state.last is None else state.last.cut
    action.seen = before if state.seen is None else state.seen
    action.number = state.number
    action.has_run = state.has_run
    action.since = state.since
    action.ended = {name for name in state.ended if name in action.spec.after}
    action.missed = state.missed
    action.requested = state.requested
    action.reading = state.reading and any(c.read_awaited for c, _ in action.all_parts())
    every = action.spec.effective_evaluation.every
    action.next_evaluation = state.next_evaluation if every is not None else None
    for adjuster in action.adjusters:
        adjuster.state = state.adjusters.get(adjuster.bound.name, adjuster.state)
    if action.search is not None and state.search is not None:
        action.search.state = state.search
    action.take_limits()
    action.failure = state.failure
    action.shown = state.shown
    action.found = state.found
    action.looked_at = state.looked_at
    action.wait_until = state.wait_until


def _cells_state(cells: Cells, log: Changelog | None) -> CellsState:
    known = _logged_state(cells, log) if log and cells.detail is not Detail.COUNTS else None
    stamped = np.flatnonzero(() if cells.stamps is None else cells.stamps.data)
    told, versions = cells.told.all()
    return CellsState(
        watched=cells.watched,
        table=cells.table,
        detail=int(cells.detail),
        keys=_NO_KEYS if known else _keys_at(cells, cells.slots),
        values=() if known or cells.values is None else _values_at(cells.values, cells.slots),
        stamped=_NO_KEYS if known else _keys_at(cells, stamped),
        timestamps=() if known or not len(stamped) else _timestamps_at(cells, stamped),
        deletes=cells.deletes,
        unsettled=key_columns(sorted(cells.unsettled)),
        reading=key_columns(sorted(cells.reading)),
        read_awaited=cells.read_awaited,
        scanning=_scanning_state(cells, log),
        scanned=cells.scanned,
        dead_letters=cells.dead_letters,
        pendings=tuple(_pending_state(cells, pending, log) for pending in cells.pendings),
        logged=known,
        strangers=key_columns(told),
        versions=versions,
    )


def _logged_state(cells: Cells, log: Changelog) -> LoggedState:
    known, grid = log.of(cells), cells.grid
    return LoggedState(
        ListState(known.keys.number, grid.keys_known, known.keys.merged),
        ListState(known.names.number, grid.names_known, known.names.merged),
        grid.shape,
    )


def _scanning_state(cells: Cells, log: Changelog | None) -> ScanningState | None:
    scanning = cells.scanning
    if scanning is None:
        return None
    # Which cells a later scan has not seen is not saved, nor why it is to be followed by another.
    at = b"" if cells.scanned or scanning.again else scanning.at
    if log is not None:
        both = (_list_state(scanning.written), _list_state(scanning.deleted_rows))
        places = (_list_state(scanning.deleted_families), _list_state(scanning.doubtful))
        return ScanningState(
            _NO_KEYS,
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


def _list_state(elements: Elements[Any]) -> ListState | None:
    known = elements.listed
    return ListState(known.number, len(elements), known.merged) if known and elements else None


def _values_at(column: Column, slots: Array) -> tuple[Any, ...]:
    return tuple(column.data[slots].tolist())


def _timestamps_at(cells: Cells, slots: Array) -> tuple[int, ...]:
    return tuple(cells.stamp_at(slot) or 0 for slot in slots.tolist())


def _want(cells: Cells, state: CellsState, reader: LogReader) -> None:
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


def _matching(cells: Cells, state: CellsState) -> Iterator[tuple[Pending, PendingState]]:
    for stored in state.pendings:
        for pending in cells.pendings:
            if pending.action == stored.action:
                yield pending, stored


def _restore_cells(cells: Cells, state: CellsState, reader: LogReader) -> None:
    cells.dead_letters = state.dead_letters
    if cells.detail == state.detail:
        if state.logged is None:
            values: Sequence[Value] = state.values or [PRESENT] * len(state.keys.rows)
            cells.load(*state.keys.apart(), values)
        if state.stamped.rows:
            slots = cells.grid.slots(*state.stamped.apart())
            there = cells.grid.present.data[slots]
            cells.stamp(slots[there], np.array(state.timestamps)[there])
        cells.deletes = state.deletes
        cells.unsettled = set(state.unsettled.keys())
        cells.reading = set(state.reading.keys())
        cells.read_awaited = state.read_awaited
        cells.scanned = state.scanned
        for key, version in zip(state.strangers.keys(), state.versions, strict=True):
            cells.told.add(key, version, known=False)
        if state.scanning is not None:
            cells.scanning = Scanning()
            written, deleted = state.scanning.listed
            cells.scanning.written = reader.elements(written)
            cells.scanning.written.update(dict.fromkeys(state.scanning.written.keys()))
            cells.scanning.deleted_rows = reader.elements(deleted)
            cells.scanning.deleted_rows.update(dict.fromkeys(state.scanning.deleted_rows))
            families, doubtful = state.scanning.places
            cells.scanning.deleted_families = reader.elements(families)
            cells.scanning.deleted_families.update(
                dict.fromkeys(state.scanning.deleted_families.keys())
            )
            cells.scanning.doubtful = reader.elements(doubtful)
            cells.scanning.doubtful.update(dict.fromkeys(state.scanning.doubtful.keys()))
            cells.scanning.emptied = state.scanning.emptied
            cells.scanning.at = state.scanning.at
            cells.scanning.found = state.scanning.found
            cells.scanning.lossless = state.scanning.lossless
    for pending, stored in _matching(cells, state):
        _restore_pending(cells, pending, stored, _Source(state.logged, reader))


class _Source(Struct, frozen=True):
    """Where x′ of a container's cells is, where it is in the log."""

    logged: LoggedState | None
    reader: LogReader


def _pending_state(cells: Cells, pending: Pending, log: Changelog | None) -> PendingState:
    taken = cells.consumed.get(pending.action)
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


def _restore_pending(cells: Cells, pending: Pending, state: PendingState, source: _Source) -> None:
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
        cells.consumed[pending.action] = _consumed(cells, pending, state.taken, source)


def _consumed_state(cells: Cells, consumed: Consumed, log: Changelog | None) -> ConsumedState:
    past = consumed.past
    if log is not None:
        return ConsumedState(
            consumed.updates,
            _NO_ELEMENTS,
            _NO_KEYS,
            (),
            consumed.fresh,
            _list_state(consumed.distinct),
            0 if past is None else past.logged,
            consumed.uncounted,
        )
    return ConsumedState(
        consumed.updates,
        _element_columns(consumed.distinct),
        key_columns(()) if past is None else _keys_at(cells, past.slots),
        () if past is None else _values_at(past.values, past.slots),
        consumed.fresh,
        uncounted=consumed.uncounted,
    )


def _consumed(cells: Cells, pending: Pending, state: ConsumedState, source: _Source) -> Consumed:
    past: Past | None = None
    if source.logged is not None:
        past = source.reader.past(source.logged, state.past)
    elif pending.keeps_values and state.previous:
        slots = cells.grid.slots(*state.keys.apart())
        past = pending.new_past()
        past.put(slots, cells.column_of(state.previous))
    distinct: Elements[Element] = source.reader.elements(state.listed)
    distinct.update(dict.fromkeys(_elements(state.distinct)))
    if not pending.keeps_distinct:
        distinct = Elements()
    return Consumed(state.updates, distinct, past, state.fresh, state.uncounted)


def _keys_at(cells: Cells, slots: Array) -> KeyColumns:
    if not len(slots):
        return _NO_KEYS  # without a look at all rows
    rows, columns = cells.grid.keys(slots)
    known = sorted(set(columns), key=cells.grid.names.__getitem__)
    places = {number: place for place, number in enumerate(known)}
    names = tuple(cells.grid.names[number] for number in known)
    return KeyColumns(tuple(rows), tuple(map(places.__getitem__, columns)), names)
