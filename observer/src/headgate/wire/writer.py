"""Messages that this side makes itself: refusals, and what tests and fakes need."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct as Layout
from typing import Final, Self, final

from headgate.wire.binary import BOOL, I32, I64, LIST, MAP, STRING, STRUCT, VERSION
from headgate.wire.message import Message, MessageType, Protocol, Transport
from headgate.wire.transcoder import transcode

_i32: Final = Layout(">i").pack
_i64: Final = Layout(">q").pack
_field: Final = Layout(">Bh").pack
_list: Final = Layout(">Bi").pack
_map: Final = Layout(">BBi").pack
_head: Final = Layout(">HBBi").pack


class ApplicationError(IntEnum):
    """Thrift's own errors, as they stand in a ``TApplicationException``."""

    UNKNOWN = 0
    UNKNOWN_METHOD = 1
    INVALID_MESSAGE_TYPE = 2
    WRONG_METHOD_NAME = 3
    BAD_SEQUENCE_ID = 4
    MISSING_RESULT = 5
    INTERNAL_ERROR = 6
    PROTOCOL_ERROR = 7
    INVALID_TRANSFORM = 8
    INVALID_PROTOCOL = 9
    UNSUPPORTED_CLIENT_TYPE = 10


@final
class StructWriter:
    """Builds one struct, field after field; nested structs are built the same way, then given."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    def bool(self, field: int, value: bool) -> Self:
        """Add a boolean field."""
        return self._add(BOOL, field, b"\x01" if value else b"\x00")

    def i32(self, field: int, value: int) -> Self:
        """Add a 32-bit field."""
        return self._add(I32, field, _i32(value))

    def i64(self, field: int, value: int) -> Self:
        """Add a 64-bit field."""
        return self._add(I64, field, _i64(value))

    def binary(self, field: int, value: bytes) -> Self:
        """Add a string field."""
        return self._add(STRING, field, _i32(len(value)) + value)

    def struct(self, field: int, value: bytes) -> Self:
        """Add a struct that was built before."""
        return self._add(STRUCT, field, value)

    def structs(self, field: int, values: list[bytes]) -> Self:
        """Add a list of structs that were built before."""
        return self._add(LIST, field, _list(STRUCT, len(values)) + b"".join(values))

    def binaries(self, field: int, values: list[bytes]) -> Self:
        """Add a list of strings."""
        parts = b"".join(_i32(len(value)) + value for value in values)
        return self._add(LIST, field, _list(STRING, len(values)) + parts)

    def mapping(self, field: int, values: dict[bytes, bytes]) -> Self:
        """Add a map of strings to strings."""
        parts = b"".join(
            _i32(len(key)) + key + _i32(len(value)) + value for key, value in values.items()
        )
        return self._add(MAP, field, _map(STRING, STRING, len(values)) + parts)

    def end(self) -> bytes:
        """Return the struct's bytes."""
        return bytes(self._data) + b"\x00"

    def _add(self, kind: int, field: int, value: bytes) -> Self:
        self._data += _field(kind, field) + value
        return self


def write_message(
    transport: Transport, name: str, kind: MessageType, seqid: int, body: bytes
) -> bytes:
    """Return the bytes on the wire of a message whose struct is ``body``."""
    text = name.encode()
    message = _head(VERSION, 0, kind, len(text)) + text + _i32(seqid) + body
    return _i32(len(message)) + message if transport is Transport.FRAMED else message


def write_reply(request: Message, body: bytes) -> bytes:
    """Return the reply to a request, in its transport and protocol.

    ``body`` is the struct of the result in binary. Old binary is answered in strict, as by HBase.
    """
    return _answer(request, MessageType.REPLY, body)


def write_exception(request: Message, error: ApplicationError, text: str) -> bytes:
    """Return the ``TApplicationException`` that answers a request, likewise."""
    body = StructWriter().binary(1, text.encode()).i32(2, error).end()
    return _answer(request, MessageType.EXCEPTION, body)


def _answer(request: Message, kind: MessageType, body: bytes) -> bytes:
    transport = request.transport
    if request.protocol is Protocol.COMPACT:
        reply = Message(body, 0, request.name, kind, request.seqid, Transport.BUFFERED)
        return transcode(reply, Protocol.COMPACT, transport).raw
    return write_message(transport, request.name, kind, request.seqid, body)
