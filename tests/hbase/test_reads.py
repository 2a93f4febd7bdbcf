"""The columns that a request for reading names, from its arguments and from what it is like."""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.hbase import Dialect, Patterns, columns_read, read_request, reads_cells
from headgate.wire import (
    Limits,
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


def read(raw: bytes) -> Message:
    reader = MessageReader(Limits(), Transport.BUFFERED)
    reader.feed(raw)
    message = reader.next_message()
    assert message is not None
    return message


def call(name: str, body: StructWriter) -> bytes:
    return write_message(Transport.BUFFERED, name, MessageType.CALL, 7, body.end())


def column(family: bytes, qualifier: bytes | None = None) -> bytes:
    writer = StructWriter().binary(1, family)
    return (writer if qualifier is None else writer.binary(2, qualifier)).end()


def get2(row: bytes, *columns: bytes) -> bytes:
    writer = StructWriter().binary(1, row)
    return (writer.structs(2, list(columns)) if columns else writer).end()


@pytest.mark.parametrize(
    ("method", "arguments", "columns"),
    [
        ("get", {"row": b"r", "column": b"f:a"}, (b"f:a",)),
        ("getVerTs", {"row": b"r", "column": b"f:a:b", "timestamp": 5}, (b"f:a:b",)),
        ("getRow", {"row": b"r"}, ()),
        ("getRowWithColumns", {"row": b"r", "columns": [b"f:a", b"g", b"f:a"]}, (b"f:a", b"g:")),
        (
            "getRowsWithColumnsTs",
            {"rows": [b"r"], "columns": [b"f:", b"g:\xff"]},
            (b"f:", b"g:\xff"),
        ),
        ("getRowsWithColumns", {"rows": [b"r"], "columns": []}, ()),
        ("getRowOrBefore", {"row": b"r", "family": b"f"}, (b"f:",)),
        ("scannerOpen", {"startRow": b"", "columns": [b"f:a"]}, (b"f:a",)),
        (
            "scannerOpenWithStop",
            {"startRow": b"a", "stopRow": b"b", "columns": [b"f:a"]},
            (b"f:a",),
        ),
        ("scannerOpenWithPrefix", {"startAndPrefix": b"a", "columns": [b"f:a"]}, (b"f:a",)),
    ],
)
def test_the_columns_of_a_request_of_thrift1(
    encoder: Any, method: str, arguments: dict[str, Any], columns: tuple[bytes, ...]
) -> None:
    raw = encoder.call(ONE, method, tableName=b"t", **arguments)
    assert columns_read(ONE, read(raw)) == columns
    compact = transcode(read(raw), Protocol.COMPACT, Transport.FRAMED, Limits())
    assert columns_read(ONE, compact) == columns


def test_the_columns_of_a_scan_of_thrift1(encoder: Any) -> None:
    scan = encoder.one.TScan(startRow=b"a", timestamp=5, columns=[b"f:a", b"f:b"], caching=3)
    raw = encoder.call(ONE, "scannerOpenWithScan", tableName=b"t", scan=scan)
    assert columns_read(ONE, read(raw)) == (b"f:a", b"f:b")


def test_the_columns_of_requests_of_thrift2() -> None:
    one = get2(b"r", column(b"f", b"a"), column(b"g"), column(b"f", b""))
    for name in ("get", "exists"):
        raw = call(name, StructWriter().binary(1, b"t").struct(2, one))
        assert columns_read(TWO, read(raw)) == (b"f:a", b"g:", b"f:")
    gets = [one, get2(b"s"), get2(b"s", column(b"f", b"z"), column(b"f", b"a"))]
    for name in ("getMultiple", "existsAll"):
        raw = call(name, StructWriter().binary(1, b"t").structs(2, gets))
        assert columns_read(TWO, read(raw)) == (b"f:a", b"g:", b"f:", b"f:z")
    scan = StructWriter().binary(1, b"a").structs(3, [column(b"f", b"a")]).binary(7, b"filter")
    for name in ("openScanner", "getScannerResults"):
        raw = call(name, StructWriter().binary(1, b"t").struct(2, scan.end()))
        assert columns_read(TWO, read(raw)) == (b"f:a",)


def test_every_method_that_reads_cells_of_thrift1_has_its_columns_where_the_idl_has_them(
    encoder: Any,
) -> None:
    """The independent definitions say which; a method that is missed here is counted nowhere."""
    for name in encoder.one.Hbase.thrift_services:
        fields = {
            spec[1] for spec in getattr(encoder.one.Hbase, f"{name}_args").thrift_spec.values()
        }
        reads = name.startswith(("get", "scannerOpen")) and bool({"row", "rows"} & fields)
        opens = name.startswith("scannerOpen")
        if name == "getRegionInfo":
            continue
        assert reads_cells(ONE, name) == (reads or opens), name
        if {"column", "columns", "family", "scan"} & fields and reads_cells(ONE, name):
            value: dict[str, Any] = {
                "column": b"f:a",
                "columns": [b"f:a"],
                "family": b"f:a",
                "scan": encoder.one.TScan(columns=[b"f:a"]),
            }
            given = {field: value[field] for field in fields & set(value)}
            raw = encoder.call(ONE, name, tableName=b"t", **given)
            assert columns_read(ONE, read(raw)) == (b"f:a",), name


def test_only_the_first_columns_of_very_many_are_looked_at() -> None:
    gets = [get2(b"r", column(b"f", b"%d" % number)) for number in range(5000)]
    raw = call("getMultiple", StructWriter().binary(1, b"t").structs(2, gets))
    assert len(columns_read(TWO, read(raw))) == 64
    wide = get2(b"r", *[column(b"f", b"%d" % number) for number in range(5000)])
    raw = call("get", StructWriter().binary(1, b"t").struct(2, wide))
    assert len(columns_read(TWO, read(raw))) == 64


def test_arguments_that_make_no_sense_name_no_columns() -> None:
    lists = StructWriter().binary(1, b"t").binary(2, b"r").structs(3, [column(b"f")])
    assert columns_read(ONE, read(call("getRowWithColumns", lists))) == ()
    assert columns_read(TWO, read(call("get", StructWriter().binary(2, b"x")))) == ()
    assert columns_read(ONE, read(call("get", StructWriter()))) == ()
    texts = struct.pack(">bhbi", 15, 2, 11, 1) + struct.pack(">i", 1) + b"r" + b"\0"
    whole = write_message(Transport.BUFFERED, "getMultiple", MessageType.CALL, 7, texts)
    assert columns_read(TWO, read(whole)) == ()


def test_a_field_of_columns_of_another_type_is_passed_over() -> None:
    one = StructWriter().binary(1, b"r").i64(2, 5).structs(2, [column(b"f", b"a")]).end()
    raw = call("get", StructWriter().binary(1, b"t").struct(2, one))
    assert columns_read(TWO, read(raw)) == (b"f:a",)


def test_a_list_of_anything_else_names_no_columns() -> None:
    numbers = b"\x0f\0\2\x0a\0\0\0\2" + b"\x0b\0\1\0\0\0\1f" + bytes(8)
    one = StructWriter().binary(1, b"r").end()[:-1] + numbers + b"\0"
    assert columns_read(TWO, read(call("get", StructWriter().binary(1, b"t").struct(2, one)))) == ()


def test_each_read_of_a_known_kind_counts_for_its_own_columns() -> None:
    patterns = Patterns(TWO)
    raws = [
        call("get", StructWriter().binary(1, b"t").struct(2, get2(b"r", column(b"f", name))))
        for name in (b"a", b"b", b"a")
    ]
    for raw in raws:
        patterns.consider(read_request(TWO, read(raw)))
    pattern = patterns.find(raws[0])
    assert pattern is not None
    for raw in raws:
        assert patterns.find(raw) is pattern
        pattern.note_columns(raw)
    assert pattern.take_columns() == {b"f:a": 2, b"f:b": 1}


@pytest.mark.parametrize(
    ("dialect", "name", "field", "kind", "value"),
    [
        (ONE, "get", 3, "binary", b"f:a"),
        (ONE, "getRowWithColumns", 3, "binaries", [b"f:a"]),
        (ONE, "scannerOpenWithScan", 2, "struct", StructWriter().binaries(4, [b"f:a"]).end()),
        (TWO, "get", 2, "struct", get2(b"r", column(b"f", b"a"))),
        (TWO, "getMultiple", 2, "structs", [get2(b"r", column(b"f", b"a"))]),
        (TWO, "openScanner", 2, "struct", StructWriter().structs(3, [column(b"f", b"a")]).end()),
    ],
)
def test_an_argument_of_another_type_is_passed_over(
    dialect: Dialect, name: str, field: int, kind: str, value: Any
) -> None:
    body = StructWriter().binary(1, b"t").i64(field, 5)
    getattr(body, kind)(field, value)
    assert columns_read(dialect, read(call(name, body))) == (b"f:a",)


def test_other_fields_of_a_column_are_passed_over() -> None:
    named = StructWriter().i64(1, 5).binary(1, b"f").binary(2, b"a").i64(2, 6).binary(3, b"x")
    one = StructWriter().binary(1, b"r").structs(2, [named.end()]).end()
    raw = call("get", StructWriter().binary(1, b"t").struct(2, one))
    assert columns_read(TWO, read(raw)) == (b"f:a",)


_name = st.binary(min_size=1, max_size=3).filter(lambda name: b":" not in name)


@given(
    requests=st.lists(
        st.tuples(_name, st.lists(st.tuples(_name, _name), max_size=3)), min_size=1, max_size=8
    ),
    dialect=st.sampled_from(Dialect),
)
def test_what_a_known_kind_counts_is_what_reading_finds(
    requests: list[tuple[bytes, list[tuple[bytes, bytes]]]], dialect: Dialect
) -> None:
    """Rows, families and qualifiers that are alike, in one another's places."""
    patterns = Patterns(dialect)
    raws = []
    for row, columns in requests:
        if dialect is ONE:
            body = StructWriter().binary(1, b"t").binary(2, row)
            body = body.binaries(3, [f + b":" + q for f, q in columns])
            raws.append(call("getRowWithColumns", body))
        else:
            one = get2(row, *[column(f, q) for f, q in columns])
            raws.append(call("get", StructWriter().binary(1, b"t").struct(2, one)))
    for raw in [*raws, *raws]:
        patterns.consider(read_request(dialect, read(raw)))
    known = [(raw, pattern) for raw in raws if (pattern := patterns.find(raw)) is not None]
    assert known, "the first of them at least came twice"
    for raw, pattern in known:
        named = columns_read(dialect, read(raw))
        pattern.note_columns(raw)
        assert pattern.take_columns() == dict.fromkeys(named, 1)
        assert pattern.whole_rows == (not named)
    total: Counter[bytes] = Counter()
    for raw, pattern in [*known, *known, *known[::-1]]:
        pattern.note_columns(raw)
        total.update(columns_read(dialect, read(raw)))
    counted: Counter[bytes] = Counter()
    for pattern in {id(pattern): pattern for _, pattern in known}.values():
        counted.update(pattern.take_columns())
        assert pattern.take_columns() == {}
    assert counted == total
