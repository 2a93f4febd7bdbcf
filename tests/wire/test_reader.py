"""Messages out of a stream, whole, in pieces and several at once."""

from __future__ import annotations

import pytest

from headgate.wire import (
    ApplicationError,
    Cursor,
    MalformedMessage,
    Message,
    MessageReader,
    MessageType,
    StructWriter,
    Transport,
    read_header,
    write_exception,
    write_message,
    write_reply,
)

BODIES = {
    "getTableNames": StructWriter().end(),
    "get": StructWriter().binary(1, b"t").binary(2, b"r").mapping(4, {b"a": b"b"}).end(),
    "mutateRow": StructWriter().structs(3, [StructWriter().bool(1, True).end()] * 3).end(),
    "": StructWriter().i64(0, 5).end(),
}
TYPES = [MessageType.CALL, MessageType.ONEWAY, MessageType.REPLY, MessageType.EXCEPTION]
CASES = [
    (name, kind, seqid, body)
    for (name, body), kind, seqid in zip(BODIES.items(), TYPES, [0, 1, -1, 2**31 - 1], strict=True)
]


def stream(transport: Transport) -> list[bytes]:
    return [write_message(transport, name, kind, seqid, body) for name, kind, seqid, body in CASES]


def message_of(reader: MessageReader) -> Message:
    """Return the next one, which must be there."""
    message = reader.next_message()
    assert message is not None
    return message


def check(messages: list[Message], transport: Transport) -> None:
    assert [message.raw for message in messages] == stream(transport)
    assert [(m.name, m.type, m.seqid, m.raw[m.body :]) for m in messages] == CASES
    assert {message.transport for message in messages} == {transport}


@pytest.mark.parametrize("transport", Transport)
@pytest.mark.parametrize("chunk", [1, 3, 16, 10_000])
def test_a_stream_gives_its_messages_however_it_is_cut(transport, chunk):
    data = b"".join(stream(transport))
    reader = MessageReader()
    messages = []
    for start in range(0, len(data), chunk):
        reader.feed(data[start : start + chunk])
        while (message := reader.next_message()) is not None:
            messages.append(message)
    check(messages, transport)
    assert reader.transport is transport
    assert reader.buffered == 0


@pytest.mark.parametrize("transport", Transport)
def test_bytes_behind_a_message_stay_for_the_next(transport):
    first, second, *_ = stream(transport)
    reader = MessageReader()
    reader.feed(first + second[:9])
    assert message_of(reader).raw == first
    assert reader.next_message() is None
    assert reader.buffered == 9
    reader.feed(second[9:])
    assert message_of(reader).raw == second


def test_a_message_that_came_alone_is_not_copied():
    data = stream(Transport.BUFFERED)[1]
    reader = MessageReader()
    reader.feed(data)
    assert message_of(reader).raw is data


def test_the_transport_of_replies_may_be_known_beforehand():
    reader = MessageReader(transport=Transport.FRAMED)
    assert reader.transport is Transport.FRAMED
    reader.feed(stream(Transport.FRAMED)[2])
    assert message_of(reader).type is MessageType.REPLY


@pytest.mark.parametrize("transport", Transport)
def test_an_exception_answers_its_request_in_its_transport(transport):
    request = MessageReader()
    request.feed(stream(transport)[1])
    answer = write_exception(message_of(request), ApplicationError.PROTOCOL_ERROR, "not here")
    reader = MessageReader(transport=transport)
    reader.feed(answer)
    message = message_of(reader)
    assert (message.name, message.type, message.seqid) == ("get", MessageType.EXCEPTION, 1)
    cursor = Cursor(message.raw, message.body)
    assert (cursor.next_field(), cursor.field_id, cursor.binary()) == (11, 1, b"not here")
    assert (cursor.next_field(), cursor.field_id, cursor.i32()) == (8, 2, 7)
    assert cursor.next_field() == 0
    assert cursor.pos == len(message.raw)


def test_a_reply_answers_its_request():
    request = MessageReader()
    request.feed(stream(Transport.FRAMED)[0])
    reader = MessageReader()
    reader.feed(write_reply(message_of(request), b"\0"))
    message = message_of(reader)
    assert (message.name, message.type, message.seqid) == ("getTableNames", MessageType.REPLY, 0)


def test_a_header_is_read_without_its_body():
    data = stream(Transport.BUFFERED)[1]
    header = read_header(data, 0, 15)
    assert header is not None
    assert (header.name, header.seqid, header.body) == ("get", 1, 15)
    assert read_header(data, 0, 14) is None


def test_a_cursor_skips_what_it_is_not_asked_for():
    body = (
        StructWriter()
        .struct(1, BODIES["mutateRow"])
        .mapping(2, {b"a": b"b"})
        .binaries(3, [b"x", b"y"])
        .i64(4, 1)
        .binary(5, b"wanted")
        .end()
    )
    cursor = Cursor(body, 0)
    while kind := cursor.next_field():
        if cursor.field_id == 5:
            assert cursor.binary() == b"wanted"
        else:
            cursor.skip(kind)
    assert cursor.pos == len(body)


def test_a_cursor_tells_where_the_bytes_end():
    cursor = Cursor(b"\x0b\0\1\0\0\0\x09abc", 0)
    assert cursor.next_field() == 11
    with pytest.raises(MalformedMessage, match="ends at byte 10; 9 more were due at byte 7"):
        cursor.binary()


def test_a_cursor_refuses_a_list_that_can_not_fit():
    with pytest.raises(MalformedMessage, match="container of 2147483647 elements with 3 bytes"):
        Cursor(b"\x0c\x7f\xff\xff\xff\0\0\0", 0).list_head()


def test_a_cursor_refuses_elements_without_a_size():
    with pytest.raises(MalformedMessage, match="elements of type 1"):
        Cursor(b"\x01\x7f\xff\xff\xff\0\0\0", 0).skip(15)


def test_a_cursor_refuses_endless_nesting():
    with pytest.raises(MalformedMessage, match="nested deeper"):
        Cursor(b"\x0c\0\1" * 1000, 0).skip(12)
