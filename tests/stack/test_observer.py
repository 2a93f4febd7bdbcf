"""The observer against the real HBase and Kafka."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import happybase
import pytest

from headgate.client import RequestRefused, Thrift2Connection
from headgate.events import (
    BarrierMark,
    Fence,
    Origin,
    Outcome,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
    UpdateMessage,
)
from headgate.observer import (
    Fsync,
    JournalSettings,
    KafkaSettings,
    LimitSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)

pytestmark = pytest.mark.stack

Start = Callable[..., ObserverProcess]


def configuration(
    stack, subscriber, directory: Path, name: str = "o1", **changes
) -> ObserverConfig:
    return ObserverConfig(
        **{
            "name": name,
            "thrift1": Listener("127.0.0.1:0", str(stack.thrift1)),
            "thrift2": Listener("127.0.0.1:0", str(stack.thrift2)),
            "kafka": KafkaSettings(
                stack.kafka, control_topic=subscriber.control_topic, partitions=4
            ),
            "journal": JournalSettings(str(directory / name / "journal")),
            "lease_seconds": 3.0,
            **changes,
        }
    )


@pytest.fixture
def start(stack, subscriber, tmp_path: Path) -> Iterator[Start]:
    started: list[ObserverProcess] = []

    def begin(name: str = "o1", **changes) -> ObserverProcess:
        config = configuration(stack, subscriber, tmp_path, name, **changes)
        process = ObserverProcess(config, tmp_path / name)
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.running():
            process.kill()


def connect(observer: ObserverProcess) -> happybase.Connection:
    host, port = observer.thrift1
    return happybase.Connection(host, port, timeout=30_000)


def batches(messages: list[list[UpdateMessage]]) -> list[UpdateBatch]:
    return [m for partition in messages for m in partition if isinstance(m, UpdateBatch)]


def cells(
    messages: list[list[UpdateMessage]],
) -> list[tuple[UpdateKind, bytes, bytes, bytes | None]]:
    """Return kind, row, column and value of every cell."""
    return [
        (UpdateKind(kind), row, column, value)
        for batch in batches(messages)
        for kind, row, column, value in zip(
            batch.kinds, batch.rows, batch.columns, batch.values, strict=True
        )
    ]


def test_writes_of_a_watched_table_become_events(stack, subscriber, start: Start) -> None:
    name = stack.table("observer")
    observer = start()
    subscriber.watch(name)
    table = connect(observer).table(name)
    table.put(b"r1", {b"f:a": b"1", b"f:b": b"2"})
    table.delete(b"r1", [b"f:b"])
    assert table.counter_inc(b"r1", b"f:n", 5) == 5
    messages = subscriber.read(name, subscriber.barrier(name))
    assert sorted(cells(messages)) == sorted(
        [
            (UpdateKind.PUT, b"r1", b"f:a", b"1"),
            (UpdateKind.PUT, b"r1", b"f:b", b"2"),
            (UpdateKind.DELETE_COLUMN, b"r1", b"f:b", None),
            (UpdateKind.INCREMENT, b"r1", b"f:n", (5).to_bytes(8, "big")),
        ]
    )
    assert {p.outcome for b in batches(messages) for p in b.requests} == {Outcome.APPLIED}
    assert table.row(b"r1") == {b"f:a": b"1", b"f:n": (5).to_bytes(8, "big")}


def test_each_write_can_be_on_the_disk_before_it_is_forwarded(
    stack, subscriber, start: Start, tmp_path: Path
) -> None:
    name = stack.table("observer")
    observer = start(journal=JournalSettings(str(tmp_path / "synced"), fsync=Fsync.ALWAYS))
    subscriber.watch(name)
    table = connect(observer).table(name)
    for i in range(20):
        table.put(b"%d" % i, {b"f:a": b"1"})
    assert len(cells(subscriber.read(name, subscriber.barrier(name)))) == 20


def test_writes_of_other_tables_make_no_topic(stack, subscriber, start: Start) -> None:
    watched, other = stack.table("observer"), stack.table("observer")
    observer = start()
    subscriber.watch(watched)
    connect(observer).table(other).put(b"r", {b"f:a": b"1"})
    assert cells(subscriber.read(watched, subscriber.barrier(watched))) == []
    with pytest.raises(AssertionError, match="there is no topic"):
        subscriber.read(other, "none", seconds=1)
    assert dict(stack.happybase().table(other).scan()) == {b"r": {b"f:a": b"1"}}


def test_a_thousand_rows_in_one_request_are_all_published(stack, subscriber, start: Start) -> None:
    name = stack.table("observer")
    observer = start()
    subscriber.watch(name)
    expected = {b"row%04d" % i: b"%d" % i for i in range(1000)}
    with connect(observer).table(name).batch() as batch:
        for row, value in expected.items():
            batch.put(row, {b"f:a": value})
    found = cells(subscriber.read(name, subscriber.barrier(name)))
    assert {row: value for _, row, _, value in found} == expected
    assert len(found) == 1000


def test_a_check_that_fails_makes_no_event(stack, subscriber, start: Start) -> None:
    name = stack.table("observer")
    observer = start()
    subscriber.watch(name)
    with Thrift2Connection(*observer.thrift2) as client:
        assert not client.check_and_put(name, b"r", b"f:a", b"no", {b"f:a": b"1"})
        assert client.check_and_put(name, b"r", b"f:a", None, {b"f:a": b"2"})
    found = cells(subscriber.read(name, subscriber.barrier(name)))
    assert found == [(UpdateKind.PUT, b"r", b"f:a", b"2")]


def test_destroying_a_table_is_told_in_every_partition(stack, subscriber, start: Start) -> None:
    name = stack.table("observer")
    observer = start()
    subscriber.watch(name)
    with Thrift2Connection(*observer.thrift2) as client:
        client.disable_table(name)
        client.truncate_table(name)
    for partition in subscriber.read(name, subscriber.barrier(name)):
        kinds = [m.kind for m in partition if isinstance(m, TableChange)]
        assert kinds == [TableChangeKind.DISABLED, TableChangeKind.TRUNCATED]


def test_the_writer_is_named_and_an_older_run_is_refused(stack, subscriber, start: Start) -> None:
    name = stack.table("observer")
    observer = start()
    subscriber.watch(name)
    old, new = Origin("flow", "step", "run-1", 1), Origin("flow", "step", "run-1", 2)
    with Thrift2Connection(*observer.thrift2) as client:
        client.put(name, [(b"r", {b"f:a": b"old"})], origin=old)
        subscriber.send(Fence(1, "flow", "step", 2))
        subscriber.read(name, subscriber.barrier(name))
        with pytest.raises(RequestRefused, match="run-1 of flow/step may not write"):
            client.put(name, [(b"r", {b"f:a": b"late"})], origin=old)
        client.put(name, [(b"r", {b"f:a": b"new"})], origin=new)
        assert client.get(name, b"r") == {b"f:a": b"new"}
    messages = subscriber.read(name, subscriber.barrier(name))
    assert [value for *_, value in cells(messages)] == [b"old", b"new"]
    assert [p.origin for b in batches(messages) for p in b.requests] == [old, new]


def write_until_cut(observer: ObserverProcess, name: str, prefix: bytes, rows: list[bytes]) -> None:
    """Write rows until the connection breaks; append those that were acknowledged."""
    table = connect(observer).table(name)
    try:
        while True:
            row = b"%s-%06d" % (prefix, len(rows))
            table.put(row, {b"f:a": row})
            rows.append(row)
    except (OSError, EOFError, Exception):  # noqa: BLE001 - however the connection breaks
        return


def writers(
    observer: ObserverProcess, name: str, prefix: bytes
) -> tuple[list[list[bytes]], list[threading.Thread]]:
    """Begin to write from four threads; return what each has written so far, and the threads."""
    results: list[list[bytes]] = [[] for _ in range(4)]
    threads = [
        threading.Thread(target=write_until_cut, args=(observer, name, prefix + b"%d" % at, rows))
        for at, rows in enumerate(results)
    ]
    for thread in threads:
        thread.start()
    return results, threads


def wait_for_writes(results: list[list[bytes]], count: int) -> None:
    deadline = time.monotonic() + 60
    while sum(map(len, results)) < count:
        assert time.monotonic() < deadline, "nobody writes"
        time.sleep(0.001)


@pytest.mark.parametrize(
    "lives", [4, pytest.param(60, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])]
)
def test_a_killed_observer_loses_no_acknowledged_write(
    stack, subscriber, start: Start, lives: int
) -> None:
    name = stack.table("observer")
    observer = start()
    subscriber.watch(name)
    rng = random.Random(3)
    acknowledged: list[bytes] = []
    for life in range(lives):
        results, threads = writers(observer, name, b"%d-" % life)
        wait_for_writes(results, rng.randrange(30, 400))
        observer.kill()
        for thread in threads:
            thread.join()
        acknowledged += [row for rows in results for row in rows]
        observer = start()
    messages = subscriber.read(name, subscriber.barrier(name))
    published = {row for _, row, _, _ in cells(messages)}
    assert len(acknowledged) > 100
    assert set(acknowledged) <= published
    # Nothing that was published as applied may be missing from the table.
    applied = {
        row
        for batch in batches(messages)
        for part, rows in parts(batch)
        if part.outcome is Outcome.APPLIED
        for row in rows
    }
    there = {row for row, _ in stack.happybase().table(name).scan()}
    assert applied <= there


def parts(batch: UpdateBatch):
    at = 0
    for part in batch.requests:
        yield part, batch.rows[at : at + part.cells]
        at += part.cells


def identities(messages: list[list[UpdateMessage]]) -> list[tuple[int, int, int, int]]:
    return [
        (partition, batch.epoch, part.intent, part.piece)
        for partition, found in enumerate(messages)
        for batch in found
        if isinstance(batch, UpdateBatch) and not batch.recovered
        for part in batch.requests
    ]


def test_a_barrier_under_load_follows_everything_forwarded_before(
    stack, subscriber, start: Start
) -> None:
    name = stack.table("observer")
    observer = start()
    subscriber.watch(name)
    done = threading.Event()
    written: list[int] = [0] * 4

    def work(at: int) -> None:
        table = connect(observer).table(name)
        while not done.is_set():
            table.put(b"%d-%06d" % (at, written[at]), {b"f:a": b"x"})
            written[at] += 1

    threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    barriers: list[tuple[str, list[int]]] = []
    for _ in range(20):
        time.sleep(0.05)
        before = list(written)
        barriers.append((subscriber.barrier(name), before))
    done.set()
    for thread in threads:
        thread.join()
    messages = subscriber.read(name, subscriber.barrier(name))
    for barrier, before in barriers:
        seen: set[bytes] = set()
        for partition in messages:
            for message in partition:
                if isinstance(message, BarrierMark) and message.id == barrier:
                    break
                if isinstance(message, UpdateBatch):
                    seen.update(message.rows)
            else:
                pytest.fail(f"barrier {barrier} is missing in a partition")
        expected = {b"%d-%06d" % (at, n) for at, count in enumerate(before) for n in range(count)}
        assert expected <= seen
    found = identities(messages)
    assert len(found) == len(set(found)) == sum(written)


def test_overlapping_writes_of_one_row_are_marked(stack, subscriber, start: Start) -> None:
    name = stack.table("observer")
    observer = start()
    subscriber.watch(name)

    def work() -> None:
        table = connect(observer).table(name)
        for i in range(100):
            table.put(b"same", {b"f:a": b"%d" % i})

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    messages = subscriber.read(name, subscriber.barrier(name))
    marked = sum(bool(p.ambiguous) for b in batches(messages) for p in b.requests)
    assert marked > 100


def test_a_clean_end_publishes_everything_and_says_so(stack, subscriber, start: Start) -> None:
    name = stack.table("observer")
    observer = start()
    subscriber.watch(name)
    connection = connect(observer)
    with connection.table(name).batch(batch_size=10) as batch:
        for i in range(500):
            batch.put(b"%d" % i, {b"f:a": b"1"})
    assert observer.stop() == 0
    assert "ended " in observer.log.read_text()
    again = start()
    messages = subscriber.read(name, subscriber.barrier(name))
    assert len(cells(messages)) == 500
    assert not any(batch.recovered for batch in batches(messages))
    assert again.stop() == 0


def test_a_clean_end_under_load_leaves_no_write_uncertain(stack, subscriber, start: Start) -> None:
    name = stack.table("observer")
    observer = start()
    subscriber.watch(name)
    results, threads = writers(observer, name, b"")
    wait_for_writes(results, 50)
    assert observer.stop() == 0
    for thread in threads:
        thread.join()
    start()
    messages = subscriber.read(name, subscriber.barrier(name))
    acknowledged = {row for rows in results for row in rows}
    assert {row for _, row, _, _ in cells(messages)} == acknowledged
    assert {p.outcome for b in batches(messages) for p in b.requests} == {Outcome.APPLIED}


def test_a_connection_to_the_wrong_protocol_is_told_why(stack, subscriber, start: Start) -> None:
    observer = start()
    with socket.create_connection(observer.thrift1, timeout=10) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 400 ")
    assert "speaks HTTP" in observer.log.read_text()


def test_an_oversized_frame_is_refused_before_it_is_stored(stack, subscriber, start: Start) -> None:
    observer = start(limits=LimitSettings(message_bytes=1000))
    with socket.create_connection(observer.thrift1, timeout=10) as client:
        client.sendall((1 << 30).to_bytes(4, "big") + b"\x80\x01\x00\x01\x00\x00\x00\x03get")
        answer = b""
        while chunk := client.recv(1000):
            answer += chunk
    assert b"the limit is 1000" in answer


def test_metrics_and_health_are_served(stack, subscriber, start: Start) -> None:
    name = stack.table("observer")
    observer = start()
    subscriber.watch(name)
    connect(observer).table(name).put(b"r", {b"f:a": b"1"})
    subscriber.read(name, subscriber.barrier(name))
    address = f"http://{observer.admin[0]}:{observer.admin[1]}"
    text = urllib.request.urlopen(f"{address}/metrics", timeout=10).read().decode()
    line = 'requests_total{listener="thrift1",method="mutateRows",outcome="applied"} 1.0'
    assert f"headgate_observer_{line}" in text
    health = json.load(urllib.request.urlopen(f"{address}/healthz", timeout=10))
    assert health == {"serving": True, "state": "serving", "reasons": []}
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{address}/nothing", timeout=10)


@pytest.mark.parametrize("missing", ["kafka", "hbase"])
def test_what_is_down_at_start_is_waited_for_and_then_named(
    stack, subscriber, tmp_path: Path, missing: str
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{unused.getsockname()[1]}"
        changes: dict[str, Any] = {"start_seconds": 3.0}
        if missing == "kafka":
            changes["kafka"] = KafkaSettings(nobody, control_topic=subscriber.control_topic)
        else:
            changes["thrift2"] = Listener("127.0.0.1:0", nobody)
        config = configuration(stack, subscriber, tmp_path, **changes)
        began = time.monotonic()
        with pytest.raises(Exception, match="did not get ready") as caught:
            ObserverProcess(config, tmp_path / "o1")
    assert time.monotonic() - began < 20
    assert "waiting for" in str(caught.value)
    assert nobody in str(caught.value)


def test_a_signal_while_it_waits_ends_it(stack, subscriber, tmp_path: Path) -> None:
    config = configuration(stack, subscriber, tmp_path, kafka=KafkaSettings("127.0.0.1:1"))
    from headgate.observer.lifecycle.process import as_toml

    path = tmp_path / "observer.toml"
    path.write_text(as_toml(config))
    command = [sys.executable, "-m", "headgate.cli", "observer", "--config", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        while b"waiting for Kafka" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
