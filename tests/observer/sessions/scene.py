"""Sessions whose client and server are the test, and requests and replies as it writes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

from headgate.events import (
    ORIGIN_ATTRIBUTE,
    BarrierRequest,
    Container,
    ContainerId,
    Gate,
    Item,
    Origin,
    Outcome,
    UpdateBatch,
    Watch,
    WatchList,
    encode_origin,
)
from headgate.hbase import Dialect
from headgate.observer.config import HealthChecks, JournalSettings
from headgate.observer.control.barriers import answer_barrier
from headgate.observer.control.gates import WriteGates
from headgate.observer.control.notify import NotifyColumns
from headgate.observer.control.state import ControlState
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.recording.admission import WriteAdmission
from headgate.observer.recording.journal import Journal
from headgate.observer.recording.recorder import Recorder
from headgate.observer.security.access import ListenerGuard
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
from headgate.wire import Limits, MessageReader, MessageType, StructWriter, Transport, write_message


class Wire:
    """A transport whose other end is the test."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.paused = False
        self.closed = False
        self.ended = False
        self.left = False
        self.on_write: Callable[[bytes], None] | None = None

    def write(self, data: bytes) -> None:
        if self.on_write is not None:
            self.on_write(bytes(data))
        self.data += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def get_extra_info(self, name: str) -> object:
        return ("10.1.2.3", 4567) if name == "peername" else None

    def taken(self) -> bytes:
        data = bytes(self.data)
        self.data.clear()
        return data


def bare_endpoint(
    dialect: Dialect,
    loop: Any = None,
    dialer: Any = None,
    formats: Any = None,
    guard: ListenerGuard | None = None,
) -> Endpoint:
    """Return an endpoint behind which nobody is, but for what is given."""
    nobody: Any = Mock()
    nobody.closed = False
    return Endpoint(
        loop=loop or nobody,
        dialect=dialect,
        limits=Limits(),
        upstreams=Upstreams(dialer or nobody, formats),
        enforcement=Enforcement(ControlState(), nobody, nobody, guard),
        recording=Recording(nobody, nobody),
        monitoring=Monitoring(Metrics()),
    )


class Scene:
    """Sessions of one endpoint over a real journal and a scripted producer."""

    def __init__(
        self, directory: Path, bench: Any, dialect: Dialect, config: JournalSettings
    ) -> None:
        self.bench = bench
        self.now = 100.0
        self.directory = directory
        self.journal = Journal(
            directory, limit_bytes=config.limit_bytes, segment_bytes=config.segment_bytes
        )
        self.publisher = bench.publisher
        self.metrics = Metrics()
        self.notify = NotifyColumns(limit_bytes=5000, clock=lambda: self.now)
        self.control = ControlState(self.notify, lambda: self.now)
        self.pending: list[Callable[[], None]] = []
        self.turns: list[Callable[[], None]] = []
        self.recorder = Recorder(
            journal=self.journal,
            publisher=self.publisher,
            metrics=self.metrics,
            clock=lambda: self.now,
            soon=self.pending.append,
            later=bench.timers.later,
            passing=lambda: self.now,
        )
        self.publisher._deliveries._settle = self.journal.settle_all
        self.publisher._wanted = self.control.is_watched
        self.publisher._unfinished = self.recorder.lowest_unfinished
        self.admission = WriteAdmission(
            self.journal,
            self.publisher,
            config,
            clock=lambda: self.now,
            passing=lambda: self.now,
        )
        loop = cast("asyncio.AbstractEventLoop", self)
        self.gates = WriteGates(hold_seconds=5.0, clock=lambda: self.now)
        self.endpoint = Endpoint(
            loop=loop,
            dialect=dialect,
            limits=Limits(max_frame=10_000, max_string=10_000),
            upstreams=Upstreams(
                Dialer(loop, UpstreamPool("thrift1", ("127.0.0.1:1",), HealthChecks()), 1.0)
            ),
            enforcement=Enforcement(self.control, self.gates, self.notify),
            recording=Recording(self.recorder, self.admission),
            monitoring=Monitoring(self.metrics),
        )
        self.endpoint.has_left = lambda wire: cast("Wire", wire).left
        self.watch("t")

    def call_later(self, seconds: float, call: Callable[[], None]) -> Any:
        self.bench.timers.later(seconds, call)
        return self

    def call_soon(self, call: Callable[..., None], *arguments: Any) -> None:
        self.turns.append(lambda: call(*arguments))

    def turn(self) -> bool:
        """Let the loop come round once; tell whether anything was due."""
        turns, self.turns = self.turns, []
        for each in turns:
            each()
        return bool(turns)

    def cancel(self) -> None:
        """The scene is its own timer handle."""

    def watch(self, *tables: str) -> None:
        self.control.apply(WatchList(1, "d", 1, tuple(Watch(table) for table in tables)), "o")
        for table in tables:
            self.publisher.prepare(table, values=True)
            self.publisher.topic_ready(table, 1)

    def connect(self) -> tuple[Session, Wire, Wire]:
        session, client, upstream = Session(self.endpoint), Wire(), Wire()
        session.connection_made(cast("asyncio.Transport", client))
        session.upstream_made(cast("asyncio.Transport", upstream))
        session.upstream_settled(cast("asyncio.Transport", upstream))
        return session, client, upstream

    def work(self) -> None:
        """Let the loop come round: backlog, then the publisher's linger."""
        while self.pending:
            self.pending.pop(0)()
        self.publisher.flush()

    def log(self) -> list[Any]:
        """Everything that Kafka has."""
        self.work()
        self.bench.producer.deliver_all()
        return self.bench.producer.log(0)

    def outcomes(self) -> list[tuple[bytes, Outcome]]:
        """The first row and the outcome of every request that was published."""
        found = []
        for batch in self.log():
            if isinstance(batch, UpdateBatch):
                rows = iter(batch.rows)
                for part in batch.requests:
                    found.append((next(rows), part.outcome))
                    assert part.cells == 1
        return found


