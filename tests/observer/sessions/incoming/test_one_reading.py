"""What the proxy and HBase could read differently is refused, whether there are rules or not."""

from __future__ import annotations

import pytest
from scene import CELLS, OK, Scene, call, get, messages, put

from headgate.events import ORIGIN_ATTRIBUTE, Origin, encode_origin
from headgate.wire import (
    MessageReader,
    MessageType,
    Protocol,
    StructWriter,
    Transport,
    transcode,
    write_message,
)


def mutation(column: bytes = b"f:q") -> bytes:
    return StructWriter().binary(2, column).binary(3, b"v").end()


def nested(depth: int) -> bytes:
    """The value of a field of structs within structs."""
    return b"\x0c\x00\x01" * depth + b"\x00" * (depth + 1)


WATCHED = StructWriter().binary(1, b"t").binary(2, b"r").structs(3, [mutation()]).end()
OTHER = StructWriter().binary(1, b"other").binary(2, b"r").structs(3, [mutation()]).end()
READ = StructWriter().binary(1, b"other").binary(2, b"r").binary(3, b"f:q").end()
LYING_MAP = b"\x0d\x00\x04\x08\x08\x00\x00\x00\x01" + bytes(8)
LYING_LIST = b"\x0f\x00\x03\x08\x00\x00\x00\x01" + bytes(4)

DIFFERENT = {
    "the table twice, in a write": ("mutateRow", OTHER[:-1] + b"\x0b\x00\x01\x00\x00\x00\x01t\x00"),
    "the table twice, in a read": ("get", READ[:-1] + b"\x0b\x00\x01\x00\x00\x00\x01t\x00"),
    "mutations twice": ("mutateRow", OTHER[:-1] + WATCHED[WATCHED.index(b"\x0f") :]),
    "an attribute map that lies": ("mutateRow", OTHER[:-1] + LYING_MAP + b"\x00"),
    "an attribute map that lies, in a read": ("get", READ[:-1] + LYING_MAP + b"\x00"),
    "a list that lies, in a read": (
        "getRowWithColumns",
        READ[: READ.index(b"\x0b\x00\x03")] + LYING_LIST + b"\x00",
    ),
    "a list of mutations that lies": (
        "mutateRow",
        OTHER[: OTHER.index(b"\x0f")] + LYING_LIST + b"\x00",
    ),
}


@pytest.mark.parametrize("transport", Transport)
@pytest.mark.parametrize("name", DIFFERENT)
def test_what_hbase_could_read_differently_is_refused_and_the_connection_goes_on(
    scene: Scene, name: str, transport: Transport
) -> None:
    method, body = DIFFERENT[name]
    session, client, upstream = scene.connect()
    session.data_received(write_message(transport, method, MessageType.CALL, 7, body))
    assert upstream.taken() == b""
    answer = client.taken()
    assert b"nobody can tell what this request would do" in answer
    reader = MessageReader(transport=transport)
    reader.feed(answer)
    refusal = reader.next_message()
    assert refusal is not None
    assert (refusal.name, refusal.type, refusal.seqid) == (method, MessageType.EXCEPTION, 7)
    good = write_message(transport, "mutateRow", MessageType.CALL, 8, WATCHED)
    session.data_received(good)
    assert upstream.taken() == good
    assert scene.journal.next_intent == 1


@pytest.mark.parametrize("protocol", [Protocol.BINARY, Protocol.COMPACT])
def test_a_second_message_in_a_frame_is_refused_with_its_reason(
    scene: Scene, protocol: Protocol
) -> None:
    frames = [
        write_message(Transport.FRAMED, method, MessageType.CALL, 5, body)
        for method, body in (("get", READ), ("mutateRow", WATCHED))
    ]
    if protocol is Protocol.COMPACT:
        frames = [compacted(frame) for frame in frames]
    both = frames[0][4:] + frames[1][4:]
    session, client, upstream = scene.connect()
    session.data_received(len(both).to_bytes(4, "big") + both)
    assert upstream.taken() == b""
    assert b"bytes behind the message in its frame" in client.taken()
    assert client.closed


def compacted(frame: bytes) -> bytes:
    reader = MessageReader()
    reader.feed(frame)
    message = reader.next_message()
    assert message is not None
    return transcode(message, Protocol.COMPACT, Transport.FRAMED).raw


@pytest.mark.parametrize("transport", Transport)
def test_an_unknown_field_nested_too_deep_is_refused_on_either_transport(
    scene: Scene, transport: Transport
) -> None:
    body = b"\x0c\x00\x63" + nested(70) + WATCHED
    session, client, upstream = scene.connect()
    session.data_received(write_message(transport, "mutateRow", MessageType.CALL, 5, body))
    assert upstream.taken() == b""
    assert b"nested deeper than 32" in client.taken()


def test_unknown_fields_before_the_known_ones_are_read_past(scene: Scene) -> None:
    body = b"\x0c\x00\x63" + nested(20) + WATCHED
    session, _, upstream = scene.connect()
    session.data_received(call("mutateRow", body))
    assert upstream.taken() == call("mutateRow", body)
    assert scene.journal.next_intent == 1


def test_a_string_beyond_the_limit_is_refused_in_a_frame_too(scene: Scene) -> None:
    scene.endpoint.limits = type(scene.endpoint.limits)(max_frame=10_000, max_string=100)
    value = StructWriter().binary(2, b"f:q").binary(3, b"v" * 101).end()
    body = StructWriter().binary(1, b"t").binary(2, b"r").structs(3, [value]).end()
    session, client, upstream = scene.connect()
    session.data_received(write_message(Transport.FRAMED, "mutateRow", MessageType.CALL, 5, body))
    assert upstream.taken() == b""
    assert b"a string of 101; the limit is 100" in client.taken()


def test_a_oneway_call_is_never_forwarded_and_ends_its_connection(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    session.data_received(get(b"x") + put(b"one", kind=MessageType.ONEWAY) + put(b"behind"))
    assert upstream.taken() == get(b"x")
    assert not client.closed, "what came before it is still answered"
    session.reply_received(CELLS)
    assert client.taken() == CELLS
    assert client.closed
    assert scene.metrics.protocol_errors == 1


@pytest.mark.parametrize("kind", [MessageType.REPLY, MessageType.EXCEPTION])
def test_a_call_that_says_it_is_a_reply_is_refused(scene: Scene, kind: MessageType) -> None:
    session, client, upstream = scene.connect()
    session.data_received(put(b"one", kind=kind))
    assert upstream.taken() == b""
    assert b"a request of type " in client.taken()


def test_a_refusal_waits_for_the_replies_before_it(scene: Scene) -> None:
    method, body = DIFFERENT["mutations twice"]
    session, client, _ = scene.connect()
    session.data_received(put(b"r") + call(method, body))
    assert client.taken() == b""
    session.reply_received(OK)
    first, refusal = messages(client.taken())
    assert first == OK
    assert b"comes twice" in refusal


def test_attributes_are_read_by_their_field(scene: Scene) -> None:
    """An unknown map before them is no map of attributes, whatever it holds."""
    origin = encode_origin(Origin("flow", "step", "run", 1))
    head = StructWriter().mapping(50, {ORIGIN_ATTRIBUTE: origin}).end()[:-1]
    session, _, _ = scene.connect()
    session.data_received(call("mutateRow", head + WATCHED))
    session.reply_received(OK)
    (batch,) = scene.log()
    assert [part.origin for part in batch.requests] == [None]
