"""Reading the cells of a table that were written since a time, some rows at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from headgate.agent.ports import Extent, TimeRange
from headgate.agent.scans.table_scan import Chunk
from headgate.client import Cell, ScanRange, Thrift2Connection, sparse_rows
from headgate.events import NOTIFY_FAMILY, Notify

_MARK = Notify().column


def read_chunk(
    connection: Thrift2Connection,
    table: str,
    extent: Extent,
    start: bytes,
    written: TimeRange,
    rows: int,
) -> Chunk:
    """Return the cells with timestamps in a range, of at most so many rows."""
    if extent.notify:
        return _marked(connection, table, extent, start, written, rows)
    page = _page(connection, table, _range(start, extent.stop, _columns(extent), written), rows)
    return Chunk(list(_cells(page)), _following(page, rows))


def _marked(
    connection: Thrift2Connection,
    table: str,
    extent: Extent,
    start: bytes,
    written: TimeRange,
    rows: int,
) -> Chunk:
    page = _page(connection, table, _range(start, extent.stop, (_MARK,), written), rows)

    def ask(first: bytes, stop: bytes, most: int) -> list[tuple[bytes, Any]]:
        found = _page(connection, table, _range(first, stop, _columns(extent), written), most)
        return [(result.row, result) for result in found]

    results = sparse_rows([result.row for result in page], ask)
    cells = _cells(result for _, result in results)
    return Chunk(list(cells), _following(page, rows))


def _page(connection: Thrift2Connection, table: str, extent: ScanRange, rows: int) -> list[Any]:
    return next(iter(islice(connection.pages(table, extent, rows), 1)), [])


def _range(
    start: bytes, stop: bytes | None, columns: tuple[bytes, ...], written: TimeRange
) -> ScanRange:
    return ScanRange(start, stop, columns=columns, since=written.since, until=written.until)


def _following(page: list[Any], rows: int) -> bytes | None:
    return page[-1].row + b"\0" if len(page) == rows else None


def _columns(extent: Extent) -> tuple[bytes, ...]:
    # A family without a qualifier is written without its colon in a scan.
    return tuple(c[:-1] if c.find(b":") == len(c) - 1 else c for c in extent.columns)


def _cells(page: Iterable[Any]) -> Iterator[Cell]:
    for result in page:
        for cell in result.columnValues:
            if cell.family != NOTIFY_FAMILY:
                column = cell.family + b":" + cell.qualifier
                yield Cell(result.row, column, cell.timestamp, cell.value)
