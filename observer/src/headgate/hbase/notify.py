"""Notify cells put into a request: one more cell in each row that it writes.

The original bytes stay as they are; the cells are spliced in at the head of the list of what a row
gets, the list's count and the frame's length corrected. At the head, because in Thrift1 the last
put of a row says whether the row goes to the write-ahead log.

A cell has no timestamp of its own, so it takes the one that the request sets for its row, or the
server's. It stands in the same row mutation as the row's puts; where Thrift1 is asked for deletes
only, it is a second call that the Thrift server makes after the deletes.

Rows of which the whole row, or the family of notify columns, is deleted get none: the delete would
hide it. Nor do rows of which nothing is written, since HBase refuses or ignores an empty put.
"""

from __future__ import annotations

from enum import Enum
from struct import Struct as Layout
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from headgate.events import NOTIFY_FAMILY
from headgate.hbase.methods import Dialect
from headgate.hbase.requests import COLON
from headgate.wire import (
    BOOL,
    LIST,
    STRING,
    STRUCT,
    Cursor,
    Message,
    StructWriter,
    Transport,
    to_binary,
    transcode,
)

_list_head: Final = Layout(">Bi").pack
_length: Final = Layout(">i").pack
_HEAD: Final = 5  # bytes before a list's elements: their type and number
_FRAME: Final = 4


class Room(Enum):
    """What of a request can hold a notify cell."""

    MUTATIONS = "a row's mutations"
    BATCHES = "each row's mutations"
    PUT = "the put"
    PUTS = "each put"
    ROW_MUTATIONS = "the row's mutations"
    NONE = "nothing"


class Notifiable(Struct, frozen=True):
    """Where a method's request can hold notify cells.

    Attributes:
        field: of the arguments; 0 where there is no room.
        reason: why there is none, in words.
    """

    room: Room
    field: int = 0
    reason: str = ""


_DELETE: Final = Notifiable(Room.NONE, reason="a delete has no room for a put")
_ONE_COLUMN: Final = Notifiable(Room.NONE, reason="it puts exactly one column")
_COUNTER: Final = Notifiable(Room.NONE, reason="a counter's increment has no room for a put")
_APPEND: Final = Notifiable(
    Room.NONE, reason="an append has no room for a put: it would make the notify cell longer"
)

NOTIFIABLE: Final[dict[Dialect, dict[str, Notifiable]]] = {
    Dialect.THRIFT1: {
        "mutateRow": Notifiable(Room.MUTATIONS, 3),
        "mutateRowTs": Notifiable(Room.MUTATIONS, 3),
        "mutateRows": Notifiable(Room.BATCHES, 2),
        "mutateRowsTs": Notifiable(Room.BATCHES, 2),
        "checkAndPut": _ONE_COLUMN,
        "atomicIncrement": _COUNTER,
        "increment": _COUNTER,
        "incrementRows": _COUNTER,
        "append": _APPEND,
        "deleteAll": _DELETE,
        "deleteAllTs": _DELETE,
        "deleteAllRow": _DELETE,
        "deleteAllRowTs": _DELETE,
    },
    Dialect.THRIFT2: {
        "put": Notifiable(Room.PUT, 2),
        "putMultiple": Notifiable(Room.PUTS, 2),
        "checkAndPut": Notifiable(Room.PUT, 6),
        "mutateRow": Notifiable(Room.ROW_MUTATIONS, 2),
        "checkAndMutate": Notifiable(Room.ROW_MUTATIONS, 7),
        "deleteSingle": _DELETE,
        "deleteMultiple": _DELETE,
        "checkAndDelete": _DELETE,
        "increment": _COUNTER,
        "append": _APPEND,
    },
}
"""Every method that writes, with the place of its notify cells."""

NotifyCells = tuple[tuple[bytes, bytes], ...]
"""Qualifiers and values of the cells that each row gets, in the family of notify columns."""


class _Splice(Struct, frozen=True):
    """Bytes that go before the first element of the list whose head begins at ``at``."""

    at: int
    inserted: bytes
    count: int
    """Of the list's elements, the inserted ones included."""


def with_notify(dialect: Dialect, message: Message, cells: NotifyCells) -> Message | None:
    """Return the request with notify cells in each row that it writes; None: it can hold none.

    Raises:
        ProtocolError: the arguments make no sense.
    """
    place = NOTIFIABLE[dialect].get(message.name)
    if place is None or place.room is Room.NONE or not cells:
        return None
    plain = to_binary(message)
    splices = _splices(plain, place, cells)
    if not splices:
        return None
    raw = plain.raw
    parts: list[bytes] = []
    done = 0
    for splice in splices:
        parts.append(raw[done : splice.at])
        parts.append(_list_head(STRUCT, splice.count))
        parts.append(splice.inserted)
        done = splice.at + _HEAD
    parts.append(raw[done:])
    whole = b"".join(parts)
    if plain.transport is Transport.FRAMED:
        whole = _length(len(whole) - _FRAME) + whole[_FRAME:]
    return transcode(replace(plain, raw=whole), message.protocol, message.transport)


def lacks_notify_family(reply: Message) -> bool:
    """Return whether HBase refused a write because the table has no family for notify columns."""
    raw = reply.raw
    return b"NoSuchColumnFamilyException" in raw and _MISSING in raw


