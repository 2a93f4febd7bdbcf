"""Stages for threads that carry dataflows: their records, leases, scans and reads."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from simulation import SEALS, MemoryRows
from thread_faults import WAIT, Faults, Heard, Log, never, until

from headgate.agent.configuration import KafkaOptions
from headgate.agent.kafka import broker as brokers
from headgate.agent.kafka import feeds
from headgate.agent.kafka.broker import KafkaBroker
from headgate.agent.kafka.feed import FeedRecord
from headgate.agent.kafka.feeds import Feeds
from headgate.agent.kafka.observers import ObserverTable
from headgate.agent.metrics import AgentMetrics
from headgate.agent.ownership.leases import LeaseManager, LeaseSettings
from headgate.agent.ports import Extent
from headgate.agent.scans.container_rows import RowsLimit
from headgate.agent.scans.hosting import ScanSettings, TableScans
from headgate.agent.scans.reader import TableScanner
from headgate.agent.scans.store import ScanStore
from headgate.agent.state.rows import HBaseConnections
from headgate.agent.state.sealed import Definition, Owner, RememberedRevisions
from headgate.agent.state.store import StateStore
from headgate.events import (
    VERSION,
    Cut,
    Gap,
    ObserverLease,
    encode_control,
    encode_update,
    updates_topic,
)

DATAFLOW = "name: flow\ncontainers: {c: t f:v}\nactions: {feed: {input: c}}\n"


def a_feed(heard: Heard, patch: pytest.MonkeyPatch, _: Path) -> None:
    """Every record is taken, those under way at the error included."""
    gap = encode_update(Gap(VERSION, "o", 1, 0, "t", 0.0, 1.0, "test"))
    values = [gap, None, *[gap] * 20]
    patch.setattr(feeds, "Consumer", Log("t", values, Faults(after=9)))
    taken: list[FeedRecord] = []

    def deliver(records: Sequence[FeedRecord]) -> bool:
        taken.extend(records)
        return True

    shared = Feeds({}, heard.supervision, lambda _: {})
    shared.feed({"t": 1}, Cut({"t": (0,)}), deliver)
    until(lambda: {r.offset for r in taken} == set(range(len(values))), "records are missing")
    shared.close()
    assert [r.offset for r in taken if r.message is None] == [1]
    assert [r.offset for r in taken] == list(range(len(values)))


def the_control_topic(heard: Heard, patch: pytest.MonkeyPatch, _: Path) -> None:
    """Leases are heard on, and the message at which it failed is not met again."""
    leases = [
        encode_control(ObserverLease(VERSION, f"o{n}", 1, 1e9, {})) if n != 3 else b"damaged"
        for n in range(8)
    ]
    patch.setattr(brokers, "Consumer", Log("control", leases, Faults(after=4)))
    observers = ObserverTable(0.0)
    broker = KafkaBroker(KafkaOptions("127.0.0.1:1"), observers, heard.supervision, lambda _: None)
    broker._reader.start()
    until(lambda: len(observers.live(time.time())) == 7, "leases are missing")
    broker.halt()
    broker._reader.join()


class Runtimes:
    """Runtimes that do nothing but run; whether one fails is up to the test."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.built = 0

    def build(self, hosted: Any, ownership: Any, dataflow: Any) -> Any:
        self.built += 1

        def tick(_: float) -> None:
            self.faults()

        return SimpleNamespace(
            definition=ownership.definition,
            start=lambda now: None,
            due=lambda: time.time() + 0.01,
            tick=tick,
            drain=lambda: None,
            idle=True,
            stop=lambda now, save: None,
        )


