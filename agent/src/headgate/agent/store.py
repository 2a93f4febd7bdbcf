"""State of dataflows: one row each, guarded by a fencing epoch.

Row ``flow/NAME`` has the families ``spec`` (what was submitted), ``state`` (lease, epoch, the
engine's snapshot with Kafka's offsets) and ``history`` (runs). Everything that must agree is put
in one mutation, and each mutation checks the epoch: whoever takes a dataflow over raises the
epoch, and from then on nothing of the former owner is saved. Of a large state the row has a head,
and names the pieces that belong to it (``pieces``).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum

import msgspec
from msgspec import Struct

from headgate.agent.errors import DamagedState, Fenced, Held, Refused, UnknownDataflow
from headgate.agent.pieces import PieceRows
from headgate.agent.rows import Rows
from headgate.engine import Kept, LogChange
from headgate.events import Cut

CHUNK = 1 << 20
"""Bytes of a snapshot in one cell: HBase handles cells of this size well, larger ones badly."""

_EPOCH = b"state:epoch"
_LEASE = b"state:lease"
_META = b"state:meta"
_DAMAGED = b"state:damaged"  # the revision that found its state not whole; empty for none
_DEFINITION = b"spec:definition"
_PREFIX = b"flow/"
_PREFIX_END = b"flow0"  # "0" follows "/"


class Definition(Struct, frozen=True):
    """What was submitted. ``revision`` counts submits of the name from 1."""

    name: str
    source: str
    directory: str
    revision: int
    submitted: float
    """Unix time in seconds."""
    profile: str | None = None
    """Which of the file's bound profiles applies."""
    shadow: bool = False
    """Whether it decides and launches nothing."""


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


class RunOutcome(StrEnum):
    """How an attempt stands."""

    WAITING = "waiting"
    """For the worker, or until a former attempt cannot write any more."""
    RUNNING = "running"
    COMMITTED = "committed"
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    CANCELLED = "cancelled"
    LOST = "lost"
    """The worker or the agent ended under it."""
    SHADOW = "shadow"
    """It was decided on and not launched."""


class RunRecord(Struct, frozen=True):
    """One attempt of a run, for people. Times are Unix seconds."""

    number: int
    run: str
    action: str
    attempt: int
    cause: str
    moment: str
    outcome: RunOutcome
    launched: float
    started: float | None = None
    ended: float | None = None
    reason: str = ""
    detail: str = ""
    """A traceback or the like."""
    token: int = 0
    cut: Cut = Cut()
    """What it consumes, up to here."""
    since: Cut = Cut()
    """The cut of the action's run before."""
    undecoded: int = 0
    """Values that it read and that their codec could not."""
    undecodable: str = ""
    """The first of them, in words."""


class Progress(Struct, frozen=True):
    """What the service itself must remember.

    ``waves`` were asked for, of which all up to ``settled`` are done; ``unsettled`` are those whose
    barrier has not passed yet, each with its input actions. ``start`` is where reading began.
    """

    next_record: int = 0
    waves: int = 0
    settled: int = 0
    unsettled: tuple[tuple[int, tuple[str, ...]], ...] = ()
    start: Cut = Cut()
    watching: bool = False
    """Whether its watches have been in effect."""
    paused: bool = False
    reconciled: float = 0.0
    """When all was last scanned for what no update told, in Unix seconds."""
    notified: tuple[str, ...] = ()
    """Tables with a notify column that was asked for."""
    consumed: int = 0
    """Cells of all updates consumed so far."""
    quarantined: dict[str, str] = {}
    runs: dict[str, int] = {}
    """Committed runs by action."""
    skipped: dict[str, int] = {}
    """Evaluations after which nothing ran, by action."""


class SavedState(Struct, frozen=True):
    """A checkpoint: the engine's snapshot, its cut, and the service's own progress."""

    snapshot: bytes
    cut: Cut
    progress: Progress
    log: LogChange = LogChange()
    """What of the engine's log belongs to the snapshot, and what has changed in it."""


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


class _Meta(Struct, frozen=True):
    saved: float
    chunks: int
    size: int
    checksum: int
    cut: Cut
    progress: Progress
    kept: tuple[Kept, ...] = ()


_encode = msgspec.msgpack.Encoder().encode


