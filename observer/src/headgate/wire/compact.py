"""The compact protocol: types, varints and the message header."""

from __future__ import annotations

from typing import Final

from headgate.wire import binary
from headgate.wire.binary import MAX_NAME, header_name
from headgate.wire.errors import LimitExceeded, MalformedMessage
from headgate.wire.message import Header, MessageType

STOP: Final = 0
TRUE: Final = 1
"""A boolean field that is true, and the type of booleans in containers."""
FALSE: Final = 2
BYTE: Final = 3
I16: Final = 4
I32: Final = 5
I64: Final = 6
DOUBLE: Final = 7
BINARY: Final = 8
LIST: Final = 9
SET: Final = 10
MAP: Final = 11
STRUCT: Final = 12

BINARY_TYPES: Final = (
    binary.STOP,
    binary.BOOL,
    binary.BOOL,
    binary.BYTE,
    binary.I16,
    binary.I32,
    binary.I64,
    binary.DOUBLE,
    binary.STRING,
    binary.LIST,
    binary.SET,
    binary.MAP,
    binary.STRUCT,
    0,
    0,
    0,
)
"""The type of the binary protocol by that of compact; 0 where there is none."""

LONGEST_16: Final = 3
LONGEST_32: Final = 5
LONGEST_64: Final = 10
"""Bytes of a varint by the bits of its number."""

PROTOCOL_ID: Final = 0x82
"""The first byte of a message."""
VERSION: Final = 1
"""The low five bits of the second; the others are the message's type."""
VERSION_BITS: Final = 0x1F

_BITS: Final = {LONGEST_16: 16, LONGEST_32: 32, LONGEST_64: 64}
"""Bits of a number by the most bytes of its varint."""

_SHORTEST: Final = 4  # bytes: protocol, type, sequence number and the length of the name
_LONGEST_HEADER: Final = 2 + 2 * LONGEST_32 + MAX_NAME
_KINDS: Final = {int(member): member for member in MessageType}
_NEGATIVE: Final = 1 << 31


def read_varint(data: bytes | bytearray, pos: int, longest: int) -> tuple[int, int]:
    """Return the unsigned number at ``pos`` and the position behind it.

    Raises:
        MalformedMessage: it has more than ``longest`` bytes, or more bits than they are meant for.
        IndexError: the bytes end inside it.
    """
    byte = data[pos]
    if byte < 0x80:
        return byte, pos + 1
    number = byte & 0x7F
    shift = 7
    for at in range(pos + 1, pos + longest):
        byte = data[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> _BITS[longest]:
                break
            return number, at + 1
        shift += 7
    raise MalformedMessage(f"a varint beyond {_BITS[longest]} bits at byte {pos}")


def pass_varint(data: bytes | bytearray, pos: int, longest: int) -> int:
    """Return the position behind the number at ``pos``.

    Raises:
        MalformedMessage: it has more than ``longest`` bytes.
        IndexError: the bytes end inside it.
    """
    for at in range(pos, pos + longest):
        if data[at] < 0x80:
            return at + 1
    raise MalformedMessage(f"a varint of more than {longest} bytes at byte {pos}")


def read_length(data: bytes | bytearray, pos: int, what: str) -> tuple[int, int]:
    """Return a length and the position behind it.

    Raises:
        MalformedMessage: it is negative or no varint; ``what`` names what has the length.
        IndexError: the bytes end inside it.
    """
    length, behind = read_varint(data, pos, LONGEST_32)
    if length >= _NEGATIVE:
        raise MalformedMessage(f"a {what} of length {length - 2 * _NEGATIVE}")
    return length, behind


def varint(number: int) -> bytes:
    """Return an unsigned number as it is written."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def zigzag(number: int) -> int:
    """Return the unsigned number that stands for a signed one."""
    return number << 1 if number >= 0 else ~(number << 1)


def unzigzag(number: int) -> int:
    """Return the signed number that an unsigned one stands for."""
    return (number >> 1) ^ -(number & 1)


def read_compact_header(data: bytes | bytearray, start: int, end: int) -> Header | None:
    """Return the header of the message whose protocol begins at ``start``; None: needs more bytes.

    ``Header.body`` is counted from the beginning of ``data``.

    Raises:
        MalformedMessage: this is no header of the compact protocol.
        LimitExceeded: the name is longer than any method's.
    """
    if end - start < _SHORTEST:
        return None
    kind = _KINDS.get(data[start + 1] >> 5)
    if data[start] != PROTOCOL_ID or data[start + 1] & VERSION_BITS != VERSION or kind is None:
        found = bytes(data[start : start + 4]).hex(" ")
        raise MalformedMessage(
            f"a message begins with 82, its type and version, not {found}: the stream is out of "
            "step"
        )
    head = bytes(data[start : min(end, start + _LONGEST_HEADER)])
    try:
        seqid, pos = read_varint(head, 2, LONGEST_32)
        length, pos = read_length(head, pos, "method name")
    except IndexError:
        return None
    if length > MAX_NAME:
        raise LimitExceeded(f"a method name of {length} bytes; {MAX_NAME} at most")
    body = pos + length
    if start + body > end:
        return None
    signed = seqid - 2 * _NEGATIVE if seqid >= _NEGATIVE else seqid
    return Header(header_name(head[pos:body]), kind, signed, start + body)


def compact_header(name: bytes, kind: MessageType, seqid: int) -> bytes:
    """Return the bytes of a message before its struct."""
    head = bytes((PROTOCOL_ID, kind << 5 | VERSION))
    return head + varint(seqid & 0xFFFFFFFF) + varint(len(name)) + name
