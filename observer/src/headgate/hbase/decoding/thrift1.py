"""Thrift1's writes, decoded straight into columns."""

from __future__ import annotations

from itertools import compress
from struct import Struct as Layout
from struct import error as ShortBuffer  # noqa: N812 - what it means here
from typing import Final, final

from headgate.events import NO_TTL, UpdateKind
from headgate.hbase.decoding.attributes import read_attributes, understood
from headgate.hbase.decoding.fields import once
from headgate.hbase.decoding.runs import RowsReading
from headgate.hbase.decoding.thrift1_deltas import (
    decode_append,
    decode_atomic_increment,
    decode_increment,
)
from headgate.hbase.requests import COLON, LATEST, Cells, Write
from headgate.hbase.tables import table_name
from headgate.wire import BOOL, I64, LIST, MAP, STRING, STRUCT, Cursor, MalformedMessage

_PUT: Final = int(UpdateKind.PUT)
_DELETE_COLUMN: Final = int(UpdateKind.DELETE_COLUMN)
_DELETE_FAMILY: Final = int(UpdateKind.DELETE_FAMILY)
_DELETE_ROW: Final = int(UpdateKind.DELETE_ROW)

_put_head: Final = Layout(">IBHI").unpack_from  # isDelete whole, then the head of column
_string_head: Final = Layout(">BHI").unpack_from
_IS_PUT: Final = BOOL << 24 | 1 << 8
_TAILS: Final = (b"\x02\x00\x04\x01\x00", b"\x02\x00\x04\x00\x00")
"""writeToWAL, either way, and the stop byte."""
_TAIL: Final = 5
_IS_ZERO: Final = bytes([1]) + bytes(255)
_STOP: Final = b"\x00"
_mutations_head: Final = Layout(">II").unpack_from
_MUTATIONS_HEAD: Final = LIST << 24 | 2 << 8 | STRUCT
"""The head of field 2, a list, and the type of its elements; their number follows."""


def decode_thrift1(name: str, cursor: Cursor) -> Write:
    """Return the write in the arguments of one of Thrift1's mutating methods; move behind them.

    Raises:
        MalformedMessage: the arguments make no sense, lack what the method needs, or could be read
            in two ways.
    """
    if name in _BY_COLUMN_AND_ROW:
        return _delete(name, cursor)
    if name in _MUTATIONS:
        write = Mutations(name, cursor).go_on(_ALL)
        assert write is not None  # noqa: S101 - it was read to the end
        return write
    if name == "checkAndPut":
        return _check_and_put(name, cursor)
    if name == "atomicIncrement":
        return decode_atomic_increment(name, cursor)
    if name == "append":
        return decode_append(name, cursor)
    return decode_increment(name, cursor)


_ABSENT: Final = 1 << 15
"""In the place of a field's id: the method has none such."""

_BY_COLUMN_AND_ROW: Final = {
    # name: fields of the column, the timestamp and the attributes
    "deleteAll": (3, _ABSENT, 4),
    "deleteAllTs": (3, 4, 5),
    "deleteAllRow": (_ABSENT, _ABSENT, 3),
    "deleteAllRowTs": (_ABSENT, 3, 4),
}
_MUTATIONS: Final = {
    # name: fields of the mutations, the timestamp and the attributes
    "mutateRow": (3, _ABSENT, 4),
    "mutateRowTs": (3, 4, 5),
    "mutateRows": (2, _ABSENT, 3),
    "mutateRowsTs": (2, 3, 4),
}
IN_PARTS: Final = tuple(_MUTATIONS)
"""Methods whose requests may be so large that they are read in parts."""
_AT_ONCE: Final = 256
"""Mutations of a row that are read without a look at how far that is."""
_ALL: Final = 1 << 60
"""More bytes than any message has."""
_SOME: Final = 1 << 12
"""Cells that are put into their order beside everything else."""
_LEFT_OUT: Final = 0
"""What HBase takes for a number that a request leaves out, the timestamp too."""


