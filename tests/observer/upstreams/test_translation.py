"""What stands between a client and an upstream that may not understand each other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from headgate.hbase import Dialect
from headgate.observer.config import HealthChecks, Listener, UpstreamProtocol, UpstreamTransport
from headgate.observer.upstreams import translation
from headgate.observer.upstreams.asking import FORMATS
from headgate.observer.upstreams.dialing import Dialer
from headgate.observer.upstreams.formats import DetectedFormat, UpstreamFormats
from headgate.observer.upstreams.pool import Upstream, UpstreamPool
from headgate.observer.upstreams.translation import TranslatingTransport
from headgate.wire import (
    ApplicationError,
    Cursor,
    FrameTooLarge,
    Message,
    MessageReader,
    MessageType,
    Protocol,
    StructWriter,
    Transport,
    WireFormat,
    to_binary,
    transcode,
    write_message,
)

BUFFERED_BINARY, BUFFERED_COMPACT, FRAMED_BINARY, FRAMED_COMPACT = FORMATS
OLD = WireFormat(Transport.BUFFERED, Protocol.OLD_BINARY)
ARGUMENTS = StructWriter().binary(1, b"t").binary(2, b"row").end()
ROWS = StructWriter().binary(0, b"value").end()


def read(raw: bytes) -> list[Message]:
    reader = MessageReader()
    reader.feed(raw)
    found = []
    while (message := reader.next_message()) is not None:
        found.append(message)
    assert not reader.buffered
    return found


def written(
    format_: WireFormat,
    name: str = "getRow",
    kind: MessageType = MessageType.CALL,
    seqid: int = 1,
    body: bytes = ARGUMENTS,
) -> bytes:
    raw = write_message(Transport.BUFFERED, name, kind, seqid, body)
    message = Message(raw, len(raw) - len(body), name, kind, seqid, Transport.BUFFERED)
    return transcode(message, format_.protocol, format_.transport).raw


def answered(format_: WireFormat, seqid: int = 1) -> bytes:
    return written(format_, kind=MessageType.REPLY, seqid=seqid, body=ROWS)


def told(raw: bytes) -> tuple[WireFormat, int, str, ApplicationError]:
    """Format, sequence number, text and kind of the one exception that the bytes are."""
    (message,) = read(raw)
    assert message.type is MessageType.EXCEPTION
    binary = to_binary(message)
    cursor = Cursor(binary.raw, binary.body)
    assert cursor.next_field()
    text = cursor.binary().decode()
    assert cursor.next_field()
    return message.format, message.seqid, text, ApplicationError(cursor.i32())


class Connection:
    """The transport to the upstream, as far as the interpreter uses it."""

    def __init__(self) -> None:
        self.sent = b""
        self.aborted = False
        self.ended = False

    def write(self, data: bytes) -> None:
        self.sent += data

    def write_eof(self) -> None:
        self.ended = True

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


class ScriptedFormats(UpstreamFormats):
    """Knows one upstream; what it is found to speak when asked is the test's."""

    def __init__(self, dialer: Dialer, listener: Listener, known: WireFormat | None) -> None:
        super().__init__(dialer, Dialect.THRIFT1, listener)
        self.knows = known
        self.speaks = DetectedFormat(known)
        self.asked = 0

    def known(self, upstream: Upstream) -> WireFormat | None:
        return self.knows

    async def find(self, upstream: Upstream) -> DetectedFormat:
        self.asked += 1
        return self.speaks