class StateStore:
    """Dataflows' rows. Every call may raise ``Unreachable`` when the table cannot be reached."""

    def __init__(self, rows: Rows, history: int) -> None:
        """Keep up to ``history`` records per dataflow."""
        self._rows = rows
        self._pieces = PieceRows(rows)
        self._history = history

    def listings(self) -> list[Listing]:
        """Return all dataflows, by name."""
        found = []
        for _, columns in self._rows.scan(_PREFIX, _PREFIX_END, (b"spec", _LEASE)):
            if _DEFINITION in columns:
                found.append(Listing(_definition(columns), _lease(columns)))
        return found

    def listing(self, name: str) -> Listing:
        """Return one dataflow.

        Raises:
            UnknownDataflow: there is none of that name.
        """
        columns = self._rows.get(_row(name), (b"spec", _LEASE))
        if _DEFINITION not in columns:
            raise UnknownDataflow(
                f"no dataflow is called {name!r}; see them with `headgate flow list`, or submit it"
            )
        return Listing(_definition(columns), _lease(columns))

    def define(self, definition: Definition) -> Definition:
        """Save what was submitted, as the next revision, and return it."""
        row = _row(definition.name)
        while True:
            old = self._rows.get(row, (b"spec",)).get(_DEFINITION)
            revision = _definition({_DEFINITION: old}).revision + 1 if old is not None else 1
            new = msgspec.structs.replace(definition, revision=revision)
            encoded = _encode(new)
            if self._rows.check_and_put(row, _DEFINITION, old, {_DEFINITION: encoded}):
                return new
            if self._rows.get(row, (b"spec",)).get(_DEFINITION) == encoded:
                return new  # done at the first attempt, whose reply was lost

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
            DamagedState: the saved snapshot is not whole; after the next submit there is none.
        """
        row = _row(name)
        new = None
        while True:
            columns = self._rows.get(row, (b"spec", _LEASE))
            if _DEFINITION not in columns:
                raise UnknownDataflow(f"no dataflow is called {name!r}")
            lease = _lease(columns)
            if lease == new:
                break  # taken at the first attempt, whose reply was lost
            # The owner itself takes another epoch too: tokens and barriers count anew in each.
            if lease.owner is not None and lease.owner != owner and lease.until > now:
                raise Held(name, lease.owner.name, lease.owner.address, lease.until)
            new = Lease(lease.epoch + 1, owner, now + seconds)
            if self._rows.check_and_put(
                row,
                _LEASE,
                columns.get(_LEASE),
                {_LEASE: _encode(new), _EPOCH: _epoch(new.epoch)},
            ):
                lease = new
                break
        whole = self._rows.get(row)
        definition = _definition(whole)
        if whole.get(_DAMAGED) and definition.revision > int(whole[_DAMAGED]):
            # It was submitted again, as the error asks for.
            self._guarded(name, lease.epoch, {_DAMAGED: b"", _META: b""})
            whole[_META] = b""
        with self._noting_damage(definition, lease.epoch):
            state = _state(name, whole)
        # Whoever was the owner before can commit nothing any more: what it left may go.
        self._pieces.tidy(name, lease.epoch, state.log.kept if state is not None else ())
        return Ownership(definition, lease.epoch, state, _records(whole))

    def pieces(self, definition: Definition, epoch: int, kept: Iterable[Kept]) -> Iterator[bytes]:
        """Yield pieces of a dataflow's log that belong to its saved state, in their order.

        Raises:
            Fenced: another agent has taken the dataflow over meanwhile, and may have dropped them.
            DamagedState: one of them is missing or not whole.
        """
        with self._noting_damage(definition, epoch):
            yield from self._pieces.read(definition.name, kept)

    @contextmanager
    def _noting_damage(self, definition: Definition, epoch: int) -> Iterator[None]:
        """Have the next submit of a dataflow whose state is not whole begin anew."""
        try:
            yield
        except DamagedState:
            revision = str(definition.revision).encode()
            self._guarded(definition.name, epoch, {_DAMAGED: revision})
            raise

    def renew(self, name: str, epoch: int, owner: Owner, until: float) -> None:
        """Extend the lease.

        Raises:
            Fenced: the epoch is not this one any more.
        """
        self._guarded(name, epoch, {_LEASE: _encode(Lease(epoch, owner, until))})

    def release(self, name: str, epoch: int) -> None:
        """Let others take the dataflow at once.

        Raises:
            Fenced: somebody has already.
        """
        self._guarded(name, epoch, {_LEASE: _encode(Lease(epoch, None, 0.0))})

    def save(
        self,
        name: str,
        epoch: int,
        state: SavedState,
        records: Iterable[RunRecord],
        now: float,
    ) -> None:
        """Save a checkpoint and the changed records in one step.

        Pieces of the engine's log come before it, and count only after it; those that it does not
        need go when nothing can need them any more.

        Raises:
            Fenced: another agent has taken the dataflow over; nothing was saved.
        """
        self._pieces.write(name, state.log.written)
        snapshot = state.snapshot
        chunks = [snapshot[i : i + CHUNK] for i in range(0, len(snapshot), CHUNK)]
        checksum = zlib.crc32(snapshot)
        size = len(snapshot)
        kept = state.log.kept
        meta = _Meta(now, len(chunks), size, checksum, state.cut, state.progress, kept)
        columns = {_META: _encode(meta)}
        columns |= {_chunk(number): chunk for number, chunk in enumerate(chunks)}
        columns |= {_record(record.number): _encode(record) for record in records}
        self._guarded(name, epoch, columns)
        self._pieces.drop(name, state.log.dropped)

    def trim(self, name: str, newest: int) -> None:
        """Delete the records that are too old, given the number of the newest."""
        old = newest - self._history
        if old >= 0:
            self._rows.delete(_row(name), (_record(old),))

    def history(self, name: str) -> tuple[RunRecord, ...]:
        """Return the saved records, newest first."""
        return _records(self._rows.get(_row(name), (b"history",)))

    def remove(self, name: str, epoch: int) -> None:
        """Delete the dataflow, all but its epoch.

        Observers keep the highest fence of each action for ever: a dataflow that is submitted under
        this name later must have higher tokens, or nothing that its steps write would pass.

        Raises:
            Fenced: another agent has taken it over.
        """
        row = _row(name)
        gone = Lease(epoch + 1, None, 0.0)
        columns = {_LEASE: _encode(gone), _EPOCH: _epoch(gone.epoch)}
        if not self._rows.check_and_put(row, _EPOCH, _epoch(epoch), columns):
            whole = self._rows.get(row, (_LEASE,))
            if _lease(whole) != gone:  # else it was done at the first attempt
                raise self._fenced(name, epoch)
        rest = [column for column in self._rows.get(row) if column not in (_LEASE, _EPOCH)]
        if rest:
            self._rows.delete(row, rest)
        self._pieces.tidy(name, gone.epoch, ())

    def _guarded(self, name: str, epoch: int, columns: dict[bytes, bytes]) -> None:
        if not self._rows.check_and_put(_row(name), _EPOCH, _epoch(epoch), columns):
            raise self._fenced(name, epoch)

    @staticmethod
    def _fenced(name: str, epoch: int) -> Fenced:
        return Fenced(
            f"dataflow {name} was taken over or removed (epoch {epoch} has passed): this agent "
            "neither saves nor starts anything of it"
        )


def check_name(name: str) -> None:
    """Refuse a name that could not be a row.

    Raises:
        Refused: it is empty or has a slash.
    """
    if not name or "/" in name:
        raise Refused(f"{name!r} cannot name a dataflow; use letters, digits, '-', '_' and '.'")


def _row(name: str) -> bytes:
    return _PREFIX + name.encode()


def _chunk(number: int) -> bytes:
    return b"state:snapshot.%05d" % number


def _record(number: int) -> bytes:
    return b"history:%012d" % number


def _epoch(epoch: int) -> bytes:
    return struct.pack(">q", epoch)


def _definition(columns: dict[bytes, bytes]) -> Definition:
    return msgspec.msgpack.decode(columns[_DEFINITION], type=Definition)


def _lease(columns: dict[bytes, bytes]) -> Lease:
    if _LEASE not in columns:
        return Lease(0, None, 0.0)
    return msgspec.msgpack.decode(columns[_LEASE], type=Lease)


def _records(columns: dict[bytes, bytes]) -> tuple[RunRecord, ...]:
    numbers = sorted((c for c in columns if c.startswith(b"history:")), reverse=True)
    return tuple(msgspec.msgpack.decode(columns[c], type=RunRecord) for c in numbers)


def _state(name: str, columns: dict[bytes, bytes]) -> SavedState | None:
    if not columns.get(_META):
        return None
    meta = msgspec.msgpack.decode(columns[_META], type=_Meta)
    snapshot = b"".join(columns.get(_chunk(number), b"") for number in range(meta.chunks))
    if len(snapshot) != meta.size or zlib.crc32(snapshot) != meta.checksum:
        raise DamagedState(name, f"its snapshot is not the one of {meta.size} bytes")
    return SavedState(snapshot, meta.cut, meta.progress, LogChange(kept=meta.kept))
