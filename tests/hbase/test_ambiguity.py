"""Requests that two readers of Thrift could read differently."""

from __future__ import annotations

import pytest

from headgate.hbase import require_unambiguous
from headgate.wire import (
    MalformedMessage,
    Message,
    MessageReader,
    MessageType,
    Protocol,
    StructWriter,
    Transport,
    transcode,
    write_message,
)


def message(name: str, body: bytes, protocol: Protocol = Protocol.BINARY) -> Message:
    reader = MessageReader()
    reader.feed(write_message(Transport.FRAMED, name, MessageType.CALL, 0, body))
    found = reader.next_message()
    assert found is not None
    return transcode(found, protocol, Transport.FRAMED)


def test_what_hbases_clients_send_is_unambiguous(case) -> None:
    reader = MessageReader()
    reader.feed(case.encoded)
    found = reader.next_message()
    assert found is not None
    require_unambiguous(found)


TWICE = StructWriter().binary(1, b"t").binary(1, b"secret").end()
NAME_TWICE = StructWriter().binary(1, b"ns").binary(2, b"t").binary(2, b"secret").end()


@pytest.mark.parametrize("protocol", [Protocol.BINARY, Protocol.COMPACT])
@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("get", TWICE),
        ("get", StructWriter().i64(1, 5).binary(1, b"t").end()),
        ("put", StructWriter().binary(1, b"t").struct(2, b"\x00").binary(1, b"secret").end()),
        ("append", StructWriter().struct(1, TWICE).end()),
        ("incrementRows", StructWriter().structs(1, [TWICE]).end()),
        ("deleteTable", StructWriter().struct(1, NAME_TWICE).end()),
        ("modifyTable", StructWriter().struct(1, StructWriter().struct(1, NAME_TWICE).end()).end()),
    ],
)
def test_a_table_named_twice_is_ambiguous(method: str, body: bytes, protocol: Protocol) -> None:
    with pytest.raises(MalformedMessage, match="comes twice in one struct"):
        require_unambiguous(message(method, body, protocol))


def test_bytes_behind_the_arguments_are_ambiguous() -> None:
    body = StructWriter().binary(1, b"t").end()
    with pytest.raises(MalformedMessage, match="3 bytes behind the arguments"):
        require_unambiguous(message("get", body + b"abc"))
    compact = message("get", body, Protocol.COMPACT)
    more = (len(compact.raw) - 4 + 3).to_bytes(4, "big") + compact.raw[4:] + b"abc"
    reader = MessageReader()
    reader.feed(more)
    found = reader.next_message()
    assert found is not None
    with pytest.raises(MalformedMessage, match="3 bytes behind the struct"):
        require_unambiguous(found)
