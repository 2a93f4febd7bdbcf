"""Results of scans become batches, and ranges are cut so that no row is lost or read twice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.client import Region, ScanRange
from headgate.engine import OnUndecodable
from headgate.spark.source.tables import (
    ColumnMapping,
    ColumnTarget,
    ScannedColumns,
    split_extent,
    to_batch,
    write_batch,
)
from headgate.spark.source.undecodable import UndecodableValue, UndecodedValues
from headgate.spark.source.values import ValueType


def result(row: bytes, **cells: bytes) -> Any:
    values = [
        SimpleNamespace(family=b"f", qualifier=name.encode(), value=value)
        for name, value in cells.items()
    ]
    return SimpleNamespace(row=row, columnValues=values)


def test_cells_stand_beside_their_row_and_gaps_are_none() -> None:
    cells = ScannedColumns([b"f:a", b"f:b"])
    cells.add([result(b"1", b=b"x"), result(b"2", a=b"y", c=b"z")])
    cells.add([result(b"3")])

    assert cells.rows == [b"1", b"2", b"3"]
    assert cells.columns() == {b"f:a": [None, b"y", None], b"f:b": [b"x", None, None]}


def test_without_wanted_columns_all_that_appear_are_kept() -> None:
    cells = ScannedColumns(None)
    cells.add([result(b"1", b=b"x"), result(b"2", a=b"y")])

    assert cells.columns() == {b"f:a": [None, b"y"], b"f:b": [b"x", None]}


def test_a_row_added_whole_stands_as_one_of_a_scan() -> None:
    cells = ScannedColumns([b"f:a", b"f:b"])
    cells.add_row(b"1", {b"f:b": b"x"})
    cells.add_row(b"2", {b"f:a": b"y", b"f:b": b"z"})

    assert cells.columns() == {b"f:a": [None, b"y"], b"f:b": [b"x", b"z"]}


def test_a_batch_has_the_row_first_and_columns_in_their_order() -> None:
    cells = ScannedColumns([b"f:a", b"f:b"])
    cells.add([result(b"1", a=b"2.5", b=b"t")])
    mappings = [
        ColumnMapping("text", b"f:b", kind=ValueType.STRING),
        ColumnMapping("number", b"f:a"),
    ]

    batch = batch_of(cells, mappings)

    assert batch.to_pylist() == [{"row": "1", "text": "t", "number": 2.5}]


def test_a_column_that_no_row_has_is_null() -> None:
    cells = ScannedColumns(None)
    cells.add([result(b"1", a=b"2.5")])

    batch = batch_of(cells, [ColumnMapping("a", b"f:a"), ColumnMapping("gone", b"f:gone")])

    assert batch.to_pylist() == [{"row": "1", "a": 2.5, "gone": None}]


def test_a_value_that_does_not_decode_is_null_and_told_with_its_row_and_column() -> None:
    said: list[str] = []
    undecoded = UndecodedValues(said.append)

    batch = batch_of(damaged(), [ColumnMapping("a", b"f:a")], undecoded=undecoded)

    assert batch.to_pylist() == [{"row": "1", "a": 1.0}, {"row": "2", "a": None}]
    assert (undecoded.count, undecoded.first) == (
        1,
        "row 2, column f:a: b'12,5' is no double in codec number",
    )
    assert said == [f"{undecoded.first}; it is read as null"]


def test_skip_leaves_out_the_row_of_a_value_that_does_not_decode() -> None:
    mappings = [ColumnMapping("a", b"f:a"), ColumnMapping("b", b"f:b")]

    batch = batch_of(damaged(), mappings, OnUndecodable.SKIP)

    assert batch.to_pylist() == [{"row": "1", "a": 1.0, "b": None}]


def test_fail_names_the_row_the_value_and_the_cure() -> None:
    with pytest.raises(UndecodableValue, match=r"row 2, column f:a: b'12,5'.*on_undecodable"):
        batch_of(damaged(), [ColumnMapping("a", b"f:a")], OnUndecodable.FAIL)


def test_a_value_that_nobody_reads_as_a_number_fails_nothing() -> None:
    mappings = [ColumnMapping("a", b"f:a", kind=ValueType.STRING)]

    batch = batch_of(damaged(), mappings, OnUndecodable.FAIL)

    assert [row["a"] for row in batch.to_pylist()] == ["1", "12,5"]


def damaged() -> ScannedColumns:
    cells = ScannedColumns([b"f:a", b"f:b"])
    cells.add([result(b"1", a=b"1"), result(b"2", a=b"12,5", b=b"3")])
    return cells


def batch_of(
    cells: ScannedColumns,
    mappings: list[ColumnMapping],
    policy: OnUndecodable = OnUndecodable.NULL,
    undecoded: UndecodedValues | None = None,
) -> pa.RecordBatch:
    heard = undecoded or UndecodedValues(lambda _: None)
    return to_batch(cells, mappings, ValueType.STRING, policy, heard)


class Written:
    """A table that is put to and deleted from, as a connection does it."""

    def __init__(self) -> None:
        self.cells: dict[tuple[bytes, bytes], bytes] = {}

    def put_columns(self, _table: str, rows: Any, columns: Any, **_: Any) -> int:
        for column, values in columns.items():
            for row, value in zip(rows, values, strict=True):
                if value is not None:
                    self.cells[row, column] = value
        return len(rows)

    def delete(self, _table: str, rows: Any, columns: Any, **_: Any) -> int:
        for row in rows:
            for column in columns:
                self.cells.pop((row, column), None)
        return len(rows)


def write(table: Written, rows: dict[str, tuple[float | None, float | None]]) -> int:
    frame = pa.table(
        {
            "row": pa.array(list(rows), pa.string()),
            "a": pa.array([a for a, _ in rows.values()], pa.float64()),
            "b": pa.array([b for _, b in rows.values()], pa.float64()),
        }
    )
    targets = {"a": ColumnTarget(b"f:a"), "b": ColumnTarget(b"f:b")}
    return write_batch(cast(Any, table), "t", frame, targets, None)


VALUES = st.one_of(st.none(), st.floats(allow_nan=False))
FRAMES = st.dictionaries(st.text(min_size=1, max_size=2), st.tuples(VALUES, VALUES), max_size=8)


@given(before=FRAMES, after=FRAMES)
def test_a_table_holds_exactly_what_the_last_frame_says_of_its_rows(
    before: dict[str, tuple[float | None, float | None]],
    after: dict[str, tuple[float | None, float | None]],
) -> None:
    table = Written()

    write(table, before)
    assert write(table, after) == len(after)

    expected = {
        (row.encode(), column): repr(value).encode()
        for row, values in {**before, **after}.items()
        for column, value in zip((b"f:a", b"f:b"), values, strict=True)
        if value is not None
    }
    assert table.cells == expected


def regions_at(borders: list[bytes]) -> list[Region]:
    starts = [b"", *borders]
    stops = [*borders, None]
    return [Region(start, stop, "host") for start, stop in zip(starts, stops, strict=True)]


def test_a_range_is_cut_at_regions() -> None:
    parts = split_extent(ScanRange(b"b", b"x"), regions_at([b"a", b"m", b"z"]), 1, None)

    assert [(part.start, part.stop) for part in parts] == [(b"b", b"m"), (b"m", b"x")]


def test_a_single_region_is_cut_between_its_first_and_last_key() -> None:
    parts = split_extent(ScanRange(), regions_at([]), 2, (b"r0000", b"r9999"))

    assert len(parts) == 2
    assert parts[0].start == b""
    assert b"r4" <= parts[1].start < b"r5"


keys = st.binary(min_size=1, max_size=6)


@given(
    borders=st.lists(keys, unique=True).map(sorted),
    start=st.just(b"") | keys,
    stop=st.none() | keys,
    wanted=st.integers(1, 5),
    ends=st.none() | st.tuples(keys, keys).map(sorted).map(tuple),
    row=keys,
)
def test_every_row_of_a_range_is_in_one_part(
    borders: list[bytes],
    start: bytes,
    stop: bytes | None,
    wanted: int,
    ends: tuple[bytes, bytes] | None,
    row: bytes,
) -> None:
    parts = split_extent(ScanRange(start, stop, (b"f",), 1, 2), regions_at(borders), wanted, ends)

    inside = start <= row and (stop is None or row < stop)
    holding = [p for p in parts if p.start <= row and (p.stop is None or row < p.stop)]
    assert len(holding) == inside
    assert all((p.columns, p.since, p.until) == ((b"f",), 1, 2) for p in parts)
