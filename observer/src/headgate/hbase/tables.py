"""Which table a request is about, in the arguments of methods that name it in one place."""

from __future__ import annotations

from typing import Final

from headgate.events import DEFAULT_NAMESPACE, key_text
from headgate.hbase.methods import TableIn
from headgate.wire import LIST, STRING, STRUCT, Cursor, LimitExceeded, MalformedMessage, Message

_DEFAULT: Final = DEFAULT_NAMESPACE.encode()
_DEFAULT_NAMESPACE: Final = _DEFAULT.removesuffix(b":")
LONGEST_TABLE: Final = 1024
"""Bytes of a table's name. HBase keeps a table in directories of its namespace and its name, which
file systems limit to 255 bytes each: it refuses longer names, and nobody here keeps them."""
_LONGEST_FAMILY: Final = 127
"""Bytes: HBase writes a family's length as a signed byte."""


_TYPE_OF: Final = {
    TableIn.FIELD: STRING,
    TableIn.NAME: STRUCT,
    TableIn.NAMES: LIST,
    TableIn.DESCRIPTOR: STRUCT,
}


def table_name(name: bytes) -> str:
    """Return a table's name as HBase prints it: without the namespace where that is ``default``.

    Raises:
        LimitExceeded: it is longer than any table's.
    """
    if len(name) > LONGEST_TABLE:
        raise LimitExceeded(f"a table's name of {len(name)} bytes; {LONGEST_TABLE} at most")
    name = name.removeprefix(_DEFAULT)
    return name.decode("utf-8", "backslashreplace")


def tables_in(message: Message, place: TableIn) -> tuple[str, ...]:
    """Return the tables that binary arguments name, in a message that was found to be well formed.

    There may be several of ``getTableDescriptors``, which may also name none.

    Raises:
        MalformedMessage: the arguments lack the table.
    """
    if place is TableIn.NOWHERE or place is TableIn.PATTERN:
        return ()
    cursor = Cursor(message.raw, message.body)
    wanted = _TYPE_OF[place]
    while kind := cursor.next_field():
        if cursor.field_id == 1 and kind == wanted:
            if place is TableIn.NAMES:
                count = cursor.count_structs("tables")
                return tuple(dict.fromkeys([_table_name(cursor) for _ in range(count)]))
            if place is TableIn.FIELD:
                return (table_name(cursor.binary()),)
            return (_table_name(cursor) if place is TableIn.NAME else _descriptor(cursor),)
        cursor.skip(kind)
    raise MalformedMessage(f"{message.name} without a table")


def read_family(message: Message) -> str:
    """Return the family that a schema change in binary is about; empty where it is about all.

    Raises:
        MalformedMessage: the arguments lack the family.
    """
    if message.name not in ("deleteColumnFamily", "modifyColumnFamily"):
        return ""
    cursor = Cursor(message.raw, message.body)
    wanted = STRING if message.name == "deleteColumnFamily" else STRUCT
    while kind := cursor.next_field():
        if cursor.field_id != 2 or kind != wanted:
            cursor.skip(kind)
            continue
        if kind == STRING:
            return _family_name(cursor.binary())
        while kind := cursor.next_field():
            if cursor.field_id == 1 and kind == STRING:
                return _family_name(cursor.binary())
            cursor.skip(kind)
        break
    raise MalformedMessage(f"{message.name} without its family")


def _family_name(name: bytes) -> str:
    if len(name) > _LONGEST_FAMILY:
        raise LimitExceeded(f"a family's name of {len(name)} bytes; {_LONGEST_FAMILY} at most")
    return key_text(name)


def _table_name(cursor: Cursor) -> str:
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


def _descriptor(cursor: Cursor) -> str:
    """Return the table in a Thrift2 ``TTableDescriptor``."""
    while kind := cursor.next_field():
        if cursor.field_id == 1 and kind == STRUCT:
            return _table_name(cursor)
        cursor.skip(kind)
    raise MalformedMessage("a table's description without its name")
