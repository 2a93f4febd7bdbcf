"""Notify columns in the real HBase: set in the same row mutation, and never in the users' way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import happybase
import pytest
import thriftpy2
from confluent_kafka import Consumer, TopicPartition

from headgate.client import Thrift2Connection
from headgate.client.rows import Compare
from headgate.events import (
    VERSION,
    Notify,
    ObserverLease,
    Origin,
    UpdateBatch,
    Watch,
    WatchList,
    decode_control,
    decode_notify,
)
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)

pytestmark = pytest.mark.stack

FLOW = Origin("flow", "step", "flow/step/1", 1)
ONE = thriftpy2.load(
    str(Path(happybase.__file__).with_name("Hbase.thrift")), module_name="tests_one_thrift"
)
PUT = ONE.Mutation(column=b"f:a", value=b"1")
OTHER = Origin("other", "step", "other/step/1", 1)
COLUMNS = (Notify(), Notify("flow", ("flow",)))


@pytest.fixture
def observer(stack, subscriber, tmp_path: Path) -> Iterator[ObserverProcess]:
    config = ObserverConfig(
        name="notifying",
        thrift1=Listener("127.0.0.1:0", str(stack.thrift1)),
        thrift2=Listener("127.0.0.1:0", str(stack.thrift2)),
        kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic),
        journal=JournalSettings(str(tmp_path / "journal")),
    )
    with ObserverProcess(config, tmp_path) as process:
        yield process


@pytest.fixture
def first(observer: ObserverProcess) -> Iterator[happybase.Connection]:
    connection = happybase.Connection(*observer.thrift1, timeout=30_000)
    yield connection
    connection.close()


@pytest.fixture
def second(observer: ObserverProcess) -> Iterator[Thrift2Connection]:
    with Thrift2Connection(*observer.thrift2) as client:
        yield client


def notify(subscriber: Any, table: str, revision: int = 1) -> None:
    watches = tuple(Watch(table, notify=column) for column in COLUMNS)
    subscriber.send(WatchList(VERSION, "flow", revision, watches))
    subscriber.read(table, subscriber.barrier(table))


def content(stack, table: str) -> dict[bytes, dict[bytes, bytes]]:
    """Return the table's rows; of notify cells who is named there."""
    return {
        row: {
            column: decode_notify(value)[1].encode() if column.startswith(b"hg:") else value
            for column, value in cells.items()
        }
        for row, cells in stack.happybase().table(table).scan()
    }


ANY = {b"hg:all": b""}
OWN = {b"hg:all": FLOW.run.encode(), b"hg:flow": FLOW.run.encode()}


def test_each_row_that_is_written_gets_its_notify_cells_and_events_do_not(
    stack, subscriber, first: happybase.Connection, second: Thrift2Connection
) -> None:
    name = stack.table("notify", families=("f", "hg"))
    began = time.time()
    notify(subscriber, name)
    table = first.table(name)
    one = {b"f:a": b"1"}
    table.put(b"mutateRows", one)
    with table.batch() as batch:
        batch.put(b"batch-1", one)
        batch.put(b"batch-2", one)
        batch.delete(b"batch-3", [b"f:a"])
    client = first.client  # happybase itself sends mutateRows only
    client.mutateRow(name.encode(), b"mutateRow", [PUT], {})
    client.mutateRowTs(name.encode(), b"mutateRowTs", [PUT], 1000, {})
    second.put(name, [(b"own", one), (b"own-2", one)], origin=FLOW)
    second.put(name, [(b"other", one)], origin=OTHER)
    assert second.check_and_put(name, b"checked", b"f:a", None, one)
    second.mutate(name, b"mutated", one, [b"f:b"])
    second.mutate(name, b"only-deleted", {}, [b"f:b"])
    assert second.check_and_mutate(
        name, b"own", b"f:a", Compare.EQUAL, b"1", {b"f:a": b"2"}, [b"f:b"]
    )
    table.counter_inc(b"counter", b"f:n", 1)
    second.append(name, b"appended", one)
    assert content(stack, name) == {
        **dict.fromkeys((b"mutateRows", b"batch-1", b"batch-2", b"mutateRow"), one | ANY),
        b"batch-3": ANY,
        b"mutateRowTs": one | ANY,
        b"own": {b"f:a": b"2", b"hg:all": b"", b"hg:flow": FLOW.run.encode()},
        b"own-2": one | OWN,
        b"other": one | {b"hg:all": OTHER.run.encode()},
        b"checked": one | ANY,
        b"mutated": one | ANY,
        b"only-deleted": ANY,
        b"counter": {b"f:n": (1).to_bytes(8, "big")},
        b"appended": one,
    }
    raw = stack.happybase().table(name)
    when = decode_notify(raw.row(b"batch-1")[b"hg:all"])[0]
    assert began - 1 <= when <= time.time() + 1
    stamps = raw.row(b"mutateRowTs", include_timestamp=True)
    assert {stamp for _, stamp in stamps.values()} == {1000}
    messages = subscriber.read(name, subscriber.barrier(name))
    columns = {
        c for part in messages for m in part if isinstance(m, UpdateBatch) for c in m.columns
    }
    assert columns == {b"f:a", b"f:b", b"f:n"}


def stopped(subscriber: Any) -> list[tuple[str, ...]]:
    """Return what each lease on the control topic says of tables without notify cells."""
    consumer = Consumer({"bootstrap.servers": subscriber.kafka, "group.id": "t"})
    try:
        partition = TopicPartition(subscriber.control_topic, 0, 0)
        end = consumer.get_watermark_offsets(partition, timeout=10)[1]
        consumer.assign([partition])
        found, position = [], 0
        while position < end:
            for record in consumer.consume(100, 1.0):
                position = record.offset() + 1
                message = decode_control(record.value())
                if isinstance(message, ObserverLease):
                    found.append(message.unmarked)
        return found
    finally:
        consumer.close()


def test_a_missing_family_is_announced_and_writes_go_on_without(
    stack,
    subscriber,
    observer: ObserverProcess,
    first: happybase.Connection,
    second: Thrift2Connection,
) -> None:
    lacking = stack.table("notify")
    notify(subscriber, lacking)
    table = first.table(lacking)
    with pytest.raises(Exception, match="Column family hg does not exist"):
        table.put(b"refused", {b"f:a": b"1"})
    table.put(b"r", {b"f:a": b"1"})
    second.put(lacking, [(b"s", {b"f:a": b"1"})])
    assert content(stack, lacking) == {b"r": {b"f:a": b"1"}, b"s": {b"f:a": b"1"}}
    assert "notify columns are not set any more" in observer.log.read_text()
    subscriber.read(lacking, subscriber.barrier(lacking))
    deadline = time.monotonic() + 60
    while stopped(subscriber)[-1] != (lacking,):
        assert time.monotonic() < deadline
