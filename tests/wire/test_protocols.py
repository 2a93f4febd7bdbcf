"""Compact and old binary, against bytes that an independent encoder has written."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
import thriftpy2
from thriftpy2.protocol.binary import TBinaryProtocol
from thriftpy2.protocol.compact import TCompactProtocol
from thriftpy2.transport import TMemoryBuffer

from headgate.wire import (
    ApplicationError,
    Cursor,
    FrameTooLarge,
    LimitExceeded,
    Limits,
    MalformedMessage,
    Message,
    MessageReader,
    MessageType,
    Protocol,
    StructWriter,
    Transport,
    WireFormat,
    to_binary,
    transcode,
    write_exception,
    write_reply,
)

SCHEMA = thriftpy2.load(
    str(Path(__file__).with_name("everything.thrift")), module_name="tests_everything_thrift"
)
LEAF = SCHEMA.Leaf(yes=False, number=-1)
VALUES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "booleans": {"yes": True, "no": False, "far": True},
    "numbers": {
        "small": -128,
        "short": -(2**15),
        "middle": 2**31 - 1,
        "long": -(2**63),
        "real": 1.5e-300,
    },
    "zeros": {"small": 0, "short": 0, "middle": 0, "long": 0, "real": -0.0, "text": b""},
    "text": {"text": bytes(range(256)) * 3, "before": 7},
    "structs": {"leaf": LEAF, "nested": [[LEAF] * 3, [], [LEAF]]},
    "short lists": {"flags": [True, False, True], "numbers": [0, -1, 2**40], "many": [1] * 14},
    "long lists": {"flags": [False] * 15, "numbers": list(range(-99, 100)), "many": [1] * 300},
    "maps": {
        "leaves": {b"a": LEAF, b"b": SCHEMA.Leaf(yes=True)},
        "reals": {-5: 0.1},
        "texts": [b"", b"x"],
    },
    "an empty map": {"empty": {}, "far": False},
}
SEQIDS = [0, 1, 127, 128, 2**31 - 1]


def old_binary(buffer: TMemoryBuffer) -> TBinaryProtocol:
    return TBinaryProtocol(buffer, strict_read=False, strict_write=False)


WRITERS = {
    Protocol.BINARY: TBinaryProtocol,
    Protocol.OLD_BINARY: old_binary,
    Protocol.COMPACT: TCompactProtocol,
}


def encode(protocol: Protocol, transport: Transport, name: str, seqid: int = 5) -> bytes:
    buffer = TMemoryBuffer()
    writer = WRITERS[protocol](buffer)
    writer.write_message_begin("call", MessageType.CALL, seqid)
    writer.write_struct(SCHEMA.Service.call_args(all=SCHEMA.Everything(**VALUES[name])))
    writer.write_message_end()
    data: bytes = buffer.getvalue()
    return struct.pack(">i", len(data)) + data if transport is Transport.FRAMED else data


def read(data: bytes, limits: Limits | None = None) -> Message:
    reader = MessageReader(limits or Limits())
    reader.feed(data)
    message = reader.next_message()
    assert message is not None
    assert message.raw == data
    return message


FORMATS = [WireFormat(transport, protocol) for transport in Transport for protocol in Protocol]
formats = pytest.mark.parametrize("spoken", FORMATS, ids=str)
values = pytest.mark.parametrize("name", VALUES)


@formats
@pytest.mark.parametrize("chunk", [1, 7, 10_000])
def test_a_stream_gives_its_messages_however_it_is_cut(spoken, chunk):
    sent = [
        encode(spoken.protocol, spoken.transport, name, seqid) for seqid, name in enumerate(VALUES)
    ]
    data = b"".join(sent) + sent[-1][:-1]
    reader = MessageReader()
    received = []
    for start in range(0, len(data), chunk):
        reader.feed(data[start : start + chunk])
        while (message := reader.next_message()) is not None:
            received.append(message)
    assert [message.raw for message in received] == sent
    assert [message.seqid for message in received] == list(range(len(VALUES)))
    assert {(m.name, m.type, m.format) for m in received} == {("call", MessageType.CALL, spoken)}
    assert reader.buffered == len(sent[-1]) - 1


@values
@formats
@pytest.mark.parametrize("wanted", FORMATS, ids=str)
def test_a_message_is_written_in_another_protocol_as_its_own_writer_would(name, spoken, wanted):
    message = read(encode(spoken.protocol, spoken.transport, name))
    written = transcode(message, wanted.protocol, wanted.transport)
    assert written.raw == encode(wanted.protocol, wanted.transport, name)
    assert written == read(written.raw)
    assert (written is message) == (wanted == spoken)


@pytest.mark.parametrize("seqid", [*SEQIDS, -1, -(2**31)])
def test_sequence_numbers_survive(seqid):
    sent = read(encode(Protocol.BINARY, Transport.BUFFERED, "nothing"))
    sent = Message(sent.raw, sent.body, sent.name, sent.type, seqid, sent.transport)
    compact = transcode(sent, Protocol.COMPACT, Transport.FRAMED)
    assert read(compact.raw).seqid == seqid
    assert transcode(compact, Protocol.BINARY, Transport.BUFFERED).seqid == seqid


@formats
def test_a_refusal_is_written_in_what_the_client_speaks(spoken):
    request = read(encode(spoken.protocol, spoken.transport, "text", 300))
    answer = read(write_exception(request, ApplicationError.PROTOCOL_ERROR, "not here"))
    assert (answer.name, answer.type, answer.seqid) == ("call", MessageType.EXCEPTION, 300)
    answered = Protocol.COMPACT if spoken.protocol is Protocol.COMPACT else Protocol.BINARY
    assert answer.format == WireFormat(spoken.transport, answered)
    message = to_binary(answer)
    cursor = Cursor(message.raw, message.body)
    assert (cursor.next_field(), cursor.field_id, cursor.binary()) == (11, 1, b"not here")
    assert (cursor.next_field(), cursor.field_id, cursor.i32()) == (8, 2, 7)
    body = StructWriter().bool(0, True).end()
    reply = to_binary(read(write_reply(request, body)))
    assert (reply.type, reply.raw[reply.body :]) == (MessageType.REPLY, body)


# -- what compact must not do

HEAD = bytes([0x82, 0x21, 0x05, 4]) + b"call"
BAD = {
    "an overlong number": (b"\x16" + b"\x80" * 10 + b"\x01\x00", "varint"),
    "an overlong field id": (b"\x05\x80\x80\x80\x01\x02\x00", "varint"),
    "a negative length": (b"\x18\xff\xff\xff\xff\x0f\x00", "string of length -1"),
    "a type that is none": (b"\x1d\x00\x00", "type 13"),
    "a field of type stop": (b"\x10\x00", "type 0"),
    "elements of no type": (b"\x19\x20\x00\x00", "container of types 0"),
    "keys of no type": (b"\x1b\x01\xd8\x00\x00", "container of types 13"),
}
TOO_MUCH = {
    "a string beyond the limit": (b"\x18\xe9\x07" + b"x" * 1001 + b"\x00", "string of 1001"),
    "a container beyond the limit": (b"\x19\xf3\x65" + b"\x01" * 101 + b"\x00", "container of 101"),
    "nesting beyond the limit": (
        b"\x1c" * 9 + b"\x00" * 10,
        "nested deeper than 8, limits.nesting",
    ),
}
LIMITS = Limits(max_frame=2000, max_string=1000, max_container=100, max_depth=8)


def parts(data: bytes, *, whole: bool) -> list[bytes]:
    return [data] if whole else [data[i : i + 1] for i in range(len(data))]


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "byte by byte"])
@pytest.mark.parametrize("case", [*BAD, *TOO_MUCH])
def test_bad_bytes_are_refused_while_they_come(case, whole):
    body, words = (BAD | TOO_MUCH)[case]
    reader = MessageReader(LIMITS)

    def receive() -> None:
        for part in parts(HEAD + body, whole=whole):
            reader.feed(part)
            assert reader.next_message() is None

    kind = MalformedMessage if case in BAD else LimitExceeded
    with pytest.raises(kind, match=words):
        receive()


def framed(body: bytes) -> Message:
    """A frame that was not walked."""
    raw = struct.pack(">i", len(HEAD + body)) + HEAD + body
    kind, compact = MessageType.CALL, Protocol.COMPACT
    return Message(raw, len(raw) - len(body), "call", kind, 5, Transport.FRAMED, compact)


MORE = {
    "a 32-bit number with too many bits": (b"\x15\xff\xff\xff\xff\x1f\x00", "beyond 32 bits"),
    "a 64-bit number with too many bits": (b"\x16" + b"\xff" * 9 + b"\x02\x00", "beyond 64 bits"),
    "a 16-bit number with too many bits": (b"\x14\xff\xff\x04\x00", "beyond 16 bits"),
    "a field beyond the last": (b"\x05\xfe\xff\x03\x02\x15\x02\x00", "field of number 32768"),
    "more elements than bytes": (b"\x19\xf3\xff\xff\xff\xff\x07\x00", "bytes left"),
    "a string cut short": (b"\x18\x09abc\x00", "9 more were due"),
    "a struct cut short": (b"\x15\x02", "inside a value"),
}


@pytest.mark.parametrize("case", [*BAD, *MORE])
def test_bad_values_in_a_frame_are_refused_when_they_are_read(case):
    body, words = (BAD | MORE)[case]
    with pytest.raises(MalformedMessage, match=words):
        to_binary(framed(body))


def test_nesting_in_a_frame_is_refused_when_it_is_read():
    with pytest.raises(LimitExceeded, match=r"nested deeper than 32, limits\.nesting"):
        to_binary(framed(b"\x1c" * 33 + b"\x00" * 34))
    lists = b"\x19" + b"\x19" * 33 + b"\x03" + b"\x00"
    with pytest.raises(LimitExceeded, match=r"nested deeper than 32, limits\.nesting"):
        to_binary(framed(lists))


def test_what_would_become_too_long_in_binary_is_refused():
    message = framed(b"\x19\xf6\xe8\x07" + b"\x00" * 1000 + b"\x00")
    assert len(message.raw) < 1100
    with pytest.raises(FrameTooLarge, match="more than 5000 bytes once it is written in binary"):
        to_binary(message, Limits(max_frame=5000))


def test_bad_binary_is_not_written_in_compact():
    for body, words in (
        (b"\x0b\0\1\xff\xff\xff\xff\0", "string of length -1"),
        (b"\x0b\0\1\0\0\0\x09abc", "9 more were due"),
        (b"\x0f\0\1\x0b\0\0\1\0\0", "bytes left"),
        (b"\x0f\0\1\x01\0\0\0\1\0\0", "type 1"),
        (b"\x08\0\1\0\0", "inside a value"),
        (b"\x0c\0\1", "inside a value"),
        (b"\x07\0\1\0", "type 7"),
    ):
        message = Message(body, 0, "call", MessageType.CALL, 1, Transport.FRAMED)
        with pytest.raises(MalformedMessage, match=words):
            transcode(message, Protocol.COMPACT, Transport.FRAMED)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (HEAD + b"\x00" + b"\x80\x01\x00\x01", "out of step"),
        (HEAD + b"\x00" + b"\x82\x01\x01\x00", "out of step"),
        (b"\x82\x21" + b"\xff" * 5 + b"\x04call\x00", "varint"),
        (b"\0\0\0\4call\x09\0\0\0\1\0", "message of type 9"),
    ],
)
def test_a_bad_header_is_refused(data, words):
    reader = MessageReader()

    def receive() -> None:
        reader.feed(data)
        while reader.next_message() is not None:
            pass

    with pytest.raises(MalformedMessage, match=words):
        receive()


@pytest.mark.parametrize("data", [b"\x82\x21\x01\xad\x02" + b"n" * 301, b"\0\0\1\x2d" + b"n" * 301])
def test_an_endless_name_is_refused(data):
    reader = MessageReader()
    reader.feed(data)
    with pytest.raises(LimitExceeded, match="method name of 301 bytes"):
        reader.next_message()
