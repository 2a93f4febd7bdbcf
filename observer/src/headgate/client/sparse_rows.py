"""Reading some rows of a table: close together they are scanned, far apart each by itself."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from headgate.client.connection import Thrift2Connection
from headgate.client.rows import ScanRange

_LEAST = 8
_MOST = 1024
"""Rows of a page. A Thrift2 server scans some 100,000 rows/s and answers 2,400 requests/s, so a
request costs as much as some 40 rows that nobody asked for."""

T = TypeVar("T")

Page = Callable[[bytes, bytes, int], Sequence[tuple[bytes, T]]]
"""Returns the first rows from one to before another, so many at most, each with what it holds."""


def sparse_rows(rows: Sequence[bytes], page: Page[T]) -> Iterator[tuple[bytes, T]]:
    """Yield those rows that are there, in order, each with what it holds.

    Each request begins at a row that is wanted. Of what it returned and nobody wants, at most
    some 16 rows are read for each that is wanted, however far apart they are.

    Args:
        rows: in order, each once.
        page: asks the table.
    """
    wanted = frozenset(rows)
    at, size = 0, _LEAST
    while at < len(rows):
        results = page(rows[at], rows[-1] + b"\0", size)
        hits = [result for result in results if result[0] in wanted]
        yield from hits
        if len(results) < size:
            return
        at = bisect_right(rows, results[-1][0], at)
        if len(hits) >= size / 8:
            size = min(_MOST, size * 2)
        elif len(hits) < size / 64:
            size = max(_LEAST, size // 2)


def read_rows(
    connection: Thrift2Connection, table: str, rows: Sequence[bytes], columns: tuple[bytes, ...]
) -> dict[bytes, dict[bytes, bytes]]:
    """Return those rows that are there, with the newest values by ``family:qualifier``.

    Args:
        connection: to a Thrift2 server.
        table: its name.
        rows: in order, each once.
        columns: which to read, as in a ``ScanRange``; all where none is named.

    Raises:
        ClientError: the server is away, or refuses.
    """

    def page(start: bytes, stop: bytes, most: int) -> list[tuple[bytes, dict[bytes, bytes]]]:
        extent = ScanRange(start, stop, columns)
        return list(islice(connection.scan(table, extent, most), most))

    return dict(sparse_rows(rows, page))
