"""Where a message's strings are; nothing whatever does more than have no layout."""

from __future__ import annotations

import pytest

from headgate.wire import (
    Message,
    MessageType,
    StructWriter,
    Transport,
    layout_of,
    write_message,
)

BODY = (
    StructWriter()
    .binary(1, b"table")
    .structs(2, [StructWriter().binary(1, b"column").bool(2, True).end()] * 2)
    .mapping(3, {b"a": b"b"})
    .i64(4, 5)
    .end()
)


def framed(body: bytes) -> Message:
    raw = write_message(Transport.FRAMED, "get", MessageType.CALL, 1, body)
    return Message(raw, len(raw) - len(body), "get", MessageType.CALL, 1, Transport.FRAMED)


def test_strings_are_found_in_their_order():
    message = framed(BODY)
    layout = layout_of(message, fixed=1, numbers=False)
    assert layout is not None
    found = [message.raw[begin:end] for begin, end in layout.strings]
    assert found == [b"table", b"column", b"column", b"a", b"b"]


@pytest.mark.parametrize("end", range(1, len(BODY)))
def test_a_frame_that_ends_inside_a_value_has_no_layout(end):
    assert layout_of(framed(BODY[:end]), fixed=1, numbers=True) is None


def test_a_frame_with_more_than_its_message_has_no_layout():
    assert layout_of(framed(BODY + b"\x00"), fixed=1, numbers=True) is None


@pytest.mark.parametrize("kind", [1, 5, 7, 9, 16, 127, 255])
def test_a_type_that_thrift_does_not_have_has_no_layout(kind):
    assert layout_of(framed(bytes((kind, 0, 1)) + bytes(20)), fixed=1, numbers=True) is None
