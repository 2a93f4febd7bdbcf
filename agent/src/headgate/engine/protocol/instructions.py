"""What the engine wants done. The service carries it out in order and decides nothing."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from headgate.engine.protocol.adjustments import Adjustment
from headgate.engine.protocol.work import Ordinary, Work
from headgate.engine.spec.conditions import ConditionResult
from headgate.events import ContainerId, Cut


class Cause(Struct, frozen=True):
    """Why a run happens. ``moment`` is what made the engine look, ``words`` is for people."""

    moment: str
    words: str
    result: ConditionResult | None = None
    """The condition as it stood; None for a run that somebody asked for."""


class Launch(Struct, frozen=True, tag="launch"):
    """Run the action on what its ``cut`` holds; ``since`` is the cut of its last committed run.

    ``previous`` is the result of the last committed run that had one. A further attempt has the
    same run, cut, since, cause, previous and work. The service saves a snapshot first.
    """

    action: str
    run: str
    attempt: int
    cut: Cut
    since: Cut
    cause: Cause
    timeout: float | None = None
    previous: str = ""
    work: Work = Ordinary()


class NotifyAt(Struct, frozen=True, tag="notify-at"):
    """Send a ``Tick`` at this Unix time. Replaces the one before; None: none is needed."""

    time: float | None


class ScanContainer(Struct, frozen=True, tag="scan"):
    """Read cells of the container's part in one table and answer ``ContainerScanned``.

    The rows from ``start`` on, whole rows in order, and as many as are to be in memory at once: the
    engine asks for the next ones as long as the answer says where they begin.
    """

    container: ContainerId
    table: str
    values: bool
    start: bytes = b""


class ReadCells(Struct, frozen=True, tag="read"):
    """Read the newest versions of these cells and answer ``CellsRead``: a value bound waits."""

    container: ContainerId
    table: str
    rows: tuple[bytes, ...]
    columns: tuple[bytes, ...]


class Consult(Struct, frozen=True, tag="consult"):
    """Have what a trigger policy asks worked out, and answer ``Consulted``.

    ``kind`` is the policy's, and what ``question`` means is between it and whoever answers. A
    question that nobody has answered is forgotten with the engine: then it is asked again.
    """

    action: str
    kind: str
    question: bytes


class Quarantine(Struct, frozen=True, tag="quarantine"):
    """The run failed too often: the action stays still until it is released."""

    action: str
    run: str
    reason: str


class DecisionKind(StrEnum):
    """What a decision is about."""

    LAUNCHED = "launched"
    SKIPPED = "skipped"
    """The bounds were evaluated and nothing runs."""
    HELD = "held"
    """A run is due and something else is waited for: a predecessor, a read, a resume."""
    RETRIED = "retried"
    FINISHED = "finished"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    RELEASED = "released"
    REBUILT = "rebuilt"
    """Somebody wants the state of a stage made anew."""
    REFUSED = "refused"
    """What was asked for makes no sense now."""
    PAUSED = "paused"
    RESUMED = "resumed"
    GAP = "gap"
    """Updates may be missing."""
    TABLE_CHANGED = "table-changed"
    SPECIFICATION_CHANGED = "specification-changed"
    ADJUSTED = "adjusted"
    """The limits of an interval moved."""
    SUBMITTED = "submitted"
    """The dataflow is watched from here on."""
    WAVE_ENDED = "wave-ended"
    SCANNED = "scanned"
    """A container was read from its table."""
    ADOPTED = "adopted"
    """A trigger was given what it goes by from here on, such as a model, or there was none."""
    RESTARTED = "restarted"
    """An agent goes on where one before it ended: triggers ask again for what they were given."""


class Decision(Struct, frozen=True):
    """One line of the dataflow's history, for people and for ``headgate.decisions``."""

    time: float
    dataflow: str
    kind: DecisionKind
    words: str
    action: str = ""
    run: str = ""
    attempt: int = 0
    moment: str = ""
    result: ConditionResult | None = None
    adjustment: Adjustment | None = None
    versions: dict[str, str] = {}
    """What the trigger went by that it was given, such as models: the version of each by its name.

    Of ``ADOPTED`` the one that it was given, with an empty version where there was none to give.
    """


class RecordDecision(Struct, frozen=True, tag="decision"):
    """Write the decision down."""

    decision: Decision


Instruction = Launch | NotifyAt | ScanContainer | ReadCells | Consult | Quarantine | RecordDecision