@final
class Mutations:
    """The write in the arguments of ``mutateRow`` and the like, read in as many parts as needed."""

    __slots__ = (
        "_ambiguous",
        "_at",
        "_cells",
        "_cursor",
        "_name",
        "_origin",
        "_row",
        "_rows",
        "_seen",
        "_table",
        "_timestamp",
        "_ttl",
        "_turns",
    )

    def __init__(self, name: str, cursor: Cursor) -> None:
        """Stand before the arguments of one of ``IN_PARTS``."""
        self._name = name
        self._cursor = cursor
        self._table: bytes | None = None
        self._row: bytes | None = None
        self._at = -1
        self._timestamp = LATEST if _MUTATIONS[name][1] == _ABSENT else _LEFT_OUT
        self._origin: bytes | None = None
        self._ttl = NO_TTL
        self._cells = Cells.empty()
        self._seen = 0
        self._rows: RowsReading | _RowReading | None = None
        self._turns = 0
        """Of those that it takes to put many cells into their order."""
        self._ambiguous: tuple[int, ...] = ()

    def go_on(self, stop: int) -> Write | None:
        """Read up to ``stop`` or a little further; return the write when all of it is read.

        Raises:
            MalformedMessage: see ``decode_thrift1``.
        """
        cursor = self._cursor
        name = self._name
        mutations, timed, attributes = _MUTATIONS[name]
        many = mutations == 2
        if self._turns:
            return self._in_order(stop)
        if self._rows is not None:
            if not self._rows.go_on(stop):
                return None
            self._rows = None
        table, row, at, timestamp = self._table, self._row, self._at, self._timestamp
        origin, ttl, cells, seen = self._origin, self._ttl, self._cells, self._seen
        while kind := cursor.next_field():
            field = cursor.field_id
            if field == 1 and kind == STRING:
                table = cursor.binary()
            elif field == mutations and kind == LIST:
                at = cursor.pos
                rows: RowsReading | _RowReading | None = None
                if many:
                    count = cursor.count_structs("BatchMutation")
                    rows = RowsReading(cursor, count, cells, _read_batch, [])
                elif row is None:
                    cursor.skip(kind)
                elif (count := cursor.count_structs("Mutation")) <= _AT_ONCE:
                    _read_mutations(cursor, count, row, cells)
                else:
                    rows = _RowReading(cursor, count, row, cells)
                if rows is not None and not rows.go_on(stop):
                    self._table, self._row, self._at, self._timestamp = table, row, at, timestamp
                    self._origin, self._ttl, self._seen = origin, ttl, once(seen, field)
                    self._rows = rows
                    return None
            elif field == 2 and kind == STRING and not many:
                row = cursor.binary()
            elif field == timed and kind == I64:
                timestamp = cursor.i64()
            elif field == attributes and kind == MAP:
                origin, ttl = read_attributes(cursor)
            else:
                cursor.skip(kind)
                continue
            seen = once(seen, field)
        if table is None or at < 0 or (row is None and not many):
            raise MalformedMessage(f"{name} without its table, row or mutations")
        if row is not None and not cells.kinds:
            # The row may have come after its mutations.
            again = Cursor(cursor.data, at)
            _read_mutations(again, again.count_structs("Mutation"), row, cells)
        stamp = -1 if timestamp == LATEST else timestamp
        cells.timestamps = [stamp] * len(cells.kinds)
        if ttl != NO_TTL:
            cells.give_ttls(0, [ttl] * len(cells.kinds))
        self._table, self._origin = table, origin
        return self._in_order(stop)

    def _in_order(self, stop: int) -> Write | None:
        """Put the cells into the order in which the server applies them; that may take turns."""
        cells, table = self._cells, self._table
        assert table is not None  # noqa: S101 - all is read
        if 0 < cells.kinds.count(_PUT) < len(cells.kinds):
            turn = self._turns
            at_once = stop >= _ALL or len(cells.kinds) <= _SOME
            if at_once or turn == 1:
                cells = self._cells = _sorted(cells, puts_first=_MUTATIONS[self._name][0] == 2)
            if at_once or turn == 2:
                self._ambiguous = cells.put_and_deleted()
            if not at_once and turn < 3:
                self._turns += 1
                return None
        who, problem = understood([self._origin])
        return Write(
            self._name,
            table_name(table),
            cells,
            who,
            ambiguous=self._ambiguous,
            origin_error=problem,
        )


