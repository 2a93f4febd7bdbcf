"""Index of many items by row and column, to find whether a write touches any of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, final

from headgate.events import Item, UpdateKind
from headgate.hbase import Cells

_ROW: Final = int(UpdateKind.DELETE_ROW)
_FAMILIES: Final = frozenset({int(UpdateKind.DELETE_FAMILY), int(UpdateKind.DELETE_FAMILY_VERSION)})


@final
class _Ranges:
    """Ranges of rows, none of which meet."""

    __slots__ = ("_starts", "_stops", "_whole")

    def __init__(self, ranges: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Join ranges that begin at a row and stop before another; None: at the table's end."""
        starts: list[bytes] = []
        stops: list[bytes | None] = []
        for start, stop in sorted(ranges, key=lambda each: each[0]):
            if stop is not None and stop <= start:
                continue
            last = stops[-1] if stops else b""
            if stops and (last is None or start <= last):
                if last is not None and (stop is None or stop > last):
                    stops[-1] = stop
            else:
                starts.append(start)
                stops.append(stop)
        self._starts = starts
        self._stops = stops
        self._whole = starts[:1] == [b""] and stops[0] is None

    def have(self, row: bytes) -> bool:
        """Return whether a row lies in one of them."""
        if self._whole:
            return True
        at = bisect_right(self._starts, row) - 1
        if at < 0:
            return False
        stop = self._stops[at]
        return stop is None or row < stop


@final
class TouchedItems:
    """Items of one table, as ``Item.is_touched_by`` asks each of them."""

    __slots__ = ("_columns", "_everywhere", "_families", "_in_families", "_rows")

    def __init__(self, items: Iterable[Item]) -> None:
        """Find items by their rows and columns."""
        rows: list[tuple[bytes, bytes | None]] = []
        everywhere: list[tuple[bytes, bytes | None]] = []
        families: dict[bytes, list[tuple[bytes, bytes | None]]] = {}
        columns: dict[bytes, list[tuple[bytes, bytes | None]]] = {}
        in_families: dict[bytes, list[tuple[bytes, bytes | None]]] = {}
        for item in items:
            part = item.start, item.stop
            rows.append(part)
            family = item.family
            if family is None:
                everywhere.append(part)
                continue
            in_families.setdefault(family, []).append(part)
            if item.qualifier is None:
                families.setdefault(family, []).append(part)
            else:
                columns.setdefault(family + b":" + item.qualifier, []).append(part)
        self._rows = _Ranges(rows)
        self._everywhere = _Ranges(everywhere)
        self._families = {family: _Ranges(parts) for family, parts in families.items()}
        self._columns = {column: _Ranges(parts) for column, parts in columns.items()}
        self._in_families = {family: _Ranges(parts) for family, parts in in_families.items()}

    def touched_by(self, cells: Cells) -> bool:
        """Return whether a write of the cells may change a cell of an item."""
        rows = self._rows
        seen: bytes | None = None
        has_row = everywhere = False
        for kind, row, column in zip(bytes(cells.kinds), cells.rows, cells.columns, strict=True):
            if row != seen:
                seen = row
                has_row = rows.have(row)
                everywhere = has_row and self._everywhere.have(row)
            if not has_row:
                continue
            if everywhere or kind == _ROW:
                return True
            family, colon, _ = column.partition(b":")
            of_families = self._in_families if kind in _FAMILIES else self._families
            in_family = of_families.get(family) if colon or kind in _FAMILIES else None
            if in_family is not None and in_family.have(row):
                return True
            if kind not in _FAMILIES:
                in_column = self._columns.get(column)
                if in_column is not None and in_column.have(row):
                    return True
        return False
