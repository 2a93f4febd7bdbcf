"""Structs in the binary protocol, written in compact."""

from __future__ import annotations

from struct import Struct as Layout
from struct import error as ShortBuffer  # noqa: N812 - what it means here
from typing import Final, final

from headgate.wire import binary, compact
from headgate.wire.binary import SMALLEST, TYPES, container_at, field_at, i32_at, i64_at, map_at
from headgate.wire.compact import varint, zigzag
from headgate.wire.errors import MalformedMessage, cut_short, nested_too_deep
from headgate.wire.message import Limits

_i16_at: Final = Layout(">h").unpack_from

_COMPACT_TYPES: Final = (
    0,
    0,
    compact.TRUE,
    compact.BYTE,
    compact.DOUBLE,
    0,
    compact.I16,
    0,
    compact.I32,
    0,
    compact.I64,
    compact.BINARY,
    compact.STRUCT,
    compact.MAP,
    compact.SET,
    compact.LIST,
)
"""The type of compact by that of the binary protocol; 0 where there is none."""


@final
class Compacter:
    """Writes a binary struct in compact. It becomes a quarter longer at most."""

    __slots__ = ("_data", "_end", "_limits", "_out", "_pos")

    def __init__(self, data: bytes, pos: int, limits: Limits) -> None:
        """Stand before the struct, which begins at ``pos``."""
        self._data = data
        self._pos = pos
        self._end = len(data)
        self._limits = limits
        self._out = bytearray()

    def whole(self) -> bytes:
        """Return the struct."""
        try:
            self._struct(0)
        except (IndexError, ShortBuffer) as error:
            raise MalformedMessage(
                f"the message ends at byte {self._end} inside a value"
            ) from error
        if self._pos != self._end:
            raise MalformedMessage(f"{self._end - self._pos} bytes behind the struct")
        return bytes(self._out)

    def _struct(self, depth: int) -> None:
        if depth > self._limits.max_depth:
            raise nested_too_deep(self._limits.max_depth)
        data = self._data
        out = self._out
        before = 0
        while True:
            kind = data[self._pos]
            if kind == binary.STOP:
                self._pos += 1
                out.append(compact.STOP)
                return
            kind, field = field_at(data, self._pos)
            self._pos += 3
            written = _compact_type(kind)
            if kind == binary.BOOL:
                written = compact.TRUE if data[self._pos] == 1 else compact.FALSE
                self._pos += 1
            delta = field - before
            if 0 < delta <= 15:
                out.append(delta << 4 | written)
            else:
                out.append(written)
                out += varint(zigzag(field))
            before = field
            if kind != binary.BOOL:
                self._value(kind, depth + 1)

    def _value(self, kind: int, depth: int) -> None:
        data = self._data
        out = self._out
        pos = self._pos
        if kind == binary.STRING:
            length: int = i32_at(data, pos)[0]
            behind = pos + 4 + length
            if length < 0:
                raise MalformedMessage(f"a string of length {length} at byte {pos}")
            if behind > self._end:
                raise cut_short(self._end, length, pos + 4)
            out += varint(length)
            out += data[pos + 4 : behind]
            self._pos = behind
        elif kind == binary.I32:
            out += varint(zigzag(i32_at(data, pos)[0]))
            self._pos = pos + 4
        elif kind == binary.I64:
            out += varint(zigzag(i64_at(data, pos)[0]))
            self._pos = pos + 8
        elif kind == binary.STRUCT:
            self._struct(depth)
        elif kind in (binary.LIST, binary.SET):
            element, count = container_at(data, pos)
            self._pos = pos + 5
            self._open(count, element, element, depth)
            written = _compact_type(element) if count else compact.STRUCT
            if count < 15:
                out.append(count << 4 | written)
            else:
                out.append(0xF0 | written)
                out += varint(count)
            for _ in range(count):
                self._value(element, depth + 1)
        elif kind == binary.MAP:
            keys, values, count = map_at(data, pos)
            self._pos = pos + 6
            self._open(count, keys, values, depth)
            out += varint(count)
            if count:
                out.append(_compact_type(keys) << 4 | _compact_type(values))
            for _ in range(count):
                self._value(keys, depth + 1)
                self._value(values, depth + 1)
        elif kind == binary.I16:
            out += varint(zigzag(_i16_at(data, pos)[0]))
            self._pos = pos + 2
        elif kind == binary.DOUBLE:
            if pos + 8 > self._end:
                raise cut_short(self._end, 8, pos)
            out += data[pos : pos + 8][::-1]
            self._pos = pos + 8
        elif kind == binary.BYTE:
            out.append(data[pos])
            self._pos = pos + 1
        else:  # a boolean in a container
            out.append(compact.TRUE if data[pos] == 1 else compact.FALSE)
            self._pos = pos + 1

    def _open(self, count: int, first: int, second: int, depth: int) -> None:
        if depth > self._limits.max_depth:
            raise nested_too_deep(self._limits.max_depth)
        if count and not (_compact_type(first) and _compact_type(second)):
            raise MalformedMessage(f"a container of types {first} and {second}")
        if count and count * min(SMALLEST[first], SMALLEST[second]) > self._end - self._pos:
            raise MalformedMessage(
                f"a container of {count} elements with {self._end - self._pos} bytes left"
            )


def _compact_type(kind: int) -> int:
    found = _COMPACT_TYPES[kind] if kind < TYPES else 0
    if not found:
        raise MalformedMessage(f"a value of type {kind}, which Thrift does not have")
    return found
