"""Scripted seams: a producer whose deliveries the test decides, a clock, a server of HBase's."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import Struct

from headgate.events import UpdateMessage, Watch, WatchList, decode_update
from headgate.hbase import Dialect
from headgate.observer.config import HealthChecks, JournalSettings
from headgate.observer.control.gates import WriteGates
from headgate.observer.control.notify import NotifyColumns
from headgate.observer.control.state import ControlState
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.publishing.deliveries import DeliveryFailure, Done
from headgate.observer.publishing.publisher import Publisher
from headgate.observer.recording.admission import WriteAdmission
from headgate.observer.recording.journal import Journal
from headgate.observer.recording.recorder import Recorder
from headgate.observer.sessions.acknowledgement import Acknowledgements
from headgate.observer.sessions.endpoint import (
    Endpoint,
    Enforcement,
    Monitoring,
    Recording,
    Upstreams,
)
from headgate.observer.sessions.session import Session
from headgate.observer.upstreams.dialing import Dialer
from headgate.observer.upstreams.pool import UpstreamPool
from headgate.wire import Limits, MessageReader


class Sent(Struct):
    topic: str
    partition: int
    value: bytes
    done: Done

    @property
    def message(self) -> UpdateMessage:
        return decode_update(self.value)


class ScriptedProducer:
    """Keeps what was sent until the test delivers it or lets it fail."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.delivered: list[Sent] = []
        self.full = False
        self.restarts = 0

    def send(self, topic: str, partition: int, value: bytes, done: Done) -> bool:
        if self.full:
            return False
        self.sent.append(Sent(topic, partition, value, done))
        return True

    def restart(self) -> None:
        self.restarts += 1

    def deliver(self, at: int = 0) -> Sent:
        sent = self.sent.pop(at)
        self.delivered.append(sent)
        sent.done(None)
        return sent

    def deliver_all(self) -> None:
        while self.sent:
            self.deliver()

    def fail(self, failure: DeliveryFailure, at: int = 0) -> None:
        self.sent.pop(at).done(failure)

    def log(self, partition: int) -> list[UpdateMessage]:
        """What a consumer of the partition has seen."""
        return [sent.message for sent in self.delivered if sent.partition == partition]


