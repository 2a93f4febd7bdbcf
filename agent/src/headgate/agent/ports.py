"""Narrow interfaces between the stories of the agent, and what passes through them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from headgate.engine import DataflowSpec
from headgate.events import NOTHING_DATED, Container, DatedState, Notify, UpdateBatch
from headgate.flows import Launcher as FlowLauncher
from headgate.spark import (
    RunKey,
    RunState,
    StartSession,
    StepEnded,
    StepRequest,
    StepStarted,
)


class Extent(Struct, frozen=True):
    """What of a table is scanned, and how: everything that dataflows ask for, in one rectangle."""

    every: float
    """Seconds from the end of a scan to the start of the next."""
    columns: tuple[bytes, ...] = ()
    """``family:qualifier``, or ``family:`` for all of one; empty for all families."""
    start: bytes = b""
    stop: bytes | None = None
    notify: bool = False
    """Whether only rows with a new notify cell ``hg:all`` are read."""


class TimeRange(Struct, frozen=True):
    """Timestamps of cells from ``since`` to before ``until``, in milliseconds."""

    since: int
    until: int


class BadRecord(Struct, frozen=True):
    """A record that was set aside, and why."""

    topic: str
    partition: int
    offset: int
    reason: str


class Found(Struct, frozen=True):
    """A message for one partition, and the identities of its parts."""

    partition: int
    batch: UpdateBatch

    @property
    def identities(self) -> Iterator[tuple[int, int, int]]:
        """Partition, intent and piece of each part."""
        return ((self.partition, part.intent, part.piece) for part in self.batch.requests)


class WorkerLost(Struct, frozen=True):
    """The worker ended, or never came up, while an attempt was with it."""

    run: str
    attempt: int
    reason: str
    detail: str = ""


class AttemptDisplaced(Struct, frozen=True):
    """An attempt was lost by what others did who shared its session: no failure of its own."""

    run: str
    attempt: int
    reason: str


class WorkerState(Struct, frozen=True):
    """How the worker stands, in words; ``ready`` when its session is warm."""

    ready: bool
    words: str
    pid: int | None = None


Report = StepStarted | StepEnded | WorkerLost | AttemptDisplaced | WorkerState


class Launcher(Protocol):
    """Runs attempts; what happens to them is reported from another thread.

    In a warm session runs one at a time, elsewhere any number.
    """

    def start(self, request: StepRequest, by: FlowLauncher, directory: str) -> None:
        """Begin an attempt; does not wait. ``directory`` is that of the dataflow file."""

    def recover(self, run: str, attempt: int) -> bool:
        """Go on with an earlier attempt of the run, where one outlived its agent.

        It is reported under the number given. False where there is none; then none is left.
        """

    def cancel(self, run: str, attempt: int, reason: str) -> None:
        """End an attempt, which ``WorkerLost`` follows, unless it had ended before."""

    def cancel_all(self, reason: str) -> None:
        """End whatever would outlive ``close``; nothing of it is left when this returns."""

    def use(self, start: StartSession | None) -> None:
        """Have a worker of another configuration, none if None, as soon as nothing is with it."""

    def expect(self, seconds: float | None) -> None:
        """Foresee the next attempt in so many seconds; none where None."""

    def log(self, action: str, run: str, attempt: int) -> Path | None:
        """Return the file with what an attempt printed; None where it is not here."""

    def close(self) -> None:
        """End the worker for good; nothing of it is left when this returns. Other jobs go on."""


class Ledger(Protocol):
    """Where attempts claim and commit runs."""

    def state(self, key: RunKey) -> RunState:
        """Return where a run stands."""

    def forget(self, key: RunKey) -> None:
        """Delete what is known of a run that can not come back."""


class ScannedCells(Struct, frozen=True):
    """Columns of equal length; ``values`` may be empty where none were asked for.

    ``marked`` are the rows with the notify cell that was asked for; ``recent`` the timestamps in
    milliseconds of cells, by their places, that are dated from the time on that was asked for.
    ``timestamps`` are those of all cells, where single cells were asked for or cells expire;
    ``dated`` is what a scan found dated ahead in these rows.
    """

    rows: Sequence[bytes]
    columns: Sequence[bytes]
    values: Sequence[bytes | None]
    marked: frozenset[bytes] = frozenset()
    recent: Mapping[int, int] = {}
    following: bytes | None = None
    """The first row that was not read, where a scan has not come to its end."""
    timestamps: Sequence[int] = ()
    dated: DatedState = NOTHING_DATED
    ttls: Mapping[bytes, int] = {}
    """Milliseconds after which cells expire, by family."""


class RetentionNeeds(Protocol):
    """Has Kafka keep what one dataflow needs."""

    def need(self, ages: Mapping[str, float]) -> None:
        """Say how old, in seconds, the oldest update is that next runs are to be shown, by topic.

        Does not wait.
        """

    def kept(self, topic: str) -> float | None:
        """Return for how many seconds a topic is kept, as far as that was altered."""


class Observation(Protocol):
    """Has tables scanned for writes that go round the observers, for one dataflow."""

    def want(self, extents: Mapping[str, Extent]) -> None:
        """Have these tables scanned, and no others; may raise ``Unreachable``."""

    def unpublished(self, table: str, now: float) -> TimeRange | None:
        """Return how cells are dated that scans for writes are still to publish.

        None where nobody has scanned the table yet; may raise ``Unreachable``.
        """

    def withdraw(self, tables: Sequence[str]) -> None:
        """Forget what the dataflow wanted of these tables; may raise ``Unreachable``."""


class Adviser(Protocol):
    """Works out what trigger policies of one kind ask, in threads of its own."""

    def answer(self, question: bytes, done: Callable[[bytes | None, str], None]) -> None:
        """Hand the answer to ``done``, from any thread; None and the reason where there is none."""

    def use(self, roots: Sequence[str], spec: DataflowSpec) -> None:
        """Read code of the dataflow anew, from these directories; ``spec`` is what it is now."""

    def close(self) -> None:
        """Answer nothing any more."""


class ReadsRecord(ABC):
    """A facet of advisers: they read the record of their dataflow since its submission."""

    @abstractmethod
    def reads_record(self) -> bool:
        """Return whether it may be read, as the dataflow is now."""


class Families(Protocol):
    """Makes and removes the column family of notify columns, for one dataflow."""

    def provide(self, tables: Iterable[str]) -> frozenset[str]:
        """See that tables have it; return those that do. May raise ``Unreachable``."""

    def drop(self, tables: Collection[str]) -> None:
        """Remove the family where nobody else uses it. May raise ``Unreachable``."""


class Scanner(Protocol):
    """Reads tables in threads of its own and hands the result to ``done`` there."""

    def trouble(self, table: str) -> str | None:
        """Say what keeps a table from being read, if it is no server that is away."""

    def scan(
        self,
        container: Container,
        table: str,
        *,
        values: bool,
        mark: Notify | None,
        recent: int | None,
        start: bytes,
        done: Callable[[ScannedCells], None],
    ) -> None:
        """Read cells of the container's part in the table, and which rows have a mark.

        Of the rows from ``start`` on, as many as are to be in memory at once. ``recent`` is the
        time in milliseconds from which on timestamps are wanted, if at all.
        """

    def read(
        self,
        table: str,
        rows: Sequence[bytes],
        columns: Sequence[bytes],
        done: Callable[[ScannedCells], None],
    ) -> None:
        """Read the newest values of cells, in their order; None where there is none."""