class Group:
    """A state table with one dataflow, and an agent that takes it over."""

    def __init__(
        self,
        heard: Heard,
        *,
        runtime: Faults | None = None,
        poll: Faults | None = None,
        listing: Faults | None = None,
        renewal: Faults | None = None,
    ) -> None:
        self.rows = MemoryRows()
        store = self.store = StateStore(self.rows, SEALS, RememberedRevisions())
        store.define(Definition("flow", DATAFLOW, ".", 0, 1.0))
        self.renewed = threading.Event()
        listings, beat = store.listings, store.beat

        def listings_or_fault() -> Any:
            if listing is not None:
                listing()
            return listings()

        def beat_or_fault(*arguments: Any, **named: Any) -> None:
            if renewal is not None:
                renewal()
            beat(*arguments, **named)
            self.renewed.set()

        store.listings = listings_or_fault  # type: ignore[method-assign]
        store.beat = beat_or_fault  # type: ignore[method-assign]
        self.runtimes = Runtimes(runtime or never())
        self.log = Log("flows", [], poll or never())
        self.halting = threading.Event()
        self.leases = LeaseManager(
            LeaseSettings(
                store=store,
                broker=cast("KafkaBroker", SimpleNamespace(flow_partitions=16, group=self.log)),
                group="g",
                owner=Owner("agent", "1", ""),
                lease=0.3,
                build=self.runtimes.build,
                refusal=lambda dataflow, definition: None,
                ended=lambda name: None,
                threads=4,
                supervision=heard.supervision,
            ),
            self.halting,
        )
        self.leases.start()

    def until_hosted(self, *, again: bool = False) -> None:
        times = 2 if again else 1
        until(
            lambda: self.runtimes.built >= times and self.leases.hosted("flow") is not None,
            "the dataflow does not run",
        )

    def stop(self) -> None:
        self.leases.stop(0.0)
        assert self.leases.join(WAIT)
        self.halting.set()
        self.leases.close()


def a_dataflow(heard: Heard, _: pytest.MonkeyPatch, __: Path) -> None:
    """It is taken again, and meanwhile nothing says that it runs."""
    group = Group(heard, runtime=Faults(after=3))
    group.until_hosted(again=True)
    group.stop()


def membership(heard: Heard, _: pytest.MonkeyPatch, __: Path) -> None:
    """It joins the group again."""
    group = Group(heard, poll=Faults(after=2))
    until(lambda: group.log.opened == 2, "it has not joined again")
    group.until_hosted()
    group.stop()


def adopting(heard: Heard, _: pytest.MonkeyPatch, __: Path) -> None:
    """The dataflow is taken all the same."""
    group = Group(heard, listing=Faults())
    group.until_hosted()
    group.stop()


def leases(heard: Heard, _: pytest.MonkeyPatch, __: Path) -> None:
    """The lease is renewed the next time."""
    group = Group(heard, renewal=Faults())
    assert group.renewed.wait(WAIT)
    group.stop()


def a_scan(heard: Heard, _: pytest.MonkeyPatch, __: Path) -> None:
    """The scans of the table begin again."""
    faults = Faults()
    begun = threading.Event()

    def topics(tables: Sequence[str]) -> dict[str, int]:
        faults()
        return {updates_topic(table): 1 for table in tables}

    def feed(*_: Any) -> Any:
        begun.set()
        return SimpleNamespace(close=lambda: None)

    scans = TableScans(
        ScanSettings(
            store=ScanStore(MemoryRows(), SEALS),
            broker=SimpleNamespace(
                topics=topics,
                ends=lambda topics: Cut(dict.fromkeys(topics, (0,))),
                feed=feed,
                control=lambda _: None,
            ),
            reader=SimpleNamespace(),
            observers=ObserverTable(0.0),
            owner=Owner("agent", "1", ""),
            requester="agent",
            rows=10,
            window=1000,
            clock_skew=0.0,
            barrier_repeat=1.0,
            lease=10.0,
            metrics=AgentMetrics(),
            supervision=heard.supervision,
        )
    )
    scans.want("flow", {"t": Extent(10.0)})
    assert begun.wait(WAIT)
    scans.close()


def reading(heard: Heard, _: pytest.MonkeyPatch, __: Path) -> None:
    """Whoever waits for cells has them; until then the trouble is named."""
    faults = Faults()
    troubles: list[str | None] = []

    def call(what: Any, patience: float) -> Any:
        if faults.done.is_set():
            troubles.append(scanner.trouble("t"))
        faults()
        return "cells"

    answers: queue.Queue[Any] = queue.Queue()
    connections = cast("HBaseConnections", SimpleNamespace(call=call))
    scanner = TableScanner(connections, heard.supervision, RowsLimit(10, 1000))
    scanner.read("t", [b"r"], [b"f:v"], answers.put)
    assert answers.get(timeout=WAIT) == "cells"
    scanner.close()
    assert troubles == ["TypeError: injected"]
    assert scanner.trouble("t") is None
