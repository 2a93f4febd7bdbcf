"""Thrift1's increments and appends, decoded straight into columns."""

from __future__ import annotations

from headgate.events import UpdateKind
from headgate.hbase.decoding.fields import once
from headgate.hbase.requests import COLON, Cells, Write
from headgate.hbase.tables import table_name
from headgate.wire import I64, LIST, STRING, STRUCT, Cursor, MalformedMessage


def decode_atomic_increment(name: str, cursor: Cursor) -> Write:
    """Decode ``atomicIncrement``; see ``decode_thrift1``."""
    table, row, column, amount = _read_increment(cursor, name)
    cells = Cells.empty()
    cells.add(UpdateKind.INCREMENT_DELTA, row, _qualified(column), -1, _counter(amount))
    return Write(name, table_name(table), cells)


def decode_increment(name: str, cursor: Cursor) -> Write:
    """Decode ``increment`` and ``incrementRows``, whose tables stand in each element."""
    tables: dict[str, Cells] = {}
    wanted = STRUCT if name == "increment" else LIST
    seen = 0
    while kind := cursor.next_field():
        if cursor.field_id != 1 or kind != wanted:
            cursor.skip(kind)
            continue
        seen = once(seen, 1)
        for _ in range(1 if kind == STRUCT else cursor.count_structs("TIncrement")):
            _add_increment(cursor, tables)
    if not seen:
        raise MalformedMessage(f"{name} without what it increments")
    if not tables:
        return Write(name, "", Cells.empty())  # HBase answers an empty list, and does nothing
    first, *others = [Write(name, table, cells) for table, cells in tables.items()]
    return Write(name, first.table, first.cells, others=tuple(others))


def _add_increment(cursor: Cursor, tables: dict[str, Cells]) -> None:
    table, row, column, amount = _read_increment(cursor, "a TIncrement")
    cells = tables.setdefault(table_name(table), Cells.empty())
    if COLON in column:  # one without a qualifier is refused, or dropped when coalesced
        cells.add(UpdateKind.INCREMENT_DELTA, row, column, -1, _counter(amount))


def _read_increment(cursor: Cursor, what: str) -> tuple[bytes, bytes, bytes, int]:
    """Return table, row, column and amount, of a ``TIncrement`` or of ``atomicIncrement``."""
    table: bytes | None = None
    row: bytes | None = None
    column: bytes | None = None
    amount = 0
    seen = 0
    while kind := cursor.next_field():
        field = cursor.field_id
        if field == 1 and kind == STRING:
            table = cursor.binary()
        elif field == 2 and kind == STRING:
            row = cursor.binary()
        elif field == 3 and kind == STRING:
            column = cursor.binary()
        elif field == 4 and kind == I64:
            amount = cursor.i64()
        else:
            cursor.skip(kind)
            continue
        seen = once(seen, field)
    if table is None or row is None or column is None:
        raise MalformedMessage(f"{what} without its table, row or column")
    return table, row, column, amount


def decode_append(name: str, cursor: Cursor) -> Write:
    """Decode ``append``; see ``decode_thrift1``."""
    table: bytes | None = None
    row: bytes | None = None
    columns: list[bytes] = []
    values: list[bytes] = []
    outside = 0
    while outer := cursor.next_field():
        if cursor.field_id != 1 or outer != STRUCT:
            cursor.skip(outer)
            continue
        outside = once(outside, 1)
        seen = 0
        while kind := cursor.next_field():
            field = cursor.field_id
            if field == 1 and kind == STRING:
                table = cursor.binary()
            elif field == 2 and kind == STRING:
                row = cursor.binary()
            elif field == 3 and kind == LIST:
                columns = _read_strings(cursor)
            elif field == 4 and kind == LIST:
                values = _read_strings(cursor)
            else:
                cursor.skip(kind)
                continue
            seen = once(seen, field)
    if table is None or row is None or len(columns) != len(values):
        raise MalformedMessage(f"{name} without its table, row or a value for each column")
    cells = Cells.empty()
    for column, value in zip(columns, values, strict=True):
        cells.add(UpdateKind.APPEND_DELTA, row, _qualified(column), -1, value)
    return Write(name, table_name(table), cells)


def _read_strings(cursor: Cursor) -> list[bytes]:
    kind, count = cursor.list_head()
    if count and kind != STRING:
        raise MalformedMessage(f"a list of strings has elements of type {kind}")
    return [cursor.binary() for _ in range(count)]


def _qualified(column: bytes) -> bytes:
    """Return ``family:qualifier`` of a column that may stand for its family's empty qualifier."""
    return column if COLON in column else column + b":"


def _counter(amount: int) -> bytes:
    return amount.to_bytes(8, "big", signed=True)
