"""Values of cells of the state table: whoever may write the table may have put any bytes there."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


class UnreadableCell(ValueError):
    """A cell does not hold what an agent writes there."""


def read_cell(value: bytes, kind: type[T]) -> T:
    """Return what a cell holds.

    Raises:
        UnreadableCell: it is nothing of the kind.
    """
    try:
        return msgspec.msgpack.decode(value, type=kind)
    except (ValueError, RecursionError) as error:  # of text that is no UTF-8, of nested values
        raise UnreadableCell(str(error)) from error