def call(name: str, body: bytes, kind: MessageType = MessageType.CALL) -> bytes:
    return write_message(Transport.BUFFERED, name, kind, 0, body)


def put(row: bytes, table: bytes = b"t", kind: MessageType = MessageType.CALL) -> bytes:
    mutation = StructWriter().binary(2, b"f:q").binary(3, b"v").end()
    body = StructWriter().binary(1, table).binary(2, row).structs(3, [mutation]).end()
    return call("mutateRow", body, kind)


def check(row: bytes) -> bytes:
    mutation = StructWriter().binary(2, b"f:q").binary(3, b"v").end()
    writer = StructWriter().binary(1, b"t").binary(2, row).binary(3, b"f:q").binary(5, b"e")
    return call("checkAndPut", writer.struct(6, mutation).end())


def get(row: bytes, table: bytes = b"t") -> bytes:
    body = StructWriter().binary(1, table).binary(2, row).binary(3, b"f:q").end()
    return call("get", body)


def reply(name: str, body: bytes = b"\x00") -> bytes:
    return call(name, body, MessageType.REPLY)


OK = reply("mutateRow")
TRUE = reply("checkAndPut", StructWriter().bool(0, True).end())
FALSE = reply("checkAndPut", StructWriter().bool(0, False).end())
CELLS = reply("get", StructWriter().structs(0, []).end())
FAILED = reply("mutateRow", StructWriter().struct(1, b"\x00").end())
SERVER = reply("getThriftServerType", StructWriter().i32(0, 1).end())
"""What HBase says to a call of the observer's own."""


def put2(row: bytes, token: int) -> bytes:
    origin = encode_origin(Origin("flow", "step", "run-7", token))
    value = StructWriter().binary(1, b"f").binary(2, b"q").binary(3, b"v").end()
    writer = StructWriter().binary(1, row).structs(2, [value])
    one = writer.mapping(5, {ORIGIN_ATTRIBUTE: origin}).end()
    return call("put", StructWriter().binary(1, b"t").struct(2, one).end())


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(4) + message


def name(message: bytes) -> str:
    length = int.from_bytes(message[4:8])
    return message[8 : 8 + length].decode()


def messages(data: bytes) -> list[bytes]:
    reader = MessageReader(transport=Transport.BUFFERED)
    reader.feed(data)
    found = []
    while (message := reader.next_message()) is not None:
        found.append(message.raw)
    return found


def numbered(message: bytes, number: int) -> bytes:
    """Return a message in strict binary with another sequence number."""
    reader = MessageReader(transport=Transport.BUFFERED)
    reader.feed(message)
    found = reader.next_message()
    assert found is not None
    return message[: found.body - 4] + number.to_bytes(4) + message[found.body :]


def answered(upstream: Wire, *answers: bytes) -> bytes:
    """Return the answers to the last requests that a server got, numbered as those are."""
    reader = MessageReader(transport=Transport.BUFFERED)
    reader.feed(upstream.taken())
    numbers = []
    while (request := reader.next_message()) is not None:
        numbers.append(request.seqid)
    last = numbers[-len(answers) :]
    return b"".join(numbered(a, n) for a, n in zip(answers, last, strict=True))


def answer_own_call(session: Session, upstream: Any) -> None:
    """Answer the observer's own call, which must be all that HBase was asked."""
    (asked,) = messages(upstream.taken())
    assert name(asked) == name(SERVER)
    session.reply_received(numbered(SERVER, int.from_bytes(asked[-5:-1])))


def barrier(scene: Scene, *tables: str) -> None:
    answer_barrier(
        BarrierRequest(1, "b", tables, "a"), [scene.endpoint], scene.recorder, scene.publisher
    )


def kinds(scene: Scene) -> list[str]:
    return [type(message).__name__ for message in scene.log()]


def close_gate(scene: Scene, revision: int = 1, *, released: bool = False) -> None:
    container = Container(ContainerId("c"), (Item("t", b"f", b"q"),))
    gate = Gate(2, "flow", "step", "kappa", (container,), 1000.0, revision, released=released)
    scene.gates.apply(gate, gate.until - scene.now)
    scene.gates.tend()
