"""Finds where a struct ends, without building anything, in bytes that may still be arriving."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct as Layout
from struct import error as ShortBuffer  # noqa: N812 - what it means here
from typing import Any, Final, final

from headgate.wire.binary import (
    FIXED,
    LIST,
    MAP,
    SET,
    SMALLEST,
    STOP,
    STRING,
    STRUCT,
    container_at,
    map_at,
    u32_at,
)
from headgate.wire.errors import (
    LimitExceeded,
    MalformedMessage,
    container_too_large,
    message_too_long,
    nested_too_deep,
    string_too_long,
)
from headgate.wire.message import Limits
from headgate.wire.runs import ENOUGH, run_of

_SIZES: Final = (*FIXED, *([0] * 240))
"""``FIXED`` for every byte that may stand where a type is expected."""

_NEGATIVE: Final = 2**31
"""Lengths are read unsigned, so that one comparison finds both too long and negative ones."""

_MANY: Final = 8
"""Structs in a list from which on it is worth learning what they have in common."""

_SHAPE_DEPTH: Final = 8
_SHAPE_STRINGS: Final = 64
"""Beyond these a struct is no record of a batch, and walking it is as good."""

_NO_LIST: Final = -1

_ALL: Final = 1 << 60
"""More bytes than any message has."""

_FIELDS: Final = -1
"""In the place of a container's count: a struct, which ends at its stop byte."""


