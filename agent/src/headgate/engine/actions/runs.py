"""The life of a run as a table, and what is known of a run while it lives."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from headgate.engine.protocol.increments import FlowTaken
from headgate.engine.protocol.instructions import Cause
from headgate.engine.protocol.work import Ordinary, Work
from headgate.events import Cut


class RunState(StrEnum):
    """Where an action is with its run."""

    IDLE = "idle"
    LAUNCHED = "launched"
    RUNNING = "running"
    BACKOFF = "backoff"
    """An attempt failed; the next one waits for its time."""
    QUARANTINED = "quarantined"


class RunEvent(StrEnum):
    """What may happen to a run."""

    DECIDED = "decided"
    STARTED = "started"
    FINISHED = "finished"
    FAILED = "failed"
    LOST = "lost"
    """The service came back and does not know what became of the attempt."""
    RETRY_DUE = "retry-due"
    GIVEN_UP = "given-up"
    WITHDRAWN = "withdrawn"
    """It is not tried again, and nothing is to blame for that: another run takes its place."""
    RELEASED = "released"


TRANSITIONS: dict[tuple[RunState, RunEvent], RunState] = {
    (RunState.IDLE, RunEvent.DECIDED): RunState.LAUNCHED,
    (RunState.LAUNCHED, RunEvent.STARTED): RunState.RUNNING,
    (RunState.LAUNCHED, RunEvent.FINISHED): RunState.IDLE,
    (RunState.LAUNCHED, RunEvent.FAILED): RunState.BACKOFF,
    (RunState.LAUNCHED, RunEvent.LOST): RunState.BACKOFF,
    (RunState.RUNNING, RunEvent.FINISHED): RunState.IDLE,
    (RunState.RUNNING, RunEvent.FAILED): RunState.BACKOFF,
    (RunState.RUNNING, RunEvent.LOST): RunState.BACKOFF,
    (RunState.BACKOFF, RunEvent.LOST): RunState.BACKOFF,
    # An earlier attempt had committed after all.
    (RunState.BACKOFF, RunEvent.FINISHED): RunState.IDLE,
    (RunState.BACKOFF, RunEvent.RETRY_DUE): RunState.LAUNCHED,
    (RunState.BACKOFF, RunEvent.GIVEN_UP): RunState.QUARANTINED,
    (RunState.BACKOFF, RunEvent.WITHDRAWN): RunState.IDLE,
    (RunState.QUARANTINED, RunEvent.RELEASED): RunState.IDLE,
}
"""Every pair that is not here makes no sense and is refused."""


class ActiveRun(Struct):
    """A run that has not committed. Its attempts share cut, cause, ``previous`` and work."""

    run: str
    attempt: int
    cut: Cut
    since: Cut
    cause: Cause
    launched_at: float
    failures: int = 0
    retry_at: float | None = None
    failure: str = ""
    # What the launch reset, for the case that it fails for good:
    time_before: float | None = None
    ended_before: set[str] = set()
    losses: int = 0
    """Attempts that were lost with their agent, since the last of which more is known."""
    previous: str = ""
    """The result that stood when it was launched."""
    work: Work = Ordinary()
    """The work of the run; of a stage, with what it has taken of the input flows."""


class PastRun(Struct, frozen=True):
    """The last run that committed."""

    run: str
    attempt: int
    cut: Cut
    since: Cut
    cause: Cause
    launched_at: float
    finished_at: float
    result: str = ""
    """What stands since: what its commit named or, where it named nothing, what stood before."""
    taken: dict[str, FlowTaken] = {}
    """The increments that it took, by input flow of a stage."""
