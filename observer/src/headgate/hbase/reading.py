"""The one reading of a request, by which everything is decided that is decided about it."""

from __future__ import annotations

from typing import final

from msgspec import Struct

from headgate.events import TableChangeKind
from headgate.hbase.decoding.arguments import ARGUMENTS, require_declared
from headgate.hbase.decoding.thrift1 import IN_PARTS as IN_PARTS1
from headgate.hbase.decoding.thrift1 import Mutations, decode_thrift1
from headgate.hbase.decoding.thrift2 import IN_PARTS as IN_PARTS2
from headgate.hbase.decoding.thrift2 import Arguments, decode_thrift2
from headgate.hbase.methods import Dialect, Effect, Method, method_of
from headgate.hbase.requests import SchemaChange, Write
from headgate.hbase.tables import read_family, tables_in
from headgate.wire import (
    Cursor,
    Expansion,
    Limits,
    MalformedMessage,
    Message,
    MessageType,
    Protocol,
    to_binary,
)

_DEFAULT_LIMITS = Limits()

_CHANGES = {
    "disableTable": TableChangeKind.DISABLED,
    "deleteTable": TableChangeKind.DROPPED,
    "truncateTable": TableChangeKind.TRUNCATED,
    "deleteColumnFamily": TableChangeKind.FAMILY_DROPPED,
    "modifyColumnFamily": TableChangeKind.MODIFIED,
    "modifyTable": TableChangeKind.MODIFIED,
}


class Request(Struct, frozen=True):
    """A request as HBase reads it.

    Attributes:
        message: as it came.
        method: what it asks for.
        tables: those that it names, each once; more than one only for ``incrementRows``.
        change: what it changes; None where its method changes nothing that is recorded.
    """

    message: Message
    method: Method
    tables: tuple[str, ...]
    change: Write | SchemaChange | None = None


def read_request(dialect: Dialect, message: Message, limits: Limits = _DEFAULT_LIMITS) -> Request:
    """Read a request, once and strictly.

    HBase's own readers are generated: they take fields by their ids, the last of two alike, and
    elements of containers as what the service declares. What they could read in another way than
    it is read here is refused, and what lacks its table or what its method needs: HBase answers
    that with an error.

    Raises:
        ProtocolError: what cannot be read, or could be read in two ways.
    """
    if message.type is not MessageType.CALL:
        raise MalformedMessage(f"a request of type {message.type.name}, which is none")
    method = method_of(dialect, message.name)
    effect = method.effect
    if effect is Effect.UNKNOWN:
        return Request(message, method, ())
    plain = to_binary(message, limits)
    if effect is Effect.WRITE:
        cursor = Cursor(plain.raw, plain.body)
        thrift1 = dialect is Dialect.THRIFT1
        name = message.name
        write = decode_thrift1(name, cursor) if thrift1 else decode_thrift2(name, cursor)
        return _of_write(message, method, cursor, write)
    cursor = Cursor(plain.raw, plain.body)
    require_declared(cursor, ARGUMENTS[dialect][message.name])
    _require_end(cursor)
    tables = tables_in(plain, method.table)
    if effect is not Effect.DEFINE:
        return Request(message, method, tables)
    change = SchemaChange(message.name, tables[0], _CHANGES[message.name], read_family(plain))
    return Request(message, method, tables, change)


@final
class Reading:
    """The reading of a large request, in parts, so that others have a turn between them.

    Its result, or its error, is that of ``read_request``.
    """

    __slots__ = (
        "_arguments",
        "_cursor",
        "_dialect",
        "_expansion",
        "_limits",
        "_message",
        "_method",
    )

    def __init__(
        self, dialect: Dialect, message: Message, limits: Limits = _DEFAULT_LIMITS
    ) -> None:
        """Stand before a request."""
        self._dialect = dialect
        self._message = message
        self._limits = limits
        self._method = method_of(dialect, message.name)
        self._cursor: Cursor | None = None
        self._arguments: Mutations | Arguments | None = None
        self._expansion: Expansion | None = None
        """Of a message in compact, until it is written in binary."""

    def go_on(self, size: int) -> Request | None:
        """Read so many bytes, or up to the end of a cell; return the request when all is read.

        What has neither many rows nor many cells is read at once.

        Raises:
            ProtocolError: see ``read_request``.
        """
        message = self._message
        cursor = self._cursor
        if cursor is None:
            thrift1 = self._dialect is Dialect.THRIFT1
            in_parts = IN_PARTS1 if thrift1 else IN_PARTS2
            if message.name not in in_parts or message.type is not MessageType.CALL:
                return read_request(self._dialect, message, self._limits)
            plain: Message | None = message
            if message.protocol is Protocol.COMPACT:
                if self._expansion is None:
                    self._expansion = Expansion(message, self._limits)
                plain = self._expansion.go_on(size)
                if plain is None:
                    return None
                self._expansion = None
            assert plain is not None  # noqa: S101 - as it came, or written in binary
            cursor = self._cursor = Cursor(plain.raw, plain.body)
            build = Mutations if thrift1 else Arguments
            self._arguments = build(message.name, cursor)
            if plain is not message:
                return None
        arguments = self._arguments
        assert arguments is not None  # noqa: S101 - made with the cursor
        write = arguments.go_on(cursor.pos + size)
        return None if write is None else _of_write(message, self._method, cursor, write)


def _of_write(message: Message, method: Method, cursor: Cursor, write: Write) -> Request:
    _require_end(cursor)
    tables: tuple[str, ...] = (write.table,)
    if write.others:
        tables += tuple(other.table for other in write.others)
    return Request(message, method, tables, write)


def decode_request(dialect: Dialect, message: Message) -> Write | SchemaChange:
    """Return what a request changes.

    Raises:
        ProtocolError: see ``read_request``.
        ValueError: the method changes nothing (see ``Method.effect``).
    """
    change = read_request(dialect, message).change
    if change is None:
        raise ValueError(f"{message.name} of {dialect.value} changes nothing")
    return change


def _require_end(cursor: Cursor) -> None:
    if cursor.pos != cursor.end:
        raise MalformedMessage(f"{cursor.end - cursor.pos} bytes behind the arguments")
