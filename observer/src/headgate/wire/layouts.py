"""What messages have in common that are alike but for the contents of their strings.

A client sends the same few kinds of request again and again. Where a message has the length of one
that was walked before, and each of its other bytes is the same, it has the same parts in the same
places: one comparison shows it, and it need not be walked.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as ShortBuffer  # noqa: N812 - what it means here
from typing import Final, final

from headgate.wire.binary import (
    FIXED,
    LIST,
    MAP,
    SET,
    STOP,
    STRING,
    STRUCT,
    container_at,
    i32_at,
    map_at,
    u32_at,
)
from headgate.wire.message import Message, Protocol

_SIZES: Final = (*FIXED, *([0] * 240))
_DEEPEST: Final = 8
_MOST_RANGES: Final = 32
"""Beyond these a message is not one of those that come again and again."""


@final
class Layout:
    """Where a message's strings are, and all bytes besides.

    Attributes:
        strings: begin and end of each string's contents, counted from the message's first byte, in
            the order in which they stand there.
        body: where the struct begins.
        transport: the message's.
    """

    __slots__ = ("_expected", "_fixed", "body", "strings", "transport")

    def __init__(
        self, message: Message, strings: list[tuple[int, int]], fixed: Callable[[bytes], object]
    ) -> None:
        self.body = message.body
        self.transport = message.transport
        self.strings = strings
        self._fixed = fixed
        self._expected = fixed(message.raw)

    def sequence_number(self, raw: bytes) -> int:
        """Return the sequence number of a message that fits."""
        number: int = i32_at(raw, self.body - 4)[0]
        return number

    def fits(self, data: bytes) -> bool:
        """Return whether a message of the same length is alike."""
        return self._fixed(data) == self._expected


def layout_of(message: Message, *, fixed: int, numbers: bool) -> Layout | None:
    """Return the layout of a message in strict binary; None where it has too many parts.

    Args:
        message: any message; None is returned for a frame whose contents make no sense, too.
        fixed: how many strings, from the first on, must have the same contents.
        numbers: whether numbers and flags may differ, too.
    """
    if message.protocol is not Protocol.BINARY:
        return None
    raw = message.raw
    strings: list[tuple[int, int]] = []
    scalars: list[tuple[int, int]] = []
    try:
        end = _note(raw, message.body, STRUCT, strings, scalars, 0)
    except (IndexError, ShortBuffer):
        return None
    if end != len(raw):
        return None
    free = [*strings[fixed:], (message.body - 4, message.body)]  # with the sequence number
    if numbers:
        free += scalars
    pieces, at = ["="], 0
    for begin, end in sorted(free):
        pieces.append(f"{begin - at}s{end - begin}x")
        at = end
    pieces.append(f"{len(raw) - at}s")
    return Layout(message, strings, Struct("".join(pieces)).unpack)


def _note(
    data: bytes,
    pos: int,
    kind: int,
    strings: list[tuple[int, int]],
    scalars: list[tuple[int, int]],
    depth: int,
) -> int:
    """Note a value's strings and scalars; return its end, -1 where there are too many."""
    if depth > _DEEPEST or len(strings) + len(scalars) > _MOST_RANGES:
        return -1
    size = _SIZES[kind]
    if size:
        scalars.append((pos, pos + size))
        return pos + size
    if kind == STRING:
        length: int = u32_at(data, pos)[0]
        strings.append((pos + 4, pos + 4 + length))
        return pos + 4 + length
    if kind == STRUCT:
        while (field := data[pos]) != STOP:
            pos = _note(data, pos + 3, field, strings, scalars, depth + 1)
            if pos < 0:
                return pos
        return pos + 1
    count: int
    first: int
    second: int
    if kind == MAP:
        first, second, count = map_at(data, pos)
        pos += 6
    elif kind in (LIST, SET):
        first, count = container_at(data, pos)
        second = first
        pos += 5
    else:
        return -1
    for _ in range(count):
        pos = _note(data, pos, first, strings, scalars, depth + 1)
        if kind == MAP and pos >= 0:
            pos = _note(data, pos, second, strings, scalars, depth + 1)
        if pos < 0:
            return pos
    return pos
