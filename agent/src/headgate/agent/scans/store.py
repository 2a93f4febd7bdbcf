"""Who scans a table, how far, and for whom: one row for each table in the state table.

Row ``scan/TABLE`` holds the owner's lease and its fencing epoch, the progress of the scans, and
what each dataflow in observer mode wants of the table.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import msgspec
import structlog

from headgate.agent.errors import Fenced
from headgate.agent.ports import Extent
from headgate.agent.scans.table_scan import ScanProgress
from headgate.agent.state.cell_values import UnreadableCell, read_cell
from headgate.agent.state.rows import Rows
from headgate.agent.state.sealed.leases import EPOCH, Lease, LeaseRows, Owner, epoch_value
from headgate.agent.state.sealed.seals import Seals

log = structlog.get_logger("headgate.agent.store")

T = TypeVar("T")

_PROGRESS = b"state:progress"
_WANTED = b"spec:wanted."

_encode = msgspec.msgpack.Encoder().encode


class ScanStore:
    """Rows of scanned tables. Every call may raise ``Unreachable``."""

    def __init__(
        self, rows: Rows, seals: Seals, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Leases of others end by ``clock``, which returns seconds and never leaps."""
        self._rows = rows
        self._leases = LeaseRows(rows, seals, clock)

    def want(self, table: str, dataflow: str, extent: Extent) -> None:
        """Note what a dataflow wants of a table."""
        self._rows.put(_row(table), {_WANTED + dataflow.encode(): _encode(extent)})

    def forget(self, table: str, dataflow: str) -> None:
        """Note that a dataflow wants nothing of a table any more.

        After the last one the table is not watched, and nobody would publish what is written to it
        then: whoever comes later begins anew.
        """
        row = _row(table)
        self._rows.delete(row, (_WANTED + dataflow.encode(),))
        if self.wanted(table) is None:
            self._rows.delete(row, (_PROGRESS,))

    def wanted(self, table: str) -> Extent | None:
        """Return all that is wanted of a table in one extent; None where nobody wants anything."""
        columns = self._rows.get(_row(table), (b"spec",))
        found = [
            _readable(table, column, value, Extent)
            for column, value in sorted(columns.items())
            if column.startswith(_WANTED)
        ]
        wanted = [extent for extent in found if extent is not None]
        return _union(wanted) if wanted else None

    def acquire(
        self, table: str, owner: Owner, now: float, seconds: float
    ) -> tuple[int, ScanProgress | None]:
        """Take the scans of a table over; return the new epoch and where to go on.

        Raises:
            Held: another agent's lease runs.
        """
        lease = self._leases.take(
            _row(table), f"scan of {table}", Lease(0, owner, 0.0, seconds=seconds), now
        )
        return lease.epoch, self.progress(table)

    def progress(self, table: str) -> ScanProgress | None:
        """Return how far the scans of a table are; None where nobody has scanned it yet."""
        saved = self._rows.get(_row(table), (b"state",)).get(_PROGRESS)
        return None if saved is None else _readable(table, _PROGRESS, saved, ScanProgress)

    def renew(self, table: str, epoch: int, owner: Owner, now: float, seconds: float) -> None:
        """Extend the lease by ``seconds`` from now (Unix seconds) on.

        Raises:
            Fenced: another agent scans the table now.
        """
        self._renew(table, Lease(epoch, owner, now + seconds, seconds=seconds))

    def release(self, table: str, epoch: int) -> None:
        """Let others scan the table at once.

        Raises:
            Fenced: somebody does already.
        """
        self._renew(table, Lease(epoch, None, 0.0))

    def save(self, table: str, epoch: int, progress: ScanProgress) -> None:
        """Save how far the scans are.

        Raises:
            Fenced: another agent scans the table now.
        """
        saved = {_PROGRESS: _encode(progress)}
        if not self._rows.check_and_put(_row(table), EPOCH, epoch_value(epoch), saved):
            raise _fenced(table, epoch)

    def _renew(self, table: str, lease: Lease) -> None:
        if not self._leases.renew(_row(table), lease):
            raise _fenced(table, lease.epoch)


def _union(extents: list[Extent]) -> Extent:
    columns = dict.fromkeys(column for extent in extents for column in extent.columns)
    everything = any(not extent.columns for extent in extents)
    stops = [extent.stop for extent in extents if extent.stop is not None]
    return Extent(
        every=min(extent.every for extent in extents),
        columns=() if everything else tuple(columns),
        start=min(extent.start for extent in extents),
        stop=max(stops) if len(stops) == len(extents) else None,
        notify=all(extent.notify for extent in extents),
    )


def _row(table: str) -> bytes:
    return b"scan/" + table.encode()


def _fenced(table: str, epoch: int) -> Fenced:
    return Fenced(f"table {table} is scanned by another agent (epoch {epoch} has passed)")


def _readable(table: str, column: bytes, value: bytes, kind: type[T]) -> T | None:
    """Return what a cell holds; None, as where there is no cell, if it is nothing of the kind."""
    try:
        return read_cell(value, kind)
    except UnreadableCell as error:
        log.warning(
            "a cell is not counted", table=table, cell=repr(column)[2:-1], reason=str(error)
        )
        return None
