"""Requests recognised by what they have in common are understood as if they had been read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.hbase import Dialect, Patterns, Write, decode_request
from headgate.wire import (
    Limits,
    Message,
    MessageReader,
    MessageType,
    StructWriter,
    Transport,
    write_message,
)

_text = st.binary(min_size=1, max_size=12)


def read(raw: bytes, transport: Transport) -> Message:
    reader = MessageReader(Limits(), transport)
    reader.feed(raw)
    message = reader.next_message()
    assert message is not None
    return message


def put1(row: bytes, column: bytes, value: bytes, *, delete: bool = False) -> bytes:
    mutation = StructWriter().bool(1, delete).binary(2, column).binary(3, value).bool(4, True)
    writer = StructWriter().binary(1, b"t").binary(2, row)
    return writer.structs(3, [mutation.end()]).mapping(4, {}).end()


def put2(row: bytes, family: bytes, qualifier: bytes, value: bytes) -> bytes:
    cell = StructWriter().binary(1, family).binary(2, qualifier).binary(3, value).end()
    put = StructWriter().binary(1, row).structs(2, [cell]).end()
    return StructWriter().binary(1, b"t").struct(2, put).end()


def get(table: bytes, row: bytes) -> bytes:
    return StructWriter().binary(1, table).binary(2, row).binary(3, b"f:q").mapping(4, {}).end()


def call(transport: Transport, name: str, body: bytes, seqid: int = 0) -> bytes:
    return write_message(transport, name, MessageType.CALL, seqid, body)


def learned(dialect: Dialect, transport: Transport, *raws: bytes) -> Patterns:
    patterns = Patterns(dialect)
    for raw in raws:
        for _ in range(2):
            patterns.consider(read(raw, transport))
    return patterns


def test_a_kind_of_request_is_remembered_when_it_comes_again() -> None:
    patterns = Patterns(Dialect.THRIFT1)
    raw = call(Transport.BUFFERED, "get", get(b"t", b"row1"))
    patterns.consider(read(raw, Transport.BUFFERED))
    assert patterns.find(raw) is None
    patterns.consider(read(raw, Transport.BUFFERED))
    assert patterns.find(raw) is not None


@given(
    row=_text,
    column=_text,
    value=_text,
    other=st.tuples(_text, _text, _text),
    transport=st.sampled_from(Transport),
    seqid=st.integers(-(2**31), 2**31 - 1),
)
def test_a_put_of_thrift1_is_what_decoding_finds(
    row: bytes,
    column: bytes,
    value: bytes,
    other: tuple[bytes, bytes, bytes],
    transport: Transport,
    seqid: int,
) -> None:
    patterns = learned(Dialect.THRIFT1, transport, call(transport, "mutateRow", put1(*other)))
    raw = call(transport, "mutateRow", put1(row, column, value), seqid)
    pattern = patterns.find(raw)
    if pattern is None:
        return
    message = read(raw, transport)
    assert pattern.message(raw) == message
    write = pattern.put(raw)
    assert write is None or write == decode_request(Dialect.THRIFT1, message)


def test_puts_of_the_same_lengths_are_recognised_with_other_contents() -> None:
    first = call(Transport.FRAMED, "mutateRow", put1(b"row1", b"f:a", b"value"))
    patterns = learned(Dialect.THRIFT1, Transport.FRAMED, first)
    raw = call(Transport.FRAMED, "mutateRow", put1(b"ROW2", b"g:b", b"eulav"), 7)
    pattern = patterns.find(raw)
    assert pattern is not None
    write = pattern.put(raw)
    assert isinstance(write, Write)
    assert write == decode_request(Dialect.THRIFT1, read(raw, Transport.FRAMED))
    assert (write.cells.rows, write.cells.columns) == ([b"ROW2"], [b"g:b"])


def test_a_put_of_thrift2_is_what_decoding_finds() -> None:
    first = call(Transport.FRAMED, "put", put2(b"row1", b"f", b"qu", b"value"))
    patterns = learned(Dialect.THRIFT2, Transport.FRAMED, first)
    raw = call(Transport.FRAMED, "put", put2(b"ROW2", b"g", b"xy", b"eulav"), 9)
    pattern = patterns.find(raw)
    assert pattern is not None
    assert pattern.put(raw) == decode_request(Dialect.THRIFT2, read(raw, Transport.FRAMED))


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("mutateRow", put1(b"row1", b"f:a", b"value", delete=True)),
        ("mutateRow", put1(b"row1", b"f:a", b"valu")),
        ("mutateRows", put1(b"row1", b"f:a", b"value")[:-4]),
    ],
    ids=["a delete", "another length", "another method"],
)
def test_another_kind_of_request_is_not_taken_for_a_put(name: str, body: bytes) -> None:
    first = call(Transport.BUFFERED, "mutateRow", put1(b"row1", b"f:a", b"value"))
    patterns = learned(Dialect.THRIFT1, Transport.BUFFERED, first)
    assert patterns.find(call(Transport.BUFFERED, name, body)) is None


def test_a_request_of_another_table_is_not_alike() -> None:
    patterns = learned(
        Dialect.THRIFT1,
        Transport.BUFFERED,
        call(Transport.BUFFERED, "get", get(b"t", b"row1")),
    )
    assert patterns.find(call(Transport.BUFFERED, "get", get(b"u", b"row1"))) is None


def test_a_put_whose_column_has_no_qualifier_is_left_to_decoding() -> None:
    first = call(Transport.BUFFERED, "mutateRow", put1(b"row1", b"f:a", b"value"))
    patterns = learned(Dialect.THRIFT1, Transport.BUFFERED, first)
    raw = call(Transport.BUFFERED, "mutateRow", put1(b"row1", b"fam", b"value"))
    pattern = patterns.find(raw)
    assert pattern is not None
    assert pattern.put(raw) is None


def test_a_put_with_attributes_is_never_remembered() -> None:
    mutation = StructWriter().bool(1, False).binary(2, b"f:a").binary(3, b"v").end()
    writer = StructWriter().binary(1, b"t").binary(2, b"row")
    body = writer.structs(3, [mutation]).mapping(4, {b"key": b"value"}).end()
    raw = call(Transport.BUFFERED, "mutateRow", body)
    assert learned(Dialect.THRIFT1, Transport.BUFFERED, raw).find(raw) is None


def test_more_kinds_of_one_length_than_are_worth_comparing_are_read() -> None:
    tables = [b"%c" % letter for letter in range(97, 107)]
    raws = [call(Transport.BUFFERED, "get", get(table, b"row1")) for table in tables]
    patterns = learned(Dialect.THRIFT1, Transport.BUFFERED, *raws)
    assert sum(patterns.find(raw) is not None for raw in raws) == 4
