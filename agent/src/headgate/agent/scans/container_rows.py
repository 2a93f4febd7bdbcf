"""Reading some rows of a container's part in one table, as many as are to be in memory at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from headgate.agent.ports import ScannedCells
from headgate.client import RequestRefused, ScanRange, Thrift2Connection
from headgate.events import NOTIFY_FAMILY, Dated, DatedState, Item, Notify, key_text

_NOTIFY = NOTIFY_FAMILY + b":"  # what observers write there is nobody's data
_NO_FAMILY = "NoSuchColumnFamilyException"
_FIRST_PAGE = 50  # rows: how wide they are is not known yet
_PAGE = 2000  # rows of a request at most
_GROWTH = 8  # of the next page over this one: the rows of one say little about many
_MILLISECONDS = 1000
_PUT = 4  # HBase's code of a cell that is no delete marker
_VERSIONS = 16  # of a cell that are looked at; below the newest none matters
_CELL = 100  # bytes that a cell takes beside its row, column and value


class RowsLimit(Struct, frozen=True):
    """How much is read at once; of the row that reaches it all cells are."""

    cells: int
    bytes: int


class Stretch(Struct, frozen=True):
    """Rows of which the same columns are read: ``family:qualifier``, ``family`` for all of one.

    No columns are all families.
    """

    start: bytes
    stop: bytes | None
    columns: tuple[bytes, ...]


def stretches(items: Sequence[Item], start: bytes) -> list[Stretch]:
    """Return what items have from a row on: in order, each row in one stretch at most."""
    edges = {max(item.start, start) for item in items}
    edges |= {item.stop for item in items if item.stop is not None and item.stop > start}
    found = []
    for first, stop in pairwise((*sorted(edges), None)):
        inside = [item for item in items if first is not None and item.has_row(first)]
        if inside and first is not None:
            found.append(Stretch(first, stop, _columns(inside)))
    return found


def _columns(items: Sequence[Item]) -> tuple[bytes, ...]:
    if any(item.family is None for item in items):
        return ()
    # A column beside the whole of its family would narrow the family to it.
    whole = {item.family for item in items if not item.qualifier}
    names = (
        item.family if item.family in whole else item.column
        for item in items
        if item.family is not None
    )
    return tuple(dict.fromkeys(name for name in names if name is not None))


class _Found:
    """Cells that were read so far, and how many more rows may be asked for."""

    def __init__(self, limit: RowsLimit, *, values: bool, recent: int | None, dated: bool) -> None:
        self.rows: list[bytes] = []
        self.columns: list[bytes] = []
        self.values: list[bytes | None] = []
        self.recent: dict[int, int] = {}
        self._limit = limit
        self.timestamps: list[int] = []
        self._keeps_values = values
        self._keeps_timestamps = dated
        self._since = recent
        self._names: dict[bytes, bytes] = {}
        self._size = 0
        self._seen = 0
        """Rows."""

    def add(self, row: bytes, cells: Sequence[Any]) -> None:
        """Take the cells of a row, as the server returned them."""
        self._seen += 1
        for cell in cells:
            column = cell.family + b":" + cell.qualifier
            column = self._names.setdefault(column, column)
            self._size += _CELL + len(row) + len(column) + len(cell.value or b"")
            if column.startswith(_NOTIFY):
                continue
            if self._since is not None and cell.timestamp >= self._since:
                self.recent[len(self.rows)] = cell.timestamp
            self.rows.append(row)
            self.columns.append(column)
            if self._keeps_values:
                self.values.append(cell.value)
            if self._keeps_timestamps:
                self.timestamps.append(cell.timestamp)

    @property
    def full(self) -> bool:
        """Whether there are as many as may be in memory."""
        return len(self.rows) >= self._limit.cells or self._size >= self._limit.bytes

    def page(self, before: int) -> int:
        """Return how many rows to ask for next, if they are as wide as those that came."""
        if not self._seen:
            return before
        cells = (self._limit.cells - len(self.rows)) * self._seen // max(len(self.rows), 1)
        size = (self._limit.bytes - self._size) * self._seen // max(self._size, 1)
        return max(1, min(_PAGE, before * _GROWTH, cells, size))


class ContainerRows:
    """Reads items of one table.

    Args:
        connection: to a Thrift2 server.
        items: all of the same table.
        limit: up to how much is read at once.
    """

    def __init__(
        self, connection: Thrift2Connection, items: Sequence[Item], limit: RowsLimit
    ) -> None:
        self._connection = connection
        self._items = items
        self._table = items[0].table
        self._limit = limit

    def read(
        self, start: bytes, *, values: bool, mark: Notify | None, recent: int | None, passed: int
    ) -> ScannedCells:
        """Return the present cells of rows from ``start`` on; see ``Scanner``.

        A table or a family that is not there has none. What is dated ahead of ``passed``, in Unix
        milliseconds, is looked for too.

        Raises:
            ClientError: the server is away, or refuses.
        """
        ttls = self._times_to_live()
        found = _Found(self._limit, values=values, recent=recent, dated=bool(ttls))
        following: bytes | None = None
        for stretch in stretches(self._items, start):
            following = self._fill(found, stretch, None if values else "KeyOnlyFilter()")
            if following is not None:
                break
        marked: frozenset[bytes] = frozenset()
        if mark is not None:
            rows = set(found.rows)
            marked = frozenset(row for row in self._marks(mark, start, following) if row in rows)
        dated = self._dated(start, following, passed)
        return ScannedCells(
            found.rows,
            found.columns,
            found.values,
            marked,
            found.recent,
            following,
            timestamps=found.timestamps,
            dated=dated,
            ttls=ttls,
        )

    def _times_to_live(self) -> dict[bytes, int]:
        """Return milliseconds by family; none where there is no table."""
        try:
            found = self._connection.times_to_live(self._table)
        except RequestRefused:
            if self._connection.table_exists(self._table):
                raise
            return {}
        wanted = {item.family for item in self._items}
        return {
            family: seconds * _MILLISECONDS
            for family, seconds in found.items()
            if None in wanted or family in wanted
        }

    def _dated(self, start: bytes, stop: bytes | None, passed: int) -> DatedState:
        """Return what is dated ahead in rows, hidden or not.

        HBase looks into no file whose cells are all older, so that it costs little where little is.
        """
        dated = Dated()
        for stretch in stretches(self._items, start):
            last = _earlier(stretch.stop, stop)
            families = tuple(dict.fromkeys(c.partition(b":")[0] for c in stretch.columns))
            extent = ScanRange(
                stretch.start, last, families, since=passed, versions=_VERSIONS, raw=True
            )
            while last is None or extent.start < last:
                results = self._page(extent, _PAGE)
                for result in results:
                    for cell in result.columnValues:
                        column = b""
                        if cell.type == _PUT:
                            column = cell.family + b":" + cell.qualifier
                        dated.note(result.row, column, cell.timestamp)
                if len(results) < _PAGE:
                    break
                extent = replace(extent, start=results[-1].row + b"\0")
        return dated.state()

    def _fill(self, found: _Found, stretch: Stretch, only: str | None) -> bytes | None:
        """Read rows of a stretch; return where to go on, None after the last of them."""
        start, page = stretch.start, _FIRST_PAGE
        while True:
            page = found.page(page)
            extent = ScanRange(start, stretch.stop, columns=stretch.columns, filter=only)
            results = self._page(extent, page)
            for result in results:
                found.add(result.row, result.columnValues)
                following: bytes = result.row + b"\0"
                if found.full:
                    return following
                start = following
            if len(results) < page:
                return None

    def _marks(self, mark: Notify, start: bytes, stop: bytes | None) -> Iterator[bytes]:
        """Yield the rows with a notify cell, up to where cells were read."""
        for stretch in stretches(self._items, start):
            first, last = stretch.start, _earlier(stretch.stop, stop)
            while last is None or first < last:
                extent = ScanRange(first, last, columns=(mark.column,), filter="KeyOnlyFilter()")
                results = self._page(extent, _PAGE)
                yield from (result.row for result in results)
                if len(results) < _PAGE:
                    break
                first = results[-1].row + b"\0"

    def _page(self, extent: ScanRange, rows: int) -> list[Any]:
        try:
            return self._ask(extent, rows)
        except RequestRefused as error:
            if _NO_FAMILY not in error.detail:
                if self._connection.table_exists(self._table):
                    raise
                return []
        columns = self._there(extent.columns)
        return self._ask(replace(extent, columns=columns), rows) if columns else []

    def _ask(self, extent: ScanRange, rows: int) -> list[Any]:
        return next(self._connection.pages(self._table, extent, rows), [])

    def _there(self, columns: Collection[bytes]) -> tuple[bytes, ...]:
        """Return the columns whose family is there."""
        families = self._connection.families(self._table)
        return tuple(c for c in columns if key_text(c.partition(b":")[0]) in families)


def _earlier(one: bytes | None, other: bytes | None) -> bytes | None:
    """Return the stop that comes first; None is behind all."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
