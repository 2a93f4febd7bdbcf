"""Leases: who may run a dataflow or scan a table, and until when."""

from __future__ import annotations

import struct

import msgspec
from msgspec import Struct

from headgate.agent.cells import UnreadableCell, read_cell
from headgate.agent.errors import Held
from headgate.agent.rows import Rows
from headgate.agent.sealed.seals import Seals

LEASE = b"state:lease"
EPOCH = b"state:epoch"
_SEAL = b"state:lease-seal"
LEASE_CELLS = (LEASE, EPOCH, _SEAL)

CREDIBLE = 1 << 30
"""Epochs and revisions that nobody signed count below this only: they are parts of numbers of 64
bits that only ever grow, and must not be used up by one forged row."""

_encode = msgspec.msgpack.Encoder().encode


class Owner(Struct, frozen=True):
    """An agent process: its name, a value of its own, and where its API listens."""

    name: str
    incarnation: str
    address: str


class Lease(Struct, frozen=True):
    """Who may run the dataflow, until when (Unix seconds). Nobody, where the owner is None."""

    epoch: int
    owner: Owner | None
    until: float
    revision: int = 0
    """Of the dataflow, below which no definition is believed any more."""


class LeaseRows:
    """The leases in rows of the state table. Every call may raise ``Unreachable``."""

    def __init__(self, rows: Rows, seals: Seals) -> None:
        self._rows = rows
        self._seals = seals
        self._doubted: dict[bytes, tuple[bytes, float]] = {}
        """Leases that nobody signed, by row, and when each was first met."""

    def read(self, row: bytes, columns: dict[bytes, bytes]) -> tuple[Lease, str]:
        """Return the lease of a row, given its ``LEASE_CELLS``, and why it is not believed.

        What is not believed is nobody's lease.
        """
        epoch = _epoch_of(columns.get(EPOCH))
        value = columns.get(LEASE)
        if value is None:
            return Lease(epoch, None, 0.0), ""
        try:
            lease = read_cell(value, Lease)
        except UnreadableCell as error:
            return Lease(epoch, None, 0.0), f"its lease cannot be read: {error}"
        if self._seals.holds(row, LEASE, value, columns.get(_SEAL, b"")):
            higher = max(epoch, lease.epoch)
            return msgspec.structs.replace(lease, epoch=higher), ""
        # Of an earlier version, perhaps: then observers know the fences of its epochs.
        if lease.epoch in range(CREDIBLE):
            epoch = max(epoch, lease.epoch)
        return Lease(epoch, None, 0.0), "no agent has signed its lease"

    def take(
        self, row: bytes, what: str, owner: Owner, now: float, seconds: float, revision: int = 0
    ) -> Lease:
        """Give an agent the next epoch of a row, and return its lease.

        Args:
            row: the row.
            what: of which it is, in words.
            owner: the agent; its own lease does not keep it away: it takes another epoch too, in
                which tokens and barriers count anew.
            now: Unix time; another agent's lease must have ended by it.
            seconds: length of the new lease, and how long one that no agent signed is respected.
            revision: of the dataflow, the highest that the agent knows.

        Raises:
            Held: another agent's lease runs.
        """
        new = None
        while True:
            columns = self._rows.get(row, LEASE_CELLS)
            lease, doubt = self.read(row, columns)
            if lease == new:
                return lease  # taken at the first attempt, whose reply was lost
            if lease.owner is not None and lease.owner != owner and lease.until > now:
                raise Held(what, lease.owner.name, lease.owner.address, lease.until)
            until = self._respected(row, columns[LEASE], now, seconds) if doubt else now
            if until > now:
                raise Held(what, f"unknown ({doubt})", "no known address", until)
            revision = max(revision, lease.revision)
            new = Lease(lease.epoch + 1, owner, now + seconds, revision)
            if self._rows.check_and_put(row, LEASE, columns.get(LEASE), self._opening(row, new)):
                self._doubted.pop(row, None)
                return new

    def _respected(self, row: bytes, value: bytes, now: float, seconds: float) -> float:
        """Return until when the owner may renew a lease that was written over, before it is lost.

        An agent of an earlier version that is at work renews its own without end.
        """
        if row not in self._doubted or self._doubted[row][0] != value:
            self._doubted[row] = (value, now)
        return self._doubted[row][1] + seconds

    def renew(self, row: bytes, lease: Lease) -> bool:
        """Write a lease of the row's epoch; False where the row's epoch is another."""
        return self._rows.check_and_put(
            row, EPOCH, epoch_value(lease.epoch), self._cells(row, lease)
        )

    def close(self, row: bytes, epoch: int, revision: int) -> bool:
        """End an epoch of a row for good; False where somebody else has."""
        gone = Lease(epoch + 1, None, 0.0, revision)
        if self._rows.check_and_put(row, EPOCH, epoch_value(epoch), self._opening(row, gone)):
            return True
        # Else it may have been done at the first attempt.
        return self.read(row, self._rows.get(row, LEASE_CELLS)) == (gone, "")

    def _cells(self, row: bytes, lease: Lease) -> dict[bytes, bytes]:
        """Return what to put for a lease of the epoch that the row has."""
        value = _encode(lease)
        return {LEASE: value, _SEAL: self._seals.seal(row, LEASE, value)}

    def _opening(self, row: bytes, lease: Lease) -> dict[bytes, bytes]:
        """Return what to put for a lease of an epoch that begins with it."""
        return self._cells(row, lease) | {EPOCH: epoch_value(lease.epoch)}


def epoch_value(epoch: int) -> bytes:
    """Return an epoch as cells hold it."""
    return struct.pack(">q", epoch)


def _epoch_of(value: bytes | None) -> int:
    if value is None or len(value) != len(epoch_value(0)):
        return 0
    epoch = int.from_bytes(value, "big", signed=True)
    return epoch if epoch in range(CREDIBLE) else 0