class Timers:
    """Calls that wait for the test to let their time come."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.waiting.append((seconds, call))

    def run(self) -> None:
        waiting, self.waiting = self.waiting, []
        for _, call in waiting:
            call()


class Bench:
    """A publisher between a scripted producer and scripted timers."""

    def __init__(self) -> None:
        self.producer = ScriptedProducer()
        self.timers = Timers()
        self.settled: list[int] = []
        self.ensured: list[str] = []
        self.unwanted: set[str] = set()
        self.named: set[str] = set()
        self.now = 100.0
        self.unfinished = 1_000_000
        self.publisher = Publisher(
            observer="o",
            epoch=7,
            producer=self.producer,
            settle=self.settled.extend,
            unfinished=lambda _table: self.unfinished,
            ensure=lambda table, _topic: self.ensured.append(table),
            wanted=lambda table: table not in self.unwanted,
            named=lambda table: table in self.named,
            named_alone=lambda table: table in self.named,
            later=self.timers.later,
            linger_seconds=0.002,
            clock=lambda: self.now,
        )


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture(scope="session")
def make_bench() -> type[Bench]:
    """For properties, which need a new one for each example."""
    return Bench


class Fate(Enum):
    """What a scripted server does with a request that it has read whole."""

    ANSWER = auto()
    ABSENT = auto()
    """Nobody listens."""
    CUT = auto()
    """It closes the connection."""
    HALF = auto()
    """It sends a part of the reply and closes the connection."""
    SILENT = auto()
    """It never answers, and the client leaves."""


class Loopback:
    """An endpoint on real sockets, between a client and a scripted server of HBase's."""

    def __init__(self, directory: Path, bench: Bench, dialect: Dialect) -> None:
        self.bench = bench
        self.directory = directory
        self.dialect = dialect
        self.requests: list[bytes] = []
        """What the server has read."""
        self.acknowledgements: Acknowledgements | None = None
        self.now = 100.0

    def run(self, script: Callable[[Loopback], Awaitable[Any]]) -> Any:
        """Run a test's script inside an event loop, between ``open`` and ``close``."""

        async def inside() -> Any:
            try:
                # What pytest's own limit raises, a running loop takes for a callback's error.
                async with asyncio.timeout(60):
                    return await script(self)
            finally:
                await self.close()

        return asyncio.run(inside())

    async def open(self, fate: Fate, answer: bytes) -> None:
        """Begin to serve clients in front of a server with this fate."""
        loop = asyncio.get_running_loop()
        self.journal = Journal(self.directory, limit_bytes=1 << 20, segment_bytes=1 << 16)
        if self.acknowledgements is not None:
            self.journal.on_settled = self.acknowledgements.settled
        self.publisher = self.bench.publisher
        metrics, control = Metrics(), ControlState()
        self.recorder = Recorder(
            journal=self.journal,
            publisher=self.publisher,
            metrics=metrics,
            clock=time.time,
            soon=loop.call_soon,
            later=self.bench.timers.later,
        )
        self.publisher._deliveries._settle = self.journal.settle_all
        self.publisher._unfinished = self.recorder.lowest_unfinished
        control.apply(WatchList(1, "d", 1, (Watch("t"),)), "o")
        self.publisher.prepare("t", values=True)
        self.publisher.topic_ready("t", 1)
        self._fate, self._answer = fate, answer
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        upstream = self._server.sockets[0].getsockname()
        # Bound, but nobody listens: the port of a server that has closed may be the next one's,
        # and the endpoint would be its own server.
        self._deaf = socket.socket()
        self._deaf.bind(("127.0.0.1", 0))
        if fate is Fate.ABSENT:
            upstream = self._deaf.getsockname()
        pool = UpstreamPool("thrift", (f"127.0.0.1:{upstream[1]}",), HealthChecks())
        self.endpoint = Endpoint(
            loop=loop,
            dialect=self.dialect,
            limits=Limits(),
            upstreams=Upstreams(Dialer(loop, pool, 5.0)),
            enforcement=Enforcement(
                control, WriteGates(hold_seconds=5.0, clock=time.monotonic), NotifyColumns()
            ),
            recording=Recording(
                self.recorder,
                WriteAdmission(
                    self.journal,
                    self.publisher,
                    JournalSettings(str(self.directory)),
                    clock=time.time,
                    passing=time.monotonic,
                ),
                self.acknowledgements,
            ),
            monitoring=Monitoring(metrics),
        )
        self._front = await loop.create_server(
            lambda: cast("asyncio.Protocol", Session(self.endpoint)), "127.0.0.1", 0
        )

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self._front.sockets[0].getsockname())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        messages = MessageReader()
        while data := await reader.read(65536):
            messages.feed(data)
            while (message := messages.next_message()) is not None:
                self.requests.append(message.raw)
                if self._fate is Fate.ANSWER:
                    writer.write(self._answer)
                elif self._fate is not Fate.SILENT:
                    if self._fate is Fate.HALF:
                        writer.write(self._answer[: len(self._answer) // 2])
                        await writer.drain()
                    writer.close()
                    return
        writer.close()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.001)

    async def settled(self) -> list[UpdateMessage]:
        """Wait until every session is over; return what Kafka has then."""
        await self.until(lambda: not self.endpoint.sessions)
        await asyncio.sleep(0)
        self.recorder.work()
        self.publisher.flush()
        self.bench.producer.deliver_all()
        return self.bench.producer.log(0)

    async def close(self) -> None:
        self._front.close()
        self._server.close()
        self._deaf.close()
        for session in list(self.endpoint.sessions):
            session.abort()
        await self.until(lambda: not self.endpoint.sessions)


@pytest.fixture
def loopback(tmp_path: Path) -> Callable[[Dialect], Loopback]:
    """Make an endpoint on real sockets for a dialect."""
    return lambda dialect: Loopback(tmp_path, Bench(), dialect)


@pytest.fixture(scope="session")
def fates() -> type[Fate]:
    return Fate
