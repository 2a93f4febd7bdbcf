"""Reads the fields of a struct that is wholly there; checks every length against what is there."""

from __future__ import annotations

from typing import final

from headgate.wire.binary import (
    FIXED,
    LIST,
    MAP,
    SET,
    SMALLEST,
    STRING,
    STRUCT,
    TYPES,
    container_at,
    field_at,
    i32_at,
    i64_at,
    map_at,
)
from headgate.wire.errors import MalformedMessage

_MAX_DEPTH = 64  # beyond every ``Limits.max_depth`` that makes sense; Python's stack allows 1,000


@final
class Cursor:
    """A place in bytes. Every method reads there and moves behind what it has read.

    All of them raise ``MalformedMessage`` when the bytes end too early or make no sense.
    """

    __slots__ = ("data", "end", "field_id", "pos")

    def __init__(self, data: bytes, pos: int) -> None:
        """Begin at ``pos``; the message ends with the bytes."""
        self.data = data
        self.pos = pos
        self.end = len(data)
        self.field_id = 0

    def next_field(self) -> int:
        """Return the type of the struct's next field, its id in ``field_id``; 0 at the end."""
        pos = self.pos
        if pos + 3 <= self.end:
            kind: int
            kind, self.field_id = field_at(self.data, pos)
            self.pos = pos + 3 if kind else pos + 1
            return kind
        if self.byte():
            self._need(2)
        return 0

    def byte(self) -> int:
        """Return an unsigned byte."""
        self._need(1)
        value = self.data[self.pos]
        self.pos += 1
        return value

    def bool(self) -> bool:
        """Return a boolean; as in HBase's own server only 1 is true."""
        return self.byte() == 1

    def i32(self) -> int:
        """Return a signed 32-bit number."""
        self._need(4)
        value: int = i32_at(self.data, self.pos)[0]
        self.pos += 4
        return value

    def i64(self) -> int:
        """Return a signed 64-bit number."""
        self._need(8)
        value: int = i64_at(self.data, self.pos)[0]
        self.pos += 8
        return value

    def binary(self) -> bytes:
        """Return a string's bytes."""
        begin = self.pos + 4
        behind = self._string_end()
        self.pos = behind
        return self.data[begin:behind]

    def list_head(self) -> tuple[int, int]:
        """Return the type and the number of a list's or set's elements."""
        self._need(5)
        kind, count = container_at(self.data, self.pos)
        self.pos += 5
        self._check_count(count, _smallest(kind) if count else 0)
        return kind, count

    def count_structs(self, what: str) -> int:
        """Return the number of a list's elements, which must be structs; ``what`` names them."""
        kind, count = self.list_head()
        if count and kind != STRUCT:
            raise MalformedMessage(f"a list of {what} has elements of type {kind}")
        return count

    def map_head(self) -> tuple[int, int, int]:
        """Return the types of a map's keys and values and the number of its entries."""
        self._need(6)
        keys, values, count = map_at(self.data, self.pos)
        self.pos += 6
        self._check_count(count, _smallest(keys) + _smallest(values) if count else 0)
        return keys, values, count

    def skip(self, kind: int, depth: int = 0) -> None:
        """Move behind a value of the type."""
        if depth > _MAX_DEPTH:
            raise MalformedMessage(f"values nested deeper than {_MAX_DEPTH}")
        size = FIXED[kind] if kind < TYPES else 0
        if size:
            self._need(size)
            self.pos += size
        elif kind == STRING:
            self.pos = self._string_end()
        elif kind == STRUCT:
            while field := self.next_field():
                self.skip(field, depth + 1)
        elif kind in (LIST, SET):
            element, count = self.list_head()
            for _ in range(count):
                self.skip(element, depth + 1)
        elif kind == MAP:
            key, value, count = self.map_head()
            for _ in range(count):
                self.skip(key, depth + 1)
                self.skip(value, depth + 1)
        else:
            raise MalformedMessage(f"a value of type {kind} at byte {self.pos}")

    def _string_end(self) -> int:
        self._need(4)
        length: int = i32_at(self.data, self.pos)[0]
        behind = self.pos + 4 + length
        if length < 0:
            raise MalformedMessage(f"a string of length {length} at byte {self.pos}")
        if behind > self.end:
            self.pos += 4
            self._need(length)
        return behind

    def _need(self, count: int) -> None:
        if self.pos + count > self.end:
            raise MalformedMessage(
                f"the message ends at byte {self.end}; {count} more were due at byte {self.pos}"
            )

    def _check_count(self, count: int, smallest: int) -> None:
        if count * smallest > self.end - self.pos:
            raise MalformedMessage(
                f"a container of {count} elements with {self.end - self.pos} bytes left"
            )


def _smallest(kind: int) -> int:
    size = SMALLEST[kind] if kind < TYPES else 0
    if not size:
        raise MalformedMessage(f"a container of elements of type {kind}")
    return size
