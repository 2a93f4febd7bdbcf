"""From a request's bytes to what it writes."""

from __future__ import annotations

from headgate.events import ORIGIN_ATTRIBUTE, Origin, TableChangeKind
from headgate.hbase.attributes import understood
from headgate.hbase.methods import Dialect, Effect, method_of
from headgate.hbase.requests import Definition, Write
from headgate.hbase.tables import peek_table
from headgate.hbase.thrift1 import decode_thrift1
from headgate.hbase.thrift2 import decode_thrift2, first_origin
from headgate.wire import STRING, STRUCT, Cursor, MalformedMessage, Message

_CHANGES = {
    "disableTable": TableChangeKind.DISABLED,
    "deleteTable": TableChangeKind.DROPPED,
    "truncateTable": TableChangeKind.TRUNCATED,
    "deleteColumnFamily": TableChangeKind.FAMILY_DROPPED,
    "modifyColumnFamily": TableChangeKind.MODIFIED,
    "modifyTable": TableChangeKind.MODIFIED,
}
_ORIGIN_KEY = len(ORIGIN_ATTRIBUTE).to_bytes(4, "big") + ORIGIN_ATTRIBUTE


def decode_request(dialect: Dialect, message: Message) -> Write | Definition:
    """Return what a request changes.

    Raises:
        MalformedMessage: the arguments make no sense or lack what the method needs. HBase refuses
            such a request too, as far as is known, but nothing proves it.
        ValueError: the method changes nothing (see ``Method.effect``).
    """
    method = method_of(dialect, message.name)
    if method.effect is Effect.WRITE:
        return decode_thrift1(message) if dialect is Dialect.THRIFT1 else decode_thrift2(message)
    if method.effect is not Effect.DEFINE:
        raise ValueError(f"{message.name} of {dialect.value} changes nothing")
    table = peek_table(dialect, message)
    assert table is not None  # noqa: S101 - all of them name their table
    return Definition(message.name, table, _CHANGES[message.name], _read_family(message))


def _read_family(message: Message) -> str:
    if message.name not in ("deleteColumnFamily", "modifyColumnFamily"):
        return ""
    cursor = Cursor(message.raw, message.body)
    while kind := cursor.next_field():
        if cursor.field_id == 2 and kind == STRING:
            return cursor.binary().decode("utf-8", "backslashreplace")
        if cursor.field_id == 2 and kind == STRUCT:
            while kind := cursor.next_field():
                if cursor.field_id == 1 and kind == STRING:
                    return cursor.binary().decode("utf-8", "backslashreplace")
                cursor.skip(kind)
            break
        cursor.skip(kind)
    raise MalformedMessage(f"{message.name} without its family")


def peek_origin(dialect: Dialect, message: Message) -> Origin | None:
    """Return who wrote, where a request says so, at the cost of one search when it does not.

    Raises:
        MalformedMessage: the origin or the arguments around it make no sense.
    """
    at = message.raw.find(_ORIGIN_KEY, message.body)
    if at < 0 or method_of(dialect, message.name).effect is not Effect.WRITE:
        return None
    if dialect is Dialect.THRIFT2:
        origin, problem = understood(first_origin(message))
    else:
        write = decode_thrift1(message)
        origin, problem = write.origin, write.origin_error
    if problem:
        raise MalformedMessage(problem)
    return origin
