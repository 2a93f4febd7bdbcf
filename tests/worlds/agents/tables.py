"""HBase as the agents of a hostile world see it: the state table, and tables of data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from simulation import MemoryRows
from simulation.tables import ScriptedTables

from headgate.agent.ports import ScannedCells
from headgate.events import Container
from headgate.spark import RunKey, RunState

if TYPE_CHECKING:
    from agents.world import HostileWorld


class HostileRows(MemoryRows):
    """The state table, which may be away."""

    def __init__(self, world: HostileWorld) -> None:
        super().__init__(world.point)
        self._world = world

    def get(self, row: bytes, families: Iterable[bytes] = ()) -> dict[bytes, bytes]:
        """See ``Rows``."""
        self._world.reach_table()
        return super().get(row, families)

    def put(self, row: bytes, columns: Mapping[bytes, bytes]) -> None:
        """See ``Rows``."""
        self._world.reach_table()
        super().put(row, columns)

    def check_and_put(
        self, row: bytes, column: bytes, expected: bytes | None, columns: Mapping[bytes, bytes]
    ) -> bool:
        """See ``Rows``."""
        self._world.reach_table()
        return super().check_and_put(row, column, expected, columns)

    def delete(self, row: bytes, columns: Iterable[bytes] = ()) -> None:
        """See ``Rows``."""
        self._world.reach_table()
        super().delete(row, columns)

    def scan(
        self, start: bytes, stop: bytes, families: Iterable[bytes] = ()
    ) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """See ``Rows``."""
        self._world.reach_table()
        return super().scan(start, stop, families)


class HostileTables(ScriptedTables):
    """HBase as an agent sees it: scans and reads take their time."""

    def __init__(self, world: HostileWorld) -> None:
        super().__init__(world)
        self._hostile = world

    def state(self, key: RunKey) -> RunState:
        """See ``Ledger``."""
        self._hostile.reach_table()
        return super().state(key)

    def scan(self, container: Container, table: str, **how: Any) -> None:
        """See ``Scanner``."""
        self._later(partial(super().scan, container, table), how.pop("done"), **how)

    def read(
        self,
        table: str,
        rows: Sequence[bytes],
        columns: Sequence[bytes],
        done: Callable[[ScannedCells], None],
    ) -> None:
        """See ``Scanner``."""
        self._later(partial(super().read, table, rows, columns), done)

    def _later(
        self, ask: Callable[..., None], done: Callable[[ScannedCells], None], **how: Any
    ) -> None:
        """Read at some moment, and hand over what was found at another."""

        def begin() -> None:
            ask(**how, done=lambda cells: self._hostile.readings.append(partial(done, cells)))

        self._hostile.readings.append(begin)
