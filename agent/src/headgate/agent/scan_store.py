"""Who scans a table, how far, and for whom: one row for each table in the state table.

Row ``scan/TABLE`` holds the owner's lease and its fencing epoch, the progress of the scans, and
what each dataflow in observer mode wants of the table.
"""

from __future__ import annotations

import struct

import msgspec

from headgate.agent.errors import Fenced, Held
from headgate.agent.rows import Rows
from headgate.agent.store import Lease, Owner
from headgate.agent.table_scan import Extent, ScanProgress

_LEASE = b"state:lease"
_EPOCH = b"state:epoch"
_PROGRESS = b"state:progress"
_WANTED = b"spec:wanted."

_encode = msgspec.msgpack.Encoder().encode


class ScanStore:
    """Rows of scanned tables. Every call may raise ``Unreachable``."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def want(self, table: str, dataflow: str, extent: Extent) -> None:
        """Note what a dataflow wants of a table."""
        self._rows.put(_row(table), {_WANTED + dataflow.encode(): _encode(extent)})

    def forget(self, table: str, dataflow: str) -> None:
        """Note that a dataflow wants nothing of a table any more.

        After the last one the table is not watched, and what is written to it then would be told
        by nobody: whoever comes later begins anew.
        """
        row = _row(table)
        self._rows.delete(row, (_WANTED + dataflow.encode(),))
        if self.wanted(table) is None:
            self._rows.delete(row, (_PROGRESS,))

    def wanted(self, table: str) -> Extent | None:
        """Return all that is wanted of a table in one extent; None where nobody wants anything."""
        columns = self._rows.get(_row(table), (b"spec",))
        wanted = [
            msgspec.msgpack.decode(value, type=Extent)
            for column, value in sorted(columns.items())
            if column.startswith(_WANTED)
        ]
        return _union(wanted) if wanted else None

    def acquire(
        self, table: str, owner: Owner, now: float, seconds: float
    ) -> tuple[int, ScanProgress | None]:
        """Take the scans of a table over; return the new epoch and where to go on.

        Raises:
            Held: another agent's lease runs.
        """
        row = _row(table)
        new = None
        while True:
            columns = self._rows.get(row, (b"state",))
            lease = _lease(columns)
            if lease == new:
                break  # taken at the first attempt, whose reply was lost
            if lease.owner is not None and lease.owner != owner and lease.until > now:
                raise Held(f"scan of {table}", lease.owner.name, lease.owner.address, lease.until)
            new = Lease(lease.epoch + 1, owner, now + seconds)
            changed = {_LEASE: _encode(new), _EPOCH: _epoch(new.epoch)}
            if self._rows.check_and_put(row, _LEASE, columns.get(_LEASE), changed):
                lease = new
                break
        return lease.epoch, self.progress(table)

    def progress(self, table: str) -> ScanProgress | None:
        """Return how far the scans of a table are; None where nobody has scanned it yet."""
        saved = self._rows.get(_row(table), (b"state",)).get(_PROGRESS)
        return msgspec.msgpack.decode(saved, type=ScanProgress) if saved is not None else None

    def renew(self, table: str, epoch: int, owner: Owner, until: float) -> None:
        """Extend the lease.

        Raises:
            Fenced: another agent scans the table now.
        """
        self._guarded(table, epoch, {_LEASE: _encode(Lease(epoch, owner, until))})

    def release(self, table: str, epoch: int) -> None:
        """Let others scan the table at once.

        Raises:
            Fenced: somebody does already.
        """
        self._guarded(table, epoch, {_LEASE: _encode(Lease(epoch, None, 0.0))})

    def save(self, table: str, epoch: int, progress: ScanProgress) -> None:
        """Save how far the scans are.

        Raises:
            Fenced: another agent scans the table now.
        """
        self._guarded(table, epoch, {_PROGRESS: _encode(progress)})

    def _guarded(self, table: str, epoch: int, columns: dict[bytes, bytes]) -> None:
        if not self._rows.check_and_put(_row(table), _EPOCH, _epoch(epoch), columns):
            raise Fenced(f"table {table} is scanned by another agent (epoch {epoch} has passed)")


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


def _epoch(epoch: int) -> bytes:
    return struct.pack(">q", epoch)


def _lease(columns: dict[bytes, bytes]) -> Lease:
    if _LEASE not in columns:
        return Lease(0, None, 0.0)
    return msgspec.msgpack.decode(columns[_LEASE], type=Lease)
