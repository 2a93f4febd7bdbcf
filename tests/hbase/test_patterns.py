"""Requests recognised by what they have in common are understood as if they had been read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.hbase import Dialect, Patterns, Write, decode_request, read_request
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
            patterns.consider(read_request(dialect, read(raw, transport)))
    return patterns


def test_a_kind_of_request_is_remembered_when_it_comes_again() -> None:
    patterns = Patterns(Dialect.THRIFT1)
    raw = call(Transport.BUFFERED, "get", get(b"t", b"row1"))
    patterns.consider(read_request(Dialect.THRIFT1, read(raw, Transport.BUFFERED)))
    assert patterns.find(raw) is None
    patterns.consider(read_request(Dialect.THRIFT1, read(raw, Transport.BUFFERED)))
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


def test_a_put_whose_qualifier_comes_before_its_family_is_never_read_swapped() -> None:
    cell = StructWriter().binary(2, b"a:a").binary(1, b"a").binary(3, b"v1").end()
    body = (
        StructWriter()
        .binary(1, b"t")
        .struct(2, StructWriter().binary(1, b"r").structs(2, [cell]).end())
    ).end()
    raw = call(Transport.FRAMED, "put", body)
    patterns = learned(Dialect.THRIFT2, Transport.FRAMED, raw)
    later = raw.replace(b"a:a", b"sec")
    pattern = patterns.find(later)
    found = None if pattern is None else pattern.put(later)
    write = decode_request(Dialect.THRIFT2, read(later, Transport.FRAMED))
    assert isinstance(write, Write)
    assert write.cells.columns == [b"a:sec"]
    assert found in (None, write)


@pytest.mark.parametrize("name", ["mutateRow", "mutateRows"])
def test_a_string_that_only_looks_like_the_row_is_not_taken_for_it(name: str) -> None:
    """Mutations first, then the row: the column stands where the row mostly does."""
    mutation = StructWriter().binary(2, b"a:b").end()
    fake = StructWriter().binary(3, b"").end()
    if name == "mutateRow":
        writer = StructWriter().binary(1, b"t").structs(3, [mutation]).binary(2, b"a:b")
    else:
        batch = StructWriter().structs(2, [mutation]).binary(1, b"a:b").end()
        writer = StructWriter().binary(1, b"t").structs(2, [batch])
    raw = call(Transport.FRAMED, name, writer.struct(50, fake).end())
    patterns = learned(Dialect.THRIFT1, Transport.FRAMED, raw)
    later = raw.replace(b"a:b", b"x:y", 1)
    pattern = patterns.find(later)
    write = decode_request(Dialect.THRIFT1, read(later, Transport.FRAMED))
    assert pattern is None or pattern.put(later) in (None, write)


def rows1(row: bytes, column: bytes, value: bytes) -> bytes:
    mutation = StructWriter().bool(1, False).binary(2, column).binary(3, value).bool(4, True).end()
    batch = StructWriter().binary(1, row).structs(2, [mutation]).end()
    return StructWriter().binary(1, b"t").structs(2, [batch]).mapping(3, {}).end()


def puts2(row: bytes, value: bytes) -> bytes:
    cell = StructWriter().binary(1, b"f").binary(2, b"q").binary(3, value).end()
    put = StructWriter().binary(1, row).structs(2, [cell]).end()
    return StructWriter().binary(1, b"t").structs(2, [put]).end()


@pytest.mark.parametrize(
    ("dialect", "name", "first", "later"),
    [
        (Dialect.THRIFT1, "mutateRows", rows1(b"r1", b"f:a", b"v"), rows1(b"r2", b"g:b", b"w")),
        (Dialect.THRIFT2, "putMultiple", puts2(b"r1", b"v"), puts2(b"r2", b"w")),
    ],
)
def test_a_batch_of_one_put_is_recognised_as_happybase_sends_it(
    dialect: Dialect, name: str, first: bytes, later: bytes
) -> None:
    patterns = learned(dialect, Transport.BUFFERED, call(Transport.BUFFERED, name, first))
    raw = call(Transport.BUFFERED, name, later, 5)
    pattern = patterns.find(raw)
    assert pattern is not None
    assert pattern.put(raw) == decode_request(dialect, read(raw, Transport.BUFFERED))


def test_what_is_asked_for_again_is_remembered_however_much_was_invented() -> None:
    """More lengths and tables than can be remembered came before."""
    patterns = Patterns(Dialect.THRIFT1)
    for length in range(1, 400):
        for letter in b"abcdef":
            raw = call(Transport.BUFFERED, "get", get(b"%c" % letter, b"r" * length))
            request = read_request(Dialect.THRIFT1, read(raw, Transport.BUFFERED))
            for _ in range(2):
                patterns.consider(request)
    for name in ("getRow", "getRowTs", "getVer", "scannerOpen", "getRows", "getRowWithColumns") * 7:
        for length in range(1, 400):
            body = StructWriter().binary(1, b"t").binary(9, b"x" * length).end()
            raw = call(Transport.BUFFERED, name, body)
            patterns.consider(read_request(Dialect.THRIFT1, read(raw, Transport.BUFFERED)))
    raw = call(Transport.BUFFERED, "get", get(b"wanted", b"row"))
    request = read_request(Dialect.THRIFT1, read(raw, Transport.BUFFERED))
    for _ in range(4):
        patterns.consider(request)
    assert patterns.find(raw) is not None


def test_a_kind_that_is_asked_for_all_the_time_is_not_pushed_out() -> None:
    patterns = Patterns(Dialect.THRIFT1)
    raw = call(Transport.BUFFERED, "get", get(b"wanted", b"row1"))
    request = read_request(Dialect.THRIFT1, read(raw, Transport.BUFFERED))
    for _ in range(2):
        patterns.consider(request)
    for number in range(100):
        other = call(Transport.BUFFERED, "get", get(b"%06d" % number, b"row1"))
        patterns.consider(read_request(Dialect.THRIFT1, read(other, Transport.BUFFERED)))
        assert patterns.find(raw) is not None
