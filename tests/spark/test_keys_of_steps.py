"""Rows and columns that steps read and write: those of HBase, whatever bytes they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, StringType, StructType
from stored_table import Rows, StoredTable, run_over

from headgate.engine import OnUndecodable, WatchedContainer
from headgate.events import Container, ContainerId, Item, KeyForm, key_text
from headgate.spark import StepRequest, Thrift2Address, containers
from headgate.spark.containers import StepContainers, servers_of
from headgate.spark.reading import ContainerReader
from headgate.spark.source import datasource
from headgate.spark.source.datasource import HBaseReader, HBaseWriter, TableOptions
from headgate.spark.source.tables import ColumnMapping
from headgate.spark.source.undecodable import UndecodedValues
from headgate.spark.source.values import ValueType
from headgate.spark.views import ContainerView, ViewError, view_of
from headgate.spark.writing import task_options

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
        table.rows["t"] = {row: dict(cells) for row, cells in rows.items()}
        run = run_over(FAMILY, keys=keys)
        read = run.read_arrow("c")

        assert read.num_rows == len(rows)
        table.rows["t"] = {}
        run.write(read, "c")

        assert table.rows["t"] == rows


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
        table.rows["t"] = {row: dict(cells) for row, cells in rows.items()}
        reader = HBaseReader(options, schema)
        batches = [b for part in reader.partitions() for b in reader.read(part)]

        table.rows["t"] = {}
        HBaseWriter(options, schema).write(iter(batches))

        assert table.rows["t"] == rows


def test_rows_that_are_no_text_stay_apart(table: StoredTable) -> None:
    table.rows["t"] = {row: {b"f:a": row} for row in (b"\x80", b"\x81", b"\\x80", b"\xef\xbf\xbd")}

    read = run_over(Item("t", b"f", b"a")).read_arrow("c")

    assert read.column("row").to_pylist() == [r"\x5Cx80", r"\x80", r"\x81", "\ufffd"]


def test_binary_keys_are_columns_of_bytes(table: StoredTable) -> None:
    table.rows["t"] = {b"\x80": {b"f:\xff": b"1"}}

    read = run_over(FAMILY, keys=KeyForm.BINARY).read_arrow("c")

    assert read.schema.names == ["row", r"\xFF"]
    assert read.column("row").to_pylist() == [b"\x80"]


@pytest.mark.parametrize("row", ["\\x80", "\\x80".lower(), b"\x80"])
def test_a_step_deletes_rows_by_text_or_bytes(table: StoredTable, row: str | bytes) -> None:
    table.rows["t"] = {b"\x80": {b"f:a": b"1"}, b"\x81": {b"f:a": b"1"}}

    assert run_over(FAMILY).delete([row], "c") == 1
    assert table.rows["t"] == {b"\x81": {b"f:a": b"1"}}


ITEMS = st.builds(
    lambda column, rows: Item("t", *column, *rows),
    st.sampled_from([(None, None), (b"f", None), (b"f", b"a"), (b"f", b"b"), (b"g", b"a")]),
    st.sampled_from(
        [(b"", None), (b"r2", None), (b"", b"r2\0"), (b"r2", b"r3"), (b"r1", b"r1\0"), (b"s", b"t")]
    ),
)
"""Tables, families, columns, cells, ranges and prefixes of rows."""
CELLS = [b"f:a", b"f:b", b"f:c", b"g:a", b"g:b"]
GROUPS = st.lists(ITEMS, min_size=1, max_size=4)


def full_table() -> Rows:
    return {row: dict.fromkeys(CELLS, b"1") for row in (b"r1", b"r2", b"r3", b"s1")}


@given(GROUPS)
def test_a_step_deletes_what_its_container_is_and_nothing_else(items: list[Item]) -> None:
    full = full_table()
    with pytest.MonkeyPatch.context() as patch:
        table = behind(patch)
        table.rows["t"] = full_table()
        inside = [row for row in full if any(item.has_row(row) for item in items)]

        run_over(*items).delete(inside, "c")

        left = {
            row: {c: v for c, v in cells.items() if not has(items, row, c)}
            for row, cells in full.items()
        }
        assert table.rows["t"] == {row: cells for row, cells in left.items() if cells}


Values = dict[bytes, bytes | None]
FRAMES = st.dictionaries(
    st.sampled_from([b"r0", b"r1", b"r2", b"r3", b"s1"]),
    st.fixed_dictionaries(dict.fromkeys(CELLS, st.sampled_from([None, None, b"2"]))),
    min_size=1,
)


@pytest.mark.parametrize("by_tasks", [False, True], ids=["driver", "tasks"])
@given(GROUPS, FRAMES, st.sets(st.sampled_from(CELLS), min_size=1))
def test_a_step_writes_what_its_container_is_and_nothing_else(
    by_tasks: bool, items: list[Item], rows: dict[bytes, Values], written: set[bytes]
) -> None:
    """Write frames with nulls and values in and outside of random groups of containers."""
    columns = [c for c in CELLS if c in written and any(item.has_column(c) for item in items)]
    asked = {(row, c): rows[row][c] for row in rows for c in columns}
    inside = {cell for cell in asked if has(items, *cell)}
    allowed = {row for row, _ in inside} == set(rows) and all(
        cell in inside for cell, value in asked.items() if value is not None
    )
    expected = full_table()
    if allowed:
        for row, column in inside:
            expected.setdefault(row, {})[column] = asked[row, column] or b""
            if asked[row, column] is None:
                del expected[row][column]
    with pytest.MonkeyPatch.context() as patch:
        table = behind(patch)
        table.rows["t"] = full_table()

        with nullcontext() if allowed or not columns else pytest.raises(ViewError, match="'c'"):
            write_frame(items, rows, columns, by_tasks=by_tasks)

        assert table.rows["t"] == {row: cells for row, cells in expected.items() if cells}


def write_frame(
    items: list[Item], rows: dict[bytes, Values], columns: list[bytes], *, by_tasks: bool
) -> None:
    names = {key_text(column): column for column in columns}
    arrays = {"row": list(rows), **{n: [rows[row][c] for row in rows] for n, c in names.items()}}
    frame = pa.table({name: pa.array(each, pa.binary()) for name, each in arrays.items()})
    if not by_tasks:
        run_over(*items).write(frame, "c")
        return
    view = view_of(WatchedContainer(Container(ContainerId("c"), tuple(items))))
    address = {"host": "h", "port": "1", "table": "t", "codec": "opaque"}
    schema = StructType()
    for name in frame.column_names:
        schema = schema.add(name, BinaryType())
    options = TableOptions.parse(address | task_options(view, names))
    HBaseWriter(options, schema).write(iter(frame.to_batches()))


def test_a_null_outside_of_the_containers_rows_deletes_nothing(table: StoredTable) -> None:
    table.rows["t"] = {b"a1": {b"f:a": b"1"}, b"b1": {b"f:a": b"1"}}
    frame = pa.table({"row": ["a1", "b1"], "a": pa.array(["2", None], pa.string())})

    with pytest.raises(ViewError, match=r"row b1 is not in container 'c', .* from a to before b"):
        run_over(Item("t", b"f", b"a", b"a", b"b")).write(frame, "c")
    assert table.rows["t"] == {b"a1": {b"f:a": b"1"}, b"b1": {b"f:a": b"1"}}


def test_a_value_names_the_rows_in_which_the_container_has_its_column(table: StoredTable) -> None:
    items = Item("t", b"f", b"a"), Item("t", b"f", b"b", b"r1", b"r1\0")
    frame = pa.table({"row": ["r1", "r2"], "a": ["1", "1"], "b": ["2", "2"]})

    with pytest.raises(ViewError, match=r"row r2 has a value in column 'f:b', .* only in row r1"):
        run_over(*items).write(frame, "c")
    assert table.rows["t"] == {}


def test_what_was_read_of_a_group_is_written_back_as_it_was(table: StoredTable) -> None:
    table.rows["t"] = full_table()
    run = run_over(Item("t", b"f", b"a", b"r1", b"r3"), Item("t", b"f", b"b", b"r2", b"s"))

    run.write(run.read_arrow("c"), "c")

    assert table.rows["t"] == full_table()


def test_no_step_writes_notify_cells(table: StoredTable) -> None:
    with pytest.raises(ViewError, match="'hg:all' is not in container 'c'"):
        run_over(Item("t")).write(pa.table({"row": ["r"], "hg:all": ["1"]}), "c")
    assert table.rows["t"] == {}


def has(items: list[Item], row: bytes, column: bytes) -> bool:
    return any(item.has_row(row) and item.has_column(column) for item in items)


def test_a_row_outside_the_container_is_no_row_to_delete(table: StoredTable) -> None:
    table.rows["t"] = {b"a1": {b"f:a": b"1"}, b"b1": {b"f:a": b"1"}}

    with pytest.raises(ViewError, match="row b1 is not in container 'c'"):
        run_over(Item("t", b"f", None, b"a", b"b")).delete(["a1", "b1"], "c")
    assert len(table.rows["t"]) == 2


def test_tasks_see_the_cells_of_each_part_of_a_group(table: StoredTable) -> None:
    """Read each column in the rows of its own part, of two parts with different rows."""
    table.rows["t"] = {bytes([byte]): {b"f:a": b"1", b"f:b": b"2"} for byte in range(0x7E, 0x84)}
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


NAMES = st.text('.`()[]" aA5', min_size=1, max_size=6).map(str.encode) | KEYS
PLACE = StepRequest("flow", "step", "r", 1, 1, "m:f", Thrift2Address("h", 1), "k")
CONNECT = servers_of(PLACE, cast(Any, None)).connect


@given(st.lists(NAMES, min_size=1, max_size=5, unique=True))
@settings(max_examples=settings().max_examples // 5)
def test_for_spark_no_name_of_a_column_is_an_expression(spark: Any, names: list[bytes]) -> None:
    view = view_of(
        WatchedContainer(Container(ContainerId("c"), tuple(Item("t", b"f", n) for n in names)))
    )
    with pytest.MonkeyPatch.context() as patch:
        behind(patch)
        reader = ContainerReader(spark, StepContainers(PLACE, CONNECT), UndecodedValues(print))
        frame = reader.large(view, None, {}, OnUndecodable.NULL)

    assert len(set(frame.columns)) == len(names) + 1


EDGES = st.sampled_from([b"", b"\x7f", b"\x80", b"\x80\0", b"\xfe", b"\xff", b"\xff\xff"])
BINARY_ITEMS = st.builds(
    lambda qualifier, start, stop: Item("t", b"f", qualifier, start, stop),
    st.sampled_from([b"a", b"b"]),
    EDGES,
    st.none() | EDGES,
)
"""Columns in ranges of rows that are no text; some ranges are empty."""


class AskedSource:
    """Spark's builder of a reader, which keeps what it is told."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def format(self, name: str) -> AskedSource:
        assert name == "headgate"
        return self

    def schema(self, _: str) -> AskedSource:
        return self

    def option(self, name: str, value: object) -> AskedSource:
        self.told[name] = str(value)
        return self

    def options(self, **more: str) -> AskedSource:
        self.told |= more
        return self

    def load(self) -> AskedSource:
        return self


