"""What a Thrift address speaks, found out by asking it in every format with harmless reads."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Any, Final

from msgspec import Struct

from headgate.hbase import Dialect
from headgate.observer.sessions.identification import (
    IDENTIFY,
    Identification,
    decode_identification,
)
from headgate.observer.upstreams.asking import (
    FORMATS,
    PING,
    ReplyKind,
    call,
    reply_kind,
    service_of,
)
from headgate.observer.upstreams.formats import CURES
from headgate.wire import (
    I32,
    I64,
    LIST,
    STRING,
    STRUCT,
    Cursor,
    Limits,
    MalformedMessage,
    Message,
    MessageReader,
    MessageType,
    Protocol,
    ProtocolError,
    Transport,
    UnsupportedProtocol,
    WireFormat,
    detect,
    to_binary,
)

_MOST: Final = 16 * 1024 * 1024
"""Bytes of a reply that is waited for."""
_HEAD: Final = 64
"""Bytes that are kept of what an address sends: they show what it speaks."""
_LIMITS: Final = Limits(max_frame=_MOST, max_string=_MOST)
_GRACE_SECONDS: Final = 0.5
_PLAIN: Final = WireFormat(Transport.BUFFERED, Protocol.BINARY)
"""What headgate's own clients speak."""


class ProbeResult(Struct, frozen=True):
    """What a server answered to a probe in one format."""

    format: WireFormat
    dialect: Dialect | None
    """None where it does not say."""
    observer: Identification | None
    """Which observer stands in between; None: HBase's own server answers."""
    seconds: float
    """From asking to the answer."""
    complaint: str = ""
    """What an observer answered instead that cannot reach HBase."""


class ProbeReport(Struct, frozen=True):
    """What an address answered to probes in every format."""

    results: tuple[ProbeResult, ...] = ()
    """One for each format in which it answered."""
    else_: str = ""
    """What it does instead, if it answered in no format: ``TLS``, ``HTTP``, ``SASL``, ``closed``,
    what it sent, or empty if it was silent."""


class Unanswered(ConnectionError):
    """The server did not answer a request; ``said`` is what it sent instead."""

    def __init__(self, said: bytes, why: str) -> None:
        super().__init__(f"it {why}" if not said else f"it sent {said[:16].hex(' ')} and {why}")
        self.said = said
        self.why = why


class Reply(Struct, frozen=True):
    """A reply and the values of its struct by field, those of structs within it likewise."""

    message: Message
    fields: dict[int, Any]