@final
class _RowReading:
    """The mutations of one row, read in as many parts as it takes."""

    __slots__ = ("_cells", "_count", "_cursor", "_row")

    def __init__(self, cursor: Cursor, count: int, row: bytes, cells: Cells) -> None:
        self._cursor = cursor
        self._count = count
        self._row = row
        self._cells = cells

    def go_on(self, stop: int) -> bool:
        """Read mutations until some end at ``stop`` or behind it; return whether all are read."""
        while self._count and self._cursor.pos < stop:
            count = min(self._count, _AT_ONCE)
            _read_mutations(self._cursor, count, self._row, self._cells)
            self._count -= count
        return not self._count


def _sorted(cells: Cells, *, puts_first: bool) -> Cells:
    """Return the cells as the server applies them: all of one sort in one call, then the others."""
    kinds = bytes(cells.kinds)
    deletes = list(compress(range(len(kinds)), kinds))  # PUT is 0
    puts = list(compress(range(len(kinds)), kinds.translate(_IS_ZERO)))
    return cells.taken(puts + deletes if puts_first else deletes + puts)


def _read_batch(cursor: Cursor, cells: Cells) -> None:
    data = cursor.data
    pos = cursor.pos
    try:
        # As every client known writes it: row, mutations, stop.
        kind, field, length = _string_head(data, pos)
        behind = pos + 7 + length
        head, count = _mutations_head(data, behind)
        if kind == STRING and field == 1 and head == _MUTATIONS_HEAD:
            cursor.pos = behind + 8
            _read_mutations(cursor, count, data[pos + 7 : behind], cells)
            if data.startswith(_STOP, cursor.pos):
                cursor.pos += 1
            else:
                _skip_rest(cursor)
            return
    except ShortBuffer:
        cursor.pos = pos  # cut short: the general reader below says where
    _read_any_batch(cursor, cells)


def _skip_rest(cursor: Cursor) -> None:
    while kind := cursor.next_field():
        field = cursor.field_id
        if (field == 1 and kind == STRING) or (field == 2 and kind == LIST):
            raise MalformedMessage(f"field {field} comes twice in one struct")
        cursor.skip(kind)


def _read_any_batch(cursor: Cursor, cells: Cells) -> None:
    row: bytes | None = None
    mutations: Cursor | None = None
    seen = 0
    while kind := cursor.next_field():
        field = cursor.field_id
        if field == 1 and kind == STRING:
            row = cursor.binary()
        elif field == 2 and kind == LIST:
            mutations = Cursor(cursor.data, cursor.pos)
            cursor.skip(kind)
        else:
            cursor.skip(kind)
            continue
        seen = once(seen, field)
    if row is None or mutations is None:
        raise MalformedMessage("a BatchMutation without its row or mutations")
    _read_mutations(mutations, mutations.count_structs("Mutation"), row, cells)


def _read_mutations(cursor: Cursor, count: int, row: bytes, cells: Cells) -> None:
    """Append so many mutations of one row; timestamps are left to the caller."""
    data = cursor.data
    pos = cursor.pos
    for _ in range(count):
        try:
            # A put as every client known writes it: isDelete, column, value, writeToWAL, stop.
            head, kind, field, length = _put_head(data, pos)
            if head == _IS_PUT and kind == STRING and field == 2:
                value = pos + 11 + length
                kind, field, length = _string_head(data, value)
                tail = value + 7 + length
                if kind == STRING and field == 3 and data.startswith(_TAILS, tail):
                    column = data[pos + 11 : value]
                    pos = tail + _TAIL
                    # HBase answers a put without a qualifier with success and ignores it.
                    if COLON in column:
                        cells.kinds.append(_PUT)
                        cells.rows.append(row)
                        cells.columns.append(column)
                        cells.values.append(data[value + 7 : tail])
                    continue
        except ShortBuffer:
            cursor.pos = pos  # cut short: the general reader below says where
        cursor.pos = pos
        _read_mutation(cursor, row, cells)
        pos = cursor.pos
    cursor.pos = pos


