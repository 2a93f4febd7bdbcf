"""What the thread that takes dataflows over says of those that it does not take."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from dataflow_stages import Group
from simulation import SEALS, MemoryRows
from structlog.testing import capture_logs
from thread_faults import Heard, until

from headgate.agent.kafka.broker import KafkaBroker
from headgate.agent.ownership.leases import Doubts, LeaseManager, LeaseSettings
from headgate.agent.state.sealed import (
    Definition,
    Lease,
    Owner,
    RememberedRevisions,
    RowState,
    SetAside,
)
from headgate.agent.state.sealed.leases import EPOCH, LEASE, epoch_value
from headgate.agent.state.store import Listing, Listings, StateStore
from headgate.agent.supervision import Supervision

NOTHING = Listings((), ())
FORGED = Listings((), (SetAside("evil", RowState.UNSIGNED, "sign it"),))
OUTDATED = Listings((), (SetAside("flow", RowState.OUTDATED, "put back"),))
DOUBTFUL = Listings(
    (Listing(Definition("flow", "", ".", 1, 0.0), Lease(1, None, 0.0), "no agent signed it"),), ()
)


def said(doubts: Doubts, *found: Listings) -> list[tuple[str, str, str]]:
    """Return what is logged of some looks at the table."""
    with capture_logs() as lines:
        for listings in found:
            doubts.found(listings)
    return [(line["dataflow"], line["state"], line["reason"]) for line in lines]


def test_a_row_that_is_set_aside_is_logged_once_while_it_stands() -> None:
    logged = [("evil", "unsigned", "sign it")]
    assert said(Doubts(), FORGED, FORGED, FORGED) == logged
    assert said(Doubts(), FORGED, NOTHING, FORGED) == 2 * logged


def test_an_outdated_row_is_logged_when_it_still_stands_at_the_second_look() -> None:
    logged = [("flow", "outdated", "put back")]
    assert said(Doubts(), OUTDATED, NOTHING, OUTDATED) == []
    assert said(Doubts(), OUTDATED, OUTDATED, OUTDATED) == logged
    assert said(Doubts(), OUTDATED, OUTDATED, NOTHING, OUTDATED, OUTDATED) == 2 * logged


class LookedAt(MemoryRows):
    """Rows that another agent looks at between any two steps."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[Listings] = []
        self.other: StateStore | None = None

    def delete(self, row: bytes, columns: Iterable[bytes] = ()) -> None:
        if self.other is not None:
            self.looks.append(self.other.listings())
        super().delete(row, columns)


def test_an_ordinary_removal_is_not_logged_as_an_attack() -> None:
    rows = LookedAt()
    store = StateStore(rows, SEALS, RememberedRevisions())
    store.define(Definition("flow", "text", ".", 0, 1.0))
    epoch = store.acquire("flow", Owner("agent", "one", ""), 0.0, 5.0).epoch
    rows.other = StateStore(rows, SEALS, RememberedRevisions())
    store.remove("flow", epoch)
    (between,) = rows.looks
    assert [row.state for row in between.set_aside] == [RowState.OUTDATED]
    assert "removal was cut short" in between.set_aside[0].words
    assert said(Doubts(), between, store.listings()) == []


def test_a_lease_that_is_not_believed_is_logged_once_while_it_stands() -> None:
    assert said(Doubts(), DOUBTFUL, DOUBTFUL) == [("flow", "lease", "no agent signed it")]


def test_what_is_set_aside_is_counted_by_why_and_no_longer_than_it_stands() -> None:
    doubts = Doubts()
    none = {"damaged": 0, "unsigned": 0, "outdated": 0, "lease": 0}
    doubts.found(FORGED)
    assert doubts.counts() == none | {"unsigned": 1}
    doubts.found(DOUBTFUL)
    assert doubts.counts() == none | {"lease": 1}
    doubts.found(NOTHING)
    assert doubts.counts() == none


WAIT = 300.0  # seconds, on the busiest machine, until something that must happen counts as missing


