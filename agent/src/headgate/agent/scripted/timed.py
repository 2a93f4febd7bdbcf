"""Stores in a script whose time is what each call says it is."""

from __future__ import annotations

from headgate.agent.rows import Rows
from headgate.agent.scan_store import ScanStore
from headgate.agent.sealed import Owner, Seals
from headgate.agent.sealed.revisions import Revisions
from headgate.agent.store import Ownership, StateStore
from headgate.agent.table_scan import ScanProgress


class TimedStore(StateStore):
    """A state store; the clock by which leases end stands at the newest ``now`` of a call."""

    def __init__(self, rows: Rows, seals: Seals, revisions: Revisions) -> None:
        self.now = 0.0
        super().__init__(rows, seals, revisions, lambda: self.now)

    def acquire(self, name: str, owner: Owner, now: float, seconds: float) -> Ownership:
        """See ``StateStore``."""
        self.now = now
        return super().acquire(name, owner, now, seconds)

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