@final
class StructWalker:
    """The place in one struct, kept between calls, so that each byte of it is looked at once.

    What is open lies on a stack as ``(left, even, odd)``: ``left`` values of type ``even`` (an even
    number left) or ``odd`` still to come, which serves maps with keys and values in turn and lists
    with twice the same; ``left`` is -1 for a struct.
    """

    __slots__ = (
        "_even",
        "_first",
        "_left",
        "_level",
        "_limits",
        "_odd",
        "_offset",
        "_shape",
        "_stack",
        "needed",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._stack: list[tuple[int, int, int]] = []
        self._left = _FIELDS
        self._even = 0
        self._odd = 0
        self._offset = 0
        self._level = _NO_LIST  # height of the stack in the list whose structs are alike
        self._first = 0  # where that list's first struct begins, from the message's start
        self._shape: Shape | None = None
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

        Args:
            data: what is there.
            start: where the message begins in it.
            most: bytes after which to stop, at least one value further than before. Then ``needed``
                are there, and the next call goes on.

        Returns:
            The position in ``data`` behind the struct, or -1 when that was not reached.

        Raises:
            MalformedMessage: an unknown type or a negative length.
            LimitExceeded: a string, a container or the nesting is beyond the limits.
            FrameTooLarge: the message is, or is going to be, longer than a frame may be.
        """
        limits = self._limits
        max_string = limits.max_string
        sizes = _SIZES
        stack = self._stack
        left, even, odd = self._left, self._even, self._odd
        level = self._level
        pos = start + self._offset
        end = min(len(data), max(pos + most, start + self.needed))
        behind = pos
        done = False
        try:
            while True:
                if left < 0:
                    kind = data[pos]
                    if kind == STRING:
                        (length,) = u32_at(data, pos + 3)
                        if length > max_string:
                            raise _bad_length("string", length, max_string)
                        behind = pos + 7 + length
                        if behind > end:
                            break
                        pos = behind
                        continue
                    if kind == STOP:
                        pos += 1
                        if not stack:
                            done = True
                            break
                        left, even, odd = stack.pop()
                        continue
                    size = sizes[kind]
                    if size:
                        behind = pos + 3 + size
                        if behind > end:
                            break
                        pos = behind
                        continue
                    value = pos + 3
                    if value > end:
                        break
                elif left == 0:
                    left, even, odd = stack.pop()
                    continue
                else:
                    kind = odd if left & 1 else even
                    if kind == STRING:
                        (length,) = u32_at(data, pos)
                        if length > max_string:
                            raise _bad_length("string", length, max_string)
                        behind = pos + 4 + length
                        if behind > end:
                            break
                        pos = behind
                        left -= 1
                        continue
                    size = sizes[kind]
                    if size:
                        behind = pos + size
                        if behind > end:
                            break
                        pos = behind
                        left -= 1
                        continue
                    if len(stack) == level and kind == STRUCT and pos - start > self._first:
                        pos, left, alike = self._pass_alike(data, start, pos, left, end)
                        if not alike:
                            level = _NO_LIST
                        if left == 0:
                            continue
                    value = pos
                # Something with parts begins at ``value``. Until its head is whole nothing changes.
                behind = value
                count, first, second = _FIELDS, 0, 0
                if kind in (LIST, SET):
                    first, count = container_at(data, value)
                    second = first
                    behind = value + 5
                elif kind == MAP:
                    first, second, count = map_at(data, value)
                    behind = value + 6
                elif kind != STRUCT:
                    raise MalformedMessage(f"a value of type {kind}, which Thrift does not have")
                if kind != STRUCT:
                    if count > limits.max_container:
                        raise _bad_length("container", count, limits.max_container)
                    if count and not (_exists(first) and _exists(second)):
                        raise MalformedMessage(f"a container of types {first} and {second}")
                    if kind == MAP:
                        count *= 2
                    elif sizes[first]:
                        behind += sizes[first] * count
                        count = 0
                    if behind > end:
                        break
                if len(stack) >= limits.max_depth:
                    raise nested_too_deep(limits.max_depth)
                stack.append((left - 1 if left > 0 else left, even, odd))
                left, even, odd = count, first, second
                pos = behind
                if count >= _MANY and first == STRUCT and level == _NO_LIST and kind != MAP:
                    level = len(stack)
                    self._first = pos - start
                    self._shape = None
        except (IndexError, ShortBuffer):
            behind = max(behind, end + 1)
        if done:
            self._offset = pos - start
            if self._offset > limits.max_frame:
                raise message_too_long(limits.max_frame)
            return pos
        self._left, self._even, self._odd = left, even, odd
        self._level = level
        self._offset = pos - start
        self.needed = max(behind, end + 1) - start
        if self.needed > limits.max_frame:
            raise message_too_long(limits.max_frame)
        return -1

    def _pass_alike(
        self, data: bytes | bytearray, start: int, pos: int, left: int, stop: int
    ) -> tuple[int, int, bool]:
        """Pass the structs of a list, from ``pos`` to ``stop``, that have the shape of its first.

        Returns:
            Where the first other one begins, or the first that is not all there; how many are left;
            and whether it makes sense to go on like this, which it does not if none was alike.
        """
        shape = self._shape
        if shape is None:
            shape = self._shape = shape_of(data, start + self._first)
        if shape is None:
            return pos, left, False
        parts, tail = shape
        max_string = self._limits.max_string
        before = left
        in_runs = True
        try:
            while left and pos < stop:
                end = pos
                for read, gap, size in parts:
                    found, length = read(data, end)
                    if found != gap or length > max_string:
                        return pos, left, left < before
                    end += size + length
                if not data.startswith(tail, end):
                    return pos, left, left < before or end + len(tail) > len(data)
                end += len(tail)
                passed = 1
                if in_runs and left >= ENOUGH:
                    passed = run_of(data, pos, left, end - pos, _frame(data, pos, parts, tail))
                    in_runs = passed >= ENOUGH
                pos += passed * (end - pos)
                left -= passed
        except ShortBuffer:
            pass  # the rest is still to come, or shorter: walking it shows which
        return pos, left, True


Shape = tuple[list[tuple[Callable[..., tuple[Any, ...]], bytes, int]], bytes]
"""A struct but for its strings: for each of them what reads the bytes before it and its length,
those bytes, and the number of both together; then the bytes behind the last."""


def _frame(
    data: bytes | bytearray,
    begin: int,
    parts: list[tuple[Callable[..., tuple[Any, ...]], bytes, int]],
    tail: bytes,
) -> list[tuple[int, bytes | bytearray]]:
    """Return all of the struct at ``begin``, which has the shape, but its strings' contents."""
    shared: list[tuple[int, bytes | bytearray]] = []
    at = begin
    for read, _, size in parts:
        shared.append((at - begin, data[at : at + size]))
        at += size + read(data, at)[1]
    shared.append((at - begin, tail))
    return shared


def shape_of(data: bytes | bytearray, begin: int) -> Shape | None:
    """Return the shape of the struct at ``begin``, which was walked before; None: too intricate."""
    strings: list[int] = []
    end = _note_strings(data, begin, STRUCT, strings, 0)
    if end < 0:
        return None
    parts = []
    for at in strings:
        gap = bytes(data[begin:at])
        parts.append((Layout(f">{len(gap)}sI").unpack_from, gap, len(gap) + 4))
        begin = at + 4 + u32_at(data, at)[0]
    return parts, bytes(data[begin:end])


def _note_strings(
    data: bytes | bytearray, pos: int, kind: int, strings: list[int], depth: int
) -> int:
    """Note where the lengths of a value's strings stand; return its end, -1 when too intricate."""
    if depth > _SHAPE_DEPTH or len(strings) > _SHAPE_STRINGS:
        return -1
    if kind == STRING:
        strings.append(pos)
        length: int = u32_at(data, pos)[0]
        return pos + 4 + length
    if kind == STRUCT:
        while (field := data[pos]) != STOP:
            pos = _note_strings(data, pos + 3, field, strings, depth + 1)
            if pos < 0:
                return pos
        return pos + 1
    if kind in (LIST, SET):
        element: int
        count: int
        element, count = container_at(data, pos)
        pos += 5
        if _SIZES[element]:
            return pos + count * _SIZES[element]
        for _ in range(count):
            pos = _note_strings(data, pos, element, strings, depth + 1)
            if pos < 0:
                break
        return pos
    return pos + _SIZES[kind] if _SIZES[kind] else -1


def _exists(kind: int) -> bool:
    return kind < len(SMALLEST) and SMALLEST[kind] > 0


def _bad_length(what: str, length: int, limit: int) -> MalformedMessage | LimitExceeded:
    if length >= _NEGATIVE:
        return MalformedMessage(f"a {what} of length {length - 2 * _NEGATIVE}")
    return (
        string_too_long(length, limit) if what == "string" else container_too_large(length, limit)
    )
