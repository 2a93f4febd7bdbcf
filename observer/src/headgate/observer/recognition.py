"""What a Thrift address speaks, found out by asking it in every way with harmless reads."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Any, Final

from msgspec import Struct

from headgate.hbase import Dialect
from headgate.observer.introduction import IDENTIFY, Introduction, decode_introduction

_CALL: Final = 1
_EXCEPTION: Final = 3
_BINARY: Final = 0x80
_COMPACT: Final = 0x82
_MOST: Final = 16 * 1024 * 1024  # bytes of a reply that is waited for
_GRACE_SECONDS: Final = 0.5
_DEEPEST: Final = 16
_SERVER_TYPE: Final = "getThriftServerType"
_DIALECTS: Final = {1: Dialect.THRIFT1, 2: Dialect.THRIFT2}
_SASL: Final = (3, 4)  # BAD and ERROR: how SASL answers what is not SASL
_TLS_ALERT: Final = b"\x15\x03"
_TLS_HANDSHAKE: Final = b"\x16\x03"


class Way(Struct, frozen=True):
    """One way to say the same: ``framed`` or ``buffered``, ``binary`` or ``compact``."""

    framed: bool
    compact: bool

    def __str__(self) -> str:
        """Return it as ``framed/compact``."""
        framing = "framed" if self.framed else "buffered"
        return f"{framing}/{'compact' if self.compact else 'binary'}"


WAYS: Final = tuple(Way(framed, compact) for framed in (False, True) for compact in (False, True))


class Spoken(Struct, frozen=True):
    """A way in which the server answered."""

    way: Way
    dialect: Dialect | None
    """None where it does not say."""
    observer: Introduction | None
    """Which observer stands in between; None: HBase's own server answers."""
    seconds: float
    """From asking to the answer."""
    complaint: str = ""
    """What an observer answered instead that cannot reach HBase."""


class Spoke(Struct, frozen=True):
    """All that an address answered."""

    ways: tuple[Spoken, ...] = ()
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
        r"""Return the reply to a call; ``arguments`` is the encoded struct, ``\x00`` an empty one.

        Raises:
            Unanswered: no reply came.
        """
        encoded = name.encode()
        if self._way.compact:
            message = bytes([_COMPACT, _CALL << 5 | 1, 1, len(encoded)]) + encoded + arguments
        else:
            message = b"\x80\x01\x00\x01" + len(encoded).to_bytes(4, "big") + encoded
            message += b"\x00\x00\x00\x01" + arguments
        if self._way.framed:
            message = len(message).to_bytes(4, "big") + message
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
                except (ValueError, RecursionError):
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


async def probe(
    host: str,
    port: int,
    *,
    seconds: float,
    tls: ssl.SSLContext | None = None,
    server_name: str = "",
) -> Spoke:
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
    ways = tuple(each for each in asked if isinstance(each, Spoken))
    if ways:
        return Spoke(ways)
    said = {each.said for each in failures if isinstance(each, Unanswered)}
    why = {each.why for each in failures if isinstance(each, Unanswered)}
    found = next(filter(None, map(_recognise, sorted(said))), "")
    if found:
        return Spoke((), found)
    heard = max(said, key=len, default=b"")
    if heard:
        return Spoke((), f"bytes that are no Thrift ({heard[:16].hex(' ')})")
    if await _speaks_http(host, port, seconds):
        return Spoke((), "HTTP")
    return Spoke((), "closed" if any("close" in each or "broke" in each for each in why) else "")


async def speaks_tls(host: str, port: int, *, seconds: float) -> bool:
    """Tell whether an address takes a TLS handshake, whoever it says that it is."""
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
) -> Spoken:
    conversation = await converse(host, port, way, tls=tls, server_name=server_name)
    try:
        began = time.perf_counter()
        reply = await conversation.ask(_SERVER_TYPE)
        took = time.perf_counter() - began
        if reply.exception and _text(reply).startswith("headgate: "):
            return Spoken(way, None, None, took, _text(reply))
        number = None if reply.exception else reply.fields.get(0)
        dialect = _DIALECTS.get(number) if isinstance(number, int) else None
        if dialect is None:
            # HBase before 2.2 does not know the method.
            tables = await conversation.ask("getTableNames")
            dialect = Dialect.THRIFT2 if tables.exception else Dialect.THRIFT1
        named = await conversation.ask(IDENTIFY)
        text = named.fields.get(0)
        observer = decode_introduction(text) if isinstance(text, bytes) else None
        return Spoken(way, dialect, observer, took)
    finally:
        conversation.close()


