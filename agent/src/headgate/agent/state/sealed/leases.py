"""Leases: who may run a dataflow or scan a table, and for how long.

A lease has ended when nothing has changed it for its length, by a clock of the agent that looks
which nobody sets, counted from when that agent first saw it as it is. So the clocks of hosts do not
matter, nor does one that leaps.

An agent that has many leases does not change each: it has one row, ``beat/INCARNATION``, which
changes as long as it lives, and its leases last as long as that does.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable

import msgspec
from msgspec import Struct

from headgate.agent.errors import Held
from headgate.agent.state.cell_values import UnreadableCell, read_cell
from headgate.agent.state.rows import Rows
from headgate.agent.state.sealed.seals import Seals

LEASE = b"state:lease"
EPOCH = b"state:epoch"
_SEAL = b"state:lease-seal"
LEASE_CELLS = (LEASE, EPOCH, _SEAL)
_BEATS, _BEATS_END = b"beat/", b"beat0"
_FORGOTTEN = 3600.0
"""Seconds without a beat after which its row is deleted; an agent that lives makes it anew."""

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
    """Who may run the dataflow, until when (Unix seconds). Nobody, where the owner is None.

    ``until`` is by the owner's clock, for people; each renewal has another.
    """

    epoch: int
    owner: Owner | None
    until: float
    revision: int = 0
    """Of the dataflow, below which no definition is believed any more."""
    seconds: float = 0.0
    """Its length from each renewal on."""
    beats: bool = False
    """True where each beat of its owner renews it, too."""


class LeaseRows:
    """The leases in rows of the state table. Every call may raise ``Unreachable``.

    Args:
        rows: the state table.
        seals: say which leases agents have signed.
        clock: returns seconds, and never leaps.
    """

    def __init__(
        self, rows: Rows, seals: Seals, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rows = rows
        self._seals = seals
        self._clock = clock
        self._met: dict[bytes, tuple[bytes, float]] = {}
        """The lease of each row as it was last seen, and when it was first seen so."""
        self._signed: dict[bytes, tuple[bytes, bytes]] = {}
        """The lease and its seal of each row that was signed when it was last looked at."""
        self._beaten = 0

    def read(self, row: bytes, columns: dict[bytes, bytes]) -> tuple[Lease, str]:
        """Return the lease of a row, given its ``LEASE_CELLS``, and why it is not believed.

        What is not believed is nobody's lease.
        """
        epoch = _epoch_of(columns.get(EPOCH))
        value = columns.get(LEASE)
        if value is None:
            self._met.pop(row, None)
            self._signed.pop(row, None)
            return Lease(epoch, None, 0.0), ""
        self._meet(row, value)
        try:
            lease = read_cell(value, Lease)
        except UnreadableCell as error:
            return Lease(epoch, None, 0.0), f"its lease cannot be read: {error}"
        if self._is_signed(row, value, columns):
            higher = max(epoch, lease.epoch)
            return msgspec.structs.replace(lease, epoch=higher), ""
        # Of an earlier version, perhaps: then observers know the fences of its epochs.
        if lease.epoch in range(CREDIBLE):
            epoch = max(epoch, lease.epoch)
        return Lease(epoch, None, 0.0), "no agent has signed its lease"

    def left(self, row: bytes, lease: Lease) -> float:
        """Return in how many seconds a lease ends, if nothing changes that was read."""
        rows = [row]
        if lease.beats and lease.owner is not None:
            rows.append(_beat_row(lease.owner))
        changes = [self._met[one][1] for one in rows if one in self._met]
        return max(0.0, max(changes, default=-math.inf) + lease.seconds - self._clock())

    def beat(self, owner: Owner, now: float) -> None:
        """Renew all leases of an owner that its beats renew; ``now`` is Unix time, for people."""
        self._beaten += 1
        row = _beat_row(owner)
        self._rows.put(row, self._cells(row, Lease(self._beaten, owner, now)))

    def end_beat(self, owner: Owner) -> None:
        """Renew nothing any more."""
        self._rows.delete(_beat_row(owner))

    def hear_beats(self) -> None:
        """Take note of which owners live, and delete what is left of those that long do not."""
        for row, columns in self._rows.scan(_BEATS, _BEATS_END, LEASE_CELLS):
            self._hear(row, columns)
            if self._clock() > self._met.get(row, (b"", math.inf))[1] + _FORGOTTEN:
                self._rows.delete(row)
                for known in (self._met, self._signed):
                    known.pop(row, None)

    def _hear(self, row: bytes, columns: dict[bytes, bytes]) -> None:
        value = columns.get(LEASE, b"")
        if self._is_signed(row, value, columns):
            self._meet(row, value)

    def _is_signed(self, row: bytes, value: bytes, columns: dict[bytes, bytes]) -> bool:
        signed = (value, columns.get(_SEAL, b""))
        if self._signed.get(row) == signed:
            return True  # as at the last look
        if not self._seals.holds(row, LEASE, *signed):
            return False
        self._signed[row] = signed
        return True

    def _meet(self, row: bytes, value: bytes) -> None:
        met = self._met.get(row)
        if met is None or met[0] != value:
            self._met[row] = (value, self._clock())

    def take(self, row: bytes, what: str, wanted: Lease, now: float) -> Lease:
        """Give an agent the next epoch of a row, and return its lease.

        Args:
            row: the row.
            what: of which it is, in words.
            wanted: the lease but for its epoch and its end. Its owner's own former lease does not
                keep it away: it takes another epoch too, in which tokens and barriers count anew.
                For its length a lease that no agent signed is respected. Its revision is the
                highest of the dataflow that the agent knows.
            now: Unix time, for the lease's end as people read it.

        Raises:
            Held: another agent's lease runs.
        """
        new = None
        while True:
            columns = self._rows.get(row, LEASE_CELLS)
            lease, doubt = self.read(row, columns)
            if lease == new:
                return lease  # taken at the first attempt, whose reply was lost
            if doubt:
                left = self.left(row, msgspec.structs.replace(wanted, beats=False))
                if left:
                    raise Held(what, f"unknown ({doubt})", "no known address", now + left)
            elif lease.owner is not None and lease.owner != wanted.owner:
                left = self._left_now(row, lease)
                if left:
                    raise Held(what, lease.owner.name, lease.owner.address, now + left)
            new = msgspec.structs.replace(
                wanted,
                epoch=lease.epoch + 1,
                until=now + wanted.seconds,
                revision=max(wanted.revision, lease.revision),
            )
            cells = self._opening(row, new)
            if self._rows.check_and_put(row, LEASE, columns.get(LEASE), cells):
                self._meet(row, cells[LEASE])
                return new

    def _left_now(self, row: bytes, lease: Lease) -> float:
        """Return in how many seconds a lease ends: before one has ended, look for a last beat."""
        left = self.left(row, lease)
        if not left and lease.beats and lease.owner is not None:
            beat = _beat_row(lease.owner)
            self._hear(beat, self._rows.get(beat, LEASE_CELLS))
            left = self.left(row, lease)
        return left

    def renew(self, row: bytes, lease: Lease) -> bool:
        """Write a lease of the row's epoch; False where the row's epoch is another."""
        cells = self._cells(row, lease)
        if not self._rows.check_and_put(row, EPOCH, epoch_value(lease.epoch), cells):
            return False
        self._meet(row, cells[LEASE])
        return True

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


def _beat_row(owner: Owner) -> bytes:
    return _BEATS + owner.incarnation.encode()


def epoch_value(epoch: int) -> bytes:
    """Return an epoch as cells hold it."""
    return struct.pack(">q", epoch)


def _epoch_of(value: bytes | None) -> int:
    if value is None or len(value) != len(epoch_value(0)):
        return 0
    epoch = int.from_bytes(value, "big", signed=True)
    return epoch if epoch in range(CREDIBLE) else 0