def _read_mutation(cursor: Cursor, row: bytes, cells: Cells) -> None:
    is_delete, column, value = _mutation(cursor)
    qualified = COLON in column
    if is_delete:
        cells.kinds.append(_DELETE_COLUMN if qualified else _DELETE_FAMILY)
        cells.rows.append(row)
        cells.columns.append(column if qualified else column + b":")
        cells.values.append(None)
    elif qualified:
        cells.kinds.append(_PUT)
        cells.rows.append(row)
        cells.columns.append(column)
        cells.values.append(value)


def _mutation(cursor: Cursor) -> tuple[bool, bytes, bytes]:
    """Return whether a Mutation deletes, its column and its value."""
    is_delete = False
    column: bytes | None = None
    value = b""
    seen = 0
    while kind := cursor.next_field():
        field = cursor.field_id
        if field == 1 and kind == BOOL:
            is_delete = cursor.bool()
        elif field == 2 and kind == STRING:
            column = cursor.binary()
        elif field == 3 and kind == STRING:
            value = cursor.binary()
        else:
            cursor.skip(kind)
            continue
        seen = once(seen, field)
    if column is None:
        raise MalformedMessage("a Mutation without its column")
    return is_delete, column, value


def _delete(name: str, cursor: Cursor) -> Write:
    column_field, timed, attributes = _BY_COLUMN_AND_ROW[name]
    table: bytes | None = None
    row: bytes | None = None
    column: bytes | None = None
    timestamp = LATEST if timed == _ABSENT else _LEFT_OUT
    origin: bytes | None = None
    ttl = NO_TTL
    seen = 0
    while kind := cursor.next_field():
        field = cursor.field_id
        if field == 1 and kind == STRING:
            table = cursor.binary()
        elif field == 2 and kind == STRING:
            row = cursor.binary()
        elif field == column_field and kind == STRING:
            column = cursor.binary()
        elif field == timed and kind == I64:
            timestamp = cursor.i64()
        elif field == attributes and kind == MAP:
            origin, ttl = read_attributes(cursor)
        else:
            cursor.skip(kind)
            continue
        seen = once(seen, field)
    if table is None or row is None or (column is None and column_field != _ABSENT):
        raise MalformedMessage(f"{name} without its table, row or column")
    stamp = -1 if timestamp == LATEST else timestamp
    cells = Cells.empty()
    if column is None:
        cells.add(_DELETE_ROW, row, b"", stamp, None)
    elif COLON in column:
        cells.add(_DELETE_COLUMN, row, column, stamp, None)
    else:
        cells.add(_DELETE_FAMILY, row, column + b":", stamp, None)
    if ttl != NO_TTL:
        cells.give_ttls(0, [ttl])
    who, problem = understood([origin])
    return Write(name, table_name(table), cells, who, origin_error=problem)


def _check_and_put(name: str, cursor: Cursor) -> Write:
    table: bytes | None = None
    row: bytes | None = None
    put: tuple[bool, bytes, bytes] | None = None
    origin: bytes | None = None
    ttl = NO_TTL
    seen = 0
    while kind := cursor.next_field():
        field = cursor.field_id
        if field == 1 and kind == STRING:
            table = cursor.binary()
        elif field == 2 and kind == STRING:
            row = cursor.binary()
        elif field == 6 and kind == STRUCT:
            put = _mutation(cursor)
        elif field == 7 and kind == MAP:
            origin, ttl = read_attributes(cursor)
        else:
            cursor.skip(kind)
            continue
        seen = once(seen, field)
    if table is None or row is None or put is None:
        raise MalformedMessage(f"{name} without its table, row or mutation")
    # The server looks at column and value only: a mutation marked as delete is put all the same.
    _, column, value = put
    cells = Cells.empty()
    if COLON in column:
        cells.add(_PUT, row, column, -1, value)
        if ttl != NO_TTL:
            cells.give_ttls(0, [ttl])
    who, problem = understood([origin])
    return Write(name, table_name(table), cells, who, conditional=True, origin_error=problem)
