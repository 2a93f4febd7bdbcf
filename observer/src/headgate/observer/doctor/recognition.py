"""What a Thrift address speaks, found out by asking it in every way with harmless reads."""

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
from headgate.observer.upstreams.asking import PING, call
from headgate.wire import (
    I32,
    I64,
    LIST,
    STRING,
    STRUCT,
    Cursor,
    Limits,
    MessageReader,
    MessageType,
    Protocol,
    ProtocolError,
    Transport,
    WireFormat,
    to_binary,
)

_MOST: Final = 16 * 1024 * 1024  # bytes of a reply that is waited for
_LIMITS: Final = Limits(max_frame=_MOST, max_string=_MOST)
_GRACE_SECONDS: Final = 0.5
_DIALECTS: Final = {1: Dialect.THRIFT1, 2: Dialect.THRIFT2}
_SASL: Final = (3, 4)  # BAD and ERROR: how SASL answers what is not SASL
_TLS_ALERT: Final = b"\x15\x03"
_TLS_HANDSHAKE: Final = b"\x16\x03"


class Way(Struct, frozen=True):
    """One way to say the same: ``framed`` or ``buffered``, ``binary`` or ``compact``."""

    framed: bool
    compact: bool

    @property
    def format(self) -> WireFormat:
        """What is written on the wire."""
        return WireFormat(
            Transport.FRAMED if self.framed else Transport.BUFFERED,
            Protocol.COMPACT if self.compact else Protocol.BINARY,
        )

    def __str__(self) -> str:
        """Return it as ``framed/compact``."""
        return str(self.format)


WAYS: Final = tuple(Way(framed, compact) for framed in (False, True) for compact in (False, True))


class ProbeResult(Struct, frozen=True):
    """What a server answered to a probe in one way."""

    way: Way
    dialect: Dialect | None
    """None where it does not say."""
    observer: Identification | None
    """Which observer stands in between; None: HBase's own server answers."""
    seconds: float
    """From asking to the answer."""
    complaint: str = ""
    """What an observer answered instead that cannot reach HBase."""


class ProbeReport(Struct, frozen=True):
    """What an address answered to probes in every way."""

    ways: tuple[ProbeResult, ...] = ()
    """Those in which it answered."""
    else_: str = ""
    """Where it answered in no way: ``TLS``, ``HTTP``, ``SASL``, ``closed``, what it sent, or empty
    where it was silent."""


class Unanswered(ConnectionError):
    """The server did not answer a request; ``said`` is what it sent instead."""

    def __init__(self, said: bytes, why: str) -> None:
        super().__init__(f"it {why}" if not said else f"it sent {said[:16].hex(' ')} and {why}")
        self.said = said
        self.why = why


class Reply(Struct, frozen=True):
    """A reply's struct: values by field, structs within it likewise."""

    fields: dict[int, Any]
    exception: bool
    """Whether it is Thrift's own exception: field 1 is its text."""


