"""Trigger policies: whether an action should run now, given the state of its inputs.

The interface is narrow on purpose: whatever decides (bounds, strict synchrony, a model) says what
it needs, sees ``Inputs``, hears of runs and waves, and answers with a ``Verdict``; the engine does
everything else. What only some policies do is in ``facets``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Protocol

from msgspec import Struct

from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.columns import Detail
from headgate.engine.cells.pending import Pending, PossibleIncrease
from headgate.engine.spec.conditions import ConditionResult, Dimension
from headgate.engine.spec.dataflow import DataflowSpec, Evaluation
from headgate.events import ContainerId, Cut

# -- what a policy needs


class ContainerWatch(Struct, frozen=True):
    """A container whose updates are counted for the action, from each of its cuts on."""

    container: ContainerId
    detail: Detail = Detail.COUNTS
    """How much of its cells is known; with ``VALUES`` also how far they have moved."""
    distinct: bool = False
    """Whether it is remembered which elements were updated."""


class Probe(Struct, frozen=True):
    """Values of containers, measured beside what the action consumes: from its own last reset on.

    ``name`` is unique in the dataflow. Updates of all writers count.
    """

    name: str
    containers: tuple[ContainerId, ...]


class Needs(Struct, frozen=True):
    """What the engine has to do for a policy."""

    watches: tuple[ContainerWatch, ...] = ()
    moments: Evaluation = Evaluation()
    """When it is to be asked."""
    probes: tuple[Probe, ...] = ()
    marks: tuple[str, ...] = ()
    """Names of cuts that it fixes before a run, to launch with one of them later."""


# -- what it sees


class Wave(Struct, frozen=True):
    """A wave of input that has ended."""

    number: int
    """Among those of the dataflow, from 1 on; 0 where nobody has counted them."""
    time: float
    """What it is about, in Unix seconds: that of whoever decides may be another."""


Part = tuple[ContainerCells, Pending]
"""A container's part in one table, with what is pending there."""
PossibleIncreases = Mapping[Pending, PossibleIncrease]
"""What updates that are not taken yet may add, where they add anything."""
Limits = Mapping[tuple[str, Dimension], float]
"""Current limits of intervals, by bound and vector."""


class Clock(Struct, frozen=True):
    """``now``, and when the action was launched or first could be (None: not yet). Unix seconds."""

    now: float
    since: float | None


class Inputs(Protocol):
    """The state of an action's inputs at one moment."""

    @property
    def clock(self) -> Clock:
        """The time, and since when it counts."""

    @property
    def increases(self) -> PossibleIncreases:
        """What may come before the policy is asked again; a cheap answer must hold until then."""

    @property
    def predecessors(self) -> tuple[str, ...]:
        """The actions that precede."""

    @property
    def ended(self) -> AbstractSet[str]:
        """The predecessors that ended since the action's last launch."""

    @property
    def cuts(self) -> Mapping[str, Cut]:
        """By predecessor, the cut of its last committed run; an input, or none yet: not there."""

    @property
    def unscanned(self) -> bool:
        """Whether a container's first scan is awaited."""

    @property
    def unsettled(self) -> bool:
        """Whether values are watched of cells that must be read to be known."""

    def parts(self, container: ContainerId) -> Sequence[Part]:
        """Return a watched container, table by table, with what the action has pending there."""

    def all_parts(self) -> Sequence[Part]:
        """Return all watched containers so."""

    def marked(self, mark: str) -> Cut | None:
        """Return the cut that is fixed under this name; None where there is none any more."""

    def probe(self, name: str) -> Sequence[Part]:
        """Return what a probe has measured since its last reset, whichever action needs it."""


class Moment(Inputs, Protocol):
    """The same while something is heard: then probes may be reset, and cuts be fixed."""

    def reset(self, probe: str, since: str | None = None) -> None:
        """Have a probe measure from here on, or from the last reset of another of its containers.

        Whichever actions need them.
        """

    def rest(self, probe: str) -> None:
        """Have a probe measure nothing until its next reset, and cost nothing."""

    def mark(self, name: str) -> None:
        """Fix a cut of all that has arrived; ``RunNow`` may name it later."""


