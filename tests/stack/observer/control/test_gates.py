"""Gates on the control topic, in front of the real HBase."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import happybase
import pytest

from headgate.client import Thrift2Connection
from headgate.events import (
    VERSION,
    BarrierMark,
    Container,
    ContainerId,
    Gate,
    Item,
    Origin,
    UpdateBatch,
)
from headgate.observer import (
    GateSettings,
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)

pytestmark = pytest.mark.stack

LONG = 30.0  # seconds: beyond what a busy machine takes for what is tried meanwhile
SHORT = 1.0


@pytest.fixture
def observer(stack, subscriber, tmp_path: Path, request) -> Iterator[ObserverProcess]:
    config = ObserverConfig(
        name="gated",
        thrift1=Listener("127.0.0.1:0", str(stack.thrift1)),
        thrift2=Listener("127.0.0.1:0", str(stack.thrift2)),
        kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic),
        journal=JournalSettings(str(tmp_path / "journal")),
        gates=GateSettings(hold_seconds=getattr(request, "param", LONG)),
    )
    with ObserverProcess(config, tmp_path) as process:
        yield process


def connect(observer: ObserverProcess) -> happybase.Connection:
    return happybase.Connection(*observer.thrift1, timeout=30_000)


class Bound:
    """What an agent does with a bound that blocks writes."""

    def __init__(self, subscriber: Any, table: str, start: bytes = b"") -> None:
        self._subscriber = subscriber
        self._table = table
        self._start = start
        self._revision = 0

    def close(self, seconds: float) -> str:
        """Close the gate and return the id of a barrier behind it."""
        return self._say(time.time() + seconds, released=False)

    def release(self) -> None:
        self._say(0.0, released=True)

    def _say(self, until: float, *, released: bool) -> str:
        self._revision += 1
        item = Item(self._table, b"f", b"a", self._start)
        container = Container(ContainerId("c"), (item,))
        self._subscriber.send(
            Gate(
                VERSION,
                "flow",
                "step",
                "kappa",
                (container,),
                until,
                self._revision,
                released=released,
            )
        )
        barrier = self._subscriber.barrier(self._table)
        self._subscriber.read(self._table, barrier)
        return str(barrier)


class Writer:
    """A put in a thread of its own."""

    def __init__(self, observer: ObserverProcess, table: str, row: bytes) -> None:
        self.error: Exception | None = None
        self._table = connect(observer).table(table)
        self._row = row
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        try:
            self._table.put(self._row, {b"f:a": b"1"})
        except Exception as error:  # noqa: BLE001 - looked at by the test
            self.error = error

    def waits(self) -> bool:
        self._thread.join(0.3)
        return self._thread.is_alive()

    def end(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()


def test_a_foreign_write_waits_until_the_gate_is_released(
    stack, subscriber, observer: ObserverProcess
) -> None:
    name = stack.table("gates")
    subscriber.watch(name)
    bound = Bound(subscriber, name)
    bound.close(60)
    writer = Writer(observer, name, b"foreign")
    assert writer.waits()
    with Thrift2Connection(*observer.thrift2) as client:
        client.put(name, [(b"own", {b"f:a": b"1"})], origin=Origin("flow", "step", "r", 1))
    table = connect(observer).table(name)
    table.put(b"elsewhere", {b"f:b": b"1"})
    assert {row for row, _ in table.scan()} == {b"own", b"elsewhere"}
    bound.release()
    writer.end()
    assert writer.error is None
    assert table.row(b"foreign") == {b"f:a": b"1"}
    messages = subscriber.read(name, subscriber.barrier(name))
    published = {r for part in messages for m in part if isinstance(m, UpdateBatch) for r in m.rows}
    assert published == {b"own", b"elsewhere", b"foreign"}


@pytest.mark.parametrize("observer", [SHORT], indirect=True)
def test_a_write_that_is_held_too_long_gets_an_ioerror_that_names_the_bound(
    stack, subscriber, observer: ObserverProcess
) -> None:
    name = stack.table("gates")
    subscriber.watch(name)
    Bound(subscriber, name).close(60)
    client = connect(observer)
    began = time.monotonic()
    with pytest.raises(Exception, match="bound kappa of flow/step") as caught:
        client.table(name).put(b"r", {b"f:a": b"1"})
    assert type(caught.value).__name__ == "IOError"
    assert SHORT <= time.monotonic() - began < LONG
    assert client.table(name).row(b"r") == {}


def test_a_gate_whose_lease_is_not_renewed_opens(
    stack, subscriber, observer: ObserverProcess
) -> None:
    name = stack.table("gates")
    subscriber.watch(name)
    ends = time.time() + 3
    Bound(subscriber, name).close(3)
    writer = Writer(observer, name, b"r")
    writer.end()
    assert writer.error is None
    assert time.time() >= ends
    assert "its lease was not renewed" in observer.log.read_text()


def test_a_held_write_whose_client_is_gone_is_never_done(
    stack, subscriber, observer: ObserverProcess
) -> None:
    name = stack.table("gates")
    subscriber.watch(name)
    bound = Bound(subscriber, name)
    bound.close(60)
    leaving = happybase.Connection(*observer.thrift1, timeout=300)
    with pytest.raises(OSError, match="timed out"):
        leaving.table(name).put(b"gone", {b"f:a": b"1"})
    leaving.close()
    bound.release()
    connect(observer).table(name).put(b"there", {b"f:a": b"1"})
    assert {row for row, _ in stack.happybase().table(name).scan()} == {b"there"}


def test_behind_a_barrier_that_follows_a_gate_no_foreign_write_comes(
    stack, subscriber, observer: ObserverProcess
) -> None:
    name = stack.table("gates")
    subscriber.watch(name)
    bound = Bound(subscriber, name)
    done = threading.Event()
    written = [0] * 4

    def work(at: int) -> None:
        table = connect(observer).table(name)
        while not done.is_set():
            table.put(b"%d-%05d" % (at, written[at]), {b"f:a": b"x"})
            written[at] += 1

    threads = [threading.Thread(target=work, args=(at,), daemon=True) for at in range(4)]
    for thread in threads:
        thread.start()
    closed, opened = [], []
    for _ in range(3):
        before = sum(written)
        deadline = time.monotonic() + 60
        while sum(written) < before + 20:
            assert time.monotonic() < deadline, "nobody writes"
            time.sleep(0.01)
        closed.append(bound.close(60))
        there = len(list(stack.happybase().table(name).scan()))
        time.sleep(0.1)
        assert len(list(stack.happybase().table(name).scan())) == there
        opened.append(subscriber.barrier(name))
        subscriber.read(name, opened[-1])
        bound.release()
    done.set()
    for thread in threads:
        thread.join(30)
    for partition in subscriber.read(name, subscriber.barrier(name)):
        marks = [m.id if isinstance(m, BarrierMark) else "" for m in partition]
        for begin, end in zip(closed, opened, strict=True):
            between = partition[marks.index(begin) : marks.index(end)]
            assert not any(isinstance(message, UpdateBatch) for message in between)
