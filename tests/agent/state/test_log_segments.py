"""Pieces of an engine's log beside its row: what counts wherever a save ends, and whoever saves."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from simulation import SEALS, MemoryRows, TimedStore

from headgate.agent.errors import DamagedState, Fenced
from headgate.agent.state.log_segments import CHUNK, first_segment
from headgate.agent.state.saved_state import FlowProgress, SavedState
from headgate.agent.state.sealed import Definition, Owner, RememberedRevisions
from headgate.agent.state.store import Ownership, StateStore
from headgate.engine import Kept, LogChange, LogSegment
from headgate.events import Cut

ONE = Owner("one", "1", "host:1")
TWO = Owner("two", "2", "host:2")
LONG = bytes(range(256)) * (CHUNK // 100)


class Ended(Exception):
    """The process ended here."""


class Clock:
    """Ends a process at a point; counts points."""

    def __init__(self) -> None:
        self.points = 0
        self.end = 0

    def __call__(self) -> None:
        self.points += 1
        if self.points == self.end:
            raise Ended


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rows(clock: Clock) -> MemoryRows:
    return MemoryRows(clock)


@pytest.fixture
def store(rows: MemoryRows) -> StateStore:
    made = TimedStore(rows, SEALS, RememberedRevisions())
    made.define(Definition("flow", "text", ".", 0, 1.0))
    return made


def number(epoch: int, counter: int) -> int:
    return first_segment(epoch) + counter


def first_save(epoch: int) -> SavedState:
    """Two streams, one of them with a segment of several cells."""
    written = (
        LogSegment("a", number(epoch, 0), LONG),
        LogSegment("c", number(epoch, 0), b"cells"),
        LogSegment("c", number(epoch, 1), b"more cells"),
    )
    kept = (
        Kept("a", number(epoch, 0), number(epoch, 1)),
        Kept("c", number(epoch, 0), number(epoch, 2)),
    )
    return SavedState(b"first", Cut(), FlowProgress(), LogChange(written, kept))


def second_save(epoch: int) -> SavedState:
    """One segment more, one that is not needed any more."""
    written = (LogSegment("c", number(epoch, 2), b"changed"),)
    kept = (
        Kept("a", number(epoch, 0), number(epoch, 1)),
        Kept("c", number(epoch, 1), number(epoch, 3)),
    )
    dropped = (Kept("c", number(epoch, 0), number(epoch, 1)),)
    return SavedState(b"second", Cut(), FlowProgress(), LogChange(written, kept, dropped))


FIRST = (b"first", [LONG, b"cells", b"more cells"])
SECOND = (b"second", [LONG, b"more cells", b"changed"])


def found(store: StateStore, now: float) -> tuple[bytes, list[bytes]] | None:
    """Take the dataflow over and return its state."""
    taken = store.acquire("flow", TWO, now, 5.0)
    if taken.state is None:
        return None
    return taken.state.snapshot, list(read(store, taken))


def read(store: StateStore, taken: Ownership) -> Iterator[bytes]:
    assert taken.state is not None
    return store.segments(taken.definition, taken.epoch, taken.state.log.kept)


def names(rows: MemoryRows) -> list[bytes]:
    return rows.names(b"cells/", b"cells0")


def save_both(store: StateStore) -> None:
    store.define(Definition("flow", "text", ".", 0, 1.0))
    epoch = store.acquire("flow", ONE, 10.0, 5.0).epoch
    store.save("flow", epoch, first_save(epoch), (), 11.0)
    store.save("flow", epoch, second_save(epoch), (), 12.0)


def test_pieces_come_back_in_their_order(store: StateStore) -> None:
    save_both(store)
    assert found(store, 20.0) == SECOND


def test_wherever_a_save_ends_the_next_owner_has_the_last_checkpoint_and_nothing_else(
    store: StateStore, rows: MemoryRows, clock: Clock
) -> None:
    rows.rows.clear()
    clock.points = 0
    save_both(store)
    whole = clock.points
    seen = []
    for end in range(3, whole + 1):  # the first two are the submit and the acquisition
        rows.rows.clear()
        clock.points, clock.end = 0, end
        with pytest.raises(Ended):
            save_both(store)
        state = found(store, 20.0)
        kept = {FIRST[0]: 3, SECOND[0]: 3}.get(state[0], 0) if state is not None else 0
        assert len(names(rows)) == kept, "something is left that nothing names"
        seen.append(state)
    # Five cells and the row; one cell and the row; and what is then deleted.
    assert seen == [None] * 6 + [FIRST] * 2 + [SECOND]


def test_whoever_was_taken_over_changes_nothing_and_is_not_believed(
    store: StateStore, rows: MemoryRows
) -> None:
    stale = store.acquire("flow", ONE, 10.0, 5.0).epoch
    store.save("flow", stale, first_save(stale), (), 11.0)
    assert found(store, 20.0) == FIRST
    with pytest.raises(Fenced):
        store.save("flow", stale, second_save(stale), (), 21.0)
    assert (b"cells/flow/c/%016x" % number(stale, 2)) in names(rows)
    assert found(store, 30.0) == FIRST
    assert len(names(rows)) == 3


def test_the_next_owner_writes_under_numbers_of_its_own(store: StateStore) -> None:
    stale = store.acquire("flow", ONE, 10.0, 5.0).epoch
    store.save("flow", stale, first_save(stale), (), 11.0)
    epoch = store.acquire("flow", TWO, 20.0, 5.0).epoch
    added = LogSegment("c", number(epoch, 0), b"new")
    kept = (*first_save(stale).log.kept, Kept("c", number(epoch, 0), number(epoch, 1)))
    store.save(
        "flow",
        epoch,
        SavedState(b"third", Cut(), FlowProgress(), LogChange((added,), kept)),
        (),
        21.0,
    )
    with pytest.raises(Fenced):
        store.save("flow", stale, second_save(stale), (), 22.0)
    assert found(store, 30.0) == (b"third", [*FIRST[1], b"new"])


def test_a_missing_piece_is_told_with_the_cure(store: StateStore, rows: MemoryRows) -> None:
    save_both(store)
    del rows.rows[names(rows)[1]]
    with pytest.raises(DamagedState, match="is missing; submit the dataflow again"):
        found(store, 20.0)
    with pytest.raises(DamagedState):
        found(store, 30.0)


def test_a_damaged_dataflow_begins_anew_when_it_is_submitted_again(
    store: StateStore, rows: MemoryRows
) -> None:
    save_both(store)
    del rows.rows[names(rows)[1]]
    with pytest.raises(DamagedState):
        found(store, 20.0)
    store.define(Definition("flow", "text", ".", 0, 21.0))
    assert found(store, 30.0) is None
    assert names(rows) == []
    epoch = store.acquire("flow", ONE, 40.0, 5.0).epoch
    store.save("flow", epoch, first_save(epoch), (), 41.0)
    assert found(store, 50.0) == FIRST


@pytest.mark.parametrize("column", [b"state:00000", b"state:00001", b"state:seal"])
def test_a_piece_that_is_not_whole_is_not_used(
    store: StateStore, rows: MemoryRows, column: bytes
) -> None:
    save_both(store)
    segment = rows.rows[names(rows)[0]]
    segment[column] = segment[column][:-1] + b"?"
    with pytest.raises(DamagedState, match="not whole"):
        found(store, 20.0)


def test_pieces_that_the_next_owner_has_dropped_are_no_damage(
    store: StateStore, rows: MemoryRows
) -> None:
    save_both(store)
    slow = store.acquire("flow", ONE, 20.0, 5.0)
    assert slow.state is not None
    reading = read(store, slow)
    epoch = store.acquire("flow", TWO, 30.0, 5.0).epoch
    everything = LogChange(dropped=slow.state.log.kept)
    store.save("flow", epoch, SavedState(b"small", Cut(), FlowProgress(), everything), (), 31.0)
    assert names(rows) == []
    with pytest.raises(Fenced):
        list(reading)


def test_a_removed_dataflow_leaves_no_segment(store: StateStore, rows: MemoryRows) -> None:
    other = Definition("flow2", "text", ".", 0, 1.0)
    store.define(other)
    epoch = store.acquire("flow2", ONE, 10.0, 5.0).epoch
    store.save("flow2", epoch, first_save(epoch), (), 11.0)
    save_both(store)
    store.remove("flow", 1)
    assert {row.split(b"/")[1] for row in names(rows)} == {b"flow2"}


def test_a_row_from_before_there_were_pieces_is_read(store: StateStore, rows: MemoryRows) -> None:
    epoch = store.acquire("flow", ONE, 10.0, 5.0).epoch
    store.save("flow", epoch, SavedState(b"old", Cut(), FlowProgress(waves=2)), (), 11.0)
    row = rows.rows[b"flow/flow"]
    meta = msgspec.msgpack.decode(row[b"state:meta"])
    del meta["kept"]
    row[b"state:meta"] = msgspec.msgpack.encode(meta)
    taken = store.acquire("flow", TWO, 20.0, 5.0)
    assert taken.state == SavedState(b"old", Cut(), FlowProgress(waves=2))
