"""Stores in a script whose time is what each call says it is."""

from __future__ import annotations

from headgate.agent.scans.store import ScanStore
from headgate.agent.scans.table_scan import ScanProgress
from headgate.agent.state.rows import Rows
from headgate.agent.state.sealed import Owner, Seals
from headgate.agent.state.sealed.revisions import Revisions
from headgate.agent.state.store import Ownership, StateStore


class TimedStore(StateStore):
    """A state store; the clock by which leases end stands at the newest ``now`` of a call."""

    def __init__(self, rows: Rows, seals: Seals, revisions: Revisions) -> None:
        self.now = 0.0
        super().__init__(rows, seals, revisions, lambda: self.now)

    def acquire(self, name: str, owner: Owner, now: float, seconds: float) -> Ownership:
        """See ``StateStore``."""
        self.now = now
        return super().acquire(name, owner, now, seconds)

    def beat(self, owner: Owner, now: float) -> None:
        """See ``StateStore``."""
        self.now = now
        super().beat(owner, now)

    def renew(self, name: str, epoch: int, owner: Owner, now: float, seconds: float) -> None:
        """See ``StateStore``."""
        self.now = now
        super().renew(name, epoch, owner, now, seconds)

    def discard(self, name: str, owner: Owner, now: float) -> None:
        """See ``StateStore``."""
        self.now = now
        super().discard(name, owner, now)


class TimedScanStore(ScanStore):
    """A store of scans; the clock by which leases end stands at the newest ``now`` of a call."""

    def __init__(self, rows: Rows, seals: Seals) -> None:
        self.now = 0.0
        super().__init__(rows, seals, lambda: self.now)

    def acquire(
        self, table: str, owner: Owner, now: float, seconds: float
    ) -> tuple[int, ScanProgress | None]:
        """See ``ScanStore``."""
        self.now = now
        return super().acquire(table, owner, now, seconds)
