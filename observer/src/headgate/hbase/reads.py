"""Which columns a request for cells names, and where they stand in its bytes."""

from __future__ import annotations

from enum import Enum
from typing import Final

from headgate.hbase.methods import Dialect
from headgate.wire import LIST, STRING, STRUCT, Cursor, Message, ProtocolError, to_binary

ColumnPlace = tuple[int, int, int, int]
"""Begin and end of a family, then of its qualifier; -1 where the first two are of both together."""

_NONE: Final = -1
_COLON: Final = b":"
_MOST_PLACES: Final = 64
"""Columns of one request that are looked at: one may name a million, and has to be forwarded."""


class _Named(Enum):
    """How an argument names columns."""

    NOWHERE = "nowhere"
    """Not at all: whole rows are read."""
    STRING = "string"
    """As a string, ``family:qualifier`` or a family."""
    STRINGS = "strings"
    SCAN = "scan"
    """As strings in field 4 of Thrift1's ``TScan``."""
    GET = "get"
    """As ``TColumn`` in field 2 of a ``TGet``."""
    GETS = "gets"
    SCAN2 = "scan2"
    """As ``TColumn`` in field 3 of Thrift2's ``TScan``."""


_THRIFT1: Final = {
    **dict.fromkeys(("getRow", "getRowTs", "getRows", "getRowsTs"), (0, _Named.NOWHERE)),
    **dict.fromkeys(("get", "getVer", "getVerTs", "getRowOrBefore"), (3, _Named.STRING)),
    **dict.fromkeys(("getRowWithColumns", "getRowWithColumnsTs"), (3, _Named.STRINGS)),
    **dict.fromkeys(("getRowsWithColumns", "getRowsWithColumnsTs"), (3, _Named.STRINGS)),
    **dict.fromkeys(("scannerOpen", "scannerOpenWithPrefix"), (3, _Named.STRINGS)),
    "scannerOpenTs": (3, _Named.STRINGS),
    **dict.fromkeys(("scannerOpenWithStop", "scannerOpenWithStopTs"), (4, _Named.STRINGS)),
    "scannerOpenWithScan": (2, _Named.SCAN),
}
_THRIFT2: Final = {
    **dict.fromkeys(("get", "exists"), (2, _Named.GET)),
    **dict.fromkeys(("getMultiple", "existsAll"), (2, _Named.GETS)),
    **dict.fromkeys(("openScanner", "getScannerResults"), (2, _Named.SCAN2)),
}
_WHERE: Final = {Dialect.THRIFT1: _THRIFT1, Dialect.THRIFT2: _THRIFT2}


def reads_cells(dialect: Dialect, method: str) -> bool:
    """Return whether a method reads cells of the table that it names."""
    return method in _WHERE[dialect]


def columns_read(dialect: Dialect, message: Message) -> tuple[bytes, ...]:
    """Return the columns that a request for cells names, each once, as ``family:qualifier``.

    A whole family is ``family:``. There are none where whole rows are read, and where the arguments
    make no sense: then HBase refuses the request in its own words.
    """
    try:
        message = to_binary(message)
        places = column_places(dialect, message)
    except ProtocolError:
        return ()
    return tuple(dict.fromkeys([column_at(message.raw, place) for place in places]))


def column_places(dialect: Dialect, message: Message) -> list[ColumnPlace]:
    """Return where a request in binary names columns: the first ones, where there are very many.

    Raises:
        ProtocolError: the arguments make no sense.
    """
    found: list[ColumnPlace] = []
    wanted, named = _WHERE[dialect].get(message.name, (0, _Named.NOWHERE))
    if named is _Named.NOWHERE:
        return found
    cursor = Cursor(message.raw, message.body)
    while kind := cursor.next_field():
        if cursor.field_id != wanted:
            cursor.skip(kind)
        elif named is _Named.STRING and kind == STRING:
            found.append(_string(cursor))
        elif named is _Named.STRINGS and kind == LIST:
            return _strings(cursor, found)
        elif named is _Named.SCAN and kind == STRUCT:
            return _of_struct(cursor, 4, found)
        elif named is _Named.GET and kind == STRUCT:
            return _of_struct(cursor, 2, found)
        elif named is _Named.SCAN2 and kind == STRUCT:
            return _of_struct(cursor, 3, found)
        elif named is _Named.GETS and kind == LIST:
            for _ in range(cursor.count_structs("gets")):
                _of_struct(cursor, 2, found)
                if len(found) >= _MOST_PLACES:
                    break
            return found
        else:
            cursor.skip(kind)
    return found


def column_at(raw: bytes, place: ColumnPlace) -> bytes:
    """Return the name of the column at a place: ``family:qualifier``, or ``family:``."""
    begin, end, at, behind = place
    if at != _NONE:
        return raw[begin:end] + _COLON + raw[at:behind]
    name = raw[begin:end]
    return name if _COLON in name else name + _COLON


def _string(cursor: Cursor) -> ColumnPlace:
    begin = cursor.pos + 4
    cursor.skip(STRING)
    return begin, cursor.pos, _NONE, _NONE


def _strings(cursor: Cursor, found: list[ColumnPlace]) -> list[ColumnPlace]:
    kind, count = cursor.list_head()
    if kind == STRING:
        found.extend([_string(cursor) for _ in range(min(count, _MOST_PLACES - len(found)))])
    return found


def _of_struct(cursor: Cursor, wanted: int, found: list[ColumnPlace]) -> list[ColumnPlace]:
    """Note the columns in a list in one field of a struct, as far as there is room for them."""
    while kind := cursor.next_field():
        if cursor.field_id != wanted or kind != LIST:
            cursor.skip(kind)
            continue
        element, count = cursor.list_head()
        for _ in range(count):
            if len(found) < _MOST_PLACES and element == STRING:
                found.append(_string(cursor))
            elif len(found) < _MOST_PLACES and element == STRUCT:
                found.append(_column(cursor))
            else:
                cursor.skip(element)
    return found


def _column(cursor: Cursor) -> ColumnPlace:
    begin = end = 0
    at = behind = _NONE
    while kind := cursor.next_field():
        if cursor.field_id == 1 and kind == STRING:
            begin, end, _, _ = _string(cursor)
        elif cursor.field_id == 2 and kind == STRING:
            at, behind, _, _ = _string(cursor)
        else:
            cursor.skip(kind)
    return begin, end, at, behind
