"""Reading tables for the engine, in threads of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog

from headgate.agent.errors import Unreachable
from headgate.agent.rows import HBaseConnections
from headgate.agent.seams import Cells
from headgate.client import Cell, ScanRange, Thrift2Connection
from headgate.events import Container, Item

log = structlog.get_logger("headgate.agent.scans")

_SCAN_ABOVE = 50
"""Rows above which one scan over their range is faster than a get for each: a Thrift2 scan reads
some 100,000 rows/s, gets 2,400."""


class TableScanner:
    """Scans and reads through Thrift2; a read that finds no server is repeated until it does."""

    def __init__(self, connections: HBaseConnections, threads: int = 2) -> None:
        self._connections = connections
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="scan")

    def close(self) -> None:
        """Wait for what is under way."""
        self._pool.shutdown(cancel_futures=True)

    def scan(
        self, container: Container, table: str, *, values: bool, done: Callable[[Cells], None]
    ) -> None:
        """See ``Scanner``."""
        items = [item for item in container.items if item.table == table]
        self._pool.submit(
            self._answer, done, lambda c: _columns(_cells(c, items, values=values), values=values)
        )

    def read(
        self,
        table: str,
        rows: Sequence[bytes],
        columns: Sequence[bytes],
        done: Callable[[Cells], None],
    ) -> None:
        """See ``Scanner``."""
        self._pool.submit(self._answer, done, lambda c: _read(c, table, rows, columns))

    def _answer(
        self, done: Callable[[Cells], None], what: Callable[[Thrift2Connection], Cells]
    ) -> None:
        try:
            done(self._connections.call(what))
        except Unreachable as error:
            log.info("read given up", problem=str(error))


def _cells(connection: Thrift2Connection, items: list[Item], *, values: bool) -> Iterator[Cell]:
    seen: set[tuple[bytes, bytes]] = set()
    for item in items:
        extent = ScanRange(
            item.start,
            item.stop,
            columns=(item.column.removesuffix(b":") if not item.qualifier else item.column,)
            if item.column is not None
            else (),
            filter=None if values else "KeyOnlyFilter()",
        )
        for cell in connection.cells(item.table, extent):
            if len(items) > 1:
                key = (cell.row, cell.column)
                if key in seen:
                    continue
                seen.add(key)
            yield cell


def _columns(cells: Iterator[Cell], *, values: bool) -> Cells:
    found = list(cells)
    return Cells(
        [cell.row for cell in found],
        [cell.column for cell in found],
        [cell.value for cell in found] if values else (),
    )


def _read(
    connection: Thrift2Connection, table: str, rows: Sequence[bytes], columns: Sequence[bytes]
) -> Cells:
    wanted: dict[bytes, list[bytes]] = {}
    for row, column in zip(rows, columns, strict=True):
        wanted.setdefault(row, []).append(column)
    found: dict[bytes, dict[bytes, bytes]] = {}
    if len(wanted) > _SCAN_ABOVE:
        extent = ScanRange(min(wanted), max(wanted) + b"\0", columns=tuple(dict.fromkeys(columns)))
        found = {row: values for row, values in connection.scan(table, extent) if row in wanted}
    else:
        found = {row: connection.get(table, row, names) for row, names in wanted.items()}
    return Cells(
        rows,
        columns,
        [found.get(row, {}).get(column) for row, column in zip(rows, columns, strict=True)],
    )
