"""Reading tables for the engine, in threads of their own."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Collection, Sequence
from itertools import count
from typing import Any

import structlog
from msgspec import Struct

from headgate.agent.errors import HBaseRefused, Unreachable
from headgate.agent.ports import Extent, ScannedCells, TimeRange
from headgate.agent.scans.chunks import read_chunk
from headgate.agent.scans.container_rows import ContainerRows, RowsLimit
from headgate.agent.scans.table_scan import Chunk
from headgate.agent.state.rows import HBaseConnections
from headgate.agent.supervision import Supervision, ThreadKind, describe, pause_after
from headgate.client import RequestRefused, ScanRange, Thrift2Connection, sparse_rows
from headgate.events import CLOCKS_APART, Container, Notify, key_text

log = structlog.get_logger("headgate.agent.scans")

_PATIENCE = 5.0  # seconds one attempt may hold its thread, so that others are not kept waiting
_AGAIN = 1.0  # seconds until the next attempt; a table that is disabled stays so for a while
_MILLISECONDS = 1000
_NO_FAMILY = "NoSuchColumnFamilyException"


class _Task(Struct):
    """What is to be read, and who waits for it."""

    table: str
    read: Callable[[Thrift2Connection], Any]
    done: Callable[[Any], None]
    failures: int = 0


class TableScanner:
    """Scans and reads through Thrift2, again and again until there is an answer.

    A table or a family that is not there has no cells. A table that is disabled, or a server that
    is away, is waited for, in turn with other tables; so is whatever else keeps one from being
    read, which ``trouble`` returns.
    """

    def __init__(
        self,
        connections: HBaseConnections,
        supervision: Supervision,
        limit: RowsLimit,
        threads: int = 2,
    ) -> None:
        self._connections = connections
        self._limit = limit
        self._supervision = supervision
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._waiting: list[tuple[float, int, _Task]] = []
        """A heap by the time from which on each may be done, by the monotonic clock."""
        self._order = count()
        self._troubles: dict[str, str] = {}
        self._threads = [
            supervision.thread(ThreadKind.READ, f"read-{number}", self._work, self._stopping)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Wait for what is under way; what waits is not done any more."""
        with self._changed:
            self._stopping.set()
            self._waiting.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def trouble(self, table: str) -> str | None:
        """See ``Scanner``."""
        return self._troubles.get(table)

    def scan(
        self,
        container: Container,
        table: str,
        *,
        values: bool,
        mark: Notify | None,
        recent: int | None,
        start: bytes,
        done: Callable[[ScannedCells], None],
    ) -> None:
        """See ``Scanner``."""
        items = [item for item in container.items if item.table == table]

        def read(connection: Thrift2Connection) -> ScannedCells:
            rows = ContainerRows(connection, items, self._limit)
            passed = int(time.time() * _MILLISECONDS) - CLOCKS_APART
            return rows.read(start, values=values, mark=mark, recent=recent, passed=passed)

        self._submit(_Task(table, read, done))

    def read(
        self,
        table: str,
        rows: Sequence[bytes],
        columns: Sequence[bytes],
        done: Callable[[ScannedCells], None],
    ) -> None:
        """See ``Scanner``."""
        self._submit(_Task(table, lambda c: _read(c, table, rows, columns), done))

    def read_chunk(
        self,
        table: str,
        extent: Extent,
        start: bytes,
        written: TimeRange,
        rows: int,
        done: Callable[[Chunk], None],
    ) -> None:
        """See ``ChunkReader``."""

        def read(connection: Thrift2Connection) -> Chunk:
            try:
                return read_chunk(connection, table, extent, start, written, rows)
            except RequestRefused as error:
                if _NO_FAMILY not in error.detail and connection.table_exists(table):
                    raise
                return Chunk((), None)

        self._submit(_Task(table, read, done))

    def _submit(self, task: _Task, pause: float = 0.0) -> None:
        with self._changed:
            if not self._stopping.is_set():
                due = time.monotonic() + pause
                heapq.heappush(self._waiting, (due, next(self._order), task))
                self._changed.notify()

    def _work(self) -> None:
        while not self._stopping.is_set():
            task = self._next()
            if task is not None:
                self._answer(task)

    def _next(self) -> _Task | None:
        with self._changed:
            now = time.monotonic()
            if self._waiting and self._waiting[0][0] <= now:
                return heapq.heappop(self._waiting)[2]
            if not self._stopping.is_set():
                self._changed.wait(self._waiting[0][0] - now if self._waiting else None)
        return None

    def _answer(self, task: _Task) -> None:
        try:
            task.done(self._connections.call(task.read, _PATIENCE))
        except Unreachable as error:
            log.info("read put off", problem=str(error))
            self._submit(task, _AGAIN)
        except HBaseRefused as error:
            task.failures += 1
            self._troubles[task.table] = str(error)
            log.warning("read put off", table=task.table, problem=str(error))
            self._submit(task, pause_after(task.failures))
        except SystemExit:
            raise
        except BaseException as error:  # noqa: BLE001 whatever it is, somebody waits for an answer
            task.failures += 1
            self._troubles[task.table] = describe(error)
            self._supervision.failed(ThreadKind.READ, f"read of {task.table}", error)
            self._submit(task, pause_after(task.failures))
        else:
            self._troubles.pop(task.table, None)


def _read(
    connection: Thrift2Connection, table: str, rows: Sequence[bytes], columns: Sequence[bytes]
) -> ScannedCells:
    wanted: dict[bytes, list[bytes]] = {}
    for row, column in zip(rows, columns, strict=True):
        wanted.setdefault(row, []).append(column)
    try:
        found = _rows(connection, table, wanted)
    except RequestRefused as error:
        if _NO_FAMILY in error.detail:
            found = _rows(connection, table, _in_families(wanted, connection.families(table)))
        elif connection.table_exists(table):
            raise
        else:
            found = {}
    cells = [found.get(row, {}).get(column) for row, column in zip(rows, columns, strict=True)]
    return ScannedCells(
        rows,
        columns,
        [None if cell is None else cell.value for cell in cells],
        timestamps=[0 if cell is None else cell.timestamp for cell in cells],
    )


def _rows(
    connection: Thrift2Connection, table: str, wanted: dict[bytes, list[bytes]]
) -> dict[bytes, dict[bytes, Any]]:
    columns = tuple(dict.fromkeys(column for names in wanted.values() for column in names))

    def page(start: bytes, stop: bytes, most: int) -> list[tuple[bytes, dict[bytes, Any]]]:
        extent = ScanRange(start, stop, columns)
        results = next(connection.pages(table, extent, most), [])
        return [
            (
                result.row,
                {cell.family + b":" + cell.qualifier: cell for cell in result.columnValues},
            )
            for result in results
        ]

    return dict(sparse_rows(sorted(wanted), page))


def _in_families(
    wanted: dict[bytes, list[bytes]], families: Collection[str]
) -> dict[bytes, list[bytes]]:
    """Return what is wanted of families that are there."""
    kept = {
        row: [name for name in names if key_text(name.partition(b":")[0]) in families]
        for row, names in wanted.items()
    }
    return {row: names for row, names in kept.items() if names}