class Conversation:
    """One connection on which requests are asked one by one."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way
    ) -> None:
        """Speak over streams in one way."""
        self._reader = reader
        self._writer = writer
        self._way = way

    async def ask(self, name: str, arguments: bytes = b"\x00") -> Reply:
        r"""Return the reply to a call with a struct in binary; ``\x00`` is an empty one.

        Raises:
            Unanswered: no reply came.
        """
        message = call(self._way.format, name, arguments)
        data = b""
        try:
            self._writer.write(message)
            await self._writer.drain()
            while True:
                chunk = await self._reader.read(65536)
                if not chunk:
                    raise Unanswered(data, "closed the connection")
                data += chunk
                try:
                    return _read_reply(data, self._way)
                except IndexError:
                    if len(data) > _MOST:
                        raise Unanswered(data, "did not come to an end") from None
                except ValueError:
                    raise Unanswered(data, "went on") from None
        except OSError as error:
            raise Unanswered(data, f"broke the connection ({error.strerror or error})") from error
        except asyncio.CancelledError:
            raise Unanswered(data, "did not answer") from None

    def close(self) -> None:
        """End the connection."""
        self._writer.close()


async def converse(
    host: str, port: int, way: Way, *, tls: ssl.SSLContext | None, server_name: str = ""
) -> Conversation:
    """Connect and return the conversation.

    Raises:
        OSError: nobody answers there, or TLS failed.
    """
    name = (server_name or host) if tls is not None else None
    reader, writer = await asyncio.open_connection(host, port, ssl=tls, server_hostname=name)
    return Conversation(reader, writer, way)


async def recognise(host: str, port: int, *, seconds: float) -> ProbeResult:
    """Return who answers at an address in the way that headgate's own clients speak.

    Raises:
        OSError: nobody answers so within that time.
    """
    plainly = _probe_way(host, port, Way(framed=False, compact=False), None, "")
    return await asyncio.wait_for(plainly, seconds)


async def probe(
    host: str,
    port: int,
    *,
    seconds: float,
    tls: ssl.SSLContext | None = None,
    server_name: str = "",
) -> ProbeReport:
    """Return in which ways an address answers, each asked on a connection of its own."""
    tasks = [asyncio.ensure_future(_probe_way(host, port, way, tls, server_name)) for way in WAYS]
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
    ways = tuple(each for each in asked if isinstance(each, ProbeResult))
    if ways:
        return ProbeReport(ways)
    said = {each.said for each in failures if isinstance(each, Unanswered)}
    why = {each.why for each in failures if isinstance(each, Unanswered)}
    found = next(filter(None, map(_recognise, sorted(said))), "")
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
            said = await reader.read(5)
            writer.close()
    except (OSError, TimeoutError):
        return False
    return said == b"HTTP/"


def _recognise(said: bytes) -> str:
    if said[:2] in (_TLS_ALERT, _TLS_HANDSHAKE):
        return "TLS"
    if said[:5] == b"HTTP/":
        return "HTTP"
    length = int.from_bytes(said[1:5], "big")
    if said[:1] and said[0] in _SASL and len(said) >= 5 and 0 < length < 4096:
        return "SASL"
    return ""


async def _probe_way(
    host: str, port: int, way: Way, tls: ssl.SSLContext | None, server_name: str
) -> ProbeResult:
    conversation = await converse(host, port, way, tls=tls, server_name=server_name)
    try:
        began = time.perf_counter()
        reply = await conversation.ask(PING)
        took = time.perf_counter() - began
        if reply.exception and _text(reply).startswith("headgate: "):
            return ProbeResult(way, None, None, took, _text(reply))
        number = None if reply.exception else reply.fields.get(0)
        dialect = _DIALECTS.get(number) if isinstance(number, int) else None
        if dialect is None:
            # HBase before 2.2 does not know the method.
            tables = await conversation.ask("getTableNames")
            dialect = Dialect.THRIFT2 if tables.exception else Dialect.THRIFT1
        named = await conversation.ask(IDENTIFY)
        text = named.fields.get(0)
        observer = decode_identification(text) if isinstance(text, bytes) else None
        return ProbeResult(way, dialect, observer, took)
    finally:
        conversation.close()


def _text(reply: Reply) -> str:
    text = reply.fields.get(1, b"")
    return text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else ""


def _read_reply(data: bytes, way: Way) -> Reply:
    """Return the reply that the bytes are.

    Raises:
        IndexError: more bytes are needed.
        ValueError: this is no reply in that way.
    """
    reader = MessageReader(_LIMITS, way.format.transport)
    try:
        reader.feed(data)
        message = reader.next_message()
        if message is None:
            raise IndexError
        if message.type not in (MessageType.REPLY, MessageType.EXCEPTION):
            raise ValueError("no reply")
        if message.protocol is not way.format.protocol:
            raise ValueError("no message of the protocol")
        message = to_binary(message)
        fields = _read_struct(Cursor(message.raw, message.body))
    except ProtocolError as error:
        raise ValueError(str(error)) from error
    return Reply(fields, message.type is MessageType.EXCEPTION)


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
