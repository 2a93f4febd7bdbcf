"""What the engine handles. All carry ``now``, Unix time in seconds: the engine has no clock.

Between ``ClockMoved`` it never goes back.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from headgate.engine.protocol.increments import Produced
from headgate.engine.spec.dataflow import DataflowSpec
from headgate.engine.spec.references import Resource
from headgate.events import NOTHING_DATED, ContainerId, Cut, DatedState, UpdateMessage


class ResourceSample(Struct, frozen=True):
    """How busy one machine was at ``time`` (Unix seconds); ``weight`` is its part in the whole.

    A resource that a source cannot measure is left out.
    """

    machine: str
    time: float
    used: dict[Resource, float]
    weight: float = 1.0


class RecordArrived(Struct, frozen=True):
    """One Kafka record of a watched table's topic; ``partitions`` is their number in the topic.

    A record below the engine's position in its partition is ignored, so reading again does no harm.
    """

    now: float
    topic: str
    partition: int
    offset: int
    message: UpdateMessage
    partitions: int = 0


class TopicsOpened(Struct, frozen=True):
    """Topics are read from these positions on; those that are read already stay where they are."""

    now: float
    positions: Cut


class PartitionReset(Struct, frozen=True):
    """Kafka does not have the records any more that come next: it is read on from the oldest.

    Retention has deleted them, or the topic was made again, whose offsets then begin anew.
    """

    now: float
    topic: str
    partition: int


class WaveEnded(Struct, frozen=True):
    """The wave of these input actions ended; sent after a barrier on the tables that they write."""

    now: float
    actions: tuple[str, ...]
    number: int = 0
    """Of the wave, among those of the dataflow, from 1 on; 0 where nobody has counted them."""
    time: float | None = None
    """What the wave is about, in Unix seconds; the time of its end where None."""


class RunStarted(Struct, frozen=True):
    """The attempt has claimed its run and begun to work."""

    now: float
    action: str
    run: str
    attempt: int
    recovered: bool = False
    """Whether it is what an attempt began that outlived its agent, and so was not lost."""


class RunFinished(Struct, frozen=True):
    """The run has committed; sent after a barrier on the tables that the action writes.

    ``result`` is what its commit named, which the engine does not look into; empty where nothing.
    """

    now: float
    action: str
    run: str
    attempt: int
    result: str = ""
    produced: tuple[Produced, ...] = ()
    """The increments that a stage has made, those of each flow in order."""


class RunRehearsed(Struct, frozen=True):
    """The run counts as committed though nothing was started: its step has seen no update."""

    now: float
    action: str
    run: str
    attempt: int


class RunFailed(Struct, frozen=True):
    """The attempt ended without commit. ``detail`` is a traceback or the like."""

    now: float
    action: str
    run: str
    attempt: int
    reason: str
    detail: str = ""
    final: bool = False
    """True if another attempt would fail in the same way."""


class Tick(Struct, frozen=True):
    """Time has come: answers ``NotifyAt``. One too many does no harm."""

    now: float


class ScanBegun(Struct, frozen=True):
    """Rows from ``start`` on are about to be read, for a ``ScanContainer`` that asked for them.

    What was written before the records that were consumed by now is in what will be found.
    """

    now: float
    container: ContainerId
    table: str
    start: bytes = b""


class ContainerScanned(Struct, frozen=True):
    """The present cells of a container's part in one table: answers ``ScanContainer``.

    They are those of the rows from ``start``, where the question was to begin, to before ``stop``;
    with ``stop`` None there are no more. ``rows[i]``, ``columns[i]`` (``family:qualifier``) and
    ``values[i]`` are one cell; ``values`` is empty where none were asked for.
    """

    now: float
    container: ContainerId
    table: str
    rows: Sequence[bytes]
    columns: Sequence[bytes]
    values: Sequence[bytes | None] = ()
    marked: frozenset[bytes] = frozenset()
    """In isolation, the rows with the dataflow's notify cell: those that it has written."""
    recent: tuple[int, ...] = ()
    """Cells (by their place) so new that updates of them are still to come, in observer mode."""
    start: bytes = b""
    stop: bytes | None = None
    dated: DatedState = NOTHING_DATED
    """Versions and delete markers of these rows that are dated ahead, shown or not."""
    timestamps: Sequence[int] = ()
    """Timestamps of the cells, in Unix milliseconds; needed if cells expire."""
    ttls: dict[bytes, int] = {}
    """Milliseconds after which cells expire, by family; those of others do not."""


