"""The observer while Kafka or HBase's Thrift server dies: on a stack of its own."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import happybase
import Hbase_thrift  # made by happybase when it is imported
import pytest

from headgate.events import Outcome, UpdateBatch, UpdateMessage
from headgate.local import Addresses, LocalStack, Part
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)

pytestmark = pytest.mark.stack

Start = Callable[..., ObserverProcess]
_MIB = 1 << 20


@pytest.fixture
def table(addresses: Addresses) -> str:
    name = f"faults_{uuid.uuid4().hex[:12]}"
    connection = happybase.Connection(*addresses.thrift1)
    connection.create_table(name, {"f": {}})
    connection.close()
    return name


@pytest.fixture
def start(addresses: Addresses, fragile_subscriber, tmp_path: Path) -> Iterator[Start]:
    started: list[ObserverProcess] = []

    def begin(**journal) -> ObserverProcess:
        config = ObserverConfig(
            name="o1",
            thrift1=Listener("127.0.0.1:0", str(addresses.thrift1)),
            kafka=KafkaSettings(
                addresses.kafka, control_topic=fragile_subscriber.control_topic, partitions=4
            ),
            journal=JournalSettings(str(tmp_path / "journal"), **journal),
            lease_seconds=1.5,
            shutdown_seconds=3.0,
        )
        process = ObserverProcess(config, tmp_path)
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.running():
            process.kill()


def connect(observer: ObserverProcess) -> happybase.Connection:
    host, port = observer.thrift1
    return happybase.Connection(host, port, timeout=60_000)


def health(observer: ObserverProcess) -> dict:
    host, port = observer.admin
    try:
        return json.load(urllib.request.urlopen(f"http://{host}:{port}/healthz", timeout=10))
    except urllib.error.HTTPError as error:
        return json.load(error)


def await_reason(observer: ObserverProcess, words: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not any(words in reason for reason in health(observer)["reasons"]):
        assert time.monotonic() < deadline, f"health never said {words!r}: {health(observer)}"
        time.sleep(0.1)


def rows_by_outcome(messages: list[list[UpdateMessage]]) -> dict[Outcome, set[bytes]]:
    found: dict[Outcome, set[bytes]] = {outcome: set() for outcome in Outcome}
    for partition in messages:
        for batch in partition:
            if isinstance(batch, UpdateBatch):
                rows = iter(batch.rows)
                for part in batch.requests:
                    found[part.outcome].update(next(rows) for _ in range(part.cells))
    return found


def test_writes_go_on_without_kafka_and_are_published_when_it_is_back(
    fragile: LocalStack, fragile_subscriber, table: str, start: Start
) -> None:
    observer = start()
    fragile_subscriber.watch(table)
    client = connect(observer).table(table)
    client.put(b"before", {b"f:a": b"1"})
    fragile.kill(Part.KAFKA)
    for i in range(200):
        client.put(b"during-%03d" % i, {b"f:a": b"%d" % i})
    await_reason(observer, "control topic cannot be read")
    unwatched = f"faults_{uuid.uuid4().hex[:12]}"
    connect(observer).create_table(unwatched, {"f": {}})
    connect(observer).table(unwatched).put(b"r", {b"f:a": b"1"})
    fragile.up()
    client.put(b"after", {b"f:a": b"1"})
    messages = fragile_subscriber.read(table, fragile_subscriber.barrier(table), seconds=120)
    expected = {b"before", b"after", *(b"during-%03d" % i for i in range(200))}
    assert rows_by_outcome(messages) == {Outcome.APPLIED: expected, Outcome.UNKNOWN: set()}
    for partition in messages:
        sequences = [message.sequence for message in partition]
        assert sequences == list(range(len(sequences)))
    deadline = time.monotonic() + 30
    while health(observer)["reasons"]:
        assert time.monotonic() < deadline, health(observer)
        time.sleep(0.1)


def test_with_a_full_journal_writes_get_an_error_and_reads_go_on(
    fragile: LocalStack, fragile_subscriber, table: str, start: Start
) -> None:
    observer = start(limit_bytes=_MIB, segment_bytes=_MIB // 8, block_seconds=0.5)
    fragile_subscriber.watch(table)
    client = connect(observer).table(table)
    fragile.kill(Part.KAFKA)
    value = b"x" * 50_000
    written: list[bytes] = []

    def write_until_refused() -> None:
        for i in range(100):
            row = b"%03d" % i
            client.put(row, {b"f:a": value})
            written.append(row)

    with pytest.raises(Hbase_thrift.IOError, match="journal is full"):
        write_until_refused()
    assert len(written) > 10
    assert client.row(written[0]) == {b"f:a": value}
    assert client.row(b"%03d" % len(written)) == {}
    fragile.up()
    deadline = time.monotonic() + 60
    while True:
        try:
            client.put(b"again", {b"f:a": b"1"})
            break
        except Hbase_thrift.IOError:
            assert time.monotonic() < deadline
    messages = fragile_subscriber.read(table, fragile_subscriber.barrier(table), seconds=120)
    assert rows_by_outcome(messages)[Outcome.APPLIED] == {*written, b"again"}


def test_an_end_without_kafka_leaves_the_events_to_the_next_start(
    fragile: LocalStack, fragile_subscriber, table: str, start: Start
) -> None:
    observer = start()
    fragile_subscriber.watch(table)
    client = connect(observer).table(table)
    fragile.kill(Part.KAFKA)
    for i in range(50):
        client.put(b"%d" % i, {b"f:a": b"1"})
    assert observer.stop() == 0
    assert "published at the next start" in observer.log.read_text()
    fragile.up()
    start()
    messages = fragile_subscriber.read(table, fragile_subscriber.barrier(table), seconds=120)
    assert rows_by_outcome(messages)[Outcome.UNKNOWN] == {b"%d" % i for i in range(50)}


def test_clients_are_told_while_the_thrift_server_is_gone_and_go_on_afterwards(
    fragile: LocalStack, fragile_subscriber, table: str, start: Start
) -> None:
    observer = start()
    fragile_subscriber.watch(table)
    client = connect(observer)
    client.table(table).put(b"before", {b"f:a": b"1"})
    fragile.kill(Part.THRIFT1)
    with pytest.raises((OSError, EOFError, Exception)):
        client.table(table).put(b"broken", {b"f:a": b"1"})
    with pytest.raises(Hbase_thrift.IOError, match="cannot be reached"):
        connect(observer).table(table).put(b"refused", {b"f:a": b"1"})
    fragile.up()
    connect(observer).table(table).put(b"after", {b"f:a": b"1"})
    found = rows_by_outcome(fragile_subscriber.read(table, fragile_subscriber.barrier(table)))
    assert found[Outcome.APPLIED] == {b"before", b"after"}
    assert found[Outcome.UNKNOWN] <= {b"broken"}
