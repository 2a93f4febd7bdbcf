"""The tables of a demonstration, as any happybase program would use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import happybase

from headgate.engine import DataflowSpec

Puts = Iterable[tuple[bytes, Mapping[bytes, bytes]]]
"""Rows with their cells."""

_BATCH = 1000  # rows of one mutateRows


def create_tables(host: str, port: int, specs: Iterable[DataflowSpec]) -> None:
    """Create all tables of dataflows, whose containers name their families.

    Several are created at a time: HBase takes about a second for each.
    """
    families: dict[str, set[str]] = {}
    for spec in specs:
        for watched in spec.containers:
            for item in watched.container.items:
                assert item.family is not None, "an example's containers name their families"  # noqa: S101
                families.setdefault(item.table, set()).add(item.family.decode())

    def create(table: str) -> None:
        client = happybase.Connection(host, port)
        try:
            client.create_table(table, {family: {} for family in families[table]})
        finally:
            client.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, families))


class FreshTables:
    """Tables over a new connection each: the server closes those that are idle for a minute."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._last: Any = None

    def table(self, name: str) -> Any:
        """Return a table, which can be used until the next is asked for."""
        if self._last is not None:
            self._last.close()
        self._last = happybase.Connection(self._host, self._port)
        return self._last.table(name)


def put_rows(hbase: FreshTables, table: str, puts: Puts) -> None:
    """Put rows with their cells into a table, many in a request."""
    with hbase.table(table).batch(batch_size=_BATCH) as batch:
        for row, cells in puts:
            batch.put(row, cells)
