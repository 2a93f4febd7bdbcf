"""Events survive what disks and topics do: a full disk, small messages, a deleted topic, a host."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import happybase
import Hbase_thrift  # made by happybase when it is imported
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from headgate.events import Gap, Outcome, UpdateBatch, UpdateMessage, updates_topic
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
    WhenFull,
)
from headgate.observer.config import Acknowledge

pytestmark = pytest.mark.stack

Start = Callable[..., ObserverProcess]


@pytest.fixture
def subscriber(stack, make_subscriber):
    return make_subscriber(stack.kafka)


@pytest.fixture
def start(stack, subscriber, tmp_path: Path) -> Iterator[Start]:
    started: list[ObserverProcess] = []

    def begin(
        directory: Path = tmp_path / "journal",
        acknowledge: Acknowledge = Acknowledge.JOURNAL,
        **journal,
    ) -> ObserverProcess:
        config = ObserverConfig(
            name="o1",
            thrift1=Listener("127.0.0.1:0", str(stack.thrift1)),
            kafka=KafkaSettings(
                stack.kafka,
                control_topic=subscriber.control_topic,
                partitions=4,
                acknowledge=acknowledge,
            ),
            journal=JournalSettings(str(directory), **journal),
            lease_seconds=1.5,
        )
        process = ObserverProcess(config, tmp_path)
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.running():
            process.kill()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system can only be mounted by root")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def connect(observer: ObserverProcess) -> happybase.Connection:
    host, port = observer.thrift1
    return happybase.Connection(host, port, timeout=30_000)


def rows_of(messages: list[list[UpdateMessage]]) -> dict[Outcome, set[bytes]]:
    found: dict[Outcome, set[bytes]] = {outcome: set() for outcome in Outcome}
    for partition in messages:
        for batch in partition:
            if isinstance(batch, UpdateBatch):
                rows = iter(batch.rows)
                for part in batch.requests:
                    found[part.outcome].update(next(rows) for _ in range(part.cells))
    return found


def gaps_of(messages: list[list[UpdateMessage]]) -> list[Gap]:
    return [each for partition in messages for each in partition if isinstance(each, Gap)]


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return ballast


def test_on_a_full_disk_writes_are_refused_until_there_is_room(
    stack, subscriber, start: Start, small_disk: Path
) -> None:
    name = stack.table("durability")
    observer = start(small_disk / "journal", block_seconds=0.3)
    subscriber.watch(name)
    table = connect(observer).table(name)
    table.put(b"before", {b"f:a": b"1"})
    ballast = fill(small_disk)
    with pytest.raises(Hbase_thrift.IOError, match=r"No space left on device.*try again"):
        table.put(b"refused", {b"f:a": b"x" * 10_000})
    assert table.row(b"refused") == {}
    ballast.unlink()
    table.put(b"after", {b"f:a": b"x" * 10_000})
    observer.kill()
    start(small_disk / "journal")
    found = rows_of(subscriber.read(name, subscriber.barrier(name)))
    assert found[Outcome.APPLIED] | found[Outcome.UNKNOWN] == {b"before", b"after"}


def test_with_pass_writes_go_on_on_a_full_disk_and_the_gap_is_announced(
    stack, subscriber, start: Start, small_disk: Path
) -> None:
    name = stack.table("durability")
    observer = start(small_disk / "journal", when_full=WhenFull.PASS)
    subscriber.watch(name)
    table = connect(observer).table(name)
    ballast = fill(small_disk)
    began = time.time()
    table.put(b"passed", {b"f:a": b"x" * 10_000})
    assert table.row(b"passed")
    ballast.unlink()
    table.put(b"after", {b"f:a": b"1"})
    deadline = time.monotonic() + 20
    while not (gaps := gaps_of(messages := subscriber.read(name, subscriber.barrier(name)))):
        assert time.monotonic() < deadline, "no gap was announced"
    assert b"after" in rows_of(messages)[Outcome.APPLIED]
    assert all(began - 1 < gap.since <= gap.until for gap in gaps)


def test_a_damaged_journal_leaves_a_gap(stack, subscriber, start: Start, tmp_path: Path) -> None:
    name = stack.table("durability")
    observer = start()
    subscriber.watch(name)
    table = connect(observer).table(name)
    for i in range(20):
        table.put(b"%02d" % i, {b"f:a": b"1"})
    observer.kill()
    # As if none had been published, and one had been damaged.
    (segment,) = (tmp_path / "journal").glob("*.segment")
    for watermark in (tmp_path / "journal").glob("*.watermark"):
        watermark.write_bytes(bytes(24))
    data = segment.read_bytes()
    row = data.index(b"\0\0\0\x0207")
    at = data.rindex(b"mutateRow", 0, row)
    segment.write_bytes(data[:at] + b"X" + data[at + 1 :])
    start()
    messages = subscriber.read(name, subscriber.barrier(name))
    found = rows_of(messages)
    assert found[Outcome.UNKNOWN] >= {b"%02d" % i for i in (0, 1, 2, 3, 4, 5, 12, 19)}
    assert {gap.table for gap in gaps_of(messages)} == {name}
    assert all("the journal is damaged" in gap.reason for gap in gaps_of(messages))


def make_topic(stack, table: str, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": stack.kafka})
    topic = NewTopic(updates_topic(table), num_partitions=1, config=settings)
    admin.create_topics([topic])[updates_topic(table)].result(timeout=30)


def test_a_topic_that_takes_only_small_messages_gets_everything_in_small_ones(
    stack, subscriber, start: Start
) -> None:
    name = stack.table("durability")
    make_topic(stack, name, **{"max.message.bytes": "3000"})
    observer = start()
    subscriber.watch(name)
    table = connect(observer).table(name)
    rows = {b"%03d" % i for i in range(50)}
    with table.batch() as batch:
        for row in rows:
            batch.put(row, {b"f:a": b"x" * 200})
    table.put(b"large value", {b"f:a": b"x" * 10_000})
    table.put(b"large row" + b"x" * 5000, {b"f:a": b"1"})
    table.put(b"last", {b"f:a": b"1"})
    messages = subscriber.read(name, subscriber.barrier(name))
    assert rows_of(messages)[Outcome.APPLIED] == {*rows, b"large value", b"last"}
    values = {
        row: value
        for partition in messages
        for batch in partition
        if isinstance(batch, UpdateBatch)
        for row, value in zip(batch.rows, batch.values, strict=True)
    }
    assert all(values[row] == b"x" * 200 for row in rows)
    assert values[b"large value"] is None
    # A message behind the one that was refused may have been delivered before it: that is told too.
    others = [gap for gap in gaps_of(messages) if "out of order" not in gap.reason]
    assert ["max.message.bytes" in gap.reason for gap in others] == [True]


def test_a_topic_that_is_deleted_comes_back_and_writes_are_told_again(
    stack, subscriber, start: Start
) -> None:
    name = stack.table("durability")
    observer = start()
    subscriber.watch(name)
    table = connect(observer).table(name)
    table.put(b"before", {b"f:a": b"1"})
    subscriber.read(name, subscriber.barrier(name))
    admin = AdminClient({"bootstrap.servers": stack.kafka})
    admin.delete_topics([updates_topic(name)])[updates_topic(name)].result(timeout=30)
    deadline = time.monotonic() + 30
    # Until the broker has heard of it too, what it acknowledges goes with the old topic.
    while updates_topic(name) in admin.list_topics(timeout=10).topics:
        assert time.monotonic() < deadline, "the topic was not deleted"
    for i in range(20):
        table.put(b"%d" % i, {b"f:a": b"1"})
    messages = subscriber.read(name, subscriber.barrier(name), seconds=90)
    found = rows_of(messages)
    assert found[Outcome.APPLIED] >= {b"%d" % i for i in range(20)}


@pytest.mark.soak
def test_a_control_topic_that_is_deleted_comes_back_and_is_heard_again(
    stack, subscriber, start: Start
) -> None:
    first, second = stack.table("durability"), stack.table("durability")
    observer = start()
    subscriber.watch(first)
    admin = AdminClient({"bootstrap.servers": stack.kafka})
    admin.delete_topics([subscriber.control_topic])[subscriber.control_topic].result(timeout=30)
    await_lost(observer, lost=True)
    await_lost(observer, lost=False)
    (_, settings), *_ = admin.describe_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, subscriber.control_topic)]
    ).items()
    assert settings.result(timeout=30)["cleanup.policy"].value == "compact"
    subscriber.watch(first, second)
    for name in (first, second):
        connect(observer).table(name).put(b"r", {b"f:a": b"1"})
        found = rows_of(subscriber.read(name, subscriber.barrier(name)))
        assert found[Outcome.APPLIED] == {b"r"}


def await_lost(observer: ObserverProcess, *, lost: bool) -> None:
    host, port = observer.admin
    line = f"headgate_observer_control_topic_lost {float(lost)}"
    deadline = time.monotonic() + 60
    while line not in urllib.request.urlopen(f"http://{host}:{port}/metrics").read().decode():
        assert time.monotonic() < deadline, line
        time.sleep(0.1)


def test_a_client_that_is_answered_finds_its_event_on_kafka(
    stack, subscriber, start: Start
) -> None:
    name = stack.table("durability")
    observer = start(acknowledge=Acknowledge.KAFKA)
    subscriber.watch(name)
    table = connect(observer).table(name)
    for i in range(30):
        table.put(b"%d" % i, {b"f:a": b"1"})
    observer.kill()
    # With its host, the journal is lost.
    for path in observer.log.parent.glob("journal/*"):
        path.unlink()
    start()
    found = rows_of(subscriber.read(name, subscriber.barrier(name)))
    assert found == {Outcome.APPLIED: {b"%d" % i for i in range(30)}, Outcome.UNKNOWN: set()}


def test_a_barrier_that_nobody_heard_is_answered_by_the_observer_that_starts(
    stack, subscriber, start: Start
) -> None:
    name = stack.table("durability")
    observer = start()
    subscriber.watch(name)
    connect(observer).table(name).put(b"r", {b"f:a": b"1"})
    observer.kill()
    barrier = subscriber.barrier(name)
    start()
    found = rows_of(subscriber.read(name, barrier, seconds=20))
    assert found[Outcome.APPLIED] | found[Outcome.UNKNOWN] == {b"r"}
