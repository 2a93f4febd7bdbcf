"""What agents believe of a state table into which somebody else writes too."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulation import SEALS, MemoryRows, TimedScanStore, TimedStore

from headgate.agent.errors import DamagedState, Held, UnknownDataflow
from headgate.agent.errors import Refused as RequestRefused
from headgate.agent.ports import Extent
from headgate.agent.state.saved_state import FlowProgress, SavedState
from headgate.agent.state.sealed import (
    Definition,
    Owner,
    RememberedRevisions,
    RowSetAside,
    RowState,
    Seals,
    sign,
    unsigned,
)
from headgate.agent.state.store import StateStore
from headgate.events import Cut
from headgate.settings import KeyRing

ONE = Owner("one", "1", "host:1")
TWO = Owner("two", "2", "host:2")
STRANGER = Owner("stranger", "9", "evil:9")
FLOW = b"flow/flow"
NESTED = b"\x81\xa1x" + b"\x91" * 100_000 + b"\xc0"
"""A map with a key that nobody knows, whose value is a list in a list in a list ..."""


@pytest.fixture
def rows() -> MemoryRows:
    return MemoryRows()


@pytest.fixture
def store(rows: MemoryRows) -> StateStore:
    made = agent(rows)
    made.define(defined("flow"))
    return made


def agent(rows: MemoryRows, seals: Seals = SEALS) -> StateStore:
    """Another agent, which has seen nothing yet."""
    return TimedStore(rows, seals, RememberedRevisions())


def ring(*keys: str) -> Seals:
    return Seals(KeyRing([key.encode() for key in keys]), "headgate")


def defined(name: str, source: str = "text", revision: int = 0) -> Definition:
    return Definition(name, source, ".", revision, 1.0)


def encoded(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


def state_of(store: StateStore, name: str = "flow") -> RowState | None:
    """Return why a dataflow is not run; None where it is."""
    listings = store.listings()
    found = {row.name: row.state for row in listings.set_aside}
    assert (name in found) != (name in {flow.definition.name for flow in listings.flows})
    return found.get(name)


def test_what_a_stranger_defines_is_listed_and_not_taken(
    store: StateStore, rows: MemoryRows
) -> None:
    rows.put(b"flow/evil", {b"spec:definition": encoded(defined("evil", revision=1))})
    assert state_of(store, "evil") is RowState.UNSIGNED
    before = dict(rows.rows[b"flow/evil"])
    with pytest.raises(RowSetAside, match="headgate flow sign evil"):
        store.acquire("evil", ONE, 10.0, 5.0)
    assert rows.rows[b"flow/evil"] == before


@pytest.mark.parametrize(
    "change",
    [
        {"source": "other"},
        {"directory": "/tmp/evil"},
        {"revision": 7},
        {"submitted": 2.0},
        {"profile": "cheap"},
        {"shadow": True},
    ],
    ids=str,
)
def test_each_field_of_a_definition_is_signed(
    store: StateStore, rows: MemoryRows, change: dict[str, object]
) -> None:
    signed = store.listing("flow").definition
    forged = msgspec.structs.replace(signed, **change)
    rows.put(FLOW, {b"spec:definition": encoded(forged)})
    assert state_of(store) is RowState.UNSIGNED


def test_a_definition_is_signed_for_its_row_and_its_table(
    store: StateStore, rows: MemoryRows
) -> None:
    rows.put(b"flow/copy", rows.get(FLOW))
    assert state_of(store, "copy") is RowState.DAMAGED
    elsewhere = agent(rows, Seals(KeyRing([b"the key of all scripted agents"]), "other"))
    assert state_of(elsewhere) is RowState.UNSIGNED


@pytest.mark.parametrize(
    ("row", "value"),
    [
        (b"flow/bad", b""),
        (b"flow/bad", b"\xc1"),
        (b"flow/bad", b"\x00" * 1_000_000),
        (b"flow/bad", NESTED),
        (b"flow/bad", encoded({"name": b"\xff"})),
        (b"flow/bad", b"\x81\xa4name\xa1\xff"),
        (b"flow/bad", encoded(defined("other", revision=1))),
        (b"flow/bad/worse", encoded(defined("bad/worse", revision=1))),
        (b"flow/", encoded(defined("", revision=1))),
        (b"flow/\xff\x1b[31m", encoded(defined("x", revision=1))),
    ],
    ids=repr,
)
def test_a_row_that_cannot_be_read_stops_no_other(
    store: StateStore, rows: MemoryRows, row: bytes, value: bytes
) -> None:
    rows.put(row, {b"spec:definition": value, b"spec:seal": SEALS.seal(row, b"x", value)})
    listings = store.listings()
    assert [flow.definition.name for flow in listings.flows] == ["flow"]
    (bad,) = listings.set_aside
    assert bad.state is RowState.DAMAGED
    assert bad.name.isprintable()
    assert "submit it again" in bad.words or "deleteall 'headgate'" in bad.words


@given(st.dictionaries(st.sampled_from([
    b"spec:definition", b"spec:seal", b"state:lease", b"state:lease-seal", b"state:epoch",
    b"state:meta", b"state:damaged", b"history:000000000001",
]), st.binary(max_size=40)))  # fmt: skip
def test_whatever_cells_a_row_has_it_is_taken_or_set_aside(cells: dict[bytes, bytes]) -> None:
    rows = MemoryRows()
    store = agent(rows)
    store.define(defined("flow"))
    store.save("flow", store.acquire("flow", ONE, 1.0, 5.0).epoch, saved(), (), 2.0)
    rows.put(FLOW, cells)
    for now in (10.0, 20.0):
        try:
            taken = store.acquire("flow", TWO, now, 5.0)
        except (Held, RowSetAside, DamagedState):
            continue
        assert taken.definition.source == "text"
        store.renew("flow", taken.epoch, TWO, now, 5.0)
        store.release("flow", taken.epoch)
    for now in (30.0, 40.0, 50.0):
        fresh = store.define(defined("flow", "corrected"))
        # A lease that nobody signed is respected at first; the next submit drops a damaged state.
        with suppress(Held, DamagedState):
            store.acquire("flow", TWO, now, 5.0)
    assert store.acquire("flow", TWO, 60.0, 5.0).definition == fresh


def saved() -> SavedState:
    return SavedState(b"state", Cut(), FlowProgress())


def test_a_replaced_definition_that_is_put_back_is_not_run(
    store: StateStore, rows: MemoryRows
) -> None:
    old = rows.get(FLOW)
    store.define(defined("flow", "corrected"))
    rows.put(FLOW, old)
    assert state_of(store) is RowState.OUTDATED


def test_an_agent_that_never_saw_the_newest_one_learns_of_it_by_the_lease(
    store: StateStore, rows: MemoryRows
) -> None:
    old = {cell: value for cell, value in rows.get(FLOW).items() if cell.startswith(b"spec:")}
    store.define(defined("flow", "corrected"))
    store.acquire("flow", ONE, 10.0, 5.0)
    rows.put(FLOW, old)
    assert state_of(agent(rows)) is RowState.OUTDATED


def test_a_removed_dataflow_that_is_put_back_is_not_run(
    store: StateStore, rows: MemoryRows
) -> None:
    other = agent(rows)
    whole = rows.get(FLOW)
    store.remove("flow", store.acquire("flow", ONE, 10.0, 5.0).epoch)
    other.listings()
    rows.put(FLOW, {cell: value for cell, value in whole.items() if cell.startswith(b"spec:")})
    assert state_of(agent(rows)) is RowState.OUTDATED
    rows.delete(FLOW)
    rows.put(FLOW, whole)
    assert state_of(store) is RowState.OUTDATED
    assert state_of(other) is RowState.OUTDATED


def test_what_is_submitted_after_a_removal_is_run(store: StateStore, rows: MemoryRows) -> None:
    store.remove("flow", store.acquire("flow", ONE, 10.0, 5.0).epoch)
    again = agent(rows).define(defined("flow"))
    assert again.revision > 1
    assert store.acquire("flow", TWO, 11.0, 5.0).definition == again


def test_a_table_that_was_emptied_begins_above_what_was_seen(store: StateStore) -> None:
    store.define(defined("flow", "other"))
    emptied = MemoryRows()
    seen = RememberedRevisions()
    seen.note("flow", 2)
    again = TimedStore(emptied, SEALS, seen)
    again.define(defined("flow"))
    assert state_of(again) is None


def test_a_row_of_an_earlier_version_is_run_after_it_was_signed(
    store: StateStore, rows: MemoryRows
) -> None:
    value = encoded(defined("old", revision=5))
    rows.put(b"flow/old", {b"spec:definition": value})
    shown = store.definition_bytes("old")
    store.sign("old", shown, sign(SEALS, "old", shown))
    assert state_of(store, "old") is None
    assert agent(rows).acquire("old", ONE, 10.0, 5.0).definition == unsigned("old", value)


def test_nobody_signs_with_another_key(store: StateStore, rows: MemoryRows) -> None:
    value = encoded(defined("evil", revision=1))
    rows.put(b"flow/evil", {b"spec:definition": value})
    seal = sign(ring("another key"), "evil", value)
    with pytest.raises(RowSetAside):
        store.sign("evil", value, seal)
    assert state_of(store, "evil") is RowState.UNSIGNED


def test_what_was_signed_is_what_was_looked_at(store: StateStore, rows: MemoryRows) -> None:
    value = encoded(defined("old", revision=1))
    seal = sign(SEALS, "old", value)
    rows.put(b"flow/old", {b"spec:definition": encoded(defined("old", "evil", 1))})
    with pytest.raises(RequestRefused, match="look again"):
        store.sign("old", value, seal)
    assert state_of(store, "old") is RowState.UNSIGNED


def test_a_row_that_is_not_run_is_removed_by_any_agent(store: StateStore, rows: MemoryRows) -> None:
    rows.put(b"flow/bad", {b"spec:definition": b"\xc1", b"state:epoch": b"?", b"state:x": b"1"})
    store.discard("bad", ONE, 10.0)
    with pytest.raises(UnknownDataflow):
        store.listing("bad")
    assert store.listings().set_aside == ()


def test_a_submit_replaces_a_row_that_cannot_be_read(store: StateStore, rows: MemoryRows) -> None:
    rows.put(FLOW, {b"spec:definition": b"\xc1"})
    store.define(defined("flow", "corrected"))
    assert state_of(store) is None


# -- keys that follow one another --------------------------------------------------------------


def test_of_two_keys_both_are_believed_and_the_first_signs(rows: MemoryRows) -> None:
    agent(rows, ring("old key")).define(defined("flow"))
    both = agent(rows, ring("new key", "old key"))
    assert state_of(both) is None
    both.acquire("flow", ONE, 10.0, 5.0)
    assert state_of(agent(rows, ring("new key"))) is None


def test_a_key_that_was_taken_away_is_not_believed(rows: MemoryRows) -> None:
    agent(rows, ring("old key")).define(defined("flow"))
    assert state_of(agent(rows, ring("new key"))) is RowState.UNSIGNED


# -- leases ------------------------------------------------------------------------------------


def lease(owner: Owner, epoch: int = 1, until: float = 1e12) -> bytes:
    return encoded({"epoch": epoch, "owner": encode_owner(owner), "until": until, "revision": 99})


def encode_owner(owner: Owner) -> dict[str, str]:
    return msgspec.structs.asdict(owner)


@pytest.mark.parametrize(
    "forged", [lease(STRANGER), b"", b"\xc1", NESTED], ids=["read", "empty", "cut", "nested"]
)
def test_a_forged_lease_sends_no_request_anywhere(
    store: StateStore, rows: MemoryRows, forged: bytes
) -> None:
    store.acquire("flow", ONE, 10.0, 5.0)
    rows.put(FLOW, {b"state:lease": forged})
    found = store.listing("flow")
    assert found.lease.owner is None
    assert found.doubt


def test_a_lease_of_another_dataflow_is_none_of_this_one(
    store: StateStore, rows: MemoryRows
) -> None:
    store.define(defined("other"))
    store.acquire("other", TWO, 10.0, 5.0)
    rows.put(FLOW, {c: v for c, v in rows.get(b"flow/other").items() if c.startswith(b"state:")})
    assert store.listing("flow").lease.owner is None


def test_the_owner_of_a_lease_that_was_written_over_keeps_the_dataflow(
    store: StateStore, rows: MemoryRows
) -> None:
    epoch = store.acquire("flow", ONE, 10.0, 5.0).epoch
    rows.put(FLOW, {b"state:lease": lease(STRANGER)})
    with pytest.raises(Held):
        store.acquire("flow", TWO, 11.0, 5.0)
    store.renew("flow", epoch, ONE, 11.0, 5.0)
    with pytest.raises(Held, match="one"):
        store.acquire("flow", TWO, 15.0, 5.0)


def test_a_forged_lease_that_nobody_renews_ends(store: StateStore, rows: MemoryRows) -> None:
    epoch = store.acquire("flow", ONE, 10.0, 5.0).epoch
    rows.put(FLOW, {b"state:lease": lease(STRANGER)})
    with pytest.raises(Held):
        store.acquire("flow", TWO, 20.0, 5.0)
    assert store.acquire("flow", TWO, 25.0, 5.0).epoch == epoch + 1


def test_an_agent_of_an_earlier_version_that_renews_its_lease_keeps_it(
    store: StateStore, rows: MemoryRows
) -> None:
    for now in range(10, 40, 3):
        old = {"epoch": 4, "owner": encode_owner(ONE), "until": now + 5.0}
        rows.put(FLOW, {b"state:lease": encoded(old), b"state:epoch": (4).to_bytes(8, "big")})
        with pytest.raises(Held):
            store.acquire("flow", TWO, now + 1.0, 5.0)
    assert store.acquire("flow", TWO, 60.0, 5.0).epoch == 5


@pytest.mark.parametrize("forged", [-1, 0, 1 << 62, (1 << 63) - 1])
def test_no_forged_epoch_uses_the_numbers_up_or_sets_them_back(
    store: StateStore, rows: MemoryRows, forged: int
) -> None:
    store.acquire("flow", ONE, 10.0, 5.0)
    rows.put(FLOW, {b"state:epoch": forged.to_bytes(8, "big", signed=True)})
    assert store.acquire("flow", TWO, 20.0, 5.0).epoch == 2
    rows.put(FLOW, {b"state:lease": lease(STRANGER, epoch=forged)})
    with pytest.raises(Held):
        store.acquire("flow", ONE, 30.0, 5.0)
    assert store.acquire("flow", ONE, 40.0, 5.0).epoch == 3


# -- scans -------------------------------------------------------------------------------------


def test_a_damaged_wish_or_progress_of_a_scan_counts_as_none(rows: MemoryRows) -> None:
    scans = TimedScanStore(rows, SEALS)
    scans.want("t", "flow", Extent(5.0, (), b"", None))
    rows.put(b"scan/t", {b"spec:wanted.bad": b"\xc1", b"state:progress": b"\xc1"})
    assert scans.wanted("t") == Extent(5.0, (), b"", None)
    assert scans.progress("t") is None


def test_a_forged_lease_of_a_scan_ends(rows: MemoryRows) -> None:
    scans = TimedScanStore(rows, SEALS)
    rows.put(b"scan/t", {b"state:lease": lease(STRANGER)})
    with pytest.raises(Held):
        scans.acquire("t", ONE, 10.0, 5.0)
    assert scans.acquire("t", ONE, 15.0, 5.0) == (2, None)


def test_the_cure_for_a_strangers_row_quotes_its_name(store: StateStore, rows: MemoryRows) -> None:
    name = "x; rm -rf ~"
    rows.put(f"flow/{name}".encode(), {b"spec:definition": encoded(defined(name, revision=1))})
    with pytest.raises(RowSetAside) as caught:
        store.acquire(name, ONE, 10.0, 5.0)
    commands = re.findall("`([^`]*)`", str(caught.value))
    assert [shlex.split(command)[1:] for command in commands] == [
        ["flow", "sign", name],
        ["flow", "remove", name],
    ]
