"""The binary protocol: types, sizes and the message header, strict and old."""

from __future__ import annotations

from struct import Struct as Layout
from typing import Final

from headgate.wire.errors import LimitExceeded, MalformedMessage
from headgate.wire.message import Header, MessageType

STOP: Final = 0
BOOL: Final = 2
BYTE: Final = 3
DOUBLE: Final = 4
I16: Final = 6
I32: Final = 8
I64: Final = 10
STRING: Final = 11
STRUCT: Final = 12
MAP: Final = 13
SET: Final = 14
LIST: Final = 15

TYPES: Final = 16
"""Type codes are below this."""

FIXED: Final = (0, 0, 1, 1, 8, 0, 2, 0, 4, 0, 8, 0, 0, 0, 0, 0)
"""Bytes of a value by its type; 0 where the length varies or the type does not exist."""

SMALLEST: Final = (0, 0, 1, 1, 8, 0, 2, 0, 4, 0, 8, 4, 1, 6, 5, 5)
"""The least bytes of a value by its type; 0 where there is no such type: its elements are refused,
since a list of 2**31 of them would be five bytes long and take for ever to walk."""

VERSION: Final = 0x8001
"""The first two bytes of a message in strict binary."""

MAX_NAME: Final = 256
"""Bytes of a method's name. The longest of HBase has 30."""

field_at: Final = Layout(">Bh").unpack_from
i32_at: Final = Layout(">i").unpack_from
u32_at: Final = Layout(">I").unpack_from
i64_at: Final = Layout(">q").unpack_from
container_at: Final = Layout(">BI").unpack_from
map_at: Final = Layout(">BBI").unpack_from

_SHORTEST: Final = 8  # bytes: version, type and the length of the name
_OLD_SHORTEST: Final = 9  # bytes: the length of the name, type and sequence number
_NEGATIVE: Final = 1 << 31
_head_at: Final = Layout(">HxBI").unpack_from
_KINDS: Final = {int(member): member for member in MessageType}
_names: dict[bytes, str] = {}
_MAX_NAMES: Final = 1024  # names kept decoded; an honest service has about a hundred


def read_header(data: bytes | bytearray, start: int, end: int) -> Header | None:
    """Return the header of the message whose protocol begins at ``start``; None: needs more bytes.

    ``Header.body`` is counted from the beginning of ``data``.

    Raises:
        MalformedMessage: this is no header of strict binary.
        LimitExceeded: the name is longer than any method's.
    """
    if end - start < _SHORTEST:
        return None
    version, kind, length = _head_at(data, start)
    message_type = _KINDS.get(kind)
    if version != VERSION or message_type is None:
        found = bytes(data[start : start + 4]).hex(" ")
        raise MalformedMessage(
            f"a message begins with 80 01 00 and its type, not {found}: the stream is out of step"
        )
    if length > MAX_NAME:
        raise LimitExceeded(f"a method name of {length} bytes; {MAX_NAME} at most")
    body = start + _SHORTEST + length + 4
    if body > end:
        return None
    name = bytes(data[start + _SHORTEST : body - 4])
    return Header(header_name(name), message_type, i32_at(data, body - 4)[0], body)


def read_old_header(data: bytes | bytearray, start: int, end: int) -> Header | None:
    """Return the header of a message without a version; otherwise as ``read_header``.

    Raises:
        MalformedMessage: this is no header of old binary.
        LimitExceeded: the name is longer than any method's.
    """
    if end - start < _OLD_SHORTEST:
        return None
    (length,) = u32_at(data, start)
    if length > MAX_NAME:
        if length < _NEGATIVE:
            raise LimitExceeded(f"a method name of {length} bytes; {MAX_NAME} at most")
        raise MalformedMessage(f"a method name of length {length - 2 * _NEGATIVE}")
    behind = start + 4 + length
    if behind + 5 > end:
        return None
    message_type = _KINDS.get(data[behind])
    if message_type is None:
        raise MalformedMessage(f"a message of type {data[behind]}: the stream is out of step")
    name = bytes(data[start + 4 : behind])
    return Header(header_name(name), message_type, i32_at(data, behind + 1)[0], behind + 5)


def header_name(name: bytes) -> str:
    """Return a method's name as text, decoded once."""
    known = _names.get(name)
    if known is None:
        known = name.decode("utf-8", "backslashreplace")
        if len(_names) < _MAX_NAMES:
            _names[name] = known
    return known
