"""Results of scans become batches, and ranges are cut so that no row is lost or read twice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate.client import Region, ScanRange
from headgate.spark.tables import CellColumns, ColumnMapping, split_extent, to_batch
from headgate.spark.values import ValueType


def result(row: bytes, **cells: bytes) -> Any:
    values = [
        SimpleNamespace(family=b"f", qualifier=name.encode(), value=value)
        for name, value in cells.items()
    ]
    return SimpleNamespace(row=row, columnValues=values)


def test_cells_stand_beside_their_row_and_gaps_are_none() -> None:
    cells = CellColumns([b"f:a", b"f:b"])
    cells.add([result(b"1", b=b"x"), result(b"2", a=b"y", c=b"z")])
    cells.add([result(b"3")])

    assert cells.rows == [b"1", b"2", b"3"]
    assert cells.columns() == {b"f:a": [None, b"y", None], b"f:b": [b"x", None, None]}


def test_without_wanted_columns_all_that_appear_are_kept() -> None:
    cells = CellColumns(None)
    cells.add([result(b"1", b=b"x"), result(b"2", a=b"y")])

    assert cells.columns() == {b"f:a": [None, b"y"], b"f:b": [b"x", None]}


def test_a_row_added_whole_stands_as_one_of_a_scan() -> None:
    cells = CellColumns([b"f:a", b"f:b"])
    cells.add_row(b"1", {b"f:b": b"x"})
    cells.add_row(b"2", {b"f:a": b"y", b"f:b": b"z"})

    assert cells.columns() == {b"f:a": [None, b"y"], b"f:b": [b"x", b"z"]}


def test_a_batch_has_the_row_first_and_columns_in_their_order() -> None:
    cells = CellColumns([b"f:a", b"f:b"])
    cells.add([result(b"1", a=b"2.5", b=b"t")])
    mappings = [
        ColumnMapping("text", b"f:b", kind=ValueType.STRING),
        ColumnMapping("number", b"f:a"),
    ]

    batch = to_batch(cells, mappings, ValueType.STRING)

    assert batch.to_pylist() == [{"row": "1", "text": "t", "number": 2.5}]


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
