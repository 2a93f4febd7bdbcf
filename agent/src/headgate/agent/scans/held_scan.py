"""A table's scan while this agent holds its lease: what is due, given the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import structlog

from headgate.agent.ports import Extent
from headgate.agent.state.sealed import Owner

log = structlog.get_logger("headgate.agent.table-scan")


class Scan(Protocol):
    """What of a ``TableScan`` is driven here."""

    @property
    def table(self) -> str:
        """The table's name."""

    @property
    def outgrown(self) -> bool:
        """Whether the topic has more partitions than when it began."""

    def due(self) -> float:
        """Return the Unix time at which ``tick`` is next needed."""

    def tick(self, now: float) -> None:
        """Do what is due."""

    def use(self, extent: Extent, now: float) -> None:
        """Scan what is wanted from now on."""


class ScanLeases(Protocol):
    """What of a ``ScanStore`` a lease needs."""

    def renew(self, table: str, epoch: int, owner: Owner, now: float, seconds: float) -> None:
        """Hold the lease for longer; raises ``Fenced`` where another agent has it."""

    def wanted(self, table: str) -> Extent | None:
        """Return what all dataflows want of the table; None where none wants anything."""


S = TypeVar("S", bound="Scan")


class HeldScan(Generic[S]):
    """One scan and its lease.

    Args:
        scan: the scan, started.
        epoch: of the lease.
        leases: where that is renewed.
        owner: this agent.
        lease: its length in seconds.
        steady: the time by a clock that never leaps, in seconds.
    """

    def __init__(
        self, scan: S, epoch: int, leases: ScanLeases, owner: Owner, lease: float, steady: float
    ) -> None:
        self._scan = scan
        self._epoch = epoch
        self._leases = leases
        self._owner = owner
        self._lease = lease
        self._renewal = steady + lease / 3

    def patience(self, now: float, steady: float) -> float:
        """Return the seconds until something is due, 0 at least."""
        return max(0.0, min(self._scan.due() - now, self._renewal - steady))

    def turn(self, work: Callable[[S, float], None] | None, now: float, steady: float) -> bool:
        """Do some work and what is due; return whether the scan goes on here.

        Args:
            work: what has come for the scan, if anything has.
            now: Unix time.
            steady: the time by the clock that never leaps.

        Raises:
            Fenced: another agent has the lease.
            Unreachable: the state table cannot be reached.
        """
        scan = self._scan
        if work is not None:
            work(scan, now)
        if scan.outgrown:
            log.info("the topic has more partitions: its scan begins anew", table=scan.table)
            return False
        scan.tick(now)
        if steady < self._renewal:
            return True
        self._renewal = steady + self._lease / 3
        self._leases.renew(scan.table, self._epoch, self._owner, now, self._lease)
        extent = self._leases.wanted(scan.table)
        if extent is None:
            return False
        scan.use(extent, now)
        return True
