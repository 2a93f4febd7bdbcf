"""Requests that two readers of Thrift could read differently are refused."""

from __future__ import annotations

import pytest

from headgate.events import ORIGIN_ATTRIBUTE, Origin, encode_origin
from headgate.hbase import Dialect, Write, decode_request, read_request
from headgate.wire import (
    I64,
    MAP,
    STRING,
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

ONE, TWO = Dialect.THRIFT1, Dialect.THRIFT2


def message(name: str, body: bytes, protocol: Protocol = Protocol.BINARY) -> Message:
    reader = MessageReader()
    reader.feed(write_message(Transport.FRAMED, name, MessageType.CALL, 0, body))
    found = reader.next_message()
    assert found is not None
    return transcode(found, protocol, Transport.FRAMED)


def written(dialect: Dialect, name: str, body: bytes) -> Write:
    write = decode_request(dialect, message(name, body))
    assert isinstance(write, Write)
    return write


def cell(family: bytes = b"f") -> bytes:
    return StructWriter().binary(1, family).binary(2, b"q").binary(3, b"v").end()


def put(row: bytes = b"r", origin: Origin | None = None) -> bytes:
    writer = StructWriter().binary(1, row).structs(2, [cell()])
    if origin is not None:
        writer.mapping(5, {ORIGIN_ATTRIBUTE: encode_origin(origin)})
    return writer.end()


def mutation(column: bytes = b"f:q") -> StructWriter:
    return StructWriter().binary(2, column).binary(3, b"v")


TABLE = StructWriter().binary(1, b"t")
TWICE = StructWriter().binary(1, b"t").binary(1, b"secret").end()
NAME = StructWriter().binary(2, b"t").end()
NAME_TWICE = StructWriter().binary(1, b"ns").binary(2, b"t").binary(2, b"secret").end()
ROW_TWICE = StructWriter().binary(1, b"r").binary(1, b"s").structs(2, [cell()]).end()
BATCH_TWICE = StructWriter().binary(1, b"r").structs(2, []).structs(2, []).end()


def table() -> StructWriter:
    return StructWriter().binary(1, b"t")


@pytest.mark.parametrize("protocol", [Protocol.BINARY, Protocol.COMPACT])
@pytest.mark.parametrize(
    ("dialect", "method", "body"),
    [
        (ONE, "get", TWICE),
        (TWO, "put", table().struct(2, put()).binary(1, b"secret").end()),
        (ONE, "append", StructWriter().struct(1, TWICE).end()),
        (ONE, "incrementRows", StructWriter().structs(1, [TWICE]).end()),
        (ONE, "incrementRows", StructWriter().structs(1, []).structs(1, []).end()),
        (TWO, "deleteTable", StructWriter().struct(1, NAME_TWICE).end()),
        (
            TWO,
            "modifyTable",
            StructWriter().struct(1, StructWriter().struct(1, NAME_TWICE).end()).end(),
        ),
        (TWO, "put", table().struct(2, ROW_TWICE).end()),
        (TWO, "putMultiple", table().structs(2, [ROW_TWICE] * 20).end()),
        *[
            (
                TWO,
                "put",
                table().struct(2, StructWriter().binary(1, b"r").structs(2, [each]).end()).end(),
            )
            for each in (
                StructWriter().binary(1, b"f").binary(1, b"q").binary(3, b"v").end(),
                StructWriter().binary(2, b"f").binary(2, b"q").binary(3, b"v").end(),
                StructWriter().binary(1, b"f").binary(2, b"q").binary(2, b"v").end(),
            )
        ],
        (
            TWO,
            "deleteColumnFamily",
            StructWriter().struct(1, b"\x0b\0\2\0\0\0\1t\0").binary(2, b"a").binary(2, b"b").end(),
        ),
        (ONE, "mutateRows", table().structs(2, [BATCH_TWICE]).end()),
        (
            ONE,
            "mutateRow",
            table().binary(2, b"r").structs(3, [mutation().binary(2, b"f:z").end()]).end(),
        ),
        *[
            (ONE, "mutateRow", table().binary(2, b"r").structs(3, [each.bool(4, True).end()]).end())
            for each in (
                StructWriter().bool(1, False).binary(2, b"f:a").binary(2, b"v"),
                StructWriter().bool(1, False).binary(3, b"f:a").binary(3, b"v"),
            )
        ],
        (ONE, "deleteAll", table().binary(2, b"r").binary(3, b"f").binary(3, b"g").end()),
        (
            ONE,
            "atomicIncrement",
            table().binary(2, b"r").binary(3, b"f:q").i64(4, 1).i64(4, 2).end(),
        ),
    ],
)
def test_a_field_that_matters_may_not_come_twice(
    dialect: Dialect, method: str, body: bytes, protocol: Protocol
) -> None:
    with pytest.raises(MalformedMessage, match="comes twice in one struct"):
        read_request(dialect, message(method, body, protocol))


def test_a_field_of_another_type_is_passed_over_as_hbase_does() -> None:
    body = StructWriter().i64(1, 5).binary(1, b"t").binary(2, b"r").binary(3, b"f:q").end()
    assert read_request(ONE, message("get", body)).tables == ("t",)


def test_bytes_behind_the_arguments_are_refused() -> None:
    raw = message("get", TABLE.end()).raw + b"abc"
    longer = Message(raw, 4 + 8 + 3 + 4, "get", MessageType.CALL, 0, Transport.FRAMED)
    with pytest.raises(MalformedMessage, match="3 bytes behind the arguments"):
        read_request(ONE, longer)


@pytest.mark.parametrize(
    "union",
    [
        StructWriter().struct(1, put()).struct(2, StructWriter().binary(1, b"r").end()).end(),
        StructWriter().struct(1, put()).i64(9, 1).end(),
        StructWriter().i64(9, 1).struct(1, put()).end(),
        StructWriter().end(),
    ],
    ids=["two", "an unknown one behind", "an unknown one before", "none"],
)
def test_a_union_has_one_field_for_hbase_reads_the_next_as_a_stop(union: bytes) -> None:
    row = StructWriter().binary(1, b"r").structs(2, [union]).end()
    with pytest.raises(MalformedMessage, match="a TMutation"):
        read_request(TWO, message("mutateRow", table().struct(2, row).end()))


@pytest.mark.parametrize(
    ("keys", "values", "count", "taken"),
    [
        (STRING, STRING, 2, True),
        (STRING, I64, 2, False),
        (I64, STRING, 2, False),
        (I64, I64, 0, True),
    ],
)
def test_a_map_is_of_what_it_is_declared_to_be(
    keys: int, values: int, count: int, taken: bool
) -> None:
    entries = (b"\0\0\0\4abcd" * 2) * count  # eight bytes in each: a string, or a number
    attributes = bytes([MAP, 0, 4, keys, values]) + count.to_bytes(4, "big") + entries
    body = table().binary(2, b"r").binary(3, b"f:q").end()[:-1] + attributes + b"\0"
    if taken:
        assert read_request(ONE, message("get", body)).tables == ("t",)
    else:
        with pytest.raises(MalformedMessage, match="a map has entries of types"):
            read_request(ONE, message("get", body))


@pytest.mark.parametrize(
    "append",
    [
        table().binary(2, b"r").structs(3, [StructWriter().end()]).binaries(4, [b"v"]),
        table().binary(2, b"r").binaries(3, [b"f:q"]).structs(4, [StructWriter().end()]),
    ],
    ids=["columns", "values"],
)
def test_columns_and_values_of_an_append_are_strings(append: StructWriter) -> None:
    body = StructWriter().struct(1, append.end()).end()
    with pytest.raises(MalformedMessage, match="a list of strings has elements of type 12"):
        read_request(ONE, message("append", body))


def fields(*written: int) -> StructWriter:
    """Return a struct with a row or name (1), with an empty list (2), with both or neither."""
    writer = StructWriter()
    for field in written:
        if field == 1:
            writer.binary(1, b"r")
        else:
            writer.structs(2, [])
    return writer


STAMP = StructWriter().i64(1, 5).end()


def of_get(writer: StructWriter) -> bytes:
    return table().struct(2, writer.binary(1, b"r").end()).end()


def of_scan(writer: StructWriter) -> bytes:
    return table().struct(2, writer.end()).end()


@pytest.mark.parametrize(
    ("method", "body", "struct"),
    [
        ("get", table().struct(2, fields(2).end()).end(), "TGet"),
        ("existsAll", table().structs(2, [fields(1).end(), fields().end()]).end(), "TGet"),
        ("get", of_get(StructWriter().structs(2, [fields().end()])), "TColumn"),
        ("get", of_get(StructWriter().struct(4, STAMP)), "TTimeRange"),
        ("openScanner", of_scan(StructWriter().structs(3, [fields().end()])), "TColumn"),
        ("getScannerResults", of_scan(StructWriter().struct(6, STAMP)), "TTimeRange"),
        ("put", table().struct(2, fields(1).end()).end(), "TPut"),
        ("put", table().struct(2, fields(2).end()).end(), "TPut"),
        ("deleteSingle", table().struct(2, fields(2).end()).end(), "TDelete"),
        ("increment", table().struct(2, fields(1).end()).end(), "TIncrement"),
        ("increment", table().struct(2, fields(2).end()).end(), "TIncrement"),
        ("append", table().struct(2, fields(1).end()).end(), "TAppend"),
        ("append", table().struct(2, fields(2).end()).end(), "TAppend"),
        ("mutateRow", table().struct(2, fields(1).end()).end(), "TRowMutations"),
        ("mutateRow", table().struct(2, fields(2).end()).end(), "TRowMutations"),
        ("tableExists", StructWriter().struct(1, fields(1).end()).end(), "TTableName"),
        ("isTableEnabled", StructWriter().struct(1, fields(1).end()).end(), "TTableName"),
        ("createTable", StructWriter().struct(1, fields().end()).end(), "TTableDescriptor"),
        (
            "addColumnFamily",
            StructWriter().struct(1, NAME).struct(2, fields().end()).end(),
            "TColumnFamilyDescriptor",
        ),
        ("createNamespace", StructWriter().struct(1, fields().end()).end(), "TNamespaceDescriptor"),
    ],
)
def test_a_struct_without_what_it_must_have_ends_hbases_reading_before_the_end(
    method: str, body: bytes, struct: str
) -> None:
    with pytest.raises(MalformedMessage, match=f"{struct}.* without"):
        read_request(TWO, message(method, body))


@pytest.mark.parametrize(
    ("method", "fields", "kind"),
    [
        ("mutateRowTs", table().binary(2, b"r").structs(3, [mutation().end()]), 0),
        (
            "mutateRowsTs",
            table().structs(
                2, [StructWriter().binary(1, b"r").structs(2, [mutation().end()]).end()]
            ),
            0,
        ),
        ("deleteAllTs", table().binary(2, b"r").binary(3, b"f:q"), 0),
        ("deleteAllRowTs", table().binary(2, b"r"), 0),
        ("mutateRow", table().binary(2, b"r").structs(3, [mutation().end()]).i64(4, 7), -1),
    ],
)
def test_a_timestamp_that_is_left_out_is_what_hbase_takes_for_it(
    method: str, fields: StructWriter, kind: int
) -> None:
    assert written(ONE, method, fields.end()).cells.timestamps == [kind]


def test_a_check_and_put_of_a_delete_puts_the_value() -> None:
    delete = StructWriter().bool(1, True).binary(2, b"f:q").binary(3, b"stored").end()
    body = table().binary(2, b"r").binary(3, b"f:q").struct(6, delete).end()
    cells = written(ONE, "checkAndPut", body).cells
    assert (list(cells.kinds), cells.columns, cells.values) == ([0], [b"f:q"], [b"stored"])


RUN = Origin("flow", "step", "run", 1)
OTHER = Origin("other", "step", "run", 1)


@pytest.mark.parametrize(
    ("named", "origins"),
    [
        ([RUN, RUN], (RUN,)),
        ([RUN, None], (RUN, None)),
        ([None, RUN], (None, RUN)),
        ([RUN, OTHER, RUN], (RUN, OTHER)),
        ([None] * 30 + [RUN] * 30, (None, RUN)),
        ([None, None], ()),
    ],
)
def test_each_part_of_a_batch_has_its_own_origin(
    named: list[Origin | None], origins: tuple[Origin | None, ...]
) -> None:
    body = table().structs(2, [put(origin=each) for each in named]).end()
    write = written(TWO, "putMultiple", body)
    assert write.origins == origins
    default = Origin("", "", "", 0, "etl")
    alone = origins[0] if len(origins) == 1 else None
    assert write.writer(default) == (alone if origins else default)


def test_parts_that_name_nobody_are_of_their_connection() -> None:
    write = written(TWO, "putMultiple", table().structs(2, [put(), put(origin=RUN)]).end())
    assert write.writers(OTHER) == (OTHER, RUN)
    assert write.writers(RUN) == (RUN,)
    assert write.writer(RUN) == RUN