def read_by_tasks(view: ContainerView, columns: tuple[bytes, ...]) -> Iterator[dict[str, object]]:
    """Yield the rows that tasks read, by the options that a step gives them."""
    asked = AskedSource()
    session = SimpleNamespace(read=asked, sparkContext=SimpleNamespace(defaultParallelism=1))
    reader = ContainerReader(
        cast(Any, session), StepContainers(PLACE, CONNECT), UndecodedValues(print)
    )
    mappings = [ColumnMapping(key_text(c), c, view.codec, ValueType.BINARY) for c in columns]
    reader.numbered(view, mappings, OnUndecodable.NULL)
    schema = StructType().add("row", BinaryType())
    for at in range(len(columns)):
        schema = schema.add(f"c{at}", BinaryType())
    source = HBaseReader(TableOptions.parse(asked.told), schema)
    for part in source.partitions():
        for batch in source.read(part):
            yield from batch.to_pylist()


@pytest.mark.parametrize("by_tasks", [False, True], ids=["driver", "tasks"])
@given(st.lists(BINARY_ITEMS, min_size=1, max_size=4))
def test_a_step_reads_what_its_container_is_and_nothing_else(
    by_tasks: bool, items: list[Item]
) -> None:
    rows = (b"\x01", b"\x7f", b"\x80", b"\x80\0", b"\xfe", b"\xff", b"\xff\0", b"\xff\xff\x01")
    with pytest.MonkeyPatch.context() as patch:
        table = behind(patch)
        table.rows["t"] = {row: {b"f:a": row, b"f:b": row, b"g:a": row} for row in rows}
        view = view_of(
            WatchedContainer(Container(ContainerId("c"), tuple(items))), keys=KeyForm.BINARY
        )
        if by_tasks:
            read = list(read_by_tasks(view, view.declared))
            names = {f"c{at}": column for at, column in enumerate(view.declared)}
        else:
            read = run_over(*items, keys=KeyForm.BINARY).read_arrow("c").to_pylist()
            names = {column.partition(b":")[2].decode(): column for column in view.declared}

    found = {
        (row["row"], column)
        for row in read
        for name, column in names.items()
        if row[name] is not None
    }
    assert found == {
        (row, column) for row in rows for column in (b"f:a", b"f:b") if has(items, row, column)
    }
    assert {row["row"] for row in read} == {row for row, _ in found}


@pytest.mark.parametrize("expires", [True, False])
def test_a_step_that_reads_changes_logs_once_that_cells_expire_without_a_word(
    table: StoredTable, capsys: pytest.CaptureFixture[str], expires: bool
) -> None:
    table.ttls = {b"f": 3600} if expires else {b"g": 3600}
    run = run_over(Item("t", b"f"))
    for _ in range(2):
        assert run.changes_arrow("c").num_rows == 0

    said = capsys.readouterr().out
    assert said.count("container c: cells expire (family f after 3600 s)") == int(expires)
    assert (said == "") is not expires
