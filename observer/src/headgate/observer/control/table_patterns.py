"""Tables that the configuration has watched by pattern, whatever dataflows ask for."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.events import canonical_table, fits_table
from headgate.observer.config import AccessSettings, ObserverConfig

_REMEMBERED = 4096  # names: they are clients', who may invent any number
_SYSTEM = "hbase:"  # HBase's own tables


class TablePatterns:
    """Patterns of tables that are watched by name, from the first write of each on.

    Patterns are those of a shell, as in access rules (see ``fits_table``): ``*`` and ``?`` stand
    for any character, the ``:`` behind a namespace too. Tables of HBase's own and ``state_tables``
    are never meant.
    """

    def __init__(self, patterns: Iterable[str] = (), state_tables: Iterable[str] = ()) -> None:
        """Watch tables that fit one of ``patterns``."""
        self._patterns = tuple(patterns)
        self._never = frozenset(map(canonical_table, state_tables))
        self._known: dict[str, bool] = {}

    @classmethod
    def of(cls, config: ObserverConfig) -> TablePatterns:
        """Return the tables that a configuration has watched by pattern."""
        access = config.access or AccessSettings()
        return cls(config.watch.tables, access.agent_tables)

    def match(self, table: str) -> bool:
        """Return whether a table is watched by a pattern."""
        if not self._patterns:
            return False
        known = self._known.get(table)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[table] = self._fits(table)
        return known

    def _fits(self, table: str) -> bool:
        if table in self._never or table.startswith(_SYSTEM):
            return False
        return any(fits_table(pattern, table) for pattern in self._patterns)
