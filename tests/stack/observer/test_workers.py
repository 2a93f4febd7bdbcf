"""Several observers on one port: what one of them suffers, the others and the events do not."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import happybase
import psutil
import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families
from thriftpy2.transport import TTransportException

from headgate.events import Outcome, UpdateBatch, UpdateMessage
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
    Scheduling,
)
from headgate.observer.lifecycle.process import as_toml
from headgate.observer.upstreams.asking import FORMATS, PING, call

pytestmark = pytest.mark.stack

WORKERS = 2


@pytest.fixture
def config(stack, subscriber, tmp_path: Path) -> ObserverConfig:
    return ObserverConfig(
        name="o1",
        workers=WORKERS,
        thrift1=Listener("127.0.0.1:0", str(stack.thrift1)),
        kafka=KafkaSettings(str(stack.kafka), control_topic=subscriber.control_topic, partitions=4),
        journal=JournalSettings(str(tmp_path / "journal")),
        lease_seconds=3.0,
    )


Start = Callable[[ObserverConfig], ObserverProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[ObserverProcess] = []

    def begin(config: ObserverConfig) -> ObserverProcess:
        started.append(ObserverProcess(config, tmp_path))
        return started[-1]

    yield begin
    for process in started:
        if process.running():
            process.stop()


def workers(observer: ObserverProcess) -> list[psutil.Process]:
    return psutil.Process(observer.pid).children()


def kill_all(observer: ObserverProcess) -> None:
    """Kill the workers first, so that none has time to end cleanly."""
    os.kill(observer.pid, signal.SIGSTOP)
    for worker in workers(observer):
        worker.kill()
    observer.kill()


def connect(observer: ObserverProcess) -> happybase.Connection:
    host, port = observer.thrift1
    return happybase.Connection(host, port, timeout=30_000)


def asked(observer: ObserverProcess, path: str) -> bytes:
    host, port = observer.admin
    try:
        return urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=10).read()
    except urllib.error.HTTPError as error:
        return error.read()


def health(observer: ObserverProcess) -> dict:
    return json.loads(asked(observer, "/healthz"))


def samples(observer: ObserverProcess, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(asked(observer, "/metrics").decode())
        for sample in family.samples
        if sample.name == f"headgate_observer_{name}"
    }


def await_that(what: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def rows_by_outcome(messages: list[list[UpdateMessage]]) -> dict[Outcome, set[bytes]]:
    found: dict[Outcome, set[bytes]] = {outcome: set() for outcome in Outcome}
    for partition in messages:
        for batch in partition:
            if isinstance(batch, UpdateBatch):
                rows = iter(batch.rows)
                for part in batch.requests:
                    found[part.outcome].update(next(rows) for _ in range(part.cells))
    return found


def watch(subscriber, table: str, observers: int) -> None:
    subscriber.watch(table)
    subscriber.read(table, subscriber.barrier(table), marks=observers)


def spread(observer: ObserverProcess, on_each: int = 1) -> list[happybase.Connection]:
    """Return connections of which every worker has some."""
    found = []
    while True:
        found.append(connect(observer))
        found[-1].tables()
        counts = samples(observer, "connections").values()
        if len(counts) == WORKERS and min(counts) >= on_each:
            return found


class Writer(threading.Thread):
    """Puts rows one after another, connecting again when it must, and notes what was answered."""

    def __init__(self, observer: ObserverProcess, table: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._observer = observer
        self._table = table
        self.acknowledged: set[bytes] = set()
        self.ending = threading.Event()
        self.failures = 0

    def run(self) -> None:
        number = 0
        while not self.ending.is_set():
            try:
                table = connect(self._observer).table(self._table)
                while not self.ending.is_set():
                    row = b"%s-%06d" % (self.name.encode(), number)
                    number += 1
                    table.put(row, {b"f:a": b"1"})
                    self.acknowledged.add(row)
            except (OSError, TTransportException):
                self.failures += 1


def test_a_worker_that_is_killed_loses_nothing_and_the_others_go_on_serving(
    stack, subscriber, config: ObserverConfig, start: Start
) -> None:
    table = stack.table("workers")
    observer = start(config)
    watch(subscriber, table, WORKERS)
    writers = [Writer(observer, table, f"w{number}") for number in range(8)]
    for writer in writers:
        writer.start()
    await_that(lambda: all(writer.acknowledged for writer in writers))
    victim, survivor = workers(observer)
    victim.kill()
    before = sum(len(writer.acknowledged) for writer in writers)
    await_that(lambda: sum(len(writer.acknowledged) for writer in writers) > before + 50)
    assert health(observer)["serving"]
    await_that(lambda: samples(observer, "workers") == {(): WORKERS})
    assert survivor.is_running()
    assert samples(observer, "worker_restarts_total") == {(): 1}
    for writer in writers:
        writer.ending.set()
    for writer in writers:
        writer.join()
    found = rows_by_outcome(subscriber.read(table, subscriber.barrier(table), marks=WORKERS))
    acknowledged = set().union(*(writer.acknowledged for writer in writers))
    assert acknowledged <= found[Outcome.APPLIED] | found[Outcome.UNKNOWN]
    assert observer.stop() == 0


@pytest.mark.soak
def test_a_worker_that_hangs_is_announced_ended_and_started_again(
    stack, config: ObserverConfig, start: Start
) -> None:
    observer = start(config)
    victim, survivor = workers(observer)
    victim.suspend()
    await_that(lambda: "worker 1: it does not answer" in health(observer)["reasons"])
    await_that(lambda: not victim.is_running(), 60)
    await_that(lambda: samples(observer, "workers") == {(): WORKERS}, 60)
    assert "a worker hangs: it is ended" in observer.log.read_text()
    for connection in [connect(observer) for _ in range(16)]:
        connection.tables()
        connection.close()
    assert survivor.is_running()
    assert observer.stop() == 0


def test_metrics_are_sums_that_do_not_fall_when_a_worker_ends(
    stack, config: ObserverConfig, start: Start
) -> None:
    observer = start(config)
    connections = spread(observer)
    calls = (("listener", "thrift1"), ("method", "getTableNames"), ("outcome", "answered"))

    def answered() -> float:
        return samples(observer, "requests_total")[calls]

    assert set(samples(observer, "connections")) == {(("worker", "1"),), (("worker", "2"),)}
    for connection in connections:
        connection.tables()  # by which the answer to the first one is known to be over
    counted = answered()
    assert counted >= len(connections)
    workers(observer)[0].kill()
    await_that(lambda: samples(observer, "worker_restarts_total") == {(): 1})
    await_that(lambda: samples(observer, "workers") == {(): WORKERS})
    assert answered() == counted


def test_workers_end_with_the_process_that_started_them(
    config: ObserverConfig, start: Start
) -> None:
    observer = start(config)
    children = workers(observer)
    observer.kill()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []


def test_sigterm_lets_requests_end_and_closes_idle_connections(
    config: ObserverConfig, start: Start
) -> None:
    observer = start(config)
    idle = [socket.create_connection(observer.thrift1) for _ in range(10)]
    used = connect(observer)
    used.tables()
    began = time.monotonic()
    assert observer.stop() == 0
    assert time.monotonic() - began < 5
    for each in idle:
        assert each.recv(1) == b""
        each.close()


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_journals_of_another_number_of_workers_are_published_at_the_next_start(
    stack, subscriber, config: ObserverConfig, start: Start, before: int, after: int
) -> None:
    table = stack.table("workers")
    silent = socket.create_server(("127.0.0.1", 0))
    host, port = silent.getsockname()
    listener = Listener("127.0.0.1:0", f"{host}:{port}")
    observer = start(replace(config, workers=before, thrift1=listener))
    watch(subscriber, table, before)
    clients = [connect(observer) for _ in range(6)]
    threads = [
        threading.Thread(target=_put_in_vain, args=(client, table, b"row-%d" % number), daemon=True)
        for number, client in enumerate(clients)
    ]
    for thread in threads:
        thread.start()
    await_that(
        lambda: sum(samples(observer, "journal_unsettled_requests").values()) == len(clients)
    )
    kill_all(observer)
    silent.close()
    assert list(Path(config.journal.directory).rglob("*.segment"))
    start(replace(config, workers=after))
    found = rows_by_outcome(subscriber.read(table, subscriber.barrier(table), marks=after))
    assert found[Outcome.UNKNOWN] == {b"row-%d" % number for number in range(len(clients))}
    assert list(Path(config.journal.directory).rglob("*.segment")) == []


def _put_in_vain(client: happybase.Connection, table: str, row: bytes) -> None:
    try:
        client.table(table).put(row, {b"f:a": b"1"})
    except (OSError, TTransportException):
        return


def test_sighup_changes_what_it_can_without_closing_connections(
    config: ObserverConfig, start: Start, tmp_path: Path
) -> None:
    observer = start(replace(config, scheduling=Scheduling.BATCH))
    connections = spread(observer)
    file = tmp_path / "observer.toml"

    def reload(text: str, words: str, times: int) -> None:
        file.write_text(text)
        os.kill(observer.pid, signal.SIGHUP)
        await_that(lambda: observer.log.read_text().count(words) >= times)

    assert {os.sched_getscheduler(each.pid) for each in workers(observer)} == {os.SCHED_BATCH}
    journal = replace(config.journal, limit_bytes=99 << 20)
    wanted = replace(config, name="other", journal=journal, scheduling=Scheduling.AUTO)
    reload(as_toml(wanted), "configuration reloaded", WORKERS)
    assert {os.sched_getscheduler(each.pid) for each in workers(observer)} == {os.SCHED_OTHER}
    assert set(samples(observer, "journal_limit_bytes").values()) == {99 << 20}
    log = observer.log.read_text()
    assert log.count("needs a restart") == WORKERS
    assert "key=name" in log

    reload("name = 3 3", "configuration not reloaded", 1)
    reload(as_toml(replace(config, workers=7)), "key=workers", 1)
    for connection in connections:
        assert isinstance(connection.tables(), list)
    victim = workers(observer)[0]
    victim.kill()
    await_that(lambda: samples(observer, "worker_restarts_total") == {(): 1})
    await_that(lambda: samples(observer, "workers") == {(): WORKERS})


def test_the_load_says_when_a_worker_has_its_turn(config: ObserverConfig, start: Start) -> None:
    observer = start(replace(config, workers=1))
    ping = call(FORMATS[0], PING)
    with socket.create_connection(observer.thrift1) as client, client.makefile("rb") as replies:
        client.sendall(ping)
        length = len(client.recv(1000))

        def policy_after(count: int) -> int:
            """Return the policy after some requests of which so many are sent at a time."""
            for _ in range(20):
                client.sendall(ping * count)
                replies.read(length * count)
            return os.sched_getscheduler(observer.pid)

        assert policy_after(1) == os.SCHED_OTHER
        await_that(lambda: policy_after(64) == os.SCHED_BATCH)
        await_that(lambda: policy_after(1) == os.SCHED_OTHER)