class Looks:
    """An agent that takes dataflows over, of which none may run here, and its looks at the table.

    Each look waits until it is let, so that a test knows what it saw.
    """

    def __init__(self) -> None:
        self.store = StateStore(MemoryRows(), SEALS, RememberedRevisions())
        self._asked: queue.Queue[None] = queue.Queue()
        self._let: queue.Queue[None] = queue.Queue()
        listings = self.store.listings

        def let() -> Listings:
            self._asked.put(None)
            self._let.get(timeout=WAIT)
            return listings()

        self.store.listings = let  # type: ignore[method-assign]
        self._halting = threading.Event()
        partitions = [SimpleNamespace(partition=number) for number in range(16)]
        assigned = threading.Event()

        def subscribe(_: Any, on_assign: Any, **__: Any) -> None:
            on_assign(None, partitions)
            assigned.set()

        def poll(seconds: float) -> None:
            self._halting.wait(seconds)

        consumer = SimpleNamespace(subscribe=subscribe, poll=poll, close=lambda: None)
        broker = SimpleNamespace(flow_partitions=16, group=lambda _: consumer)
        self.leases = LeaseManager(
            LeaseSettings(
                store=self.store,
                broker=cast("KafkaBroker", broker),
                group="g",
                owner=Owner("agent", "1", ""),
                lease=3600.0,
                build=lambda *_: pytest.fail("it may not run here"),
                refusal=lambda *_: "it may not",
                ended=lambda _: None,
                threads=4,
                supervision=Supervision(lambda _: None),
            ),
            self._halting,
        )
        self.leases.start()
        assert assigned.wait(WAIT)
        self._asked.get(timeout=WAIT)

    def look(self) -> None:
        """Have it look at the table as it stands, and take what it may."""
        self._let.put(None)
        self.leases.look()
        self._asked.get(timeout=WAIT)

    def close(self) -> None:
        self.leases.stop(0.0)
        self._let.put(None)
        self._halting.set()
        self.leases.close()


@pytest.fixture
def looks() -> Any:
    made = Looks()
    yield made
    made.close()


FLOW = Definition(
    "flow", "name: flow\ncontainers: {c: t f:v}\nactions: {f: {input: c}}\n", ".", 0, 1.0
)


def test_what_could_not_run_is_counted_as_long_as_it_stands(looks: Looks) -> None:
    looks.store.define(FLOW)
    looks.look()
    assert looks.leases.broken_count() == 1
    looks.store.discard("flow", Owner("another", "2", ""), 2.0)
    looks.look()
    assert looks.leases.broken_count() == 0


def test_nor_is_it_counted_where_another_agent_has_it(looks: Looks) -> None:
    looks.store.define(FLOW)
    looks.look()
    looks.store.acquire("flow", Owner("another", "2", ""), 2.0, 3600.0)
    looks.look()
    assert looks.leases.broken_count() == 0


@pytest.fixture
def group() -> Any:
    made = Group(Heard())
    made.until_hosted()
    yield made
    made.stop()


def test_a_dataflow_that_was_taken_over_ends_here(group: Group) -> None:
    group.rows.put(b"flow/flow", {EPOCH: epoch_value(9)})
    group.until_hosted(again=True)
    assert group.store.listing("flow").lease.epoch == 10, "it ended, and was taken again"


def test_a_dataflow_whose_row_is_gone_ends_here(group: Group) -> None:
    group.rows.delete(b"flow/flow")
    until(lambda: group.leases.hosted("flow") is None, "it runs on")


def test_a_lease_that_was_written_over_is_written_again(group: Group) -> None:
    before = group.store.listing("flow").lease
    group.rows.put(b"flow/flow", {LEASE: b"forged"})
    until(lambda: not group.store.listing("flow").doubt, "it is not written again")
    after = group.store.listing("flow").lease
    assert (after.owner, after.epoch) == (before.owner, before.epoch)
    assert group.runtimes.built == 1


def test_a_lease_names_the_highest_revision_that_its_owner_knows(group: Group) -> None:
    revision = group.store.define(group.store.listing("flow").definition).revision
    until(lambda: group.store.listing("flow").lease.revision == revision, "it is not written")