class Scene:
    """The session's side: what it was given."""

    def __init__(self, known: WireFormat | None, told: WireFormat | None) -> None:
        keys: dict[str, Any] = {}
        if told is not None:
            compact = told.protocol is Protocol.COMPACT
            keys["upstream_transport"] = UpstreamTransport(told.transport.value)
            keys["upstream_protocol"] = UpstreamProtocol("compact" if compact else "binary")
        self.loop = asyncio.get_running_loop()
        pool = UpstreamPool("thrift1", ("127.0.0.1:1",), HealthChecks())
        listener = Listener("127.0.0.1:0", "127.0.0.1:1", **keys)
        self.formats = ScriptedFormats(Dialer(self.loop, pool, 1.0), listener, known)
        self.replies = b""
        self.lost: list[Exception | None] = []
        self.full = False
        self.settled = 0
        self.connection = Connection()
        self.translation = TranslatingTransport(self, self.formats, pool.members[0], self._settle)
        self.translation.made(cast("asyncio.Transport", self.connection))

    def _settle(self) -> None:
        self.settled += 1

    def reply_received(self, data: bytes) -> None:
        self.replies += data

    def upstream_lost(self, error: Exception | None) -> None:
        self.lost.append(error)

    def upstream_full(self) -> None:
        self.full = True

    def upstream_drained(self) -> None:
        self.full = False

    async def come_round(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def pass_time(self, seconds: float) -> None:
        clock = self.loop.time
        self.loop.time = lambda: clock() + seconds  # type: ignore[method-assign]
        await self.come_round()


def scene(
    script: Callable[[Scene], Awaitable[None]],
    known: WireFormat | None = None,
    told: WireFormat | None = None,
) -> None:
    async def run() -> None:
        await script(Scene(known, told))

    asyncio.run(run())


@pytest.mark.parametrize("format_", [*FORMATS, OLD], ids=str)
def test_it_steps_aside_with_the_first_reply_where_both_speak_the_same(
    format_: WireFormat,
) -> None:
    async def script(scene: Scene) -> None:
        scene.translation.write(written(format_) + written(format_, seqid=2))
        assert scene.connection.sent == written(format_) + written(format_, seqid=2)
        before = scene.settled
        assert not before
        reply = answered(BUFFERED_BINARY if format_ is OLD else format_)
        scene.translation.reply_received(reply)
        assert scene.settled == 1
        assert scene.replies == reply
        await scene.pass_time(60)
        assert not scene.formats.asked

    scene(script, known=BUFFERED_BINARY if format_ is OLD else format_)


PAIRS = [
    (client, upstream)
    for client in (*FORMATS, OLD)
    for upstream in FORMATS
    if client != upstream and (client, upstream) != (OLD, BUFFERED_BINARY)
]


def strict(format_: WireFormat) -> WireFormat:
    """What HBase answers a client in."""
    compact = format_.protocol is Protocol.COMPACT
    return format_ if compact else WireFormat(format_.transport, Protocol.BINARY)


@pytest.mark.parametrize(("client", "upstream"), PAIRS, ids=str)
def test_requests_and_replies_are_translated_however_they_are_cut(
    client: WireFormat, upstream: WireFormat
) -> None:
    async def script(scene: Scene) -> None:
        for seqid in (1, 2, 3):
            scene.translation.write(written(client, seqid=seqid))
        wanted = [written(upstream, seqid=seqid) for seqid in (1, 2, 3)]
        assert scene.connection.sent == b"".join(wanted)
        for byte in b"".join(answered(upstream, seqid) for seqid in (1, 2, 3)):
            scene.translation.reply_received(bytes((byte,)))
        assert scene.replies == b"".join(answered(strict(client), each) for each in (1, 2, 3))
        assert not scene.settled
        assert not scene.formats.asked

    scene(script, known=upstream, told=upstream)


def test_a_call_of_the_other_service_is_answered_and_never_sent() -> None:
    async def script(scene: Scene) -> None:
        scene.translation.write(written(FRAMED_COMPACT, "putMultiple", seqid=7))
        await scene.come_round()
        format_, seqid, text, error = told(scene.replies)
        assert (format_, seqid, error) == (FRAMED_COMPACT, 7, ApplicationError.PROTOCOL_ERROR)
        assert "putMultiple is a call of HBase's thrift2" in text
        assert "connect to the address of [thrift2] listen" in text
        assert scene.connection.sent == b""
        assert scene.connection.aborted

    scene(script)


FRAMED_OLD = WireFormat(Transport.FRAMED, Protocol.OLD_BINARY)


@pytest.mark.parametrize("format_", [OLD, FRAMED_OLD], ids=str)
def test_old_binary_is_not_sent_to_a_server_that_does_not_say_what_it_speaks(
    format_: WireFormat,
) -> None:
    async def script(scene: Scene) -> None:
        scene.translation.write(written(format_, seqid=4) + written(format_, seqid=5))
        assert (scene.connection.sent, scene.full) == (b"", True)
        await scene.come_round()
        assert scene.connection.sent == b""
        assert scene.connection.aborted
        one, other = read(scene.replies)
        assert (one.seqid, other.seqid) == (4, 5)
        assert "does not say what it speaks" in told(one.raw)[2]

    scene(script)


@pytest.mark.parametrize("format_", [OLD, FRAMED_OLD], ids=str)
def test_old_binary_goes_on_once_the_server_has_said_that_it_understands(
    format_: WireFormat,
) -> None:
    async def script(scene: Scene) -> None:
        scene.formats.speaks = DetectedFormat(strict(format_))
        scene.translation.write(written(format_))
        assert scene.connection.sent == b""
        await scene.come_round()
        assert scene.connection.sent == written(format_)
        assert not scene.full

    scene(script)


def test_what_bears_its_version_is_sent_to_a_server_that_was_not_asked_yet() -> None:
    async def script(scene: Scene) -> None:
        scene.translation.write(written(FRAMED_BINARY))
        assert scene.connection.sent == written(FRAMED_BINARY)

    scene(script)


def test_a_known_mismatch_is_told_before_anything_is_sent() -> None:
    async def script(scene: Scene) -> None:
        scene.translation.write(written(FRAMED_BINARY, seqid=4))
        assert scene.full
        await scene.come_round()
        format_, seqid, text, error = told(scene.replies)
        assert (format_, seqid, error) == (FRAMED_BINARY, 4, ApplicationError.PROTOCOL_ERROR)
        assert "the client speaks framed/binary" in text
        assert 'upstream_protocol = "compact"' in text
        assert scene.connection.sent == b""
        assert scene.translation.is_closing()
        scene.translation.lost(None)
        assert scene.lost == [None]

    scene(script, known=BUFFERED_COMPACT)


def test_a_server_too_busy_to_be_asked_counts_as_what_it_was() -> None:
    async def script(scene: Scene) -> None:
        scene.formats.speaks = DetectedFormat()
        scene.translation.write(written(FRAMED_BINARY))
        await scene.come_round()
        _, _, text, error = told(scene.replies)
        assert error is ApplicationError.PROTOCOL_ERROR
        assert "the client speaks framed/binary" in text
        assert scene.connection.sent == b""

    scene(script, known=BUFFERED_COMPACT)


def test_requests_held_for_a_server_that_changed_go_on_in_order() -> None:
    async def script(scene: Scene) -> None:
        scene.formats.speaks = DetectedFormat(FRAMED_BINARY)
        requests = [written(FRAMED_BINARY, seqid=seqid) for seqid in (1, 2)]
        for request in requests:
            scene.translation.write(request)
        scene.translation.write_eof()
        assert scene.connection.sent == b""
        assert not scene.connection.ended
        await scene.come_round()
        assert scene.connection.sent == b"".join(requests)
        assert scene.connection.ended
        assert not scene.full

    scene(script, known=BUFFERED_COMPACT)


def test_silence_is_looked_into_and_its_reason_told() -> None:
    async def script(scene: Scene) -> None:
        scene.translation.write(written(FRAMED_BINARY, seqid=3))
        await scene.pass_time(1)
        assert not scene.formats.asked
        scene.formats.speaks = DetectedFormat(BUFFERED_BINARY)
        await scene.pass_time(5)
        _, seqid, text, error = told(scene.replies)
        # It was sent: what the server made of it is not known.
        assert (seqid, error) == (3, ApplicationError.INTERNAL_ERROR)
        assert "the client speaks framed/binary" in text
        assert scene.connection.aborted

    scene(script)


def test_a_server_that_is_only_slow_is_waited_for() -> None:
    async def script(scene: Scene) -> None:
        scene.translation.write(written(FRAMED_BINARY))
        await scene.pass_time(6)
        assert scene.formats.asked == 1
        assert scene.replies == b""
        scene.translation.reply_received(answered(FRAMED_BINARY))
        assert scene.replies == answered(FRAMED_BINARY)

    scene(script, known=FRAMED_BINARY)


def test_a_connection_closed_instead_of_a_first_reply_is_explained() -> None:
    async def script(scene: Scene) -> None:
        scene.translation.write(written(BUFFERED_COMPACT, seqid=5))
        scene.formats.speaks = DetectedFormat(BUFFERED_BINARY)
        broken = ConnectionResetError()
        scene.translation.lost(broken)
        await scene.come_round()
        _, seqid, text, error = told(scene.replies)
        assert (seqid, error) == (5, ApplicationError.INTERNAL_ERROR)
        assert "the client speaks buffered/compact" in text
        assert scene.lost == [broken]

    scene(script)


@pytest.mark.parametrize("replied", [True, False])
def test_the_end_of_a_connection_that_nobody_waits_on_is_passed_on(replied: bool) -> None:
    async def script(scene: Scene) -> None:
        if replied:
            scene.translation.write(written(BUFFERED_COMPACT))
            scene.translation.reply_received(answered(BUFFERED_BINARY))
        scene.translation.lost(None)
        assert scene.lost == [None]
        assert not scene.formats.asked

    scene(script, told=BUFFERED_BINARY)


def test_a_server_that_answers_in_http_is_named() -> None:
    async def script(scene: Scene) -> None:
        scene.translation.write(written(BUFFERED_BINARY))
        scene.translation.reply_received(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        _, _, text, error = told(scene.replies)
        assert error is ApplicationError.INTERNAL_ERROR
        assert "speaks HTTP; unset hbase.regionserver.thrift.http there" in text

    scene(script)


def test_what_cannot_be_translated_is_answered_in_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def translate(message: Message, *more: Any) -> Message:
        if message.seqid == 2:
            raise FrameTooLarge("too long once it is written in compact")
        return transcode(message, *more)

    monkeypatch.setattr(translation, "transcode", translate)

    async def script(scene: Scene) -> None:
        requests = [written(FRAMED_BINARY, seqid=seqid) for seqid in (1, 2, 3)]
        for request in requests:
            scene.translation.write(request)
        assert [each.seqid for each in read(scene.connection.sent)] == [1, 3]
        await scene.come_round()
        assert scene.replies == b""
        for seqid in (1, 3):
            scene.translation.reply_received(answered(BUFFERED_COMPACT, seqid))
        replies = read(scene.replies)
        assert [(each.seqid, each.type.name) for each in replies] == [
            (1, "REPLY"),
            (2, "EXCEPTION"),
            (3, "REPLY"),
        ]
        _, _, text, error = told(replies[1].raw)
        assert error is ApplicationError.PROTOCOL_ERROR
        assert "getRow cannot be translated to buffered/compact" in text

    scene(script, told=BUFFERED_COMPACT)


def test_a_request_without_reply_is_not_waited_for() -> None:
    async def script(scene: Scene) -> None:
        scene.translation.write(written(BUFFERED_BINARY, kind=MessageType.ONEWAY))
        await scene.pass_time(60)
        assert not scene.formats.asked
        scene.translation.lost(None)
        assert scene.lost == [None]

    scene(script)
