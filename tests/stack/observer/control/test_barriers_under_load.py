"""Barriers while two observers are written through at full speed, one of which is killed.

What a barrier is for decides nothing of it, so one check stands for all: whatever was acknowledged
before the request stands before the mark. A run's end is exactly that. For the edges of a watch and
of a scan there is a second: what was written before the marks is in a scan that begins after them,
and what was begun after them has an event.
"""

from __future__ import annotations

import array
import runpy
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from free_ports import free_port
from msgspec import Struct

from headgate.events import BarrierMark, BarrierRequest, UpdateBatch, UpdateMessage
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)

pytestmark = pytest.mark.stack

PROGRAM = Path(__file__).with_name("full_speed_writer.py")
NAMES = ("o1", "o2")
WRITERS = 2  # for each observer


class Write(Struct):
    """One request of a writer; times are CLOCK_MONOTONIC in nanoseconds, 0 for never."""

    rows: list[bytes]
    begun: int
    acknowledged: int


class Writer:
    """A process that writes through one observer at full speed, as the program describes."""

    def __init__(self, observer: str, address: tuple[str, int], table: str, result: Path) -> None:
        self.observer = observer
        self._result = result
        self._name = result.name
        command = [PROGRAM, *address, table, self._name, result]
        self._process = subprocess.Popen(
            [sys.executable, *map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def await_going(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as said:
            assert said.readline() == b"going\n"

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def writes(self, rows_of: Any) -> list[Write]:
        """Return what it wrote, once it has ended."""
        assert self._process.wait(60) == 0
        times = array.array("q")
        times.frombytes(self._result.read_bytes())
        name = self._name.encode()
        return [
            Write(rows_of(name, number), begun, acknowledged)
            for number, (begun, acknowledged) in enumerate(
                zip(times[::2], times[1::2], strict=True), start=1
            )
        ]


@pytest.fixture(scope="module")
def rows_of() -> Any:
    """The program's own function for the rows of a request."""
    return runpy.run_path(str(PROGRAM))["rows_of"]


class Pair:
    """Two observers that share a control topic, each on a port of its own that it keeps."""

    def __init__(self, stack: Any, control_topic: str, directory: Path) -> None:
        self._stack = stack
        self._control_topic = control_topic
        self._directory = directory
        self._writers = 0
        self.addresses = {name: ("127.0.0.1", free_port()) for name in NAMES}
        self._processes = {name: self._start(name) for name in NAMES}

    def _start(self, name: str) -> ObserverProcess:
        host, port = self.addresses[name]
        config = ObserverConfig(
            name=name,
            thrift1=Listener(f"{host}:{port}", str(self._stack.thrift1)),
            kafka=KafkaSettings(self._stack.kafka, control_topic=self._control_topic, partitions=4),
            journal=JournalSettings(str(self._directory / name / "journal")),
            lease_seconds=3.0,
        )
        return ObserverProcess(config, self._directory / name)

    def kill_and_start_again(self, name: str) -> None:
        self._processes[name].kill()
        self._processes[name] = self._start(name)

    def writers(self, table: str) -> list[Writer]:
        """Write at full speed through both."""
        begun = []
        for name in NAMES * WRITERS:
            self._writers += 1
            result = self._directory / f"{name}.{self._writers}"
            begun.append(Writer(name, self.addresses[name], table, result))
        for writer in begun:
            writer.await_going()
        return begun

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()


@pytest.fixture
def pair(stack, subscriber, tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(stack, subscriber.control_topic, tmp_path)
    yield pair
    pair.close()


class Barriers:
    """Barriers that are asked for one after the other, in a thread of its own."""

    def __init__(self, subscriber: Any, table: str, count: int, seconds: float) -> None:
        self._subscriber = subscriber
        self._table = table
        self._seconds = seconds
        self.asked: dict[str, int] = {}
        """When each was asked for."""
        self.half = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(count,))
        self._thread.start()

    def _run(self, count: int) -> None:
        for number in range(count):
            self.ask(f"barrier-{number}", time.monotonic_ns())
            if number == count // 2:
                self.half.set()
            time.sleep(self._seconds / count)

    def ask(self, name: str, now: int) -> None:
        self.asked.setdefault(name, now)
        self._subscriber.send(BarrierRequest(1, name, (self._table,), "tests"))

    def join(self) -> None:
        self._thread.join()


class Log:
    """What one partition holds, by position."""

    def __init__(self, messages: list[UpdateMessage]) -> None:
        self.rows: dict[bytes, int] = {}
        """The first message of each row."""
        self.marks: list[tuple[int, str, str]] = []
        """Position, observer and barrier of each mark."""
        for position, message in enumerate(messages):
            if isinstance(message, UpdateBatch):
                for row in message.rows:
                    self.rows.setdefault(row, position)
            elif isinstance(message, BarrierMark):
                self.marks.append((position, message.observer, message.id))


def late(log: Log, observer: str, writes: list[Write], asked: dict[str, int]) -> list[str]:
    """Return the marks of an observer before which an update is missing that was acknowledged."""
    here = sorted(
        (write.acknowledged, log.rows[row])
        for write in writes
        if write.acknowledged
        for row in write.rows
        if row in log.rows
    )
    times = [time for time, _ in here]
    furthest, highest = [-1], -1
    for _, position in here:
        highest = max(highest, position)
        furthest.append(highest)
    return [
        f"{barrier} of {observer} at {position}"
        for position, marker, barrier in log.marks
        if marker == observer and barrier in asked
        if furthest[bisect_left(times, asked[barrier])] > position
    ]


@pytest.mark.parametrize(
    ("count", "seconds"),
    [(50, 3.0), pytest.param(1000, 20.0, marks=pytest.mark.soak)],
)
def test_no_update_before_a_mark_appears_after_it(
    stack, subscriber, pair: Pair, rows_of, count: int, seconds: float
) -> None:
    table = stack.table("barriers")
    subscriber.watch(table, marks=2)
    writers = pair.writers(table)
    barriers = Barriers(subscriber, table, count, seconds)
    barriers.half.wait()
    pair.kill_and_start_again("o2")
    barriers.join()
    for writer in writers:
        writer.stop()
    writes: dict[str, list[Any]] = {name: [] for name in NAMES}
    for writer in writers:
        writes[writer.observer] += writer.writes(rows_of)

    first = [Log(each) for each in subscriber.read(table, subscriber.barrier(table), marks=2)]
    marked = {
        name: set.intersection(*({b for _, who, b in log.marks if who == name} for log in first))
        for name in NAMES
    }
    # Whoever asks does so again when an observer was not there.
    unmarked = barriers.asked.keys() - (marked["o1"] & marked["o2"])
    for name in unmarked:
        barriers.ask(name, 0)
    logs = [Log(each) for each in subscriber.read(table, subscriber.barrier(table), marks=2)]

    acknowledged = [w for each in writes.values() for w in each if w.acknowledged]
    print(
        f"{count} barriers, {len(unmarked)} of them asked for again; "
        f"{len(acknowledged)} writes acknowledged of {sum(map(len, writes.values()))}"
    )
    # Some 200 times as many on an idle machine, but a busy one may have other things to do.
    assert len(acknowledged) > 2 * count
    assert all(len(each) > count // 2 for each in writes.values())
    # One was killed in between, and what it had under way was not acknowledged.
    assert sum(not w.acknowledged for w in writes["o2"]) >= 1
    assert all(w.acknowledged for w in writes["o1"])
    there = set().union(*(log.rows for log in logs))
    assert {row for w in acknowledged for row in w.rows} <= there
    for log in logs:
        for name in NAMES:
            assert {b for _, who, b in log.marks if who == name} >= barriers.asked.keys()
            assert late(log, name, writes[name], barriers.asked) == []
    assert barriers.asked.keys() <= marked["o1"]
    assert len(marked["o2"] & barriers.asked.keys()) > count // 3


def rows_in(stack: Any, table: str) -> set[bytes]:
    connection = stack.happybase()
    try:
        return {row for row, _ in connection.table(table).scan()}
    finally:
        connection.close()


@pytest.mark.parametrize(
    "tables", [2, pytest.param(25, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])]
)
def test_a_scan_after_the_marks_and_the_events_have_every_write_of_a_table_watched_under_load(
    stack, subscriber, pair: Pair, rows_of, tables: int
) -> None:
    for _ in range(tables):
        table = stack.table("barriers")
        writers = pair.writers(table)
        subscriber.watch(table, marks=2)
        marked = time.monotonic_ns()
        scanned = rows_in(stack, table)
        while len(rows_in(stack, table)) < len(scanned) + 200:
            pass
        for writer in writers:
            writer.stop()
        writes = [write for writer in writers for write in writer.writes(rows_of)]
        logs = [Log(each) for each in subscriber.read(table, subscriber.barrier(table), marks=2)]
        published = set().union(*(log.rows for log in logs))
        assert all(w.acknowledged for w in writes)
        before = {row for w in writes if w.acknowledged < marked for row in w.rows}
        after = {row for w in writes if w.begun > marked for row in w.rows}
        assert len(before - published) > 10
        assert len(after) > 10
        assert before <= scanned
        assert after <= published
        assert {row for w in writes for row in w.rows} <= scanned | published
