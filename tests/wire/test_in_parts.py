"""A reader that walks messages in parts finds what one finds that walks them at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.wire import (
    Expansion,
    Limits,
    Message,
    MessageReader,
    MessageType,
    Protocol,
    ProtocolError,
    StructWriter,
    Transport,
    to_binary,
    transcode,
    write_message,
)

LIMITS = Limits(max_frame=20_000, max_string=400, max_container=300, max_depth=6)


@st.composite
def rows(draw: st.DrawFn) -> list[bytes]:
    """Rows of a batch, many of them alike, some of one size."""
    found = []
    for _ in range(draw(st.integers(0, 5))):
        size, flags = draw(st.integers(0, 60)), draw(st.integers(0, 3))
        grows = draw(st.integers(0, 2))
        for number in range(draw(st.integers(1, 30))):
            writer = StructWriter().binary(1, b"r%03d" % number)
            for flag in range(flags):
                writer.i64(5 + flag, number)
            value = StructWriter().binary(2, b"v" * (size + number * grows)).end()
            found.append(writer.structs(2, [value] * (1 + flags % 2)).end())
    return found


def whole(stream: bytes) -> list[Message]:
    """Return the messages of a stream that are in order."""
    reader = MessageReader()
    reader.feed(stream)
    found = []
    try:
        while (message := reader.next_message()) is not None:
            found.append(message)
    except ProtocolError:
        pass  # what is behind it is of no use
    return found


def in_compact(message: Message) -> bytes:
    return transcode(message, Protocol.COMPACT, message.transport).raw


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Messages one after the other, some of them damaged."""
    transport = draw(st.sampled_from(list(Transport)))
    stream = b""
    for _ in range(draw(st.integers(1, 3))):
        body = StructWriter().binary(1, b"t").structs(2, draw(rows())).mapping(3, {}).end()
        body += draw(st.sampled_from([b"", b"", b"", b"\x00"]))
        stream += write_message(transport, "mutateRows", MessageType.CALL, 7, body)
    if draw(st.booleans()):
        stream = b"".join(in_compact(each) for each in whole(stream))
    data = bytearray(stream)
    if len(data) > 20 and draw(st.booleans()):
        data[draw(st.integers(20, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.sampled_from([len(data), len(data) - 3]))])


def taken(
    reader: MessageReader, data: bytes, size: int
) -> tuple[list[Message], str | None, int, bool]:
    """Return messages, the error in the end, and how often the reader gave others a turn."""
    found: list[Message] = []
    turns = 0
    for at in range(0, len(data), size):
        reader.feed(data[at : at + size])
        try:
            while True:
                message = reader.next_message()
                if message is not None:
                    found.append(message)
                elif reader.unfinished:
                    turns += 1
                    assert turns < 10 * len(data)
                    assert not reader.between_messages
                    assert reader.buffered
                else:
                    break
        except ProtocolError as error:
            return found, f"{type(error).__name__} {error}", turns, True
    return found, None, turns, reader.between_messages


@settings(deadline=None)
@given(data=streams(), most=st.integers(1, 3000), size=st.integers(1, 5000) | st.just(1 << 20))
def test_parts_make_no_difference(data, most, size) -> None:
    whole = taken(MessageReader(LIMITS), data, size)
    parts = taken(MessageReader(LIMITS, most=most), data, size)
    assert parts[:2] == whole[:2]
    assert parts[3] == whole[3]
    assert whole[2] == 0


def test_each_part_is_no_longer_than_asked_for_and_one_value() -> None:
    body = StructWriter().structs(
        1, [StructWriter().binary(1, b"x" * (number % 50)).end() for number in range(300)]
    )
    arguments = body.end()
    for transport in Transport:
        binary = write_message(transport, "m", MessageType.CALL, 0, arguments)
        (message,) = whole(binary)
        for data in (binary, in_compact(message)):
            found, _, turns, _ = taken(MessageReader(most=200), data, 1 << 20)
            assert [each.raw for each in found] == [data]
            assert turns >= len(data) // (200 + 60)


@pytest.mark.parametrize("most", [1, 40])
def test_booleans_and_empty_structs_in_compact_are_walked_in_parts(most: int) -> None:
    structs = []
    for number in range(3000):
        writer = StructWriter()
        for field in range(number * 7919 % most):
            writer.bool(1 + field, number % 2 == 0)
        structs.append(writer.structs(50, [b"\x00"] * (number % 2)).end())
    body = StructWriter().structs(1, structs).end()
    (message,) = whole(write_message(Transport.FRAMED, "m", MessageType.CALL, 0, body))
    data = in_compact(message)
    found, _, turns, _ = taken(MessageReader(most=200), data, 1 << 20)
    assert [each.raw for each in found] == [data]
    assert turns >= len(data) // 210


@settings(deadline=None)
@given(data=streams(), size=st.integers(1, 3000))
def test_a_message_in_compact_becomes_the_same_in_binary_in_parts(data, size) -> None:
    for message in whole(data):
        asked = message if message.protocol is Protocol.COMPACT else None
        if asked is None:
            asked = transcode(message, Protocol.COMPACT, Transport.BUFFERED)
        expansion = Expansion(asked)
        turns = 1
        while (found := expansion.go_on(size)) is None:
            turns += 1
        assert found == to_binary(asked)
        assert turns <= len(asked.raw)


def test_a_message_in_compact_is_written_in_binary_in_parts() -> None:
    rows = [
        StructWriter()
        .binary(1, b"r%d" % number)
        .structs(2, [StructWriter().binary(2, b"x" * (number % 50)).end()] * (1 + number % 3))
        .end()
        for number in range(300)
    ]
    wide = [StructWriter().binary(2, b"x" * (number % 50)).end() for number in range(900)]
    one = StructWriter().binary(1, b"r").structs(2, wide).end()
    for body in (
        StructWriter().binary(1, b"t").structs(2, rows).end(),
        StructWriter().binary(1, b"t").binary(2, b"r").structs(3, wide).end(),
        StructWriter().binary(1, b"t").struct(2, one).end(),
        StructWriter().binary(1, b"t").structs(2, [one]).end(),
    ):
        (message,) = whole(write_message(Transport.BUFFERED, "m", MessageType.CALL, 0, body))
        asked = transcode(message, Protocol.COMPACT, Transport.BUFFERED)
        expansion = Expansion(asked)
        turns = 1
        while (found := expansion.go_on(500)) is None:
            turns += 1
        assert found.raw == message.raw
        assert turns >= len(asked.raw) // (500 + 200)


def test_a_string_longer_than_a_part_is_passed_at_once() -> None:
    data = write_message(
        Transport.BUFFERED, "m", MessageType.CALL, 0, StructWriter().binary(1, b"x" * 9000).end()
    )
    found, _, turns, _ = taken(MessageReader(most=100), data, 1 << 20)
    assert [each.raw for each in found] == [data]
    assert turns <= 2
