"""HBase as an agent of a script sees it: the ledger, scans, families."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from headgate.agent.ports import Extent, ScannedCells
from headgate.events import Container, Notify
from headgate.spark import RunKey, RunState

if TYPE_CHECKING:
    from simulation.world import World


class ScriptedTables:
    """A world's tables, read at once."""

    def __init__(self, world: World) -> None:
        self._world = world

    def trouble(self, table: str) -> None:
        """See ``Scanner``; every table can be read."""
        del table

    def state(self, key: RunKey) -> RunState:
        """See ``Ledger``."""
        return self._world.ledger.state(key)

    def forget(self, key: RunKey) -> None:
        """See ``Ledger``."""
        self._world.point()
        self._world.forgotten.append(key)
        self._world.ledger_rows.delete(key.row)

    def want(self, extents: Mapping[str, Extent]) -> None:
        """See ``Observation``."""
        self._world.wanted = dict(extents)

    def unpublished(self, table: str, now: float) -> None:
        """See ``Observation``; nobody writes round the observer."""
        del table, now

    def need(self, ages: Mapping[str, float]) -> None:
        """See ``RetentionNeeds``."""
        self._world.needs = dict(ages)

    def kept(self, topic: str) -> None:
        """See ``RetentionNeeds``; nobody alters topics."""
        del topic

    def withdraw(self, tables: Sequence[str]) -> None:
        """See ``Observation``."""
        for table in tables:
            self._world.wanted.pop(table, None)

    def provide(self, tables: Iterable[str]) -> frozenset[str]:
        """See ``Families``."""
        self._world.families |= set(tables)
        return frozenset(tables)

    def drop(self, tables: Collection[str]) -> None:
        """See ``Families``."""
        self._world.point()
        self._world.families -= set(tables)

    def scan(
        self,
        container: Container,
        table: str,
        *,
        values: bool,
        mark: Notify | None,
        recent: int | None,
        start: bytes,
        done: Callable[[ScannedCells], None],
    ) -> None:
        """See ``Scanner``; so many rows at once as the world's ``scanned_rows``."""
        del mark, recent
        found = [
            (row, column, value)
            for (row, column), value in sorted(self._world.tables.get(table, {}).items())
            if any(
                item.table == table and item.has_row(row) and item.has_column(column)
                for item in container.items
            )
            and row >= start
        ]
        behind = sorted({row for row, _, _ in found})[self._world.scanned_rows :][:1]
        following = behind[0] if behind else None
        found = [cell for cell in found if following is None or cell[0] < following]
        done(
            ScannedCells(
                [row for row, _, _ in found],
                [column for _, column, _ in found],
                [value for _, _, value in found] if values else (),
                following=following,
                ttls=self._world.ttls,
            )
        )

    def read(
        self,
        table: str,
        rows: Sequence[bytes],
        columns: Sequence[bytes],
        done: Callable[[ScannedCells], None],
    ) -> None:
        """See ``Scanner``."""
        known = self._world.tables.get(table, {})
        cells = zip(rows, columns, strict=True)
        done(ScannedCells(rows, columns, [known.get(cell) for cell in cells]))
