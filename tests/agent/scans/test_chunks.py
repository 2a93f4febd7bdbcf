"""Which cells one chunk of a scan holds."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headgate.agent.ports import Extent, TimeRange
from headgate.agent.scans.chunks import read_chunk
from headgate.client import Cell, ScanRange, Thrift2Connection

OLD, NEW, FUTURE = 10, 20, 99  # milliseconds
WRITTEN = TimeRange(NEW, 30)


class Table:
    """A table behind a connection: pages of results, as the server would give them."""

    def __init__(self, *cells: tuple[bytes, bytes, int]) -> None:
        self.cells = sorted(cells)
        self.rows_read: set[bytes] = set()

    def pages(self, table: str, extent: ScanRange, page: int = 100) -> Iterator[list[Any]]:
        assert table == "t"
        assert extent.since is not None
        assert extent.until is not None
        rows: dict[bytes, list[Any]] = {}
        for row, column, timestamp in self.cells:
            wanted = not extent.columns or any(
                column == one or column.startswith(one + b":") for one in extent.columns
            )
            inside = extent.start <= row and (extent.stop is None or row < extent.stop)
            if wanted and inside and extent.since <= timestamp < extent.until:
                family, _, qualifier = column.partition(b":")
                cell = SimpleNamespace(
                    family=family, qualifier=qualifier, timestamp=timestamp, value=b"v"
                )
                rows.setdefault(row, []).append(cell)
        self.rows_read |= rows.keys()
        found = [SimpleNamespace(row=row, columnValues=cells) for row, cells in rows.items()]
        for first in range(0, len(found), page):
            yield found[first : first + page]


@pytest.fixture
def table() -> Table:
    marks = ((b"b", b"hg:all", NEW), (b"c", b"hg:all", OLD))
    return Table(
        (b"a", b"f:x", NEW),
        (b"b", b"f:x", NEW),
        (b"b", b"g:y", NEW),
        (b"c", b"f:x", OLD),
        (b"d", b"f:x", FUTURE),
        *marks,
    )


def connection(table: Table) -> Thrift2Connection:
    return cast("Thrift2Connection", table)


def found(table: Table, extent: Extent, start: bytes = b"", rows: int = 100) -> list[bytes]:
    chunk = read_chunk(connection(table), "t", extent, start, WRITTEN, rows)
    return [cell.row + b" " + cell.column for cell in chunk.cells]


def test_cells_written_since_are_read_and_no_notify_cells(table):
    assert found(table, Extent(1.0)) == [b"a f:x", b"b f:x", b"b g:y"]


@pytest.mark.parametrize("column", [b"g:", b"g:y"])
def test_only_what_is_watched_is_read(table, column):
    assert found(table, Extent(1.0, (column,))) == [b"b g:y"]
    assert found(table, Extent(1.0, start=b"b", stop=b"b\0"), b"b") == [b"b f:x", b"b g:y"]


def test_a_full_chunk_says_where_the_next_one_starts(table):
    chunk = read_chunk(connection(table), "t", Extent(1.0), b"", WRITTEN, 1)
    assert chunk == type(chunk)([Cell(b"a", b"f:x", NEW, b"v")], b"a\0")
    chunk = read_chunk(connection(table), "t", Extent(1.0), b"a\0", WRITTEN, 2)
    assert {cell.row for cell in chunk.cells} == {b"b"}
    assert chunk.following is None


def test_by_notify_columns_only_marked_rows_are_read(table):
    assert found(table, Extent(1.0, notify=True)) == [b"b f:x", b"b g:y"]
    assert table.rows_read == {b"b"}


def test_many_marked_rows_are_read_in_one_scan_over_their_range():
    rows = [b"%03d" % number for number in range(120)]
    table = Table(
        *((row, b"f:x", NEW) for row in rows), *((row, b"hg:all", NEW) for row in rows[::2])
    )
    assert found(table, Extent(1.0, notify=True)) == [row + b" f:x" for row in rows[::2]]


def test_rows_of_marks_are_chunks_too():
    rows = [b"%03d" % number for number in range(5)]
    table = Table(*((row, c, NEW) for row in rows for c in (b"f:x", b"hg:all")))
    start: bytes | None = b""
    chunks = 0
    seen: list[bytes] = []
    while start is not None:
        chunk = read_chunk(connection(table), "t", Extent(1.0, notify=True), start, WRITTEN, 2)
        seen += [cell.row for cell in chunk.cells]
        start, chunks = chunk.following, chunks + 1
    assert (seen, chunks) == (rows, 3)