def _text(reply: Reply) -> str:
    text = reply.fields.get(1, b"")
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else ""


# -- reading replies; IndexError: more bytes are needed; ValueError: this is no reply


def _read_reply(data: bytes, way: Way) -> Reply:
    at = 4 if way.framed else 0
    if way.framed:
        length = int.from_bytes(_take(data, 0, 4), "big")
        if length > _MOST:
            raise ValueError("no frame")
        if len(data) < 4 + length:
            # A stream that begins like no message of the protocol will not become one.
            expected = _COMPACT if way.compact else _BINARY
            if len(data) > at and data[at] != expected:
                raise ValueError("no message")
            raise IndexError
    if way.compact:
        return _read_compact(data, at)
    return _read_binary(data, at)


def _take(data: bytes, at: int, length: int) -> bytes:
    if length < 0 or length > _MOST:
        raise ValueError("no length")
    if at + length > len(data):
        raise IndexError
    return data[at : at + length]


def _read_binary(data: bytes, at: int) -> Reply:
    if data[at] != _BINARY:
        raise ValueError("no binary message")
    head = _take(data, at, 8)
    if head[1] != 1 or head[3] not in (2, _EXCEPTION):
        raise ValueError("no reply")
    at += 8 + len(_take(data, at + 8, int.from_bytes(head[4:], "big"))) + 4
    fields, _ = _binary_struct(data, at, 0)
    return Reply(fields, head[3] == _EXCEPTION)


def _binary_struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    fields: dict[int, Any] = {}
    while True:
        kind = data[at]
        if kind == 0:
            return fields, at + 1
        number = int.from_bytes(_take(data, at + 1, 2), "big")
        fields[number], at = _binary_value(data, at + 3, kind, depth)


_SIZES: Final = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}
_STRING, _STRUCT, _MAP, _SET, _LIST = 11, 12, 13, 14, 15


def _binary_value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if depth > _DEEPEST:
        raise ValueError("too deep")
    if kind in _SIZES:
        size = _SIZES[kind]
        return int.from_bytes(_take(data, at, size), "big", signed=True), at + size
    if kind == _STRING:
        length = int.from_bytes(_take(data, at, 4), "big", signed=True)
        return _take(data, at + 4, length), at + 4 + length
    if kind == _STRUCT:
        return _binary_struct(data, at, depth + 1)
    if kind in (_SET, _LIST):
        inner = data[at]
        count = int.from_bytes(_take(data, at + 1, 4), "big", signed=True)
        at += 5
        values = []
        for _ in range(max(0, count)):
            value, at = _binary_value(data, at, inner, depth + 1)
            values.append(value)
        return values, at
    raise ValueError("a type that no reply here has")


def _read_compact(data: bytes, at: int) -> Reply:
    if data[at] != _COMPACT:
        raise ValueError("no compact message")
    kind = data[at + 1] >> 5
    if data[at + 1] & 0x1F != 1 or kind not in (2, _EXCEPTION):
        raise ValueError("no reply")
    _, at = _varint(data, at + 2)
    length, at = _varint(data, at)
    at += len(_take(data, at, length))
    return Reply(_compact_fields(data, at), kind == _EXCEPTION)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("no number")


_COMPACT_INTEGERS: Final = (4, 5, 6)
_COMPACT_STRING: Final = 8


def _compact_fields(data: bytes, at: int) -> dict[int, Any]:
    """Return the fields up to the first that is neither a number nor a text."""
    fields: dict[int, Any] = {}
    number = 0
    while data[at]:
        kind, step = data[at] & 0x0F, data[at] >> 4
        at += 1
        if step:
            number += step
        else:
            zigzag, at = _varint(data, at)
            number = zigzag >> 1 ^ -(zigzag & 1)
        if kind in _COMPACT_INTEGERS:
            zigzag, at = _varint(data, at)
            fields[number] = zigzag >> 1 ^ -(zigzag & 1)
        elif kind == _COMPACT_STRING:
            length, at = _varint(data, at)
            fields[number] = _take(data, at, length)
            at += length
        else:
            break
    return fields
