"""Thrift2's writes, decoded straight into columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from headgate.events import NO_TTL, UpdateKind
from headgate.hbase.decoding.attributes import note_origin, read_attributes, understood
from headgate.hbase.decoding.fields import once
from headgate.hbase.decoding.runs import RowsReading
from headgate.hbase.decoding.thrift2_puts import PutReading, read_column_values, read_put
from headgate.hbase.requests import LATEST, Cells, Write
from headgate.hbase.tables import table_name
from headgate.wire import I32, I64, LIST, MAP, STRING, STRUCT, Cursor, MalformedMessage

_PUT: Final = int(UpdateKind.PUT)
_DELETE_COLUMNS: Final = 1  # TDeleteType, the default
_DELETE_KINDS: Final = {
    0: UpdateKind.DELETE_CELL,
    _DELETE_COLUMNS: UpdateKind.DELETE_COLUMN,
    2: UpdateKind.DELETE_FAMILY,
    3: UpdateKind.DELETE_FAMILY_VERSION,
}

IN_PARTS: Final = (
    "putMultiple",
    "deleteMultiple",
    "put",
    "checkAndPut",
    "mutateRow",
    "checkAndMutate",
)
"""Methods whose requests may be so large that they are read in parts."""

# Where each method keeps what it writes: the field, and whether it is a list.
_PUTS: Final = {"put": (2, False), "putMultiple": (2, True), "checkAndPut": (6, False)}
_DELETES: Final = {
    "deleteSingle": (2, False),
    "deleteMultiple": (2, True),
    "checkAndDelete": (6, False),
}
_ROW_MUTATIONS: Final = {"mutateRow": (2, False), "checkAndMutate": (7, False)}
_ARGUMENTS: Final = {
    **_PUTS,
    **_DELETES,
    **_ROW_MUTATIONS,
    "increment": (2, False),
    "append": (2, False),
}


def decode_thrift2(name: str, cursor: Cursor) -> Write:
    """Return the write in the arguments of one of Thrift2's mutating methods; move behind them.

    Raises:
        MalformedMessage: the arguments make no sense, lack what the method needs, or could be read
            in two ways.
    """
    write = Arguments(name, cursor).go_on(cursor.end + 1)
    assert write is not None  # noqa: S101 - it was read to the end
    return write


@final
class Arguments:
    """The write in the arguments of a mutating method, read in as many parts as it takes."""

    __slots__ = ("_cells", "_cursor", "_name", "_origins", "_rows", "_seen", "_table")

    def __init__(self, name: str, cursor: Cursor) -> None:
        """Stand before the arguments."""
        self._name = name
        self._cursor = cursor
        self._table: bytes | None = None
        self._cells: Cells | None = None
        self._origins: list[bytes | None] = []
        self._seen = 0
        self._rows: RowsReading | PutReading | _RowMutationsReading | None = None

    def go_on(self, stop: int) -> Write | None:
        """Read up to ``stop`` or a little further; return the write when all of it is read.

        Raises:
            MalformedMessage: see ``decode_thrift2``.
        """
        cursor = self._cursor
        name = self._name
        wanted, many = _ARGUMENTS[name]
        expected = LIST if many else STRUCT
        if self._rows is not None:
            if not self._rows.go_on(stop):
                return None
            self._rows = None
        table, cells, origins, seen = self._table, self._cells, self._origins, self._seen
        while kind := cursor.next_field():
            field = cursor.field_id
            if field == 1 and kind == STRING:
                table = cursor.binary()
            elif field == wanted and kind == expected:
                cells = Cells.empty()
                rows: RowsReading | PutReading | _RowMutationsReading | None = None
                if many:
                    count = cursor.count_structs(name)
                    rows = RowsReading(cursor, count, cells, _ROWS[name], origins)
                elif name in _ROW_MUTATIONS:
                    rows = _RowMutationsReading(cursor, cells, origins)
                elif name in _PUTS and stop <= cursor.end:
                    rows = PutReading(cursor, cells, origins)
                else:
                    origins.append(_read_one(name, cursor, cells))
                if rows is not None and not rows.go_on(stop):
                    self._table, self._cells, self._seen = table, cells, once(seen, field)
                    self._rows = rows
                    return None
            else:
                cursor.skip(kind)
                continue
            seen = once(seen, field)
        if table is None or cells is None:
            raise MalformedMessage(f"{name} without its table or what it writes")
        ambiguous: tuple[int, ...] = ()
        if name in _ROW_MUTATIONS and 0 < cells.kinds.count(_PUT) < len(cells.kinds):
            ambiguous = cells.put_and_deleted()
        who, problem = understood(origins)
        return Write(
            name,
            table_name(table),
            cells,
            who,
            name.startswith("checkAnd"),
            ambiguous,
            origin_error=problem,
        )


def _read_one(name: str, cursor: Cursor, cells: Cells) -> bytes | None:
    if name in _PUTS:
        return read_put(cursor, cells)
    if name in _DELETES:
        return _read_delete(cursor, cells)
    if name == "increment":
        return _read_increment(cursor, cells)
    return _read_append(cursor, cells)


_SEEN_ROW: Final = 1 << 1
_SEEN_COLUMNS: Final = 1 << 2


def _read_delete(cursor: Cursor, cells: Cells) -> bytes | None:
    row: bytes | None = None
    columns: list[tuple[bytes, bytes, int]] | None = None
    timestamp = LATEST
    delete_type = _DELETE_COLUMNS
    origin: bytes | None = None
    ttl = NO_TTL
    seen = 0
    while kind := cursor.next_field():
        field = cursor.field_id
        if field == 1 and kind == STRING:
            row = cursor.binary()
        elif field == 2 and kind == LIST:
            columns = _read_columns(cursor)
        elif field == 3 and kind == I64:
            timestamp = cursor.i64()
        elif field == 4 and kind == I32:
            delete_type = cursor.i32()
        elif field == 6 and kind == MAP:
            origin, ttl = read_attributes(cursor)
        else:
            cursor.skip(kind)
            continue
        seen = once(seen, field)
    if row is None:
        raise MalformedMessage("a TDelete without its row")
    if not columns:
        # An empty list of columns deletes the whole row too, and then not up to the timestamp.
        stamp = -1 if timestamp == LATEST or columns is not None else timestamp
        cells.add(UpdateKind.DELETE_ROW, row, b"", stamp, None)
        return _with_ttl(cells, 1, ttl, origin)
    update = _DELETE_KINDS.get(delete_type)
    if update is None:
        raise MalformedMessage(f"a TDelete of type {delete_type}")
    of_family = update in (UpdateKind.DELETE_FAMILY, UpdateKind.DELETE_FAMILY_VERSION)
    for family, qualifier, own in columns:
        # Without a timestamp of its own a column is deleted as of now: the TDelete's is not used.
        column = family + b":" if of_family else family + b":" + qualifier
        cells.add(update, row, column, -1 if own == LATEST else own, None)
    return _with_ttl(cells, len(columns), ttl, origin)


def _with_ttl(cells: Cells, count: int, ttl: int, origin: bytes | None) -> bytes | None:
    """Give the last cells the time to live, if there is one; return the origin."""
    if ttl != NO_TTL:
        cells.give_ttls(len(cells.kinds) - count, [ttl] * count)
    return origin


def _read_columns(cursor: Cursor) -> list[tuple[bytes, bytes, int]]:
    count = cursor.count_structs("TColumn")
    columns: list[tuple[bytes, bytes, int]] = []
    for _ in range(count):
        family: bytes | None = None
        qualifier = b""
        timestamp = LATEST
        seen = 0
        while kind := cursor.next_field():
            field = cursor.field_id
            if field == 1 and kind == STRING:
                family = cursor.binary()
            elif field == 2 and kind == STRING:
                qualifier = cursor.binary()
            elif field == 3 and kind == I64:
                timestamp = cursor.i64()
            else:
                cursor.skip(kind)
                continue
            seen = once(seen, field)
        if family is None:
            raise MalformedMessage("a TColumn without its family")
        columns.append((family, qualifier, timestamp))
    return columns


_ROWS: Final[dict[str, Callable[[Cursor, Cells], bytes | None]]] = {
    "putMultiple": read_put,
    "deleteMultiple": _read_delete,
}


@final
class _RowMutationsReading:
    """TRowMutations, read in as many parts as it takes."""

    __slots__ = ("_cells", "_cursor", "_left", "_origins", "_seen")

    def __init__(self, cursor: Cursor, cells: Cells, origins: list[bytes | None]) -> None:
        self._cursor = cursor
        self._cells = cells
        self._origins = origins
        self._seen = 0
        self._left = 0
        """Mutations in the middle of which it stands."""

    def go_on(self, stop: int) -> bool:
        """Read mutations until one ends at ``stop`` or behind it; return whether all is read."""
        cursor = self._cursor
        while True:
            while self._left and cursor.pos < stop:
                note_origin(self._origins, _read_row_mutation(cursor, self._cells))
                self._left -= 1
            if self._left:
                return False
            kind = cursor.next_field()
            if not kind:
                break
            field = cursor.field_id
            if field == 1 and kind == STRING:
                cursor.skip(kind)
            elif field == 2 and kind == LIST:
                self._left = cursor.count_structs("TMutation")
            else:
                cursor.skip(kind)
                continue
            self._seen = once(self._seen, field)
        if self._seen != _SEEN_ROW | _SEEN_COLUMNS:
            raise MalformedMessage("TRowMutations without their row or mutations")
        return True


def _read_row_mutation(cursor: Cursor, cells: Cells) -> bytes | None:
    """Read a ``TMutation``: a union, of which HBase reads one field and takes the next for a stop.

    What stands in the place of that, it would read as something else.
    """
    kind = cursor.next_field()
    field = cursor.field_id
    origin: bytes | None = None
    if field == 1 and kind == STRUCT:
        origin = read_put(cursor, cells)
    elif field == 2 and kind == STRUCT:
        origin = _read_delete(cursor, cells)
    else:
        raise MalformedMessage("a TMutation that is neither a put nor a delete")
    if cursor.next_field():
        raise MalformedMessage("a TMutation of more than one field")
    return origin


def _read_increment(cursor: Cursor, cells: Cells) -> bytes | None:
    row: bytes | None = None
    columns: list[tuple[bytes, int]] = []
    origin: bytes | None = None
    ttl = NO_TTL
    seen = 0
    while kind := cursor.next_field():
        field = cursor.field_id
        if field == 1 and kind == STRING:
            row = cursor.binary()
        elif field == 2 and kind == LIST:
            count = cursor.count_structs("TColumnIncrement")
            columns = [_read_column_increment(cursor) for _ in range(count)]
        elif field == 4 and kind == MAP:
            origin, ttl = read_attributes(cursor)
        else:
            cursor.skip(kind)
            continue
        seen = once(seen, field)
    if row is None or not seen & _SEEN_COLUMNS:
        raise MalformedMessage("a TIncrement without its row or columns")
    # Of a column that comes twice the last amount is added, and the reply has the column twice.
    amounts = dict(columns)
    for column, _ in columns:
        delta = amounts[column].to_bytes(8, "big", signed=True)
        cells.add(UpdateKind.INCREMENT_DELTA, row, column, -1, delta)
    return _with_ttl(cells, len(columns), ttl, origin)


def _read_column_increment(cursor: Cursor) -> tuple[bytes, int]:
    family: bytes | None = None
    qualifier: bytes | None = None
    amount = 1
    seen = 0
    while kind := cursor.next_field():
        field = cursor.field_id
        if field == 1 and kind == STRING:
            family = cursor.binary()
        elif field == 2 and kind == STRING:
            qualifier = cursor.binary()
        elif field == 3 and kind == I64:
            amount = cursor.i64()
        else:
            cursor.skip(kind)
            continue
        seen = once(seen, field)
    if family is None or qualifier is None:
        raise MalformedMessage("a TColumnIncrement without its family or qualifier")
    return family + b":" + qualifier, amount


def _read_append(cursor: Cursor, cells: Cells) -> bytes | None:
    row: bytes | None = None
    found = Cells.empty()
    origin: bytes | None = None
    ttl = NO_TTL
    seen = 0
    while kind := cursor.next_field():
        field = cursor.field_id
        if field == 1 and kind == STRING:
            row = cursor.binary()
        elif field == 2 and kind == LIST:
            found = Cells.empty()
            read_column_values(cursor, found)
        elif field == 3 and kind == MAP:
            origin, ttl = read_attributes(cursor)
        else:
            cursor.skip(kind)
            continue
        seen = once(seen, field)
    if row is None or not seen & _SEEN_COLUMNS:
        raise MalformedMessage("a TAppend without its row or columns")
    for column, value in zip(found.columns, found.values, strict=True):
        cells.add(UpdateKind.APPEND_DELTA, row, column, -1, value)
    return _with_ttl(cells, len(found.columns), ttl, origin)
