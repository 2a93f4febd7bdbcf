"""Calls without arguments that the observer itself makes of a Thrift server, in any format."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Final, cast

from headgate.hbase import Dialect
from headgate.observer.upstreams.circles import Circle, arguments, circle_in
from headgate.observer.upstreams.dialing import Dialed, Dialer
from headgate.observer.upstreams.pool import Upstream
from headgate.wire import (
    I32,
    Cursor,
    Message,
    MessageReader,
    MessageType,
    Protocol,
    ProtocolError,
    Transport,
    UnsupportedProtocol,
    WireFormat,
    to_binary,
    transcode,
    write_message,
)

PING: Final = "getThriftServerType"
"""A call of both services that the server answers by itself; one too old for it says so."""

FORMATS: Final = tuple(
    # A server that speaks another closes the connection, but for a buffered one that is asked
    # framed: it takes the frame's length for that of a name and waits. So buffered comes first.
    WireFormat(transport, protocol)
    for transport in (Transport.BUFFERED, Transport.FRAMED)
    for protocol in (Protocol.BINARY, Protocol.COMPACT)
)
"""What HBase's Thrift servers may speak, in the order in which it is tried."""


_SERVICES: Final = {1: Dialect.THRIFT1, 2: Dialect.THRIFT2}
"""HBase's ``TThriftServerType``."""


class ReplyKind(Enum):
    """What a reply says."""

    RESULT = "the method's result"
    ERROR = "an error that the method declares"
    EXCEPTION = "an exception of the server's: it does not know the method, or broke in it"


def call(format_: WireFormat, method: str, arguments: bytes = b"\x00") -> bytes:
    r"""Return the bytes of a call; ``arguments`` is the struct in binary, ``\x00`` an empty one."""
    raw = write_message(Transport.BUFFERED, method, MessageType.CALL, 1, arguments)
    message = Message(
        raw, len(raw) - len(arguments), method, MessageType.CALL, 1, Transport.BUFFERED
    )
    return transcode(message, format_.protocol, format_.transport).raw


async def ask(
    dialer: Dialer,
    upstream: Upstream,
    format_: WireFormat,
    method: str,
    seconds: float | None = None,
) -> Message | None:
    """Return a server's reply to a call; None: it closes the connection or answers otherwise.

    The call bears the observer's mark, by which observers notice that they stand in a circle.

    Raises:
        UnsupportedProtocol: it answers in something that is no Thrift, and says what.
        Circle: the call came back to an observer that it had passed.
        OSError: it takes no connection.
        TimeoutError: likewise, or there is no reply for so many seconds.
    """
    way = (dialer.mark,) if dialer.mark else ()
    question = _Question(call(format_, method, arguments(way)))
    await dialer.open(upstream, lambda: question)
    try:
        async with asyncio.timeout(seconds):
            reply = await question.reply
    finally:
        question.close()
    if reply is None or reply.name != method:
        return None
    circle = circle_in(reply)
    if circle:
        raise Circle(circle)
    return reply


def reply_kind(reply: Message) -> ReplyKind:
    """Return what a reply says.

    Raises:
        ProtocolError: its result makes no sense.
    """
    if reply.type is not MessageType.REPLY:
        return ReplyKind.EXCEPTION
    reply = to_binary(reply)
    cursor = Cursor(reply.raw, reply.body)
    return ReplyKind.RESULT if cursor.next_field() and not cursor.field_id else ReplyKind.ERROR


def service_of(reply: Message) -> Dialect | None:
    """Return which of HBase's services answered a ping; None if it is too old to say."""
    try:
        if reply_kind(reply) is not ReplyKind.RESULT:
            return None
        reply = to_binary(reply)
        cursor = Cursor(reply.raw, reply.body)
        return _SERVICES.get(cursor.i32()) if cursor.next_field() == I32 else None
    except ProtocolError:
        return None


class _Question(Dialed):
    """One call on a connection of its own."""

    def __init__(self, call: bytes) -> None:
        self._call = call
        self._reader = MessageReader()
        self._transport: asyncio.Transport | None = None
        self.reply: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._call)

    def data_received(self, data: bytes) -> None:
        if self.reply.done():
            return
        self._reader.feed(data)
        try:
            reply = self._reader.next_message()
        except UnsupportedProtocol as error:
            self.reply.set_exception(error)
        except ProtocolError:
            self.reply.set_result(None)
        else:
            if reply is not None:
                self.reply.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - closed is closed
        if not self.reply.done():
            self.reply.set_result(None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
