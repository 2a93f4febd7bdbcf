"""Thrift values as trees of typed fields, and how each protocol writes them, well formed or not."""

from __future__ import annotations

import struct
from typing import Any

from msgspec import Struct

BOOL, BYTE, DOUBLE, I16, I32, I64 = 2, 3, 4, 6, 8, 10
STRING, STRUCT, MAP, SET, LIST = 11, 12, 13, 14, 15

CALL, REPLY, ONEWAY = 1, 2, 4

_NUMBERS = {BYTE: ">b", DOUBLE: ">d", I16: ">h", I32: ">i", I64: ">q"}
_COMPACT = {BYTE: 3, I16: 4, I32: 5, I64: 6, DOUBLE: 7, STRING: 8, LIST: 9, SET: 10, MAP: 11}
_COMPACT[STRUCT], _COMPACT[BOOL] = 12, 1
_SHORT_LIST = 15
_LONGEST_DELTA = 15


class Field(Struct):
    """A field of a struct: its id, its type and its value."""

    id: int
    type: int
    value: Any


class Items(Struct):
    """A list or a set."""

    type: int
    values: list[Any]


class Pairs(Struct):
    """A map."""

    keys: int
    values: int
    pairs: list[tuple[Any, Any]]


Fields = list[Field]


def binary(kind: int, value: Any) -> bytes:
    """Return a value in Thrift's binary protocol."""
    match kind:
        case 2:
            return b"\1" if value else b"\0"
        case 11:
            return struct.pack(">i", len(value)) + value
        case 12:
            fields = (
                struct.pack(">bh", field.type, field.id) + binary(field.type, field.value)
                for field in value
            )
            return b"".join(fields) + b"\0"
        case 13:
            head = struct.pack(">bbi", value.keys, value.values, len(value.pairs))
            return head + b"".join(
                binary(value.keys, key) + binary(value.values, one) for key, one in value.pairs
            )
        case 14 | 15:
            head = struct.pack(">bi", value.type, len(value.values))
            return head + b"".join(binary(value.type, one) for one in value.values)
        case _:
            return struct.pack(_NUMBERS[kind], value)


def compact(kind: int, value: Any) -> bytes:
    """Return a value in Thrift's compact protocol."""
    match kind:
        case 2:
            return b"\1" if value else b"\2"
        case 3:
            return struct.pack("b", value)
        case 4:
            return struct.pack("<d", value)
        case 6 | 8 | 10:
            return varint(_zigzag(value))
        case 11:
            return varint(len(value)) + value
        case 12:
            return _compact_struct(value)
        case 13:
            if not value.pairs:
                return b"\0"
            head = varint(len(value.pairs)) + bytes(
                [_COMPACT[value.keys] << 4 | _COMPACT[value.values]]
            )
            return head + b"".join(
                compact(value.keys, key) + compact(value.values, one) for key, one in value.pairs
            )
        case _:
            count = len(value.values)
            kind = _COMPACT[value.type]
            short = count < _SHORT_LIST
            head = bytes([count << 4 | kind]) if short else bytes([0xF0 | kind]) + varint(count)
            return head + b"".join(compact(value.type, one) for one in value.values)


def _compact_struct(fields: Fields) -> bytes:
    parts, last = [], 0
    for field in fields:
        kind = _COMPACT[field.type]
        if field.type == BOOL:
            kind = 1 if field.value else 2
        step = field.id - last
        if 0 < step <= _LONGEST_DELTA:
            parts.append(bytes([step << 4 | kind]))
        else:
            parts.append(bytes([kind]) + varint(_zigzag(field.id)))
        if field.type != BOOL:
            parts.append(compact(field.type, field.value))
        last = field.id
    return b"".join(parts) + b"\0"


def varint(number: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _zigzag(number: int) -> int:
    return (number << 1) ^ (number >> 63)


STRICT, OLD, COMPACT = "strict", "old", "compact"


def message(protocol: str, name: bytes, kind: int, seqid: int, arguments: Fields) -> bytes:
    """Return a whole message without a frame."""
    if protocol == STRICT:
        head = struct.pack(">I", 0x80010000 | kind) + binary(STRING, name)
        return head + struct.pack(">i", seqid) + binary(STRUCT, arguments)
    if protocol == OLD:
        head = binary(STRING, name) + struct.pack(">bi", kind, seqid)
        return head + binary(STRUCT, arguments)
    head = bytes([0x82, kind << 5 | 1]) + varint(seqid) + varint(len(name)) + name
    return head + compact(STRUCT, arguments)
