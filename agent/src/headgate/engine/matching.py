"""Which cells of a batch lie in a container: decided once per distinct column, not per cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.events import Item, UpdateKind

Ranges = tuple[tuple[bytes, bytes | None], ...]
"""Row ranges, each from its start to before its stop."""

_MAX_CACHED_COLUMNS = (
    65_536  # qualifiers may be data: without a limit the cache would hold them all
)


class Matcher:
    """The items of one container in one table."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = tuple(items)
        self._columns: dict[bytes, Ranges | bool] = {}

    @property
    def one_column(self) -> bool:
        """Whether all items are the same single column, so that rows and cells are the same."""
        first = self._items[0]
        return first.qualifier is not None and all(i.column == first.column for i in self._items)

    def has_family(self, family: bytes) -> bool:
        """Tell whether the container has or may have columns of the family."""
        return any(item.family in (None, family) for item in self._items)

    def of_column(self, column: bytes) -> Ranges | bool:
        """Return True if every row of the column is in, False if none is, otherwise its ranges."""
        known = self._columns.get(column)
        if known is None:
            if len(self._columns) >= _MAX_CACHED_COLUMNS:
                self._columns.clear()
            known = _ranges(item for item in self._items if item.has_column(column))
            self._columns[column] = known
        return known

    def select(
        self, rows: Sequence[bytes], columns: Sequence[bytes], distinct: Iterable[bytes]
    ) -> range | list[int]:
        """Return the positions of the cells that lie in the container, in order."""
        verdicts = {column: self.of_column(column) for column in distinct}
        if len(verdicts) == 1:
            (only,) = verdicts.values()
            if only is True:
                return range(len(rows))
        if all(verdict is True for verdict in verdicts.values()):
            return range(len(rows))
        if not any(verdicts.values()):
            return range(0)
        chosen = []
        for i, column in enumerate(columns):
            verdict = verdicts[column]
            if verdict is True or (verdict and _in_ranges(rows[i], verdict)):
                chosen.append(i)
        return chosen

    def touches(self, kind: int, row: bytes, column: bytes) -> bool:
        """Tell whether an update may change a cell of the container; of any kind."""
        if kind == UpdateKind.DELETE_ROW:
            return any(item.has_row(row) for item in self._items)
        if kind in (UpdateKind.DELETE_FAMILY, UpdateKind.DELETE_FAMILY_VERSION):
            family = column.partition(b":")[0]
            return any(i.has_row(row) and i.family in (None, family) for i in self._items)
        verdict = self.of_column(column)
        return verdict is True or (verdict is not False and _in_ranges(row, verdict))


def _ranges(items: Iterable[Item]) -> Ranges | bool:
    ranges = tuple(dict.fromkeys((item.start, item.stop) for item in items))
    return True if (b"", None) in ranges else ranges or False


def _in_ranges(row: bytes, ranges: Ranges) -> bool:
    return any(start <= row and (stop is None or row < stop) for start, stop in ranges)
