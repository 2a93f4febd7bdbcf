"""A container as a step sees it: one table, its columns under short names, and a codec."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from headgate.client import ScanRange
from headgate.engine import Codec, WatchedContainer
from headgate.events import NOTIFY_FAMILY, Item, KeyForm, key_text

_NOTIFY = NOTIFY_FAMILY + b":"


class ViewError(ValueError):
    """A container that cannot be read or written in the way that a step asks for."""


class ContainerView(Struct, frozen=True):
    """A container's part of one table."""

    name: str
    table: str
    items: tuple[Item, ...]
    codec: Codec
    keys: KeyForm = KeyForm.TEXT

    @property
    def declared(self) -> tuple[bytes, ...]:
        """Columns (``family:qualifier``) that the container names, in its order, each once."""
        columns = (item.column for item in self.items if item.qualifier is not None)
        return tuple(dict.fromkeys(column for column in columns if column is not None))

    @property
    def complete(self) -> bool:
        """Whether every item names its column, so that no others can turn up."""
        return all(item.qualifier is not None for item in self.items)

    @property
    def families(self) -> tuple[str, ...]:
        """Column families that the container names, each once."""
        named = (item.family for item in self.items if item.family is not None)
        return tuple(key_text(family) for family in dict.fromkeys(named))

    @property
    def has_all_families(self) -> bool:
        """True if an item covers whole rows, so that only the table knows the families."""
        return any(item.family is None for item in self.items)

    @property
    def uniform(self) -> bool:
        """Whether all items have the same range of rows."""
        return len({(item.start, item.stop) for item in self.items}) == 1

    @property
    def extent(self) -> ScanRange:
        """The smallest range of rows and columns that has all items."""
        stops = [item.stop for item in self.items]
        return ScanRange(
            start=min(item.start for item in self.items),
            stop=None if None in stops else max(stop for stop in stops if stop is not None),
            columns=_columns_of(self.items),
        )

    def has(self, row: bytes, column: bytes) -> bool:
        """Return whether a cell is in the container; notify cells are in none."""
        if column.startswith(_NOTIFY):
            return False
        return any(item.has_row(row) and item.has_column(column) for item in self.items)

    def has_column(self, column: bytes) -> bool:
        """Return whether the container has a column in any row; notify columns are in none."""
        if column.startswith(_NOTIFY):
            return False
        return any(item.has_column(column) for item in self.items)

    def has_family(self, family: bytes) -> bool:
        """Return whether the container has or may have columns of a family."""
        return any(item.family in (None, family) for item in self.items)

    def is_open(self, row: bytes, family: bytes) -> bool:
        """Return whether the container has cells of a row whose columns it does not name.

        Args:
            row: the row.
            family: ``family:``, or nothing for all families.
        """
        return any(
            item.qualifier is None
            and item.has_row(row)
            and (not family or item.family is None or item.family + b":" == family)
            for item in self.items
        )

    def touched(self, row: bytes) -> tuple[bytes, ...] | None:
        """Return what the container is of a row, as a client names columns to delete.

        Returns:
            ``family:qualifier``, or a family alone for all of it; no names for the whole row, and
            None where the row is not in the container.
        """
        items = [item for item in self.items if item.has_row(row)]
        if not items:
            return None
        return _columns_of(items)

    def ranges(self, column: bytes) -> tuple[tuple[bytes, bytes | None], ...]:
        """Return the ranges of rows in which a column belongs to the container."""
        return tuple((item.start, item.stop) for item in self.items if item.has_column(column))


def _columns_of(items: Sequence[Item]) -> tuple[bytes, ...]:
    """Return the columns of items, a family alone for all of it; none for whole rows."""
    if any(item.family is None for item in items):
        return ()
    whole = {item.family for item in items if item.qualifier is None}
    chosen = [item.family if item.family in whole else item.column for item in items]
    return tuple(dict.fromkeys(column for column in chosen if column is not None))


def view_of(
    watched: WatchedContainer, table: str | None = None, keys: KeyForm = KeyForm.TEXT
) -> ContainerView:
    """Return the container's part of a table, which need not be named where there is only one.

    Raises:
        ViewError: the container lies in several tables, or not in this one.
    """
    tables = watched.container.tables
    if table is None and len(tables) != 1:
        message = (
            f"container {watched.id!r} lies in tables {', '.join(tables)}; say which one: "
            f'table="{tables[0]}"'
        )
        raise ViewError(message)
    chosen = tables[0] if table is None else table
    items = tuple(item for item in watched.container.items if item.table == chosen)
    if not items:
        message = f"container {watched.id!r} has nothing in table {chosen!r}"
        raise ViewError(message)
    return ContainerView(watched.id, chosen, items, watched.codec, keys)
