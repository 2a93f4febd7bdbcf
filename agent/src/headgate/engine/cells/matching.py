"""What a container has of one table, by its items."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.events import Item


class Matcher:
    """The items of one container in one table."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.items = tuple(items)

    @property
    def one_column(self) -> bool:
        """Whether all items are the same single column, so that rows and cells are the same."""
        first = self.items[0]
        return first.qualifier is not None and all(i.column == first.column for i in self.items)

    def has(self, row: bytes, column: bytes) -> bool:
        """Tell whether a cell lies in the container."""
        return any(item.has_row(row) and item.has_column(column) for item in self.items)

    def has_family(self, family: bytes) -> bool:
        """Tell whether the container has or may have columns of the family."""
        return any(item.family in (None, family) for item in self.items)