_MISSING: Final = b"Column family " + NOTIFY_FAMILY + b" does not exist"


def _splices(message: Message, place: Notifiable, cells: NotifyCells) -> list[_Splice]:
    room = place.room
    wanted = LIST if room in (Room.MUTATIONS, Room.BATCHES, Room.PUTS) else STRUCT
    cursor = Cursor(message.raw, message.body)
    found: list[_Splice] = []
    while kind := cursor.next_field():
        if cursor.field_id != place.field or kind != wanted:
            cursor.skip(kind)
            continue
        # As in HBase's own reader, of two fields with one number the last one holds.
        found = []
        if room is Room.MUTATIONS:
            _add(found, _in_mutations(cursor, cells))
        elif room is Room.BATCHES:
            for _ in range(cursor.count_structs("BatchMutation")):
                _add(found, _in_batch(cursor, cells))
        elif room is Room.PUT:
            _add(found, _in_put(cursor, cells))
        elif room is Room.PUTS:
            for _ in range(cursor.count_structs("TPut")):
                _add(found, _in_put(cursor, cells))
        else:
            _add(found, _in_row_mutations(cursor, cells))
    return found


def _add(found: list[_Splice], splice: _Splice | None) -> None:
    if splice is not None:
        found.append(splice)


# -- Thrift1


def _in_batch(cursor: Cursor, cells: NotifyCells) -> _Splice | None:
    found: _Splice | None = None
    while kind := cursor.next_field():
        if cursor.field_id == 2 and kind == LIST:
            found = _in_mutations(cursor, cells)
        else:
            cursor.skip(kind)
    return found


def _in_mutations(cursor: Cursor, cells: NotifyCells) -> _Splice | None:
    at = cursor.pos
    count = cursor.count_structs("Mutation")
    written = hidden = False
    for _ in range(count):
        is_delete = False
        column = b""
        while kind := cursor.next_field():
            if cursor.field_id == 1 and kind == BOOL:
                is_delete = cursor.bool()
            elif cursor.field_id == 2 and kind == STRING:
                column = cursor.binary()
            else:
                cursor.skip(kind)
        # A put without a qualifier is ignored, a delete without one is of the whole family.
        if is_delete:
            written = True
            hidden = hidden or column == NOTIFY_FAMILY
        elif COLON in column:
            written = True
    if hidden or not written:
        return None
    inserted = b"".join(
        StructWriter()
        .bool(1, False)
        .binary(2, NOTIFY_FAMILY + b":" + qualifier)
        .binary(3, value)
        .bool(4, True)
        .end()
        for qualifier, value in cells
    )
    return _Splice(at, inserted, count + len(cells))


# -- Thrift2


def _column_values(cells: NotifyCells) -> list[bytes]:
    return [
        StructWriter().binary(1, NOTIFY_FAMILY).binary(2, qualifier).binary(3, value).end()
        for qualifier, value in cells
    ]


def _in_put(cursor: Cursor, cells: NotifyCells) -> _Splice | None:
    found: _Splice | None = None
    while kind := cursor.next_field():
        if cursor.field_id != 2 or kind != LIST:
            cursor.skip(kind)
            continue
        at = cursor.pos
        count = cursor.count_structs("TColumnValue")
        for _ in range(count):
            cursor.skip(STRUCT)
        found = None
        if count:
            found = _Splice(at, b"".join(_column_values(cells)), count + len(cells))
    return found


def _in_row_mutations(cursor: Cursor, cells: NotifyCells) -> _Splice | None:
    row: bytes | None = None
    at = -1
    count = 0
    in_put: _Splice | None = None
    hidden = False
    while kind := cursor.next_field():
        if cursor.field_id == 1 and kind == STRING:
            row = cursor.binary()
        elif cursor.field_id == 2 and kind == LIST:
            at = cursor.pos
            in_put = None
            hidden = False
            count = cursor.count_structs("TMutation")
            for _ in range(count):
                while kind := cursor.next_field():
                    if cursor.field_id == 1 and kind == STRUCT:
                        in_put = _in_put(cursor, cells) or in_put
                    elif cursor.field_id == 2 and kind == STRUCT:
                        hidden = _hides(cursor) or hidden
                    else:
                        cursor.skip(kind)
        else:
            cursor.skip(kind)
    if hidden or row is None or not count:
        return None
    if in_put is not None:
        return in_put
    put = StructWriter().binary(1, row).structs(2, _column_values(cells)).end()
    return _Splice(at, StructWriter().struct(1, put).end(), count + 1)


def _hides(cursor: Cursor) -> bool:
    """Return whether a ``TDelete`` takes the row, or its family of notify columns, with it."""
    columns = 0
    hidden = False
    while kind := cursor.next_field():
        if cursor.field_id != 2 or kind != LIST:
            cursor.skip(kind)
            continue
        columns = cursor.count_structs("TColumn")
        hidden = False
        for _ in range(columns):
            while kind := cursor.next_field():
                if cursor.field_id == 1 and kind == STRING:
                    hidden = cursor.binary() == NOTIFY_FAMILY or hidden
                else:
                    cursor.skip(kind)
    return hidden or not columns
