"""Which table a request is about, read without decoding the rest."""

from __future__ import annotations

from typing import Final

from headgate.hbase.methods import Dialect, TableIn, method_of
from headgate.wire import (
    LIST,
    STRING,
    STRUCT,
    Cursor,
    LimitExceeded,
    MalformedMessage,
    Message,
    Protocol,
    first_field_to_binary,
    to_binary,
)

_DEFAULT_NAMESPACE = b"default"
_FIRST_STRING = b"\x0b\x00\x01"
"""The head of field 1, a string."""
LONGEST_TABLE: Final = 1024
"""Bytes of a table's name. HBase keeps a table in directories of its namespace and its name, which
file systems limit to 255 bytes each: it refuses longer names, and nobody here keeps them."""
_DEEPEST_TABLE = 2
"""Structs in each other's first field in which a table is named: a description, its name."""


def table_name(name: bytes) -> str:
    """Return a table's name as HBase prints it: without the namespace where that is ``default``.

    Raises:
        LimitExceeded: it is longer than any table's.
    """
    if len(name) > LONGEST_TABLE:
        raise LimitExceeded(f"a table's name of {len(name)} bytes; {LONGEST_TABLE} at most")
    if name.startswith(b"default:"):
        name = name[8:]
    return name.decode("utf-8", "backslashreplace")


def peek_table(dialect: Dialect, message: Message) -> str | None:
    """Return the table that a request names first; None where the method has none.

    Raises:
        ProtocolError: the arguments make no sense or lack the table.
    """
    place = method_of(dialect, message.name).table
    if place is TableIn.FIELD and message.raw.startswith(_FIRST_STRING, message.body):
        # Every client known writes the table first.
        cursor = Cursor(message.raw, message.body + 3)
        return table_name(cursor.binary())
    tables = peek_tables(dialect, message)
    return tables[0] if tables else None


def peek_tables(dialect: Dialect, message: Message) -> tuple[str, ...]:
    """Return the tables that a request names, each once.

    There may be several of incrementRows and getTableDescriptors, which may also name none.

    Raises:
        ProtocolError: the arguments make no sense or lack the table.
    """
    place = method_of(dialect, message.name).table
    if place is TableIn.NOWHERE or place is TableIn.PATTERN:
        return ()
    if message.protocol is Protocol.COMPACT:
        message = first_field_to_binary(message)
    cursor = Cursor(message.raw, message.body)
    wanted = _TYPE_OF[place]
    while kind := cursor.next_field():
        if cursor.field_id == 1 and kind == wanted:
            return _read(cursor, place)
        cursor.skip(kind)
    raise MalformedMessage(f"{message.name} without a table")


def require_unambiguous(message: Message) -> None:
    """Raise unless every reader of Thrift finds the same request and table in a message.

    HBase's server takes the last of two fields with the same number, and in a frame what stands
    behind a struct is to some of its servers the next request.

    Raises:
        ProtocolError: a field comes twice where tables are named, there are bytes behind the
            arguments, or these make no sense.
    """
    message = to_binary(message)
    cursor = Cursor(message.raw, message.body)
    _refuse_repeated_fields(cursor, _DEEPEST_TABLE)
    if cursor.pos != cursor.end:
        raise MalformedMessage(f"{cursor.end - cursor.pos} bytes behind the arguments")


def _refuse_repeated_fields(cursor: Cursor, levels: int) -> None:
    seen: set[int] = set()
    while kind := cursor.next_field():
        field = cursor.field_id
        if field in seen:
            raise MalformedMessage(f"field {field} comes twice in one struct")
        seen.add(field)
        if field != 1 or not levels:
            cursor.skip(kind)
        elif kind == STRUCT:
            _refuse_repeated_fields(cursor, levels - 1)
        elif kind == LIST:
            element, count = cursor.list_head()
            for _ in range(count):
                if element == STRUCT:
                    _refuse_repeated_fields(cursor, levels - 1)
                else:
                    cursor.skip(element)
        else:
            cursor.skip(kind)


_TYPE_OF = {
    TableIn.FIELD: STRING,
    TableIn.STRUCT: STRUCT,
    TableIn.STRUCTS: LIST,
    TableIn.NAME: STRUCT,
    TableIn.NAMES: LIST,
    TableIn.DESCRIPTOR: STRUCT,
}


def _read(cursor: Cursor, place: TableIn) -> tuple[str, ...]:
    if place is TableIn.FIELD:
        return (table_name(cursor.binary()),)
    if place is TableIn.STRUCT:
        return (_string_in_struct(cursor),)
    if place is TableIn.NAME:
        return (read_table_name(cursor),)
    if place is TableIn.DESCRIPTOR:
        return (read_descriptor(cursor),)
    if place is TableIn.NAMES:
        count = cursor.count_structs("tables")
        return tuple(dict.fromkeys([read_table_name(cursor) for _ in range(count)]))
    count = cursor.count_structs("requests")
    return tuple(dict.fromkeys([_string_in_struct(cursor) for _ in range(count)]))


def _string_in_struct(cursor: Cursor) -> str:
    table: bytes | None = None
    while kind := cursor.next_field():
        if cursor.field_id == 1 and kind == STRING:
            table = cursor.binary()
        else:
            cursor.skip(kind)
    if table is None:
        raise MalformedMessage("a request without a table")
    return table_name(table)


def read_table_name(cursor: Cursor) -> str:
    """Return the table in a Thrift2 ``TTableName``."""
    namespace = b""
    qualifier: bytes | None = None
    while kind := cursor.next_field():
        if cursor.field_id == 1 and kind == STRING:
            namespace = cursor.binary()
        elif cursor.field_id == 2 and kind == STRING:
            qualifier = cursor.binary()
        else:
            cursor.skip(kind)
    if qualifier is None:
        raise MalformedMessage("a table's name without its qualifier")
    if namespace in (b"", _DEFAULT_NAMESPACE):
        return table_name(qualifier)
    return table_name(namespace + b":" + qualifier)


def read_descriptor(cursor: Cursor) -> str:
    """Return the table in a Thrift2 ``TTableDescriptor``."""
    table: str | None = None
    while kind := cursor.next_field():
        if cursor.field_id == 1 and kind == STRUCT:
            table = read_table_name(cursor)
        else:
            cursor.skip(kind)
    if table is None:
        raise MalformedMessage("a table's description without its name")
    return table
