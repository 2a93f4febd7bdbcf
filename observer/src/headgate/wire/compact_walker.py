"""Finds where a struct of the compact protocol ends, in bytes that may still be arriving."""

from __future__ import annotations

from typing import Final, final

from headgate.wire.compact import (
    BINARY,
    BYTE,
    DOUBLE,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    LONGEST_16,
    LONGEST_32,
    LONGEST_64,
    MAP,
    SET,
    STOP,
    STRUCT,
    pass_varint,
    read_length,
)
from headgate.wire.errors import (
    MalformedMessage,
    container_too_large,
    message_too_long,
    nested_too_deep,
    string_too_long,
)
from headgate.wire.message import Limits
from headgate.wire.runs import ENOUGH, MOST_STRINGS, all_but, run_of

_NO_LIST: Final = -1

_ALL: Final = 1 << 60
"""More bytes than any message has."""

_FIELDS: Final = -1
"""In the place of a container's count: a struct, which ends at its stop byte."""


@final
class CompactWalker:
    """The place in one struct, kept between calls, so that each byte of it is looked at once.

    What is open lies on a stack as in ``StructWalker``: ``(left, even, odd)``. Of one list of
    structs at a time those that are like the one before are passed together.
    """

    __slots__ = (
        "_even",
        "_first",
        "_left",
        "_level",
        "_limits",
        "_odd",
        "_offset",
        "_stack",
        "_strings",
        "needed",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._stack: list[tuple[int, int, int]] = []
        self._left = _FIELDS
        self._even = 0
        self._odd = 0
        self._offset = 0
        self._level = _NO_LIST  # height of the stack in the list whose structs are compared
        self._first = 0  # where the struct begins that the next may be like, in the message
        self._strings: list[tuple[int, int]] = []  # begin and end of its strings, likewise
        self.needed = 0
        """Bytes of the message without which another call is pointless."""

    def begin(self, body: int) -> None:
        """Stand before a struct; ``body`` is its offset from the start of its message."""
        self._stack.clear()
        self._left = _FIELDS
        self._offset = body
        self._level = _NO_LIST
        self.needed = 0

    def walk(self, data: bytes | bytearray, start: int, most: int = _ALL) -> int:
        """Go on as far as the bytes reach; ``start`` is where the message begins in ``data`` now.

        ``most`` is as in ``StructWalker``: bytes after which to stop.

        Returns:
            The position in ``data`` behind the struct, or -1 when that was not reached.

        Raises:
            MalformedMessage: an unknown type, a negative length or an overlong number.
            LimitExceeded: a string, a container or the nesting is beyond the limits.
            FrameTooLarge: the message is, or is going to be, longer than a frame may be.
        """
        limits = self._limits
        stack = self._stack
        left, even, odd = self._left, self._even, self._odd
        level = self._level
        strings = self._strings
        there = len(data)
        pos = start + self._offset
        end = min(there, max(pos + most, start + self.needed))
        behind = pos
        done = False
        try:
            while True:
                if left < 0:
                    head = data[pos]
                    if head == STOP:
                        pos += 1
                        if not stack:
                            done = True
                            break
                        left, even, odd = stack.pop()
                        continue
                    kind = head & 15
                    at = pos + 1
                    if head < 16:
                        at = pass_varint(data, at, LONGEST_16)
                    if 0 < kind <= FALSE:
                        behind = at
                        if behind > end:
                            break
                        pos = at
                        continue
                elif left == 0:
                    if len(stack) == level:
                        level = _NO_LIST
                    left, even, odd = stack.pop()
                    continue
                else:
                    kind = odd if left & 1 else even
                    if kind == STRUCT and len(stack) == level and pos - start > self._first:
                        passed, size = self._pass_alike(data, start, pos, left)
                        pos += passed * size
                        left -= passed
                        if passed < ENOUGH and there - pos >= size:
                            level = _NO_LIST
                        self._first = pos - start
                        strings.clear()
                        if left == 0:
                            continue
                    at = pos
                    if kind <= FALSE:
                        kind = BYTE
                # A value begins at ``at``. Until it, or its head, is whole nothing changes.
                if kind == BINARY:
                    length, at = read_length(data, at, "string")
                    if length > limits.max_string:
                        raise string_too_long(length, limits.max_string)
                    behind = at + length
                    if level >= 0 and behind <= end:
                        strings.append((at - start, behind - start))
                        if len(strings) > MOST_STRINGS:
                            level = _NO_LIST
                            strings.clear()
                elif kind == I64:
                    behind = pass_varint(data, at, LONGEST_64)
                elif kind in (I32, I16):
                    behind = pass_varint(data, at, LONGEST_32 if kind == I32 else LONGEST_16)
                elif kind == BYTE:
                    behind = at + 1
                elif kind == DOUBLE:
                    behind = at + 8
                else:
                    count, first, second = _FIELDS, 0, 0
                    if kind in (LIST, SET):
                        count, first = data[at] >> 4, data[at] & 15
                        second = first
                        at += 1
                        if count == 15:
                            count, at = read_length(data, at, "container")
                    elif kind == MAP:
                        count, at = read_length(data, at, "container")
                        if count:
                            first, second = data[at] >> 4, data[at] & 15
                            at += 1
                    elif kind != STRUCT:
                        raise MalformedMessage(
                            f"a value of type {kind}, which compact does not have"
                        )
                    if count > limits.max_container:
                        raise container_too_large(count, limits.max_container)
                    if count > 0 and not (0 < first <= STRUCT and 0 < second <= STRUCT):
                        raise MalformedMessage(f"a container of types {first} and {second}")
                    behind = at
                    if behind > end:
                        break
                    if len(stack) >= limits.max_depth:
                        raise nested_too_deep(limits.max_depth)
                    stack.append((left - 1 if left > 0 else left, even, odd))
                    left, even, odd = 2 * count if kind == MAP else count, first, second
                    pos = at
                    if count > ENOUGH and first == STRUCT and level < 0 and kind != MAP:
                        level = len(stack)
                        self._first = pos - start
                        strings.clear()
                    continue
                if behind > end:
                    break
                pos = behind
                if left > 0:
                    left -= 1
        except IndexError:
            behind = there + 1
        self._left, self._even, self._odd = left, even, odd
        self._level = level
        self._offset = pos - start
        self.needed = (pos if done else max(behind, end + 1)) - start
        if self.needed > limits.max_frame:
            raise message_too_long(limits.max_frame)
        return pos if done else -1

    def _pass_alike(
        self, data: bytes | bytearray, start: int, pos: int, left: int
    ) -> tuple[int, int]:
        """Return how many structs from ``pos`` on are like the one before, and the size of each."""
        begin = start + self._first
        places = [(start + place, start + behind) for place, behind in self._strings]
        size = pos - begin
        return run_of(data, pos, left, size, all_but(data, begin, pos, places)), size
