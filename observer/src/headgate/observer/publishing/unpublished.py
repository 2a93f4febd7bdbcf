"""Since when writes of tables went without events: what a table's first message must announce."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from msgspec import Struct


class Unpublished(Struct, frozen=True):
    """Time since which a table's writes went without events, in Unix seconds, and the reason."""

    since: float
    reason: str


@final
class UnpublishedWrites:
    """Tables of which writes went without events, until their next message announces that."""

    def __init__(self) -> None:
        """Know of none."""
        self._by_table: dict[str, Unpublished] = {}
        self._others: Unpublished | None = None
        """The same of all tables whose names are not known."""
        self.noted: Callable[[], None] = lambda: None
        """Called when something was noted."""

    def note(self, table: str, since: float, reason: str, most: int) -> None:
        """Note writes of a table; beyond ``most`` tables they are noted for all others."""
        known = self._by_table.get(table)
        if known is not None or len(self._by_table) < most:
            if known is None or since < known.since:
                self._by_table[table] = Unpublished(since, reason)
                self.noted()
        else:
            self.note_others(since, reason)

    def note_others(self, since: float, reason: str) -> None:
        """Note writes of tables whose names are not known."""
        if self._others is None or since < self._others.since:
            self._others = Unpublished(since, reason)
            self.noted()

    def all(self) -> dict[str, Unpublished]:
        """Return what is noted by table; under the empty name what is noted for all others."""
        others = {} if self._others is None else {"": self._others}
        return {**self._by_table, **others}

    def take(self, table: str, *, known: bool = False) -> Unpublished | None:
        """Return what is to be announced of a table, once.

        With ``known`` only what was noted by its name.
        """
        return self._by_table.pop(table, None if known else self._others)
