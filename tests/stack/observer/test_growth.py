"""An observer under mixed load for half an hour takes no more of anything than at its beginning."""

from __future__ import annotations

import os
import random
import socket
import statistics
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import happybase
import psutil
import pytest
from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families
from thriftpy2.thrift import TException

from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)

MINUTES = float(os.environ.get("HEADGATE_SOAK_MINUTES", "30"))

pytestmark = [pytest.mark.stack, pytest.mark.soak, pytest.mark.timeout(MINUTES * 60 + 300)]

MIB = 1 << 20
ROWS = 2000
CLIENTS = 6
PAUSE = 0.01  # seconds after each request: the machine is there for others too
SAMPLE_SECONDS = 5.0
WARM_UP = 1 / 6  # of the whole time
MOST = {"rss": 12 * MIB, "descriptors": 4.0, "segments": 2.0, "tasks": 4.0, "threads": 1.0}
"""How much more of each the whole time may bring, as a line through all samples tells it."""
FAILURES = (TException, OSError)


class Sample(Struct, frozen=True):
    """What the observer takes at a time (seconds since the load began)."""

    at: float
    rss: float
    descriptors: float
    segments: float
    tasks: float
    threads: float


@pytest.fixture
def observer(stack, subscriber, tmp_path: Path) -> Iterator[ObserverProcess]:
    config = ObserverConfig(
        name="grows-not",
        thrift1=Listener("127.0.0.1:0", str(stack.thrift1)),
        kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic, partitions=4),
        journal=JournalSettings(str(tmp_path / "journal"), segment_bytes=MIB),
    )
    with ObserverProcess(config, tmp_path) as process:
        yield process


class Load:
    """Clients of one kind after another: each takes a connection, asks some things and leaves."""

    def __init__(self, observer: ObserverProcess, watched: str, unwatched: str) -> None:
        self._address = observer.thrift1
        self._watched = watched
        self._unwatched = unwatched
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(seed,), daemon=True) for seed in range(CLIENTS)
        ]
        self.requests = 0
        self.failures: list[str] = []

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(60)

    def _run(self, seed: int) -> None:
        rng = random.Random(seed)
        while not self._ending.is_set():
            try:
                rng.choice((self._regular, self._regular, self._regular, self._rude))(rng)
            except FAILURES as failure:
                self.failures.append(repr(failure))

    def _regular(self, rng: random.Random) -> None:
        connection = happybase.Connection(*self._address, timeout=60_000)
        tables = [connection.table(self._watched), connection.table(self._unwatched)]
        kinds: tuple[Callable[[happybase.Table, random.Random], object], ...] = (
            get, get, put, put, scan, left_scan, batch, delete, count,
        )  # fmt: skip
        for _ in range(rng.randrange(1, 60)):
            rng.choice(kinds)(rng.choice(tables), rng)
            self.requests += 1
            if self._ending.wait(PAUSE):
                break
        connection.close()

    def _rude(self, rng: random.Random) -> None:
        """Send nothing, nonsense or the beginning of a request, and leave without a word."""
        with socket.create_connection(self._address, timeout=60) as client:
            client.sendall(rng.choice((b"", b"\xff" * 40, b"\x80\x01\x00\x01\x00\x00\x00\x03ge")))
            self._ending.wait(PAUSE * 5)


def row(rng: random.Random) -> bytes:
    return b"row-%06d" % rng.randrange(ROWS)


def get(table: happybase.Table, rng: random.Random) -> object:
    return table.row(row(rng))


def put(table: happybase.Table, rng: random.Random) -> object:
    return table.put(row(rng), {b"f:value": b"%030d" % rng.randrange(10**9)})


def count(table: happybase.Table, rng: random.Random) -> object:
    return table.counter_inc(row(rng), b"f:count")


def delete(table: happybase.Table, rng: random.Random) -> object:
    return table.delete(row(rng))


def scan(table: happybase.Table, rng: random.Random) -> object:
    return list(table.scan(row_start=row(rng), limit=50))


def left_scan(table: happybase.Table, rng: random.Random) -> object:
    """Leave a scanner open in the middle."""
    return next(table.scan(row_start=row(rng), batch_size=10), None)


def batch(table: happybase.Table, rng: random.Random) -> object:
    with table.batch() as together:
        for _ in range(200):
            together.put(row(rng), {b"f:value": b"%0100d" % rng.randrange(10**9)})
    return None


def take_sample(observer: ObserverProcess, journal: Path, at: float) -> Sample:
    host, port = observer.admin
    text = urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=60).read().decode()
    (tasks,) = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "headgate_observer_tasks"
    ]
    process = psutil.Process(observer.pid)
    return Sample(
        at,
        process.memory_info().rss,
        process.num_fds(),
        len(list(journal.glob("*.segment"))),
        tasks,
        process.num_threads(),
    )


def growth(samples: list[Sample], what: str, seconds: float) -> float:
    """Return by how much a quantity grows in so many seconds, outliers left aside.

    It is the median slope of lines through a sample of the first half and its partner in the second
    (Theil and Sen's estimator, over pairs that are far apart).
    """
    half = len(samples) // 2
    pairs = zip(samples[:half], samples[-half:], strict=True)
    slopes = [
        (getattr(late, what) - getattr(early, what)) / (late.at - early.at) for early, late in pairs
    ]
    return statistics.median(slopes) * seconds


def test_nothing_grows_under_mixed_load(
    stack, subscriber, observer: ObserverProcess, tmp_path: Path
) -> None:
    watched, unwatched = stack.table("grown"), stack.table("unwatched")
    subscriber.watch(watched)
    seconds = MINUTES * 60
    samples: list[Sample] = []
    began = time.monotonic()
    told = 0
    with Load(observer, watched, unwatched) as load:
        while (at := time.monotonic() - began) < seconds:
            samples.append(take_sample(observer, tmp_path / "journal", at))
            if at >= told * 60:
                told += 1
                print(f"{at / 60:5.1f} min, {load.requests} requests: {samples[-1]}", flush=True)
            time.sleep(SAMPLE_SECONDS)
    print(f"{load.requests} requests, {len(load.failures)} failures, {samples[-1]}")
    assert len(load.failures) <= load.requests / 1000, load.failures[:5]
    assert load.requests > 100 * MINUTES
    steady = [sample for sample in samples if sample.at > seconds * WARM_UP]
    grown = {what: growth(steady, what, seconds) for what in MOST}
    print({what: round(more, 2) for what, more in grown.items()})
    assert all(grown[what] <= most for what, most in MOST.items()), grown
