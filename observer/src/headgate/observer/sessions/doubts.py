"""Tables whose writes HBase is only believed to have done."""

from __future__ import annotations

from typing import Final, final

from headgate.observer.recording.recorder import changes_cells
from headgate.observer.sessions.exchange import Exchange

_MOST: Final = 64  # tables that one connection remembers by their names
_EVERY_TABLE: Final = ""  # the name of none


@final
class DoubtedTables:
    """Those of one connection's requests that are taken for done, though nobody knows it."""

    __slots__ = ("tables",)

    def __init__(self) -> None:
        """Begin with none."""
        self.tables: set[str] = set()

    def add(self, exchange: Exchange) -> None:
        """Remember a request that is taken for done, unless it changes nothing."""
        if changes_cells(exchange.method):
            tables = self.tables
            tables.update(exchange.tables)
            if len(tables) > _MOST:
                self.tables = {_EVERY_TABLE}

    def have(self, table: str) -> bool:
        """Return whether a write of the table may be among them."""
        return table in self.tables or _EVERY_TABLE in self.tables

    def clear(self) -> None:
        """Have none any more: all are over."""
        self.tables.clear()
