"""What a bound watches: parts of tables."""

from __future__ import annotations

from typing import NewType

from msgspec import Struct
from msgspec.structs import force_setattr

from headgate.events.notify import Notify
from headgate.events.tables import canonical_table
from headgate.events.updates import UpdateKind

ContainerId = NewType("ContainerId", str)


def row_prefix_end(prefix: bytes) -> bytes | None:
    """Return the first row after all rows that start with ``prefix``; None if there is none."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None


class Item(Struct, frozen=True):
    r"""A rectangle of a table: the rows from ``start`` to before ``stop``, in one column or family.

    A whole table has neither family nor qualifier.
    A single row ``r`` is ``start=r, stop=r+b"\0"``.
    """

    table: str
    family: bytes | None = None
    qualifier: bytes | None = None
    start: bytes = b""
    stop: bytes | None = None

    def __post_init__(self) -> None:
        """Bring the table's name to its one spelling."""
        force_setattr(self, "table", canonical_table(self.table))

    @property
    def column(self) -> bytes | None:
        """``family:qualifier``, ``family:`` for a whole family, None for all families."""
        if self.family is None:
            return None
        return self.family + b":" + (self.qualifier or b"")

    def has_row(self, row: bytes) -> bool:
        """Return whether the row lies in the item's range."""
        return self.start <= row and (self.stop is None or row < self.stop)

    def has_column(self, column: bytes) -> bool:
        """Return whether ``family:qualifier`` lies in the item."""
        if self.family is None:
            return True
        if self.qualifier is None:
            return column.startswith(self.family + b":")
        return column == self.family + b":" + self.qualifier

    def is_touched_by(self, kind: int, row: bytes, column: bytes) -> bool:
        """Return whether an update of this ``UpdateKind`` may change a cell of the item.

        Deletes of a whole row or family touch every column that lies in them.
        """
        if not self.has_row(row):
            return False
        if kind == UpdateKind.DELETE_ROW:
            return True
        if kind in (UpdateKind.DELETE_FAMILY, UpdateKind.DELETE_FAMILY_VERSION):
            return self.family in (None, column.partition(b":")[0])
        return self.has_column(column)


class Container(Struct, frozen=True):
    """Items that one bound treats as one: an update of any of them is one of the container."""

    id: ContainerId
    items: tuple[Item, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables touched, each once, in the order of the items."""
        return tuple(dict.fromkeys(item.table for item in self.items))


class Watch(Struct, frozen=True):
    """What an observer must publish of a table; ``values`` false leaves the values of cells out.

    With ``notify`` it also sets a notify column in the rows that are written.
    """

    table: str
    values: bool = True
    notify: Notify | None = None

    def __post_init__(self) -> None:
        """Bring the table's name to its one spelling."""
        force_setattr(self, "table", canonical_table(self.table))
