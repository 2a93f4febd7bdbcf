"""What sequence bounds count, remembered once each in the order in which it came."""

from __future__ import annotations

from typing import TypeVar

Key = tuple[bytes, bytes]
"""A cell: row and ``family:qualifier``."""
Element = bytes | Key
"""What sequence bounds count: a row, or a cell."""


T = TypeVar("T", bound=Element)


class Listed:
    """How much of a list that only grows is in a changelog, by which number it is known there."""

    __slots__ = ("logged", "merged", "number")

    def __init__(self, number: int, known: int = 0) -> None:
        self.number = number
        self.merged = known
        """How many of its items will not be written again."""
        self.logged = known
        """How many of its items were written."""


class Elements(dict[T, None]):
    """Distinct elements; none ever goes."""

    __slots__ = ("listed",)

    def __init__(self) -> None:
        super().__init__()
        self.listed: Listed | None = None
