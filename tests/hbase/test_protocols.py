"""Requests and replies in compact and old binary say the same as in strict binary."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from thriftpy2.protocol.binary import TBinaryProtocol
from thriftpy2.protocol.compact import TCompactProtocol
from thriftpy2.transport import TMemoryBuffer

from headgate.hbase import (
    METHODS,
    Dialect,
    decode_request,
    io_error_reply,
    judge,
    read_request,
)
from headgate.wire import (
    ApplicationError,
    Message,
    MessageReader,
    MessageType,
    Protocol,
    StructWriter,
    Transport,
    to_binary,
    transcode,
    write_exception,
)


def read(data: bytes) -> Message:
    reader = MessageReader()
    reader.feed(data)
    message = reader.next_message()
    assert message is not None
    assert message.raw == data
    return message


def old_binary(buffer: TMemoryBuffer) -> TBinaryProtocol:
    return TBinaryProtocol(buffer, strict_read=False, strict_write=False)


WRITERS = {Protocol.OLD_BINARY: old_binary, Protocol.COMPACT: TCompactProtocol}


@pytest.mark.parametrize("transport", Transport)
@pytest.mark.parametrize("protocol", WRITERS)
def test_a_request_says_the_same_in_every_protocol(case, encoder, protocol, transport):
    buffer = TMemoryBuffer()
    writer = WRITERS[protocol](buffer)
    writer.write_message_begin(case.method, MessageType.CALL, 7)
    writer.write_struct(encoder.arguments(case.dialect, case.method, case.arguments))
    writer.write_message_end()
    data = buffer.getvalue()
    message = read(struct.pack(">i", len(data)) + data if transport is Transport.FRAMED else data)
    strict = read(case.encoded)
    assert (message.protocol, message.transport) == (protocol, transport)
    assert decode_request(case.dialect, message) == decode_request(case.dialect, strict)
    assert read_request(case.dialect, message).tables == ("t", *case.others)


def compact(data: bytes) -> Message:
    return transcode(read(data), Protocol.COMPACT, Transport.FRAMED)


def test_a_reply_says_the_same_in_compact(case, encoder):
    request = decode_request(case.dialect, read(case.encoded))
    results: tuple[dict[str, Any], ...] = ({}, {"success": True}, {"success": 12}, {"success": []})
    for result in results:
        body = _result(**result)
        reply = Message(body, 0, case.method, MessageType.REPLY, 7, Transport.BUFFERED)
        written = transcode(reply, Protocol.COMPACT, Transport.FRAMED)
        found = judge(case.dialect, request, read(written.raw))
        assert found == judge(case.dialect, request, reply)
    refused = write_exception(read(case.encoded), ApplicationError.UNKNOWN_METHOD, "no")
    assert judge(case.dialect, request, compact(refused)) == judge(
        case.dialect, request, read(refused)
    )


def _result(success: object = None) -> bytes:
    writer = StructWriter()
    if isinstance(success, bool):
        writer.bool(0, success)
    elif isinstance(success, int):
        writer.i64(0, success)
    elif success is not None:
        writer.structs(0, [])
    return writer.end()


def test_headgates_own_refusal_comes_in_the_clients_protocol(case):
    request = compact(case.encoded)
    reply = read(io_error_reply(case.dialect, request, "the journal is full"))
    assert (reply.protocol, reply.transport) == (Protocol.COMPACT, Transport.FRAMED)
    strict = read(io_error_reply(case.dialect, read(case.encoded), "the journal is full"))
    assert to_binary(reply).raw[to_binary(reply).body :] == strict.raw[strict.body :]


def test_the_table_of_a_read_is_seen_in_compact():
    body = StructWriter().binary(1, b"t").binary(2, b"row").end()
    for dialect in Dialect:
        request = Message(body, 0, "get", MessageType.CALL, 1, Transport.BUFFERED)
        assert "get" in METHODS[dialect]
        written = transcode(request, Protocol.COMPACT, Transport.BUFFERED)
        assert read_request(dialect, written).tables == ("t",)
