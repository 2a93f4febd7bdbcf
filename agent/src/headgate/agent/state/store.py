"""State of dataflows: one row each, guarded by a fencing epoch.

Row ``flow/NAME`` has the families ``spec`` (what was submitted), ``state`` (lease, epoch, the
engine's snapshot with Kafka's offsets) and ``history`` (runs). What was submitted and the lease are
believed only where an agent has signed them (``sealed``); the rest decides when steps run, never
which. Everything that must agree is put in one mutation, and each mutation checks the epoch:
whoever takes a dataflow over raises the epoch, and from then on nothing of the former owner is
saved. Of a large state the row has a head, and names the segments that belong to it (``segments``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from headgate.agent.errors import DamagedState, Fenced, Refused, UnknownDataflow
from headgate.agent.state.log_segments import SegmentRows
from headgate.agent.state.rows import Rows
from headgate.agent.state.run_records import RunRecord, record_cells, record_column, records_in
from headgate.agent.state.saved_state import STATE_HEAD, SavedState, state_cells, state_in
from headgate.agent.state.sealed.definitions import (
    DEFINITION,
    PREFIX,
    PREFIX_END,
    SEAL,
    Definition,
    DefinitionCells,
    RowSetAside,
    SetAside,
    row_of,
    shown_name,
)
from headgate.agent.state.sealed.leases import (
    EPOCH,
    LEASE_CELLS,
    Lease,
    LeaseRows,
    Owner,
    epoch_value,
)
from headgate.agent.state.sealed.revisions import Revisions
from headgate.agent.state.sealed.seals import Seals
from headgate.engine import Kept

_HEAD = (b"spec", *LEASE_CELLS)
_DIGITS = 20  # of a revision at most
_DAMAGED = b"state:damaged"  # the revision that found its state not whole; empty for none


class Ownership(Struct, frozen=True):
    """A dataflow taken over: what to continue with. ``state`` is None for one that never ran."""

    definition: Definition
    epoch: int
    state: SavedState | None
    history: tuple[RunRecord, ...]


class Listing(Struct, frozen=True):
    """A dataflow as its row shows it."""

    definition: Definition
    lease: Lease
    doubt: str = ""
    """Why whatever lease its row has is not believed."""
    left: float = 0.0
    """Seconds until the lease ends if nobody renews it."""


class Listings(Struct, frozen=True):
    """All dataflows, and the rows that are none or are not to be run, by name."""

    flows: tuple[Listing, ...]
    set_aside: tuple[SetAside, ...]


class StateStore:
    """Dataflows' rows. Every call may raise ``Unreachable`` when the table cannot be reached."""

    def __init__(
        self,
        rows: Rows,
        seals: Seals,
        revisions: Revisions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Believe what is sealed and not outdated.

        Leases of others end by ``clock``, which returns seconds and never leaps.
        """
        self._rows = rows
        self._segments = SegmentRows(rows)
        self._leases = LeaseRows(rows, seals, clock)
        self._definitions = DefinitionCells(seals, revisions)
        self._revisions = revisions

    def listings(self) -> Listings:
        """Return all dataflows, and what is not run."""
        self._leases.hear_beats()
        flows = []
        set_aside = []
        for row, columns in self._rows.scan(PREFIX, PREFIX_END, _HEAD):
            try:
                flows.append(self._listing(row, columns))
            except UnknownDataflow:
                pass  # it was removed, and its epoch and revision were kept
            except RowSetAside as error:
                set_aside.append(error.row)
        return Listings(tuple(flows), tuple(set_aside))

    def listing(self, name: str) -> Listing:
        """Return one dataflow.

        Raises:
            UnknownDataflow: there is none of that name.
            RowSetAside: it is not to be run as it stands.
        """
        row = row_of(name)
        return self._listing(row, self._rows.get(row, _HEAD))

    def _listing(self, row: bytes, columns: dict[bytes, bytes]) -> Listing:
        lease, doubt = self._leases.read(row, columns)
        self._revisions.note(shown_name(row), lease.revision)
        left = self._leases.left(row, lease) if lease.owner is not None else 0.0
        return Listing(self._definitions.read(row, columns, lease), lease, doubt, left)

    def define(self, definition: Definition) -> Definition:
        """Save what was submitted, as the next revision, and return it."""
        row = row_of(definition.name)
        while True:
            columns = self._rows.get(row, _HEAD)
            lease, _ = self._leases.read(row, columns)
            revision = self._definitions.next_revision(definition.name, columns, lease)
            new = msgspec.structs.replace(definition, revision=revision)
            cells = self._definitions.cells(row, new)
            old = columns.get(DEFINITION)
            if (
                self._rows.check_and_put(row, DEFINITION, old, cells)
                # Or it was done at the first attempt, whose reply was lost.
                or self._rows.get(row, (b"spec",)).get(DEFINITION) == cells[DEFINITION]
            ):
                self._revisions.note(new.name, revision)
                return new

    def definition_bytes(self, name: str) -> bytes:
        """Return the bytes of a definition as they stand, for people to judge and to sign.

        Raises:
            UnknownDataflow: there is none of that name.
        """
        return self._known(name)[DEFINITION]

    def sign(self, name: str, value: bytes, seal: bytes) -> None:
        """Believe a definition from now on, with a seal that a holder of the key has made.

        Args:
            name: the dataflow.
            value: the definition's bytes that were signed.
            seal: of these bytes in this row.

        Raises:
            UnknownDataflow: there is none of that name.
            RowSetAside: the seal is of another key, or a later revision was seen.
            Refused: the row is another than what was signed.
        """
        row = row_of(name)
        columns = self._known(name) | {DEFINITION: value, SEAL: seal}
        lease, _ = self._leases.read(row, columns)
        self._definitions.read(row, columns, lease)
        signed = {DEFINITION: value, SEAL: seal}
        if not self._rows.check_and_put(row, DEFINITION, value, signed):
            raise Refused(f"dataflow {name} is another by now than what was signed; look again")

    def _known(self, name: str) -> dict[bytes, bytes]:
        columns = self._rows.get(row_of(name), _HEAD)
        if DEFINITION not in columns:
            raise UnknownDataflow(f"no dataflow is called {name!r}")
        return columns

    def acquire(self, name: str, owner: Owner, now: float, seconds: float) -> Ownership:
        """Take the dataflow over, with the next epoch, and return what to continue with.

        Args:
            name: the dataflow.
            owner: this agent.
            now: Unix time; a lease of another agent must have ended by it.
            seconds: length of the new lease.

        Raises:
            Held: another agent's lease runs.
            UnknownDataflow: there is none of that name.
            RowSetAside: it is not to be run as it stands.
            DamagedState: the saved snapshot is not whole; after the next submit there is none.
        """
        row = row_of(name)
        self.listing(name)
        wanted = Lease(0, owner, 0.0, self._revisions.highest(name), seconds, beats=True)
        lease = self._leases.take(row, name, wanted, now)
        whole = self._rows.get(row)
        try:
            definition = self._definitions.read(row, whole, lease)
        except (RowSetAside, UnknownDataflow):
            self.release(name, lease.epoch)
            raise
        self._guarded(name, lease.epoch, self._definitions.renewed_seal(row, whole))
        if whole.get(_DAMAGED) and definition.revision > _revision(whole[_DAMAGED]):
            # It was submitted again, as the error asks for.
            self._guarded(name, lease.epoch, {_DAMAGED: b"", STATE_HEAD: b""})
            whole[STATE_HEAD] = b""
        with self._noting_damage(definition, lease.epoch):
            state = state_in(name, whole)
        # Whoever was the owner before can commit nothing any more: what it left may go.
        self._segments.tidy(name, lease.epoch, state.log.kept if state is not None else ())
        return Ownership(definition, lease.epoch, state, records_in(name, whole))

    def segments(self, definition: Definition, epoch: int, kept: Iterable[Kept]) -> Iterator[bytes]:
        """Yield segments of a dataflow's log that belong to its saved state, in their order.

        Raises:
            Fenced: another agent has taken the dataflow over meanwhile, and may have dropped them.
            DamagedState: one of them is missing or not whole.
        """
        with self._noting_damage(definition, epoch):
            yield from self._segments.read(definition.name, kept)

    @contextmanager
    def _noting_damage(self, definition: Definition, epoch: int) -> Iterator[None]:
        """Have the next submit of a dataflow whose state is not whole begin anew."""
        try:
            yield
        except DamagedState:
            revision = str(definition.revision).encode()
            self._guarded(definition.name, epoch, {_DAMAGED: revision})
            raise

    def beat(self, owner: Owner, now: float) -> None:
        """Extend all leases of an agent by their length, from now (Unix seconds) on."""
        self._leases.beat(owner, now)

    def end_beat(self, owner: Owner) -> None:
        """Extend no lease of an agent any more: it ends, and has released them."""
        self._leases.end_beat(owner)

    def renew(self, name: str, epoch: int, owner: Owner, now: float, seconds: float) -> None:
        """Write the lease of a dataflow again, with the highest revision that is known.

        Raises:
            Fenced: the epoch is not this one any more.
        """
        highest = self._revisions.highest(name)
        self._renew(name, Lease(epoch, owner, now + seconds, highest, seconds, beats=True))

    def stands(self, listing: Listing, owner: Owner, epoch: int) -> bool:
        """Return whether the lease in a listing is as ``renew`` would write it."""
        lease, highest = listing.lease, self._revisions.highest(listing.definition.name)
        mine = (lease.owner, lease.epoch) == (owner, epoch)
        return mine and not listing.doubt and lease.revision >= highest

    def release(self, name: str, epoch: int) -> None:
        """Let others take the dataflow at once.

        Raises:
            Fenced: somebody has already.
        """
        self._renew(name, Lease(epoch, None, 0.0, self._revisions.highest(name)))

    def _renew(self, name: str, lease: Lease) -> None:
        if not self._leases.renew(row_of(name), lease):
            raise self._fenced(name, lease.epoch)

    def save(
        self,
        name: str,
        epoch: int,
        state: SavedState,
        records: Iterable[RunRecord],
        now: float,
    ) -> None:
        """Save a checkpoint and the changed records in one step.

        Segments of the engine's log come before it, and count only after it; those that it does not
        need go when nothing can need them any more.

        Raises:
            Fenced: another agent has taken the dataflow over; nothing was saved.
        """
        self._segments.write(name, state.log.written)
        columns = state_cells(state, now) | record_cells(records)
        self._guarded(name, epoch, columns)
        self._segments.drop(name, state.log.dropped)

    def trim(self, name: str, numbers: Iterable[int]) -> None:
        """Delete records."""
        self._rows.delete(row_of(name), [record_column(number) for number in numbers])

    def history(self, name: str) -> tuple[RunRecord, ...]:
        """Return the saved records, newest first."""
        return records_in(name, self._rows.get(row_of(name), (b"history",)))

    def remove(self, name: str, epoch: int) -> None:
        """Delete the dataflow, all but its epoch.

        Observers keep the highest fence of each action for ever: a dataflow that is submitted under
        this name later must have higher tokens, or nothing that its steps write would pass.

        Raises:
            Fenced: another agent has taken it over.
        """
        if not self._close(name, epoch):
            raise self._fenced(name, epoch)

    def discard(self, name: str, owner: Owner, now: float) -> None:
        """Delete a dataflow that is not run as it stands, all but its epoch.

        Raises:
            Held: another agent's lease runs.
            UnknownDataflow: there is none of that name.
        """
        self._known(name)
        wanted = Lease(0, owner, 0.0, self._revisions.highest(name))
        lease = self._leases.take(row_of(name), name, wanted, now)
        if not self._close(name, lease.epoch):
            raise self._fenced(name, lease.epoch)

    def _close(self, name: str, epoch: int) -> bool:
        row = row_of(name)
        # What is removed is outdated: a copy of it that is put back is not run.
        removed = self._revisions.highest(name) + 1
        if not self._leases.close(row, epoch, removed):
            return False
        self._revisions.note(name, removed)
        rest = [column for column in self._rows.get(row) if column not in LEASE_CELLS]
        if rest:
            self._rows.delete(row, rest)
        self._segments.tidy(name, epoch + 1, ())
        return True

    def _guarded(self, name: str, epoch: int, columns: dict[bytes, bytes]) -> None:
        if columns and not self._rows.check_and_put(
            row_of(name), EPOCH, epoch_value(epoch), columns
        ):
            raise self._fenced(name, epoch)

    @staticmethod
    def _fenced(name: str, epoch: int) -> Fenced:
        return Fenced(
            f"dataflow {name} was taken over or removed (epoch {epoch} has passed): this agent "
            "neither saves nor starts anything of it"
        )


def _revision(value: bytes) -> int:
    return int(value) if value.isdigit() and len(value) < _DIGITS else 0
