"""Reads messages as code does that Thrift generates: every known field, the last of an id counts.

It knows no limits and refuses nothing that can be read at all: whoever is in front of it has to be
stricter. It is worked out apart from the product's reading.
"""

from __future__ import annotations

import struct
from typing import Any

from msgspec import Struct

from observer.trees import (
    BOOL,
    BYTE,
    DOUBLE,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    OLD,
    SET,
    STRICT,
    STRING,
    STRUCT,
    Field,
    Fields,
    Items,
    Pairs,
)
from observer.trees import COMPACT as COMPACT_PROTOCOL

_STOP = 0
_NUMBERS = {BYTE: ">b", DOUBLE: ">d", I16: ">h", I32: ">i", I64: ">q"}
_TYPES = {1: BOOL, 2: BOOL, 3: BYTE, 4: I16, 5: I32, 6: I64, 7: DOUBLE, 8: STRING}
_TYPES |= {9: LIST, 10: SET, 11: MAP, 12: STRUCT}
_LONG_LIST = 15
_FRAME = 4  # bytes of a frame's length


class Short(Exception):
    """More bytes must come."""


class Unreadable(Exception):
    """No reader can make anything of it."""


class Call(Struct):
    """A message, and what it is written in."""

    protocol: str
    framed: bool
    name: bytes
    kind: int
    number: int
    fields: Fields


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        if count < 0:
            raise Unreadable
        if self.at + count > len(self.data):
            raise Short
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def varint(self) -> int:
        found = shift = 0
        while True:
            byte = self.take(1)[0]
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7
            if shift > 63:
                raise Unreadable

    def zigzag(self) -> int:
        found = self.varint()
        return found >> 1 ^ -(found & 1)


class Incoming:
    """What a server reads of one connection: frames are taken off, whatever is in them follows."""

    def __init__(self) -> None:
        self._raw = self._inner = b""
        self._framed: bool | None = None

    def calls(self, data: bytes) -> list[Call]:
        """Take bytes; return the messages that are whole now.

        Raises:
            Unreadable: no server could go on.
        """
        self._raw += data
        if self._framed is None and len(self._raw) > _FRAME:
            self._framed = self._raw[0] == 0 and self._raw[_FRAME] in (0, 0x80, 0x82)
        if self._framed is None:
            return []
        self._unframe()
        found = []
        while self._inner:
            try:
                call, length = _message(self._inner)
            except Short:
                break
            call.framed = self._framed
            found.append(call)
            self._inner = self._inner[length:]
        return found

    def _unframe(self) -> None:
        if not self._framed:
            self._inner, self._raw = self._inner + self._raw, b""
        while self._framed and len(self._raw) >= _FRAME:
            end = _FRAME + struct.unpack(">i", self._raw[:_FRAME])[0]
            if len(self._raw) < end:
                return
            self._inner, self._raw = self._inner + self._raw[_FRAME:end], self._raw[end:]


def _message(data: bytes) -> tuple[Call, int]:
    source = _Bytes(data)
    if source.take(1) == b"\x82":
        kind = source.take(1)[0] >> 5
        number = source.varint()
        name = source.take(source.varint())
        fields = _compact_struct(source)
        protocol = COMPACT_PROTOCOL
    else:
        source.at = 0
        head = source.number(">i")
        if head < 0:
            kind = head & 0xFF
            name = source.take(source.number(">i"))
            protocol = STRICT
        else:
            name = source.take(head)
            kind = source.number(">b")
            protocol = OLD
        number = source.number(">i")
        fields = _binary(source, STRUCT)
    return Call(protocol, False, name, kind, number, fields), source.at


def _binary(source: _Bytes, kind: int) -> Any:
    match kind:
        case 2:
            return source.take(1) != b"\0"
        case 11:
            return source.take(source.number(">i"))
        case 12:
            fields = []
            while inner := source.number(">b"):
                number = source.number(">h")
                fields.append(Field(number, inner, _binary(source, inner)))
            return fields
        case 13:
            keys, values = source.number(">b"), source.number(">b")
            count = source.number(">i")
            pairs = [(_binary(source, keys), _binary(source, values)) for _ in range(count)]
            return Pairs(keys, values, pairs)
        case 14 | 15:
            inner, count = source.number(">b"), source.number(">i")
            return Items(inner, [_binary(source, inner) for _ in range(count)])
        case _:
            if kind not in _NUMBERS:
                raise Unreadable
            return source.number(_NUMBERS[kind])


def _compact(source: _Bytes, kind: int) -> Any:
    match kind:
        case 2:
            return source.take(1) == b"\1"
        case 3:
            return source.number("b")
        case 4:
            return source.number("<d")
        case 6 | 8 | 10:
            return source.zigzag()
        case 11:
            return source.take(source.varint())
        case 12:
            return _compact_struct(source)
        case 13:
            count = source.varint()
            if not count:
                return Pairs(STRING, STRING, [])
            both = source.take(1)[0]
            keys, values = _compact_type(both >> 4), _compact_type(both & 15)
            pairs = [(_compact(source, keys), _compact(source, values)) for _ in range(count)]
            return Pairs(keys, values, pairs)
        case _:
            head = source.take(1)[0]
            count = head >> 4 if head >> 4 < _LONG_LIST else source.varint()
            inner = _compact_type(head & 15)
            return Items(inner, [_compact(source, inner) for _ in range(count)])


def _compact_type(number: int) -> int:
    if number not in _TYPES:
        raise Unreadable
    return _TYPES[number]


def _compact_struct(source: _Bytes) -> Fields:
    fields: Fields = []
    last = 0
    while (head := source.take(1)[0]) & 15 != _STOP:
        step = head >> 4
        last = last + step if step else source.zigzag()
        kind = _compact_type(head & 15)
        value = head & 15 == 1 if kind == BOOL else _compact(source, kind)
        fields.append(Field(last, kind, value))
    return fields


def last(fields: Fields, number: int, kind: int, otherwise: Any = None) -> Any:
    """Return what the generated code has in a field at the end; another type is passed over."""
    found = otherwise
    for field in fields:
        if field.id == number and field.type == kind:
            found = field.value
    return found


def structs(fields: Fields, number: int) -> list[Fields] | None:
    """Return a list of structs; None where there is none."""
    listed = last(fields, number, LIST)
    return None if listed is None else list(listed.values) if listed.type == STRUCT else []


def texts(fields: Fields, number: int) -> list[bytes] | None:
    """Return a list of strings; None where there is none."""
    listed = last(fields, number, LIST)
    return None if listed is None else list(listed.values) if listed.type == STRING else []


def mapping(fields: Fields, number: int) -> dict[bytes, bytes]:
    """Return a map of strings; the last of equal keys counts."""
    found = last(fields, number, MAP)
    return {} if found is None else dict(found.pairs)
