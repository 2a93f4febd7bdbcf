"""What an address speaks, told from scripted servers."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.hbase import Dialect
from headgate.observer.doctor.recognition import (
    ProbeReport,
    ProbeResult,
    _probe_format,
    probe,
    read_reply,
)
from headgate.observer.sessions.identification import (
    IDENTIFY,
    Identification,
    encode_identification,
)
from headgate.observer.upstreams.asking import FORMATS, call
from headgate.wire import MessageReader, Protocol, ProtocolError, Transport, WireFormat

BINARY, COMPACT = Protocol.BINARY, Protocol.COMPACT

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def ask(serve: Serve, seconds: float = 0.3) -> ProbeReport:
    """Probe a server that treats each connection as ``serve`` does."""

    async def run() -> ProbeReport:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                await serve(reader, writer)
            writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        try:
            return await probe(host, port, seconds=seconds)
        finally:
            server.close()

    return asyncio.run(run())


def says(answer: bytes) -> Serve:
    """Return a server that answers anything with the same bytes and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(answer)
        await writer.drain()

    return serve


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(100):
        pass


def reply(
    format_: WireFormat, name: bytes, body: tuple[bytes, bytes], exception: bool = False
) -> bytes:
    """Return a reply whose struct is given in binary and in compact."""
    kind = 3 if exception else 2
    if format_.protocol is COMPACT:
        message = bytes([0x82, kind << 5 | 1, 1, len(name)]) + name + body[1]
    else:
        message = struct.pack(">HBBi", 0x8001, 0, kind, len(name)) + name + struct.pack(">i", 1)
        message += body[0]
    return (
        struct.pack(">i", len(message)) + message
        if format_.transport is Transport.FRAMED
        else message
    )


def number(value: int) -> tuple[bytes, bytes]:
    return struct.pack(">Bhi", 8, 0, value) + b"\x00", bytes([0x05, 0x00, value << 1, 0])


def text(field: int, value: bytes) -> tuple[bytes, bytes]:
    binary = struct.pack(">Bhi", 11, field, len(value)) + value + b"\x00"
    head = bytes([field << 4 | 8]) if field else b"\x08\x00"
    return binary, head + bytes([len(value)]) + value + b"\x00"


UNKNOWN_METHOD = text(1, b"Invalid method name")


def thrift(format_: WireFormat, known: dict[bytes, tuple[bytes, bytes]]) -> Serve:
    """Return a server that speaks one format, and does not answer what it does not understand."""
    start = b"\x82" if format_.protocol is COMPACT else b"\x80\x01"
    at = 4 if format_.transport is Transport.FRAMED else 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            if data[at : at + len(start)] != start:
                await silent(reader, writer)
                return
            names = {IDENTIFY.encode(), b"getThriftServerType", b"getTableNames", *known}
            name = next(name for name in names if name in data)
            body = known.get(name)
            writer.write(reply(format_, name, body or UNKNOWN_METHOD, exception=body is None))

    return serve


@pytest.mark.parametrize("format_", FORMATS, ids=str)
@pytest.mark.parametrize("dialect", list(Dialect))
def test_each_format_and_dialect_is_told_from_the_others(
    format_: WireFormat, dialect: Dialect
) -> None:
    kind = 1 if dialect is Dialect.THRIFT1 else 2
    report = ask(thrift(format_, {b"getThriftServerType": number(kind)}))
    assert [(each.format, each.dialect, each.observer) for each in report.results] == [
        (format_, dialect, None)
    ]


@pytest.mark.parametrize("format_", FORMATS, ids=str)
def test_an_old_server_that_does_not_say_its_type_is_told_by_a_method(format_: WireFormat) -> None:
    empty_list = struct.pack(">BhBi", 15, 0, 11, 0) + b"\x00", b"\x09\x00\x08\x00"
    (thrift1,) = ask(thrift(format_, {b"getTableNames": empty_list})).results
    (thrift2,) = ask(thrift(format_, {})).results
    assert (thrift1.dialect, thrift2.dialect) == (Dialect.THRIFT1, Dialect.THRIFT2)


@pytest.mark.parametrize("format_", FORMATS, ids=str)
def test_an_observer_in_between_says_its_name(format_: WireFormat) -> None:
    identification = Identification("o1", 7, compiled=True)
    known = {
        b"getThriftServerType": number(1),
        IDENTIFY.encode(): text(0, encode_identification(identification)),
    }
    (result,) = ask(thrift(format_, known)).results
    assert result.observer == identification


def test_an_observer_that_cannot_reach_hbase_is_quoted() -> None:
    refusal = text(1, b"headgate: HBase cannot be reached")
    format_ = FORMATS[0]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(reply(format_, b"getThriftServerType", refusal, exception=True))
        await writer.drain()

    (result,) = ask(serve).results
    assert result.complaint == "headgate: HBase cannot be reached"


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "TLS"),
        (b"\x04\x00\x00\x00\x13Invalid status -128", "SASL"),
        (b"\x03\x00\x00\x00\x24Unsupported mechanism type, not GSSAPI", "SASL"),
        (b"\x04\x00\x00\x0f\xff" + b"x" * 4095, "SASL"),
        (b'[1,"",3,0,{}]', "bytes that are no Thrift (5b 31 2c"),
        (b"", "closed"),
        (b"220 mail.example ESMTP", "bytes that are no Thrift (32 32 30 20 6d 61 69 6c"),
    ],
)
def test_what_is_no_thrift_is_named(answer: bytes, what: str) -> None:
    report = ask(says(answer))
    assert report.results == ()
    assert report.else_.startswith(what)


def test_a_server_that_waits_for_a_whole_http_request_is_recognised_too() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n")
        await writer.drain()

    assert ask(serve) == ProbeReport((), "HTTP")


def test_silence_is_told_as_nothing() -> None:
    assert ask(silent) == ProbeReport((), "")


@pytest.mark.parametrize("format_", FORMATS, ids=str)
def test_a_reply_that_comes_in_parts_is_read_whole(format_: WireFormat) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (
            number(2),
            text(0, encode_identification(Identification("o1", 7, compiled=True))),
        ):
            await reader.read(1000)
            for byte in reply(format_, b"n", answer):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0)

    async def run() -> ProbeResult:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        try:
            return await _probe_format(host, port, format_, None, "")
        finally:
            server.close()

    found = asyncio.run(run())
    assert (found.dialect, found.observer) == (
        Dialect.THRIFT2,
        Identification("o1", 7, compiled=True),
    )


@given(st.binary(max_size=60), st.sampled_from(FORMATS))
def test_any_struct_is_a_reply_or_none(body: bytes, format_: WireFormat) -> None:
    messages = MessageReader()
    messages.feed(reply(format_, b"n", (body, body)))
    with contextlib.suppress(ProtocolError):
        message = messages.next_message()
        assert message is None or isinstance(read_reply(message, format_).fields, dict)


def test_what_is_no_reply_in_the_format_of_the_call_is_none() -> None:
    compact, binary = (WireFormat(Transport.FRAMED, each) for each in (COMPACT, BINARY))
    messages = MessageReader()
    messages.feed(reply(compact, b"n", number(1)))
    message = messages.next_message()
    assert message is not None
    assert read_reply(message, compact).fields == {0: 1}
    with pytest.raises(ProtocolError):
        read_reply(message, binary)
    messages = MessageReader()
    messages.feed(call(compact, "n"))
    message = messages.next_message()
    assert message is not None
    with pytest.raises(ProtocolError):
        read_reply(message, compact)
