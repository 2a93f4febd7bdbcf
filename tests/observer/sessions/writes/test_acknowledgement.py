"""Replies that wait until Kafka has their writes' events (``kafka.acknowledge = "kafka"``)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from headgate.events import Outcome, UpdateBatch
from headgate.hbase import Dialect
from headgate.observer.monitoring.client_log import ClientLog, ListenerLog
from headgate.observer.sessions.acknowledgement import Acknowledgements, HeldReplies
from headgate.wire import MessageType, StructWriter, Transport, write_message

OK = write_message(Transport.BUFFERED, "mutateRow", MessageType.REPLY, 0, b"\x00")


def put(row: bytes, table: bytes = b"t") -> bytes:
    mutation = StructWriter().binary(2, b"f:q").binary(3, b"v").end()
    body = StructWriter().binary(1, table).binary(2, row).structs(3, [mutation]).end()
    return write_message(Transport.BUFFERED, "mutateRow", MessageType.CALL, 0, body)


class Wire:
    def __init__(self) -> None:
        self.data = b""
        self.closed = self.aborted = False

    def write(self, data: bytes) -> None:
        self.data += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


class Scene:
    def __init__(self) -> None:
        self.now = 0.0
        self.acknowledgements = Acknowledgements(seconds=5.0, clock=lambda: self.now)
        self.wire = Wire()
        self.connection: HeldReplies = self.acknowledgements.guard(
            cast("asyncio.Transport", self.wire), ClientLog(ListenerLog("thrift1", 1, lambda: 0.0))
        )


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_what_waits_for_nothing_is_sent_at_once(scene: Scene) -> None:
    scene.connection.write(b"a")
    assert scene.wire.data == b"a"


def test_a_reply_waits_for_its_write_and_all_behind_it_wait_too(scene: Scene) -> None:
    scene.connection.hold(1)
    scene.connection.write(b"first")
    scene.connection.hold(2)
    scene.connection.write(b"second")
    scene.connection.write(b"third")
    scene.acknowledgements.settled(2)
    assert scene.wire.data == b""
    assert len(scene.acknowledgements) == 1
    scene.acknowledgements.settled(1)
    assert scene.wire.data == b"firstsecondthird"
    scene.connection.write(b".")
    assert scene.wire.data == b"firstsecondthird."


def test_a_write_that_is_settled_before_its_reply_comes_holds_nothing(scene: Scene) -> None:
    scene.connection.hold(1)
    scene.acknowledgements.settled(1)
    scene.connection.write(b"reply")
    assert scene.wire.data == b"reply"


def test_a_connection_that_ends_still_sends_what_it_holds(scene: Scene) -> None:
    scene.connection.hold(1)
    scene.connection.write(b"reply")
    scene.connection.close()
    assert scene.connection.is_closing()
    assert not scene.wire.closed
    scene.acknowledgements.settled(1)
    assert (scene.wire.data, scene.wire.closed) == (b"reply", True)


def test_a_connection_that_waits_too_long_is_broken_and_not_answered(scene: Scene) -> None:
    scene.connection.hold(1)
    scene.connection.write(b"reply")
    scene.now = 4.9
    scene.acknowledgements.tend()
    assert not scene.wire.closed
    scene.now = 5.1
    scene.acknowledgements.tend()
    assert (scene.wire.data, scene.wire.aborted) == (b"", True)
    assert scene.acknowledgements.expired == 1
    assert len(scene.acknowledgements) == 0
    scene.acknowledgements.settled(1)
    assert scene.wire.data == b""


def test_a_connection_waits_only_for_what_is_not_settled(scene: Scene) -> None:
    scene.connection.hold(1)
    scene.now = 4.0
    scene.connection.hold(2)
    scene.acknowledgements.settled(1)
    scene.now = 8.9
    scene.acknowledgements.tend()
    assert not scene.wire.closed
    scene.now = 9.1
    scene.acknowledgements.tend()
    assert scene.wire.aborted


def test_bytes_that_were_let_go_are_not_held_any_more(scene: Scene) -> None:
    for intent in range(3):
        scene.connection.hold(intent)
        scene.connection.write(bytes(33 << 20))
        assert not scene.wire.aborted
        scene.acknowledgements.settled(intent)
        scene.wire.data = b""


def test_too_many_held_bytes_break_the_connection(scene: Scene) -> None:
    scene.connection.hold(1)
    for _ in range(65):
        scene.connection.write(bytes(1 << 20))
    assert scene.wire.aborted
    assert len(scene.acknowledgements) == 0


def test_a_watched_write_is_answered_once_kafka_has_its_event(loopback, fates) -> None:
    async def script(scene: Any) -> None:
        scene.acknowledgements = Acknowledgements(seconds=60, clock=lambda: 0.0)
        await scene.open(fates.ANSWER, OK)
        reader, writer = await scene.connect()
        writer.write(put(b"r"))
        await scene.until(lambda: scene.requests)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await reader.read(1)
        scene.publisher.flush()
        (sent,) = scene.bench.producer.sent
        assert isinstance(sent.message, UpdateBatch)
        assert sent.message.requests[0].outcome is Outcome.APPLIED
        scene.bench.producer.deliver_all()
        assert await reader.readexactly(len(OK)) == OK
        writer.close()

    loopback(Dialect.THRIFT1).run(script)


def test_other_writes_are_answered_at_once(loopback, fates) -> None:
    async def script(scene: Any) -> None:
        scene.acknowledgements = Acknowledgements(seconds=60, clock=lambda: 0.0)
        await scene.open(fates.ANSWER, OK)
        reader, writer = await scene.connect()
        writer.write(put(b"r", b"unwatched"))
        assert await reader.readexactly(len(OK)) == OK
        writer.close()

    loopback(Dialect.THRIFT1).run(script)
