"""What is saved of an engine: structs, columns, versions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter

from msgspec import Raw, Struct
from msgspec.structs import replace

from headgate.engine.actions.runs import ActiveRun, PastRun, RunState
from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.elements import Element, Key
from headgate.engine.cells.strangers import Version
from headgate.engine.checkpoint.log_reader import (
    ListState,
    LoggedState,
    LogState,
    SnapshotError,
)
from headgate.engine.intake.duplicates import Source
from headgate.engine.protocol.stimuli import ResourceSample
from headgate.engine.spec.dataflow import WatchedContainer
from headgate.engine.spec.reading import Reading
from headgate.engine.stages.stage import StageState
from headgate.engine.tuning.adjustment import AdjusterState
from headgate.events import Cut, DatedState
from headgate.temporal import Reflections

SNAPSHOT_VERSION = 3
"""Version of the checkpoints that this code writes. Those of 2 had no counts in columns, those of 1
no log either."""
PLAIN_VERSION = 2
"""Of a state as it stands, without such columns."""

LEVEL = 1
"""zlib's fastest: a snapshot is written before every launch."""


class KeyColumns(Struct, frozen=True, array_like=True):
    """Cells in columns; ``columns[i]`` is the position in ``names`` of cell i's column."""

    rows: tuple[bytes, ...]
    columns: tuple[int, ...]
    names: tuple[bytes, ...]

    def keys(self) -> Iterator[Key]:
        """Yield the cells."""
        return zip(*self.apart(), strict=True)

    def apart(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Return the rows and the columns of the cells."""
        return self.rows, [self.names[c] for c in self.columns]


NO_KEYS = KeyColumns((), (), ())


def key_columns(keys: Collection[Key]) -> KeyColumns:
    """Return cells in columns, in their order."""
    if not keys:
        return NO_KEYS  # most containers have nothing unsettled, stamped or consumed
    names: dict[bytes, int] = {}
    columns = tuple(names.setdefault(column, len(names)) for _, column in keys)
    return KeyColumns(tuple(row for row, _ in keys), columns, tuple(names))


class ElementColumns(Struct, frozen=True, array_like=True):
    """Elements: rows and cells."""

    rows: tuple[bytes, ...]
    cells: KeyColumns


NO_ELEMENTS = ElementColumns((), NO_KEYS)


def element_columns(elements: Iterable[Element]) -> ElementColumns:
    """Return elements in columns, sorted."""
    rows = [e for e in elements if isinstance(e, bytes)]
    cells = [e for e in elements if not isinstance(e, bytes)]
    return ElementColumns(tuple(sorted(rows)), key_columns(sorted(cells)))


def elements_of(state: ElementColumns) -> set[Element]:
    """Return the elements in columns."""
    return {*state.rows, *state.cells.keys()}


SavedValue = float | bytes | tuple[float, float] | None
"""A value; where a double does not hold all of a number, it and its rest."""


class ConsumedState(Struct, frozen=True):
    """See ``Consumed``."""

    updates: int
    distinct: ElementColumns
    keys: KeyColumns
    previous: tuple[SavedValue, ...]
    fresh: bool
    listed: ListState | None = None
    """``distinct``, where it is in the log."""
    past: int = 0
    """x′, where it is in the log; 0 for none."""
    uncounted: bool = False


class PendingState(Struct, frozen=True):
    """See ``Pending``; its sums are computed again."""

    action: str
    values: bool
    now: ConsumedState
    received: int
    committed: int
    taken: ConsumedState | None


class ScanningState(Struct, frozen=True):
    """See ``Scanning``."""

    written: KeyColumns
    deleted_rows: tuple[bytes, ...]
    emptied: bool
    listed: tuple[ListState | None, ListState | None] = (None, None)
    """Both, where they are in the log."""
    deleted_families: KeyColumns = NO_KEYS
    doubtful: KeyColumns = NO_KEYS
    places: tuple[ListState | None, ListState | None] = (None, None)
    """Both of these, where they are in the log."""
    at: bytes = b""
    """Where the scan goes on; from the first row on where it is to begin anew."""
    found: int = 0
    lossless: bool = False


class CellsState(Struct, frozen=True):
    """See ``ContainerCells``. ``values`` is empty where only keys are kept."""

    watched: WatchedContainer
    table: str
    detail: int
    keys: KeyColumns
    values: tuple[SavedValue, ...]
    stamped: KeyColumns
    timestamps: tuple[int, ...]
    deletes: bool
    """True if there may be delete markers; older states have only this, and no ``hidden_until``."""
    unsettled: KeyColumns
    reading: KeyColumns
    read_awaited: bool
    scanning: ScanningState | None
    scanned: bool
    dead_letters: int
    pendings: tuple[PendingState, ...]
    logged: LoggedState | None = None
    """Where the log has the cells."""
    strangers: KeyColumns = NO_KEYS
    versions: tuple[Version, ...] = ()
    """What strangers wrote into these cells."""
    hidden_until: int = 0
    ttls: dict[bytes, int] = {}
    """See ``Lifetimes``."""
    mortal: KeyColumns = NO_KEYS
    """Cells with a time to live of their own."""
    own_ttls: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()


class PolicyState(Struct, frozen=True, array_like=True):
    """What a policy of a kind has saved."""

    kind: str
    data: bytes


class MarkState(Struct, frozen=True, array_like=True):
    """See ``MarkedCut``: one that is fixed."""

    name: str
    cut: Cut
    ended: tuple[str, ...]


NOTHING = Raw(b"\xc0")
"""Of msgpack: nil."""


class ActionState(Struct, frozen=True):
    """See ``Action``."""

    name: str
    state: RunState
    run: ActiveRun | None
    last: PastRun | None
    number: int
    has_run: bool
    since: float | None
    ended: tuple[str, ...]
    missed: str | None
    requested: bool
    reading: bool
    next_evaluation: float | None
    failure: str
    shown: str
    looked_at: float
    wait_until: float | None = None
    adjusters: dict[str, AdjusterState] = {}
    """By bound."""
    search: Raw = NOTHING
    """In states of before: what its policy has saved."""
    found: tuple[str, ...] = ()
    seen: Cut | None = None
    """None in states of before: the cut of the last run."""
    seen_at: float | None = None
    policy: PolicyState | None = None
    """None where it keeps nothing."""
    asking: bool = False
    marks: tuple[MarkState, ...] = ()
    """In the order in which they were fixed."""
    stage: StageState | None = None
    """None where it has no flows."""


PLAIN_FIELDS = tuple(
    field
    for field in ActionState.__struct_fields__
    if field not in {"name", "ended", "adjusters", "search", "policy", "marks", "stage"}
)
"""Fields of ``ActionState`` that an ``Action`` has as they are."""
plain_of = attrgetter(*PLAIN_FIELDS)
"""Returns the values of these fields."""


class Counts(Struct, frozen=True, array_like=True):
    """What each ``Pending`` counts, container by container, in their order; see there."""

    updates: tuple[int, ...]
    received: tuple[int, ...]
    committed: tuple[int, ...]

    @classmethod
    def of(cls, held: Iterable[ContainerCells]) -> Counts:
        """Return what is counted of containers."""
        pendings = [pending for cells in held for pending in cells.watchers.pendings]
        return cls(
            tuple([p.updates for p in pendings]),
            tuple([p.received for p in pendings]),
            tuple([p.committed for p in pendings]),
        )


class EngineSnapshot(Struct, frozen=True):
    """See ``Engine``."""

    version: int
    dataflow: str
    incarnation: str
    paused: bool
    positions: dict[str, tuple[int, ...]]
    sources: tuple[tuple[str, int, str, int, Source], ...]
    actions: tuple[ActionState, ...]
    cells: tuple[CellsState, ...]
    retired: dict[str, int] = {}
    samples: tuple[ResourceSample, ...] = ()
    log: LogState | None = None
    """None where everything is here."""
    saved: float = 0.0
    """Unix time in seconds."""
    rivals: tuple[tuple[str, str, float], ...] = ()
    """By table and observer, when it received the newest request that it published."""
    dated: dict[str, DatedState] = {}
    """Versions and delete markers that are dated ahead, by table."""
    counts: Counts | None = None
    """They hold, whatever ``cells`` say of them; None where ``cells`` say it."""
    read: Reading = Reading()
    """Nothing in states of before."""
    reflections: Reflections = Reflections()


def counted(state: EngineSnapshot, counts: Counts) -> EngineSnapshot:
    """Have cells say what is counted of them.

    Raises:
        SnapshotError: there are more or fewer of them.
    """
    pendings = [pending for cells in state.cells for pending in cells.pendings]
    try:
        numbers = iter(
            [
                replace(
                    pending,
                    now=replace(pending.now, updates=updates),
                    received=received,
                    committed=committed,
                )
                for pending, updates, received, committed in zip(
                    pendings, counts.updates, counts.received, counts.committed, strict=True
                )
            ]
        )
    except ValueError as error:
        raise SnapshotError(f"a snapshot of an engine does not count all: {error}") from error
    cells = tuple(
        replace(one, pendings=tuple(islice(numbers, len(one.pendings)))) for one in state.cells
    )
    return replace(state, cells=cells, counts=None)
