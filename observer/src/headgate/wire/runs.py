"""Structs of the same size one after the other, compared all at once.

Batches are mostly records of one kind. Where their strings have the same lengths too, each byte
that they share is a column of the batch, which slicing with a step takes out in one go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ENOUGH: Final = 8
"""Structs in a run from which on looking for the next one is worth it."""

MOST_STRINGS: Final = 256
"""Strings in a struct beyond which it is no record of a batch: noting them would cost memory."""

_FIRST: Final = 64
_GROWTH: Final = 8
"""Structs compared at first, and how many times more after each time that all were alike: what is
compared in vain then costs no more than what is found, however many short runs a list has."""


def run_of(
    data: bytes | bytearray,
    pos: int,
    most: int,
    size: int,
    shared: Sequence[tuple[int, bytes | bytearray]],
) -> int:
    """Count the structs from ``pos`` on that have the bytes of a first one.

    Args:
        data: where they stand, one behind the other.
        pos: where the first begins.
        most: how many to count at most.
        size: bytes of each.
        shared: what they must have in common: offsets in a struct, and the bytes from there.
    """
    most = min(most, (len(data) - pos) // size)
    passed = 0
    step = _FIRST
    while passed < most:
        asked = min(step, most - passed)
        found = _alike(data, pos + passed * size, asked, size, shared)
        passed += found
        if found < asked:
            break
        step *= _GROWTH
    return passed


def all_but(
    data: bytes | bytearray, begin: int, end: int, places: Sequence[tuple[int, int]]
) -> list[tuple[int, bytes | bytearray]]:
    """Return the bytes of a struct that are in none of the places, as ``run_of`` takes them.

    Args:
        data: where it stands.
        begin: where it begins.
        end: the position behind it.
        places: begin and end of each, in their order.
    """
    shared: list[tuple[int, bytes | bytearray]] = []
    at = begin
    for start, behind in places:
        shared.append((at - begin, data[at:start]))
        at = behind
    shared.append((at - begin, data[at:end]))
    return shared


def _alike(
    data: bytes | bytearray,
    pos: int,
    most: int,
    size: int,
    shared: Sequence[tuple[int, bytes | bytearray]],
) -> int:
    for offset, content in shared:
        at = pos + offset
        for number in range(len(content)):
            byte = content[number : number + 1]
            column = data[at + number : pos + most * size : size]
            if column != byte * most:
                most -= len(column.lstrip(byte))
                if not most:
                    return 0
    return most
