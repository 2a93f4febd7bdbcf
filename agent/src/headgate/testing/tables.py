"""Tables in memory, behind the calls of a Thrift2 connection that steps make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from headgate.client import ScanRange
from headgate.events import (
    Origin,
    Outcome,
    RequestPart,
    UpdateBatch,
    WrittenCells,
    key_text,
    written_batch,
)

_OBSERVER = "testing"

Cells = dict[bytes, bytes]
"""Values by ``family:qualifier``."""


class MemoryTables:
    """Tables with one version of each cell, and the updates of each in the order of the writes.

    Attributes:
        rows: by table, the cells of each row.
        updates: by table, what an observer would have published.
    """

    def __init__(self) -> None:
        self.rows: dict[str, dict[bytes, Cells]] = {}
        self.updates: dict[str, list[UpdateBatch]] = {}
        self._families: dict[str, set[str]] = {}

    def create(self, table: str, families: Iterable[str] = ()) -> None:
        """Make a table, or give it more families."""
        self.rows.setdefault(table, {})
        self.updates.setdefault(table, [])
        self._families.setdefault(table, set()).update(families)

    # -- the calls of a connection

    def __enter__(self) -> MemoryTables:
        """Return the tables."""
        return self

    def __exit__(self, *_: object) -> None:
        """Keep them."""

    def table_exists(self, table: str) -> bool:
        """Return whether there is such a table."""
        return table in self.rows

    def families(self, table: str) -> list[str]:
        """Return the names of a table's families."""
        return sorted(self._families[table])

    def times_to_live(self, _table: str) -> dict[bytes, int]:
        """Return nothing: no cell expires."""
        return {}

    def get(self, table: str, row: bytes, columns: Iterable[bytes] = ()) -> Cells:
        """Return cells of a row, all where no column is named."""
        return _named(self.rows[table].get(row, {}), tuple(columns))

    def scan(self, table: str, extent: ScanRange, _page: int = 0) -> Iterator[tuple[bytes, Cells]]:
        """Yield the rows of an extent with their cells, in the order of their keys."""
        for row in sorted(self.rows[table]):
            cells = _named(self.rows[table][row], extent.columns)
            if cells and extent.start <= row and (extent.stop is None or row < extent.stop):
                yield row, cells

    def pages(self, table: str, extent: ScanRange, page: int) -> Iterator[list[Any]]:
        """Yield the same as ``scan`` as results of Thrift2."""
        found = []
        for row, cells in self.scan(table, extent, page):
            parts = ((*column.partition(b":"), value) for column, value in cells.items())
            values = [SimpleNamespace(family=f, qualifier=q, value=v) for f, _, q, v in parts]
            found.append(SimpleNamespace(row=row, columnValues=values))
        yield found

    def put_columns(
        self,
        table: str,
        rows: Sequence[bytes],
        columns: Mapping[bytes, Sequence[bytes | None]],
        *,
        timestamp: int | None = None,
        origin: Origin | None = None,
    ) -> int:
        """Put values of rows by columns; None leaves a cell as it is. Return how many rows.

        Raises:
            LookupError: the table has families, and none of this name.
        """
        del timestamp  # there is one version of each cell
        written = [
            (row, column, value)
            for column, values in columns.items()
            for row, value in zip(rows, values, strict=True)
            if value is not None
        ]
        for column in columns:
            family = key_text(column.partition(b":")[0])
            if self._families[table] and family not in self._families[table]:
                message = f"table {table!r} has no family {family!r}"
                raise LookupError(message)
        for row, column, value in written:
            self.rows[table].setdefault(row, {})[column] = value
        self._publish(table, written, origin)
        return len(rows)

    def delete(
        self,
        table: str,
        rows: Iterable[bytes],
        columns: Sequence[bytes] = (),
        *,
        timestamp: int | None = None,
        origin: Origin | None = None,
    ) -> int:
        """Delete cells of rows, all where no column is named. Return how many rows."""
        del timestamp
        named = list(rows)
        for row in named:
            there = self.rows[table].get(row, {})
            gone = _named(there, columns)
            for column in gone:
                del there[column]
            if not there:
                self.rows[table].pop(row, None)
            deleted = [(row, column, None) for column in gone]
            self._publish(table, deleted, origin)
        return len(named)

    def check_and_delete(
        self,
        table: str,
        row: bytes,
        column: bytes,
        expected: bytes | None,
        delete: Iterable[bytes] = (),
        *,
        origin: Origin | None = None,
    ) -> bool:
        """Delete cells of a row if one has the expected value; return whether it had."""
        if self.rows[table].get(row, {}).get(column) != expected:
            return False
        self.delete(table, [row], tuple(delete), origin=origin)
        return True

    def _publish(self, table: str, cells: WrittenCells, origin: Origin | None) -> None:
        if cells:
            known = self.updates[table]
            number = len(known)
            part = RequestPart(
                number, "putMultiple", Outcome.APPLIED, 0.0, len(cells), origin=origin
            )
            known.append(written_batch(table, part, cells, observer=_OBSERVER, sequence=number))


def _named(cells: Cells, columns: Sequence[bytes]) -> Cells:
    """Return the cells of columns and families; all where none is named."""
    if not columns:
        return dict(cells)
    names = set(columns)
    return {
        column: value
        for column, value in cells.items()
        if column in names or column.partition(b":")[0] in names
    }
