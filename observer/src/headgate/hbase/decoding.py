"""From a request's bytes to what it writes."""

from __future__ import annotations

from typing import Final

from headgate.events import ORIGIN_ATTRIBUTE, Origin, TableChangeKind
from headgate.hbase.attributes import understood
from headgate.hbase.methods import Dialect, Effect, method_of
from headgate.hbase.requests import Definition, Write
from headgate.hbase.tables import peek_table
from headgate.hbase.thrift1 import decode_thrift1
from headgate.hbase.thrift2 import decode_thrift2, read_origins
from headgate.wire import (
    STRING,
    STRUCT,
    Cursor,
    LimitExceeded,
    MalformedMessage,
    Message,
    Protocol,
    to_binary,
)

_CHANGES = {
    "disableTable": TableChangeKind.DISABLED,
    "deleteTable": TableChangeKind.DROPPED,
    "truncateTable": TableChangeKind.TRUNCATED,
    "deleteColumnFamily": TableChangeKind.FAMILY_DROPPED,
    "modifyColumnFamily": TableChangeKind.MODIFIED,
    "modifyTable": TableChangeKind.MODIFIED,
}
_LONGEST_FAMILY: Final = 127
"""Bytes: HBase writes a family's length as a signed byte."""
_ORIGIN_KEY = len(ORIGIN_ATTRIBUTE).to_bytes(4, "big") + ORIGIN_ATTRIBUTE


def decode_request(dialect: Dialect, message: Message) -> Write | Definition:
    """Return what a request changes.

    Raises:
        ProtocolError: the arguments make no sense or lack what the method needs. HBase refuses such
            a request too, as far as is known, but nothing proves it.
        ValueError: the method changes nothing (see ``Method.effect``).
    """
    message = to_binary(message)
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
            return _family_name(cursor.binary())
        if cursor.field_id == 2 and kind == STRUCT:
            while kind := cursor.next_field():
                if cursor.field_id == 1 and kind == STRING:
                    return _family_name(cursor.binary())
                cursor.skip(kind)
            break
        cursor.skip(kind)
    raise MalformedMessage(f"{message.name} without its family")


def _family_name(name: bytes) -> str:
    if len(name) > _LONGEST_FAMILY:
        raise LimitExceeded(f"a family's name of {len(name)} bytes; {_LONGEST_FAMILY} at most")
    return name.decode("utf-8", "backslashreplace")


def peek_origins(dialect: Dialect, message: Message) -> tuple[Origin, ...]:
    """Return who wrote, where a request says so, at the cost of one search when it does not.

    Each put of a batch and each mutation of a row has attributes of its own, and so may name
    another run. Where all say the same, as with headgate's own clients, only the first is read.

    Raises:
        ProtocolError: the origin or the arguments around it make no sense.
    """
    if message.protocol is Protocol.COMPACT:
        if message.raw.find(ORIGIN_ATTRIBUTE, message.body) < 0:
            return ()
        message = to_binary(message)
    at = message.raw.find(_ORIGIN_KEY, message.body)
    if at < 0 or method_of(dialect, message.name).effect is not Effect.WRITE:
        return ()
    if dialect is Dialect.THRIFT1:
        write = decode_thrift1(message)
        read = [(write.origin, write.origin_error)]
    else:
        raw = message.raw

        def alike(origin: bytes) -> bool:
            whole = _ORIGIN_KEY + len(origin).to_bytes(4, "big") + origin
            return raw.count(whole, at) == raw.count(_ORIGIN_KEY, at)

        read = [understood(each) for each in read_origins(message, alike)]
    for _, problem in read:
        if problem:
            raise MalformedMessage(problem)
    return tuple(origin for origin, _ in read if origin is not None)
