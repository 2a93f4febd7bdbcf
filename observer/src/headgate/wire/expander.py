"""Structs in compact, written in the binary protocol."""

from __future__ import annotations

from collections.abc import Generator
from struct import Struct as Layout
from typing import Final, final

from headgate.wire import binary, compact
from headgate.wire.binary import SMALLEST
from headgate.wire.compact import (
    BINARY_TYPES,
    LONGEST_16,
    LONGEST_32,
    LONGEST_64,
    read_length,
    read_varint,
    unzigzag,
)
from headgate.wire.errors import MalformedMessage, cut_short, message_too_long, nested_too_deep
from headgate.wire.message import Limits
from headgate.wire.runs import ENOUGH, MOST_STRINGS, all_but, run_of

_i16: Final = Layout(">h").pack
_i32: Final = Layout(">i").pack
_i64: Final = Layout(">q").pack
_field: Final = Layout(">Bh").pack
_container: Final = Layout(">Bi").pack
_map: Final = Layout(">BBi").pack

_IN_BINARY: Final = " once it is written in binary"
_MIN_FIELD: Final = -(1 << 15)
_MAX_FIELD: Final = (1 << 15) - 1


@final
class Expander:
    """Writes a compact struct in binary."""

    __slots__ = ("_data", "_end", "_limits", "_out", "_pos", "_stop", "_strings")

    def __init__(self, data: bytes, pos: int, limits: Limits) -> None:
        """Stand before the struct, which begins at ``pos``."""
        self._data = data
        self._pos = pos
        self._end = len(data)
        self._limits = limits
        self._out = bytearray()
        self._strings: list[tuple[int, int, int]] | None = None
        """Of the struct that others may be like, where each string stands here and in binary, and
        its length; None: of none."""
        self._stop = self._end
        """Position after which to give others a turn."""

    def whole(self) -> bytes:
        """Return the struct."""
        try:
            self._struct(0)
        except IndexError as error:
            raise self._cut_short() from error
        return self.written()

    def in_parts(self) -> Generator[None, None, None]:
        """Write the struct; yield after so much as ``stop_after`` said last."""
        try:
            yield from self._struct_in_parts(0)
        except IndexError as error:
            raise self._cut_short() from error

    def stop_after(self, size: int) -> None:
        """Let ``in_parts`` yield after so many more bytes, or a little more."""
        self._stop = self._pos + size

    def written(self) -> bytes:
        """Return the struct, of which all is written."""
        if self._pos != self._end:
            raise MalformedMessage(f"{self._end - self._pos} bytes behind the struct")
        return bytes(self._out)

    def _cut_short(self) -> MalformedMessage:
        return MalformedMessage(f"the message ends at byte {self._end} inside a value")

    def _struct(self, depth: int) -> None:
        if depth > self._limits.max_depth:
            raise nested_too_deep(self._limits.max_depth)
        field = 0
        while True:
            kind, field = self._field(field)
            if kind > compact.FALSE:
                self._value(kind, depth + 1)
            elif kind == compact.STOP:
                return

    def _struct_in_parts(self, depth: int) -> Generator[None, None, None]:
        """Do as ``_struct``; what is in it goes on in parts where it may be large."""
        if depth > self._limits.max_depth:
            raise nested_too_deep(self._limits.max_depth)
        field = 0
        while True:
            kind, field = self._field(field)
            if kind == compact.STRUCT:
                yield from self._struct_in_parts(depth + 1)
            elif kind == compact.LIST:
                yield from self._list_in_parts(depth + 1)
            elif kind > compact.FALSE:
                self._value(kind, depth + 1)
            elif kind == compact.STOP:
                return
            if self._pos > self._stop:
                yield

    def _list_in_parts(self, depth: int) -> Generator[None, None, None]:
        count, element = self._list_head(depth)
        if element != compact.STRUCT:
            for _ in range(count):
                self._value(element, depth + 1)
        elif count <= ENOUGH:
            # Each of them may be large.
            for _ in range(count):
                yield from self._struct_in_parts(depth + 1)
        else:
            yield from self._structs(count, depth + 1)

    def _field(self, before: int) -> tuple[int, int]:
        """Write a field's head, and its value if that is in it; return its type and number."""
        data = self._data
        out = self._out
        head = data[self._pos]
        self._pos += 1
        if head == compact.STOP:
            out.append(binary.STOP)
            if len(out) > self._limits.max_frame:
                raise message_too_long(self._limits.max_frame, _IN_BINARY)
            return compact.STOP, before
        kind = head & 15
        if head >= 16:
            field = before + (head >> 4)
        else:
            number, self._pos = read_varint(data, self._pos, LONGEST_16)
            field = unzigzag(number)
        if not _MIN_FIELD <= field <= _MAX_FIELD:
            raise MalformedMessage(f"a field of number {field}")
        if kind == compact.TRUE:
            out += _field(binary.BOOL, field) + b"\x01"
        elif kind == compact.FALSE:
            out += _field(binary.BOOL, field) + b"\x00"
        else:
            if not BINARY_TYPES[kind]:
                raise MalformedMessage(f"a value of type {kind}, which compact does not have")
            out += _field(BINARY_TYPES[kind], field)
        return kind, field

    def _value(self, kind: int, depth: int) -> None:
        data = self._data
        out = self._out
        pos = self._pos
        if kind == compact.BINARY:
            length, pos = read_length(data, pos, "string")
            self._copy(pos, length, _i32(length))
            return
        if kind == compact.I32:
            number, self._pos = read_varint(data, pos, LONGEST_32)
            out += _i32(unzigzag(number))
        elif kind == compact.I64:
            number, self._pos = read_varint(data, pos, LONGEST_64)
            out += _i64(unzigzag(number))
        elif kind == compact.STRUCT:
            self._struct(depth)
        elif kind in (compact.LIST, compact.SET):
            self._list(depth)
        elif kind == compact.MAP:
            self._map(depth)
        elif kind == compact.I16:
            number, self._pos = read_varint(data, pos, LONGEST_16)
            out += _i16(unzigzag(number))
        elif kind == compact.DOUBLE:
            self._need(pos, 8)
            out += data[pos : pos + 8][::-1]
            self._pos = pos + 8
        elif kind == compact.BYTE:
            out.append(data[pos])
            self._pos = pos + 1
        else:  # a boolean in a container
            out.append(1 if data[pos] == compact.TRUE else 0)
            self._pos = pos + 1

    def _list(self, depth: int) -> None:
        count, element = self._list_head(depth)
        if element == compact.STRUCT and count > ENOUGH and self._strings is None:
            for _ in self._structs(count, depth + 1):
                pass
            return
        for _ in range(count):
            self._value(element, depth + 1)

    def _list_head(self, depth: int) -> tuple[int, int]:
        """Write a list's head; return the number and the type of its elements."""
        head = self._data[self._pos]
        self._pos += 1
        count, element = head >> 4, head & 15
        if count == 15:
            count, self._pos = read_length(self._data, self._pos, "container")
        self._open(count, element, element, depth)
        self._out += _container(BINARY_TYPES[element], count)
        return count, element

    def _structs(self, left: int, depth: int) -> Generator[None, None, None]:
        """Write so many structs; those that have the bytes of the one before are taken together."""
        in_runs = True
        while left:
            begin, at = self._pos, len(self._out)
            if in_runs:
                self._strings = []
            self._struct(depth)
            left -= 1
            strings, self._strings = self._strings, None
            in_runs = strings is not None
            if strings is not None:
                passed = self._repeat(begin, at, left, strings)
                left -= passed
                in_runs = passed >= ENOUGH
            if self._pos > self._stop:
                yield

    def _repeat(self, begin: int, at: int, most: int, strings: list[tuple[int, int, int]]) -> int:
        """Write those next structs that are like the last one but for their strings' contents.

        Args:
            begin: where the last one began.
            at: where it begins in binary.
            most: how many structs are left.
            strings: those of the last one.

        Returns:
            How many there were.
        """
        data, out, here = self._data, self._out, self._pos
        size, written = here - begin, len(out) - at
        places = [(pos, pos + length) for pos, _, length in strings]
        passed = run_of(data, here, most, size, all_but(data, begin, here, places))
        if len(out) + passed * written > self._limits.max_frame:
            raise message_too_long(self._limits.max_frame, _IN_BINARY)
        end = here + passed * size
        block = out[at:] * passed
        for pos, where, length in strings:
            source, target = here + pos - begin, where - at
            if length < passed:
                for number in range(length):
                    block[target + number :: written] = data[source + number : end : size]
                continue
            for first in range(0, passed * written, written):
                content = data[source : source + length]
                block[target + first : target + first + length] = content
                source += size
        out += block
        self._pos = end
        return passed

    def _map(self, depth: int) -> None:
        count, self._pos = read_length(self._data, self._pos, "container")
        if not count:
            # Its types are not written; those of HBase's maps are as good as any.
            self._out += _map(binary.STRING, binary.STRING, 0)
            return
        types = self._data[self._pos]
        self._pos += 1
        keys, values = types >> 4, types & 15
        self._open(count, keys, values, depth)
        self._out += _map(BINARY_TYPES[keys], BINARY_TYPES[values], count)
        for _ in range(count):
            self._value(keys, depth + 1)
            self._value(values, depth + 1)

    def _open(self, count: int, first: int, second: int, depth: int) -> None:
        if depth > self._limits.max_depth:
            raise nested_too_deep(self._limits.max_depth)
        if not count:
            return
        if not (BINARY_TYPES[first] and BINARY_TYPES[second]):
            raise MalformedMessage(f"a container of types {first} and {second}")
        # Each element has a byte at least, each of binary at most eight for it.
        if count > self._end - self._pos:
            raise MalformedMessage(
                f"a container of {count} elements with {self._end - self._pos} bytes left"
            )
        smallest = SMALLEST[BINARY_TYPES[first]]
        if len(self._out) + count * smallest > self._limits.max_frame:
            raise message_too_long(self._limits.max_frame, _IN_BINARY)

    def _copy(self, pos: int, length: int, head: bytes) -> None:
        self._need(pos, length)
        behind = pos + length
        out = self._out
        out += head
        strings = self._strings
        if strings is not None:
            strings.append((pos, len(out), length))
            if len(strings) > MOST_STRINGS:
                self._strings = None
        out += self._data[pos:behind]
        if len(out) > self._limits.max_frame:
            raise message_too_long(self._limits.max_frame, _IN_BINARY)
        self._pos = behind

    def _need(self, pos: int, count: int) -> None:
        if pos + count > self._end:
            raise cut_short(self._end, count, pos)
