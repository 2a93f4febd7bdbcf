"""Rows and columns that steps read and write: those of HBase, whatever bytes they are."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, StringType, StructType
from stored_table import Rows, StoredTable, run_over

from headgate.events import Item, KeyForm, key_text
from headgate.spark import containers
from headgate.spark.source import datasource
from headgate.spark.source.datasource import HBaseReader, HBaseWriter, TableOptions
from headgate.spark.views import ViewError

BYTES = st.binary(max_size=6) | st.sampled_from(
    [b"\xff", b"\xfe", b"\\", b"\\xFF", b"a\0b", b"f:x", b"g:x", b"row", "é".encode(), b"\xe9"]
)
KEYS = BYTES.filter(bool)
COLUMNS = BYTES.map(b"f:".__add__)
ROWS = st.dictionaries(
    KEYS, st.dictionaries(COLUMNS, st.binary(max_size=3), min_size=1, max_size=3), max_size=5
)
FORMS = st.sampled_from(KeyForm)
FAMILY = Item("t", b"f")


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> StoredTable:
    return behind(monkeypatch)


def behind(monkeypatch: pytest.MonkeyPatch) -> StoredTable:
    table = StoredTable("f", "g")
    monkeypatch.setattr(containers, "Thrift2Connection", lambda *_: table)
    monkeypatch.setattr(datasource, "Thrift2Connection", lambda *_: table)
    return table


@given(ROWS, FORMS)
def test_a_step_writes_to_the_rows_and_columns_that_it_has_read(rows: Rows, keys: KeyForm) -> None:
    with pytest.MonkeyPatch.context() as patch:
        table = behind(patch)
        table.rows = {row: dict(cells) for row, cells in rows.items()}
        run = run_over(FAMILY, keys=keys)
        read = run.read_arrow("c")

        assert read.num_rows == len(rows)
        table.rows = {}
        run.write(read, "c")

        assert table.rows == rows


@given(ROWS, st.sampled_from([StringType(), BinaryType()]))
def test_tasks_write_to_the_rows_and_columns_that_they_have_read(
    rows: Rows, kind: StringType | BinaryType
) -> None:
    columns = sorted({column for cells in rows.values() for column in cells})
    schema = StructType().add("row", kind)
    for at in range(len(columns)):
        schema = schema.add(f"c{at}", BinaryType())
    texts = {f"c{at}": key_text(column) for at, column in enumerate(columns)}
    options = TableOptions.parse(
        {"host": "h", "port": "1", "table": "t", "columns": json.dumps(texts)}
    )
    with pytest.MonkeyPatch.context() as patch:
        table = behind(patch)
        table.rows = {row: dict(cells) for row, cells in rows.items()}
        reader = HBaseReader(options, schema)
        batches = [b for part in reader.partitions() for b in reader.read(part)]

        table.rows = {}
        HBaseWriter(options, schema).write(iter(batches))

        assert table.rows == rows


def test_rows_that_are_no_text_stay_apart(table: StoredTable) -> None:
    table.rows = {row: {b"f:a": row} for row in (b"\x80", b"\x81", b"\\x80", b"\xef\xbf\xbd")}

    read = run_over(Item("t", b"f", b"a")).read_arrow("c")

    assert read.column("row").to_pylist() == [r"\x5Cx80", r"\x80", r"\x81", "\ufffd"]


def test_binary_keys_are_columns_of_bytes(table: StoredTable) -> None:
    table.rows = {b"\x80": {b"f:\xff": b"1"}}

    read = run_over(FAMILY, keys=KeyForm.BINARY).read_arrow("c")

    assert read.schema.names == ["row", r"\xFF"]
    assert read.column("row").to_pylist() == [b"\x80"]


@pytest.mark.parametrize("row", ["\\x80", "\\x80".lower(), b"\x80"])
def test_a_step_deletes_rows_by_text_or_bytes(table: StoredTable, row: str | bytes) -> None:
    table.rows = {b"\x80": {b"f:a": b"1"}, b"\x81": {b"f:a": b"1"}}

    assert run_over(FAMILY).delete([row], "c") == 1
    assert table.rows == {b"\x81": {b"f:a": b"1"}}


ITEMS = st.builds(
    lambda column, start, stop: Item("t", column[0], column[1], start, stop),
    st.sampled_from([(None, None), (b"f", None), (b"f", b"a"), (b"f", b"b"), (b"g", b"a")]),
    st.sampled_from([b"", b"r2"]),
    st.sampled_from([b"r2\0", b"r3", None]),
)
CELLS = [b"f:a", b"f:b", b"f:c", b"g:a", b"g:b"]


@given(st.lists(ITEMS, min_size=1, max_size=4))
def test_a_step_deletes_what_its_container_is_and_nothing_else(items: list[Item]) -> None:
    full: Rows = {row: dict.fromkeys(CELLS, b"1") for row in (b"r1", b"r2", b"r3")}
    with pytest.MonkeyPatch.context() as patch:
        table = behind(patch)
        table.rows = {row: dict(cells) for row, cells in full.items()}
        inside = [row for row in full if any(item.has_row(row) for item in items)]

        run_over(*items).delete(inside, "c")

        left = {
            row: {c: v for c, v in cells.items() if not has(items, row, c)}
            for row, cells in full.items()
        }
        assert table.rows == {row: cells for row, cells in left.items() if cells}


def has(items: list[Item], row: bytes, column: bytes) -> bool:
    return any(item.has_row(row) and item.has_column(column) for item in items)


def test_a_row_outside_the_container_is_no_row_to_delete(table: StoredTable) -> None:
    table.rows = {b"a1": {b"f:a": b"1"}, b"b1": {b"f:a": b"1"}}

    with pytest.raises(ViewError, match="row b1 is not in container 'c'"):
        run_over(Item("t", b"f", None, b"a", b"b")).delete(["a1", "b1"], "c")
    assert len(table.rows) == 2


def test_tasks_see_the_cells_of_each_part_of_a_group(table: StoredTable) -> None:
    """Read each column in the rows of its own part, of two parts with different rows."""
    table.rows = {bytes([byte]): {b"f:a": b"1", b"f:b": b"2"} for byte in range(0x7E, 0x84)}
    schema = StructType().add("row", BinaryType()).add("c0", StringType()).add("c1", StringType())
    options = TableOptions.parse(
        {"host": "h", "port": "1", "table": "t", "columns": r'{"c0": "f:a", "c1": "f:b"}',
         "ranges": r'{"c0": [["~", "\\x80"]], "c1": [["\\x80", "\\x82"], ["\\x83", null]]}'}
    )  # fmt: skip
    reader = HBaseReader(options, schema)

    rows = [
        tuple(row.values())
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]

    assert rows == [
        (b"\x7e", "1", None),
        (b"\x7f", "1", None),
        (b"\x80", None, "2"),
        (b"\x81", None, "2"),
        (b"\x83", None, "2"),
    ]