# -- what it answers


class RunNow(Struct, frozen=True):
    """Run now."""

    result: ConditionResult
    mark: str | None = None
    """The cut to run with; what has arrived since stays pending. None: all that has arrived."""


class WaitUntil(Struct, frozen=True):
    """Not now; look again at ``time`` (Unix seconds) even if nothing else happens."""

    time: float
    result: ConditionResult


class Nothing(Struct, frozen=True):
    """Not now; look again when something happens."""

    result: ConditionResult


class NeedsReading(Struct, frozen=True):
    """It depends on cells that nobody knows: read them, then ask again."""

    result: ConditionResult


class NeedsAnswer(Struct, frozen=True):
    """It depends on an answer from outside the engine: hand it to the policy, then ask it again."""

    question: bytes
    result: ConditionResult


class RunFirst(Struct, frozen=True):
    """Run when others have: have them asked, in this order, and this one again when they have."""

    actions: tuple[str, ...]
    result: ConditionResult


Verdict = RunNow | WaitUntil | Nothing | NeedsReading | NeedsAnswer | RunFirst


class LimitsMoved(Struct, frozen=True):
    """Limits of an action are others now; ``words`` say why."""

    action: str
    words: str


class Ask(Struct, frozen=True):
    """Have work done outside the engine; what comes of it is handed to the policy."""

    question: bytes


class Adopted(Struct, frozen=True):
    """The policy was given what it goes by from here on, or was not; ``words`` say what or why."""

    versions: dict[str, str]
    """By name the version; empty where there was none to give."""
    words: str


class AskAgain(Struct, frozen=True):
    """Have another action evaluated once the stimulus is taken; ``words`` say what was awaited."""

    action: str
    words: str


Response = LimitsMoved | Ask | Adopted | AskAgain
"""What a policy wants done about what it has heard."""


# -- what it hears


class Notice(Enum):
    """What becomes of an action."""

    BEGUN = "begun"
    """The engine goes on, or another specification holds. Successors hear it first."""
    LAUNCHED = "launched"
    """A run is about to consume what is pending."""
    COMMITTED = "committed"
    """A run has committed."""
    GIVEN_UP = "given up"
    """A run has failed for good."""


class Advice(Struct, frozen=True):
    """The answer to what the policy has asked."""

    answer: bytes | None
    """None where there is none."""
    reason: str
    """Why there is none."""


Heard = Notice | Wave | Advice
"""Events that a policy hears of. Successors hear first of the end of a wave."""


class TriggerPolicy(ABC):
    """Decides when an action runs.

    ``explain`` changes nothing; ``judge`` may change the policy; ``heard`` also its probes and
    marks. A policy that keeps something returns it from ``save``; what is saved under another
    ``kind`` is not loaded.
    """

    needs = Needs()

    @property
    @abstractmethod
    def kind(self) -> str:
        """The kind of trigger: what it asks and what it saves are for policies of that kind."""

    def judge(self, inputs: Inputs, now: float) -> Verdict:
        """Return what to do at ``now``, with the reason: run once ``explain`` says so."""
        result = self.explain(inputs, now)
        return RunNow(result) if result.reached else Nothing(result)

    @abstractmethod
    def explain(self, inputs: Inputs, now: float) -> ConditionResult:
        """Return how far it is, changing nothing: what follows is as if nobody had asked."""

    def heard(self, event: Heard, inputs: Moment) -> Sequence[Response]:  # noqa: ARG002 -- the interface
        """Take note of an event; return what is to be done about it."""
        return ()

    def save(self) -> bytes:
        """Return what a policy of the same kind needs to go on."""
        return b""

    def load(self, saved: bytes) -> None:  # noqa: B027 -- most keep nothing
        """Go on from what was saved."""


PolicyFactory = Callable[[DataflowSpec], Mapping[str, TriggerPolicy]]
"""Makes the policies of a dataflow's actions, by name, so that they may share what they know."""
