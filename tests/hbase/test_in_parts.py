"""A batch that is read in parts says what it says when it is read at once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.events import ORIGIN_ATTRIBUTE, Origin, encode_origin
from headgate.hbase import Dialect, Reading, Request, Write, read_request
from headgate.wire import (
    Message,
    MessageType,
    Protocol,
    ProtocolError,
    StructWriter,
    Transport,
    transcode,
    write_message,
)

ONE, TWO = Dialect.THRIFT1, Dialect.THRIFT2
ORIGINS = [encode_origin(Origin("flow", "step", f"run-{n}", n)) for n in (1, 2)]


def message(name: str, body: bytes, protocol: Protocol) -> Message:
    return transcode(message_of(name, body), protocol, Transport.BUFFERED)


def row(dialect: Dialect, name: str, key: bytes, values: list[bytes], odd: int) -> bytes:
    writer = StructWriter().binary(1, key)
    if dialect is ONE:
        cells = [
            StructWriter().bool(1, odd == 3).binary(2, b"f:%d" % at).binary(3, value).end()
            for at, value in enumerate(values)
        ]
    elif name == "putMultiple":
        cells = [
            StructWriter().binary(1, b"f").binary(2, b"%d" % at).binary(3, value).end()
            for at, value in enumerate(values)
        ]
    else:
        cells = [StructWriter().binary(1, b"f").binary(2, value).end() for value in values]
    writer.structs(2, cells)
    if odd == 1:
        writer.binary(1, key)  # twice
    elif odd == 2 and dialect is TWO:
        origin = ORIGINS[len(values) % 2]
        writer.mapping(5 if name == "putMultiple" else 6, {ORIGIN_ATTRIBUTE: origin})
    return writer.end()


@st.composite
def batches(draw: st.DrawFn) -> tuple[Dialect, Message]:
    dialect, name = draw(
        st.sampled_from(
            [
                (ONE, "mutateRows"),
                (ONE, "mutateRowsTs"),
                (TWO, "putMultiple"),
                (TWO, "deleteMultiple"),
            ]
        )
    )
    rows = []
    for _ in range(draw(st.integers(0, 5))):
        size, cells = draw(st.integers(0, 20)), draw(st.integers(0, 3))
        grows = draw(st.integers(0, 2))
        odd = draw(st.sampled_from([0, 0, 0, 0, 2, 2, 3, 1]))
        rows += [
            row(dialect, name, b"r%03d" % n, [b"v" * (size + n * grows)] * cells, odd)
            for n in range(draw(st.integers(1, 25)))
        ]
    parts = [
        lambda writer: writer.binary(1, b"t"),
        lambda writer: writer.structs(2, rows),
        lambda writer: writer.i64(3, 77) if name == "mutateRowsTs" else writer,
        lambda writer: writer.binary(1, b"u"),
        lambda writer: writer.structs(2, rows[:1]),
    ]
    order = draw(
        st.sampled_from([(0, 1, 2), (0, 1, 2), (1, 0), (2, 1, 0), (1,), (0, 1, 3), (0, 1, 4)])
    )
    writer = StructWriter()
    for each in order:
        parts[each](writer)
    behind = draw(st.sampled_from([b"", b"", b"", b"\x00"]))
    body = bytearray(writer.end() + behind)
    if draw(st.integers(0, 3)) == 0:
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
        return dialect, message_of(name, bytes(body))
    protocol = draw(st.sampled_from([Protocol.BINARY, Protocol.BINARY, Protocol.COMPACT]))
    if behind:
        protocol = Protocol.BINARY
    return dialect, message(name, bytes(body), protocol)


def message_of(name: str, body: bytes) -> Message:
    raw = write_message(Transport.BUFFERED, name, MessageType.CALL, 3, body)
    return Message(raw, len(raw) - len(body), name, MessageType.CALL, 3, Transport.BUFFERED)


def outcome(read) -> Request | str:
    try:
        return read()
    except ProtocolError as error:
        # Damaged bytes may be wrong in two places: which of them is named depends on the way.
        return type(error).__name__


@settings(deadline=None, max_examples=300)
@given(asked=batches(), sizes=st.lists(st.integers(1, 2000), min_size=1, max_size=5))
def test_parts_make_no_difference(asked, sizes) -> None:
    dialect, request = asked

    def in_parts() -> Request:
        reading = Reading(dialect, request)
        for turn in range(len(request.raw) + 2):
            found = reading.go_on(sizes[turn % len(sizes)])
            if found is not None:
                return found
        raise AssertionError("it never ends")

    assert outcome(in_parts) == outcome(lambda: read_request(dialect, request))


def test_each_part_ends_with_the_row_that_reaches_its_size() -> None:
    rows = [row(ONE, "mutateRows", b"r%d" % n, [b"v" * (n % 40)], 0) for n in range(200)]
    body = StructWriter().binary(1, b"t").structs(2, rows).end()
    request = message("mutateRows", body, Protocol.BINARY)
    reading = Reading(ONE, request)
    turns = 1
    while (found := reading.go_on(500)) is None:
        turns += 1
    assert turns >= len(body) // (500 + max(map(len, rows)))
    assert isinstance(found.change, Write)
    assert len(found.change.cells) == 200


def test_rows_of_one_kind_are_read_in_parts_too() -> None:
    rows = [row(ONE, "mutateRows", b"r%03d" % n, [b"value"], 0) for n in range(200)]
    body = StructWriter().binary(1, b"t").structs(2, rows).end()
    reading = Reading(ONE, message("mutateRows", body, Protocol.BINARY))
    turns = 1
    while reading.go_on(500) is None:
        turns += 1
    assert turns == -(-(len(body) - 12) // -(-500 // len(rows[0]) * len(rows[0])))


def test_what_is_no_batch_is_read_at_once() -> None:
    body = StructWriter().binary(1, b"t").binary(2, b"r").structs(3, []).end()
    found = Reading(ONE, message("mutateRow", body, Protocol.BINARY)).go_on(1)
    assert found is not None
    assert found.tables == ("t",)
