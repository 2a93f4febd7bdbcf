"""One row per dataflow: leases, epochs and whole checkpoints."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
from simulation import SEALS, MemoryRows, TimedStore

from headgate.agent.errors import DamagedState, Fenced, Held, UnknownDataflow
from headgate.agent.state.run_records import RunOutcome, RunRecord, record_column, records_in
from headgate.agent.state.saved_state import CHUNK, FlowProgress, SavedState
from headgate.agent.state.sealed import Definition, Owner, RememberedRevisions
from headgate.agent.state.store import Listings, StateStore
from headgate.events import Cut

ONE = Owner("one", "1", "host:1")
TWO = Owner("two", "2", "host:2")


@pytest.fixture
def rows() -> MemoryRows:
    return MemoryRows()


@pytest.fixture
def store(rows: MemoryRows) -> StateStore:
    store = TimedStore(rows, SEALS, RememberedRevisions())
    store.define(Definition("flow", "text", ".", 0, 1.0))
    return store


def state(snapshot: bytes = b"state") -> SavedState:
    return SavedState(snapshot, Cut({"t": (1, 2)}), FlowProgress(waves=3))


def record(number: int) -> RunRecord:
    return RunRecord(number, "run", "a", 1, "why", "write", RunOutcome.RUNNING, 1.0)


def test_a_record_of_before_has_no_identity() -> None:
    """Read the record of an attempt as the version before wrote it."""
    known = {name: getattr(record(7), name) for name in RunRecord.__struct_fields__}
    del known["identity"]
    cells = {record_column(7): msgspec.msgpack.encode(known)}

    assert records_in("flow", cells) == (record(7),)


def test_each_submit_of_a_name_is_a_new_revision(store: StateStore) -> None:
    again = store.define(Definition("flow", "other", ".", 0, 2.0))
    assert again.revision == 2
    assert store.listing("flow").definition == again


def test_an_unknown_name_is_told_with_the_command_that_lists_them(store: StateStore) -> None:
    with pytest.raises(UnknownDataflow, match="flow list"):
        store.listing("nobody")


def test_taking_over_raises_the_epoch(store: StateStore) -> None:
    first = store.acquire("flow", ONE, 10.0, 5.0)
    second = store.acquire("flow", TWO, 16.0, 5.0)
    assert (first.epoch, second.epoch) == (1, 2)


def test_a_lease_that_runs_keeps_others_away_and_says_whose_it_is(store: StateStore) -> None:
    store.acquire("flow", ONE, 10.0, 5.0)
    with pytest.raises(Held, match="one") as held:
        store.acquire("flow", TWO, 14.0, 5.0)
    assert (held.value.owner, held.value.until) == ("one", 15.0)


def test_a_renewed_lease_runs_on(store: StateStore) -> None:
    epoch = store.acquire("flow", ONE, 10.0, 5.0).epoch
    store.renew("flow", epoch, ONE, 15.0, 5.0)
    with pytest.raises(Held):
        store.acquire("flow", TWO, 19.0, 5.0)


def test_a_released_lease_is_free_at_once(store: StateStore) -> None:
    epoch = store.acquire("flow", ONE, 10.0, 5.0).epoch
    store.release("flow", epoch)
    assert store.acquire("flow", TWO, 10.1, 5.0).epoch == 2


def test_whoever_was_taken_over_can_neither_save_nor_renew_nor_release(store: StateStore) -> None:
    epoch = store.acquire("flow", ONE, 10.0, 5.0).epoch
    store.save("flow", epoch, state(b"old"), (), 11.0)
    store.acquire("flow", TWO, 16.0, 5.0)
    with pytest.raises(Fenced):
        store.save("flow", epoch, state(b"stale"), (record(0),), 17.0)
    with pytest.raises(Fenced):
        store.renew("flow", epoch, ONE, 25.0, 5.0)
    with pytest.raises(Fenced):
        store.release("flow", epoch)
    found = store.acquire("flow", TWO, 17.0, 5.0)
    assert found.state == state(b"old")
    assert found.history == ()


def test_a_removed_dataflow_fences_its_owner(store: StateStore) -> None:
    epoch = store.acquire("flow", ONE, 10.0, 5.0).epoch
    store.remove("flow", epoch)
    with pytest.raises(Fenced):
        store.save("flow", epoch, state(), (), 11.0)
    assert store.listings() == Listings((), ())


@pytest.mark.parametrize("size", [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_a_snapshot_of_any_size_comes_back(store: StateStore, size: int) -> None:
    epoch = store.acquire("flow", ONE, 10.0, 5.0).epoch
    store.save("flow", epoch, state(b"longer" * CHUNK), (), 11.0)
    store.save("flow", epoch, state(b"x" * size), (), 12.0)
    assert store.acquire("flow", ONE, 20.0, 5.0).state == state(b"x" * size)


def test_a_snapshot_that_is_not_whole_is_not_used(store: StateStore, rows: MemoryRows) -> None:
    epoch = store.acquire("flow", ONE, 10.0, 5.0).epoch
    store.save("flow", epoch, state(), (), 11.0)
    rows.rows[b"flow/flow"][b"state:snapshot.00000"] = b"stat!"
    with pytest.raises(DamagedState, match="submit the dataflow again"):
        store.acquire("flow", ONE, 20.0, 5.0)


def test_history_is_newest_first_without_what_was_trimmed(store: StateStore) -> None:
    epoch = store.acquire("flow", ONE, 10.0, 5.0).epoch
    store.save("flow", epoch, state(), tuple(map(record, range(5))), 11.0)
    store.trim("flow", (0, 1))
    assert [r.number for r in store.history("flow")] == [4, 3, 2]


class LostReplies(MemoryRows):
    """Repeats a change whose reply was lost, as connections do."""

    def check_and_put(
        self, row: bytes, column: bytes, expected: bytes | None, columns: Mapping[bytes, bytes]
    ) -> bool:
        super().check_and_put(row, column, expected, columns)
        return super().check_and_put(row, column, expected, columns)


def test_a_lost_reply_to_an_acquisition_does_not_cost_the_lease() -> None:
    lossy = TimedStore(LostReplies(), SEALS, RememberedRevisions())
    lossy.define(Definition("flow", "text", ".", 0, 1.0))
    assert lossy.acquire("flow", ONE, 10.0, 5.0).epoch == 1


def test_a_lost_reply_to_a_removal_is_no_fence() -> None:
    lossy = TimedStore(LostReplies(), SEALS, RememberedRevisions())
    lossy.define(Definition("flow", "text", ".", 0, 1.0))
    lossy.remove("flow", lossy.acquire("flow", ONE, 10.0, 5.0).epoch)
    assert lossy.listings() == Listings((), ())


def test_an_agent_that_takes_its_own_dataflow_again_has_a_new_epoch(store: StateStore) -> None:
    first = store.acquire("flow", ONE, 10.0, 5.0)
    assert store.acquire("flow", ONE, 10.1, 5.0).epoch == first.epoch + 1


def test_a_name_that_is_submitted_again_goes_on_above_the_epochs_of_the_removed(
    store: StateStore,
) -> None:
    epoch = store.acquire("flow", ONE, 10.0, 5.0).epoch
    store.save("flow", epoch, state(), (record(0),), 11.0)
    store.remove("flow", epoch)
    store.define(Definition("flow", "text", ".", 0, 12.0))
    found = store.acquire("flow", ONE, 13.0, 5.0)
    assert found.epoch > epoch
    assert (found.state, found.history) == (None, ())