class Conversation:
    """One connection on which requests are asked one by one, in one format."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, format_: WireFormat
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._format = format_
        self._replies = MessageReader(_LIMITS, format_.transport)

    async def ask(self, name: str, arguments: bytes = b"\x00") -> Reply:
        r"""Return the reply to a call with a struct in binary; ``\x00`` is an empty one.

        Raises:
            Unanswered: no reply came in the format of the call.
        """
        said = b""
        try:
            self._writer.write(call(self._format, name, arguments))
            await self._writer.drain()
            while (message := self._replies.next_message()) is None:
                chunk = await self._reader.read(65536)
                if not chunk:
                    break
                said = (said + chunk)[:_HEAD]
                self._replies.feed(chunk)
            reply = None if message is None else read_reply(message, self._format)
        except ProtocolError:
            raise Unanswered(said, "went on") from None
        except OSError as error:
            raise Unanswered(said, f"broke the connection ({error.strerror or error})") from error
        except asyncio.CancelledError:
            raise Unanswered(said, "did not answer") from None
        if reply is None:
            raise Unanswered(said, "closed the connection")
        return reply

    def close(self) -> None:
        """End the connection."""
        self._writer.close()


async def converse(
    host: str, port: int, format_: WireFormat, *, tls: ssl.SSLContext | None, server_name: str = ""
) -> Conversation:
    """Connect and return the conversation.

    Raises:
        OSError: nobody answers there, or TLS failed.
    """
    name = (server_name or host) if tls is not None else None
    reader, writer = await asyncio.open_connection(host, port, ssl=tls, server_hostname=name)
    return Conversation(reader, writer, format_)


async def recognise(host: str, port: int, *, seconds: float) -> ProbeResult:
    """Return who answers at an address in the format that headgate's own clients speak.

    Raises:
        OSError: nobody answers so within that time.
    """
    return await asyncio.wait_for(_probe_format(host, port, _PLAIN, None, ""), seconds)


async def probe(
    host: str,
    port: int,
    *,
    seconds: float,
    tls: ssl.SSLContext | None = None,
    server_name: str = "",
) -> ProbeReport:
    """Return in which formats an address answers, each asked on a connection of its own."""
    tasks = [
        asyncio.ensure_future(_probe_format(host, port, format_, tls, server_name))
        for format_ in FORMATS
    ]
    ending = time.monotonic() + seconds
    waiting = set(tasks)
    while waiting and time.monotonic() < ending:
        done, waiting = await asyncio.wait(
            waiting,
            timeout=max(0.0, ending - time.monotonic()),
            return_when=asyncio.FIRST_COMPLETED,
        )
        if any(task.exception() is None for task in done):
            # A server that answers does so at once: what is silent now does not speak the rest.
            ending = min(ending, time.monotonic() + _GRACE_SECONDS)
    for task in waiting:
        task.cancel()
    asked = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [each for each in asked if isinstance(each, BaseException)]
    for failure in failures:
        if not isinstance(failure, Unanswered | OSError | asyncio.CancelledError):
            raise failure
    results = tuple(each for each in asked if isinstance(each, ProbeResult))
    if results:
        return ProbeReport(results)
    said = {each.said for each in failures if isinstance(each, Unanswered)}
    why = {each.why for each in failures if isinstance(each, Unanswered)}
    found = next(filter(None, map(_spoken, sorted(said))), "")
    if found:
        return ProbeReport((), found)
    heard = max(said, key=len, default=b"")
    if heard:
        return ProbeReport((), f"bytes that are no Thrift ({heard[:16].hex(' ')})")
    if await _speaks_http(host, port, seconds):
        return ProbeReport((), "HTTP")
    return ProbeReport(
        (), "closed" if any("close" in each or "broke" in each for each in why) else ""
    )


async def speaks_tls(host: str, port: int, *, seconds: float) -> bool:
    """Return whether an address takes a TLS handshake, whoever it says that it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _speaks_http(host: str, port: int, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            said = await reader.read(_HEAD)
            writer.close()
    except (OSError, TimeoutError):
        return False
    return _spoken(said) == "HTTP"


def _spoken(said: bytes) -> str:
    """Return what an address speaks that HBase's settings turn on and off; empty: nothing such."""
    try:
        detect(said)
    except UnsupportedProtocol as error:
        return error.spoken if error.spoken in CURES else ""
    except ProtocolError:
        return ""
    return ""


async def _probe_format(
    host: str, port: int, format_: WireFormat, tls: ssl.SSLContext | None, server_name: str
) -> ProbeResult:
    conversation = await converse(host, port, format_, tls=tls, server_name=server_name)
    try:
        began = time.perf_counter()
        reply = await conversation.ask(PING)
        took = time.perf_counter() - began
        text = _text(reply.fields.get(1))
        if reply_kind(reply.message) is ReplyKind.EXCEPTION and text.startswith("headgate: "):
            return ProbeResult(format_, None, None, took, text)
        dialect = service_of(reply.message)
        if dialect is None:
            # HBase before 2.2 does not know the method.
            kind = reply_kind((await conversation.ask("getTableNames")).message)
            dialect = Dialect.THRIFT2 if kind is ReplyKind.EXCEPTION else Dialect.THRIFT1
        named = (await conversation.ask(IDENTIFY)).fields.get(0)
        observer = decode_identification(named) if isinstance(named, bytes) else None
        return ProbeResult(format_, dialect, observer, took)
    finally:
        conversation.close()


def _text(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else ""


def read_reply(message: Message, format_: WireFormat) -> Reply:
    """Return the reply that a message is.

    Raises:
        ProtocolError: it is none in the protocol of the format, or its struct makes no sense.
    """
    if message.type not in (MessageType.REPLY, MessageType.EXCEPTION):
        raise MalformedMessage("no reply")
    if message.protocol is not format_.protocol:
        raise MalformedMessage("no message of the protocol")
    message = to_binary(message)
    return Reply(message, _read_struct(Cursor(message.raw, message.body)))


def _read_struct(cursor: Cursor) -> dict[int, Any]:
    fields: dict[int, Any] = {}
    while kind := cursor.next_field():
        number = cursor.field_id
        fields[number] = _read_value(cursor, kind)
    return fields


def _read_value(cursor: Cursor, kind: int) -> Any:
    """Return a number, bytes, struct or list; None for what no reply here needs."""
    if kind == I32:
        return cursor.i32()
    if kind == I64:
        return cursor.i64()
    if kind == STRING:
        return cursor.binary()
    if kind == STRUCT:
        return _read_struct(cursor)
    if kind == LIST:
        inner, count = cursor.list_head()
        return [_read_value(cursor, inner) for _ in range(count)]
    cursor.skip(kind)
    return None