class CellsRead(Struct, frozen=True):
    """Current values of the cells of a ``ReadCells``, in its order; None where there is no cell."""

    now: float
    container: ContainerId
    table: str
    rows: Sequence[bytes]
    columns: Sequence[bytes]
    values: Sequence[bytes | None]
    timestamps: Sequence[int] = ()
    """Timestamps of the versions read, in Unix milliseconds; empty if they are not known."""


class SpecificationChanged(Struct, frozen=True):
    """The dataflow is another from here on. What is unchanged keeps its state."""

    now: float
    spec: DataflowSpec


class Paused(Struct, frozen=True):
    """Launch nothing; go on counting."""

    now: float


class Resumed(Struct, frozen=True):
    """Launch again, first what became due while paused."""

    now: float


class RunRequested(Struct, frozen=True):
    """Somebody wants the action to run, whatever its bounds say."""

    now: float
    action: str


class RetryRequested(Struct, frozen=True):
    """Somebody wants an action that failed to run at once.

    One that waits for its next attempt keeps its run and its cut; one in quarantine has a new run.
    """

    now: float
    action: str


class Released(Struct, frozen=True):
    """Somebody lets the action out of quarantine."""

    now: float
    action: str


class RebuildRequested(Struct, frozen=True):
    """Somebody wants the state of a stage made anew, and those of all whom that concerns.

    With ``with_sources`` also of those that make what it reads.
    """

    now: float
    action: str
    with_sources: bool = False


class CompactionRequested(Struct, frozen=True):
    """Somebody wants the state of a stage written in as few files as it can be.

    Or only what these have come to need, as the stage's own run has said (``wholly`` False): where
    something else is in the way that is left for another time.
    """

    now: float
    action: str
    wholly: bool = True


class Restarted(Struct, frozen=True):
    """The service has come back; the first stimulus of an engine restored from a snapshot."""

    now: float


class ResourcesSampled(Struct, frozen=True):
    """How busy the machines are on which steps run. The service may leave it out at any time."""

    now: float
    samples: tuple[ResourceSample, ...]


class ObserverLost(Struct, frozen=True):
    """An observer has ended without having published all that it forwarded, and will not any more.

    What of it is missing, and of which tables, is not known.
    """

    now: float
    observer: str


class ClockMoved(Struct, frozen=True):
    """The clock was set ``by`` seconds ahead, or back where it is negative: no time has passed.

    ``now`` is by the clock as it is set. Everything that is due stays due after as long a time.
    """

    now: float
    by: float


class ReconciliationDue(Struct, frozen=True):
    """Look through the containers of tables, or through all, for what no update announced."""

    now: float
    tables: tuple[str, ...] | None = None


class Consulted(Struct, frozen=True):
    """The answer to ``Consult``; None where there is none, for the ``reason`` given."""

    now: float
    action: str
    kind: str
    answer: bytes | None
    reason: str = ""


Stimulus = (
    RecordArrived
    | TopicsOpened
    | PartitionReset
    | WaveEnded
    | RunStarted
    | RunFinished
    | RunRehearsed
    | RunFailed
    | Tick
    | ScanBegun
    | ContainerScanned
    | CellsRead
    | Consulted
    | SpecificationChanged
    | Paused
    | Resumed
    | RunRequested
    | RetryRequested
    | Released
    | RebuildRequested
    | CompactionRequested
    | Restarted
    | ResourcesSampled
    | ReconciliationDue
    | ClockMoved
    | ObserverLost
)
