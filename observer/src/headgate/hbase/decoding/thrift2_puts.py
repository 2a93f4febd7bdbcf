"""Thrift2's ``TPut`` and ``TColumnValue``, decoded straight into columns."""

from __future__ import annotations

from struct import Struct as Layout
from struct import error as ShortBuffer  # noqa: N812 - what it means here
from typing import Final, final

from headgate.events import NO_TTL
from headgate.hbase.decoding.attributes import read_attributes
from headgate.hbase.decoding.fields import once
from headgate.hbase.requests import LATEST, Cells
from headgate.wire import I64, LIST, MAP, STRING, Cursor, MalformedMessage

_string_head: Final = Layout(">BHI").unpack_from
_STOP: Final = b"\x00"
_AT_ONCE: Final = 256
"""Cells of a row that are read without a look at how far that is."""
_UNSET: Final = -(2**63) - 1
"""No timestamp of its own: outside of what 64 bits can say, so that no request can pretend it."""


def read_put(cursor: Cursor, cells: Cells) -> bytes | None:
    """Append the cells of a ``TPut``, which the cursor stands before; return its origin.

    Raises:
        MalformedMessage: it makes no sense or lacks a required field.
    """
    row: bytes | None = None
    timestamp = LATEST
    origin: bytes | None = None
    ttl = NO_TTL
    first = len(cells.kinds)
    complete = False
    seen = 0
    while kind := cursor.next_field():
        field = cursor.field_id
        if field == 1 and kind == STRING:
            row = cursor.binary()
        elif field == 2 and kind == LIST:
            complete = True
            read_column_values(cursor, cells)
        elif field == 3 and kind == I64:
            timestamp = cursor.i64()
        elif field == 5 and kind == MAP:
            origin, ttl = read_attributes(cursor)
        else:
            cursor.skip(kind)
            continue
        seen = once(seen, field)
    if row is None or not complete:
        raise MalformedMessage("a TPut without its row or columns")
    _complete_put(cells, first, row, timestamp, ttl)
    return origin


def _complete_put(cells: Cells, first: int, row: bytes, timestamp: int, ttl: int) -> None:
    """Give the cells from ``first`` on, whose columns are read, what their row says."""
    count = len(cells.columns) - first
    cells.kinds.extend(bytes(count))  # PUT is 0
    cells.rows.extend([row] * count)
    stamp = -1 if timestamp == LATEST else timestamp
    stamps = cells.timestamps
    for i in range(first, first + count):
        if stamps[i] == _UNSET:
            stamps[i] = stamp
        elif stamps[i] == LATEST:
            stamps[i] = -1
    if ttl != NO_TTL:
        cells.give_ttls(first, [ttl] * count)


@final
class PutReading:
    """The one TPut of a request, read in as many parts as it takes."""

    __slots__ = (
        "_cells",
        "_complete",
        "_cursor",
        "_left",
        "_origin",
        "_origins",
        "_row",
        "_seen",
        "_timestamp",
        "_ttl",
    )

    def __init__(self, cursor: Cursor, cells: Cells, origins: list[bytes | None]) -> None:
        """Stand before it; its cells and its origin are added to these."""
        self._cursor = cursor
        self._cells = cells
        self._origins = origins
        self._row: bytes | None = None
        self._timestamp = LATEST
        self._origin: bytes | None = None
        self._ttl = NO_TTL
        self._complete = False
        self._seen = 0
        self._left = 0
        """Columns in the middle of which it stands."""

    def go_on(self, stop: int) -> bool:
        """Read columns until some end at ``stop`` or behind it; return whether all is read."""
        cursor, cells = self._cursor, self._cells
        while True:
            while self._left and cursor.pos < stop:
                count = min(self._left, _AT_ONCE)
                _read_so_many(cursor, count, cells)
                self._left -= count
            if self._left:
                return False
            kind = cursor.next_field()
            if not kind:
                break
            field = cursor.field_id
            if field == 1 and kind == STRING:
                self._row = cursor.binary()
            elif field == 2 and kind == LIST:
                self._complete = True
                self._left = cursor.count_structs("TColumnValue")
            elif field == 3 and kind == I64:
                self._timestamp = cursor.i64()
            elif field == 5 and kind == MAP:
                self._origin, self._ttl = read_attributes(cursor)
            else:
                cursor.skip(kind)
                continue
            self._seen = once(self._seen, field)
        if self._row is None or not self._complete:
            raise MalformedMessage("a TPut without its row or columns")
        _complete_put(cells, 0, self._row, self._timestamp, self._ttl)
        self._origins.append(self._origin)
        return True


def read_column_values(cursor: Cursor, cells: Cells) -> None:
    """Append columns, values and timestamps of a list of ``TColumnValue``."""
    _read_so_many(cursor, cursor.count_structs("TColumnValue"), cells)


def _read_so_many(cursor: Cursor, count: int, cells: Cells) -> None:
    data = cursor.data
    pos = cursor.pos
    columns, values, timestamps = cells.columns, cells.values, cells.timestamps
    for _ in range(count):
        try:
            # As every client known writes it: family, qualifier, value, stop.
            kind, field, length = _string_head(data, pos)
            second = pos + 7 + length
            if kind == STRING and field == 1:
                kind, field, length = _string_head(data, second)
                third = second + 7 + length
                if kind == STRING and field == 2:
                    kind, field, length = _string_head(data, third)
                    behind = third + 7 + length
                    if kind == STRING and field == 3 and data.startswith(_STOP, behind):
                        columns.append(data[pos + 7 : second] + b":" + data[second + 7 : third])
                        values.append(data[third + 7 : behind])
                        timestamps.append(_UNSET)
                        pos = behind + 1
                        continue
        except ShortBuffer:
            cursor.pos = pos  # cut short: the general reader below says where
        cursor.pos = pos
        column, value, timestamp = read_column_value(cursor)
        columns.append(column)
        values.append(value)
        timestamps.append(_UNSET if timestamp is None else timestamp)
        pos = cursor.pos
    cursor.pos = pos


def read_column_value(cursor: Cursor) -> tuple[bytes, bytes, int | None]:
    """Return column, value and timestamp of a ``TColumnValue``, which the cursor stands before.

    Raises:
        MalformedMessage: it makes no sense or lacks a required field.
    """
    family: bytes | None = None
    qualifier: bytes | None = None
    value: bytes | None = None
    timestamp: int | None = None
    seen = 0
    while kind := cursor.next_field():
        field = cursor.field_id
        if field == 1 and kind == STRING:
            family = cursor.binary()
        elif field == 2 and kind == STRING:
            qualifier = cursor.binary()
        elif field == 3 and kind == STRING:
            value = cursor.binary()
        elif field == 4 and kind == I64:
            timestamp = cursor.i64()
        else:
            cursor.skip(kind)
            continue
        seen = once(seen, field)
    if family is None or qualifier is None or value is None:
        raise MalformedMessage("a TColumnValue without its family, qualifier or value")
    return family + b":" + qualifier, value, timestamp
