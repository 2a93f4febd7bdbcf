"""What is known of one action: its run, its clock, and what it has not consumed."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping

from headgate.engine.actions.runs import TRANSITIONS, ActiveRun, PastRun, RunEvent, RunState
from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.pending import Pending
from headgate.engine.spec.conditions import ConditionResult, leaves
from headgate.engine.spec.dataflow import ActionRole, ActionSpec, Bound, FirstChanges
from headgate.engine.stages.policy import trigger_of
from headgate.engine.triggers.facets import Adjusts, Adopts, Blocks, Foresees, Reports
from headgate.engine.triggers.policy import Clock, Part, PossibleIncreases, TriggerPolicy
from headgate.engine.tuning.adjustment import Adjuster
from headgate.events import GONE, ContainerId, Cut


class ImpossibleTransition(Exception):
    """Something happened to a run that cannot happen in its state."""


class MarkedCut:
    """A cut that a policy may fix before a run, and what has come since it did."""

    def __init__(self, parts: Mapping[Pending, Part]) -> None:
        self.parts = parts
        """By what is pending for the action: the same part, with what has come since."""
        self.cut: Cut | None = None
        """None while none is fixed."""
        self.ended: frozenset[str] = frozenset()
        """The predecessors that had ended."""

    def drop(self) -> None:
        """Fix no cut any more."""
        self.cut = None
        self.ended = frozenset()
        for _, pending in self.parts.values():
            pending.reset()


class Action:
    """The state of one action. ``parts`` holds, by container, what its policy watches."""

    __slots__ = (
        "adjusters",
        "adjusts",
        "adopts",
        "asking",
        "blocks",
        "ended",
        "failure",
        "foresees",
        "found",
        "has_run",
        "is_input",
        "last",
        "looked_at",
        "marks",
        "missed",
        "moments",
        "name",
        "next_evaluation",
        "number",
        "parts",
        "place",
        "policy",
        "preceding",
        "probes",
        "reading",
        "reports",
        "requested",
        "run",
        "seen",
        "seen_at",
        "shown",
        "since",
        "spec",
        "state",
        "trigger",
        "wait_until",
    )

    def __init__(self, spec: ActionSpec, place: int, policy: TriggerPolicy) -> None:
        self.spec = spec
        self.name = spec.name
        self.is_input = spec.role is ActionRole.INPUT
        """True where it is fed from outside and never launched."""
        self.policy = policy
        self.trigger = trigger = trigger_of(policy)
        """The policy that decides when it runs, and has the facets."""
        self.foresees = trigger if isinstance(trigger, Foresees) else None
        self.blocks = trigger if isinstance(trigger, Blocks) and trigger.blocking else None
        """None also where no bound holds writers back."""
        self.adjusts = trigger if isinstance(trigger, Adjusts) else None
        self.reports = trigger if isinstance(trigger, Reports) else None
        self.adopts = trigger if isinstance(trigger, Adopts) else None
        self.moments = policy.needs.moments
        """When its policy is asked."""
        self.place = place
        """Its place in the launch order, predecessors first."""
        self.parts: dict[ContainerId, list[Part]] = {}
        self.state = RunState.IDLE
        self.run: ActiveRun | None = None
        self.last: PastRun | None = None
        self.seen = Cut()
        """Up to where its step was shown all changes; before all records where it was shown none.

        The cut of its last run, unless that was rehearsed or records were lost since.
        """
        self.seen_at: float | None = None
        """When that was, in Unix seconds: all records that its next run is to be shown are newer.

        None before the first run, where all that stands will be shown.
        """
        self.number = 0
        self.has_run = False
        self.since: float | None = None
        """Start of θ: the last launch, or when every predecessor had run once."""
        self.ended: set[str] = set()
        """Predecessors that ended since the last launch."""
        self.missed: str | None = None
        """The moment of an evaluation that could not take place or not decide."""
        self.requested = False
        """Whether somebody asked for a run; then its evaluation is missed until it is launched."""
        self.reading = False
        self.asking = False
        """Whether its policy waits for an answer before it decides."""
        self.next_evaluation: float | None = None
        self.adjusters: list[Adjuster] = []
        """One for each bound with an interval."""
        self.probes: Mapping[str, list[Part]] = {}
        """What policies of the dataflow measure besides, by the probe's name."""
        self.marks: dict[str, MarkedCut] = {}
        """Cuts that its policy fixes, by name; those that are fixed in this order."""
        self.preceding: tuple[Action, ...] = ()
        """Its predecessors."""
        self.failure = ""
        """Why it is in quarantine, or why the last attempt failed."""
        self.shown = ""
        """What the last recorded decision at a write was about."""
        self.found: tuple[str, ...] = ()
        """Bounds that hold writers back, for they were reached when it was last evaluated."""
        self.wait_until: float | None = None
        """When the trigger policy wants to be asked again."""
        self.looked_at = -math.inf
        """When it was last evaluated because its time had come."""

    def meet(self, cut: Cut, now: float) -> None:
        """Settle what a first run is shown of the topics that are read and it knows nothing of."""
        everything = self.spec.first_changes is FirstChanges.SNAPSHOT
        met = {
            topic: tuple(GONE for _ in positions) if everything else positions
            for topic, positions in cut.offsets.items()
            if topic not in self.seen.offsets
        }
        self.seen = Cut({**met, **self.seen.offsets})
        if met and not everything and self.seen_at is None:
            self.seen_at = now

    def forget(self, topics: Collection[str]) -> None:
        """Know nothing of topics any more: their updates from here on are not all there are."""
        self.seen = self.seen.without(topics)
        if self.run is not None:
            self.run.cut = self.run.cut.without(topics)
            self.run.since = self.run.since.without(topics)

    def held_by(self, *, paused: bool) -> tuple[str, ...]:
        """Return the bounds for which writers wait: those that it has run, or will run, for."""
        if self.blocks is None or self.state is RunState.QUARANTINED:
            return ()
        found = () if paused else self.found
        under_way = not paused or self.state in (RunState.LAUNCHED, RunState.RUNNING)
        if self.run is not None and self.run.cause.result is not None and under_way:
            found += self.reached_in(self.run.cause.result)
        return tuple(bound for bound in self.blocks.blocking if bound in found)

    def reached_in(self, result: ConditionResult) -> tuple[str, ...]:
        """Return the bounds that hold writers back and are reached, as a result says."""
        if self.blocks is None:
            return ()
        reached = {leaf.bound for leaf in leaves(result) if leaf.reached}
        return tuple(bound for bound in self.blocks.blocking if bound in reached)

    def happen(self, event: RunEvent) -> None:
        """Go to the next state.

        Raises:
            ImpossibleTransition: the table of runs has none; the state stays.
        """
        following = TRANSITIONS.get((self.state, event))
        if following is None:
            raise ImpossibleTransition(f"a run of `{self.name}` is {self.state}, not {event}")
        self.state = following

    def times(self) -> list[float]:
        """Return when it must be evaluated because of time, in Unix seconds, unless it was."""
        times = [] if self.wait_until is None else [self.wait_until]
        if self.foresees is not None:
            times += self.foresees.times(ActionInputs(self, self.looked_at))
        return [time for time in times if time > self.looked_at]

    def move_times(self, by: float) -> None:
        """Have everything happen so many seconds later, what is past included."""
        self.since = _moved(self.since, by)
        self.next_evaluation = _moved(self.next_evaluation, by)
        self.wait_until = _moved(self.wait_until, by)
        self.looked_at += by
        if self.run is not None:
            self.run.retry_at = _moved(self.run.retry_at, by)
            self.run.time_before = _moved(self.run.time_before, by)
        for adjuster in self.adjusters:
            adjuster.move_times(by)

    def take_limits(self) -> None:
        """Let the limits hold that the adjusters are at."""
        if self.adjusts is None:
            return
        for adjuster in self.adjusters:
            limits = adjuster.limits.items()
            self.adjusts.adjust({(adjuster.bound.name, d): limit for d, limit in limits})

    def updates_of(self, bound: Bound) -> int:
        """Return how many updates of the bound's container ever came."""
        return sum(pending.received for _, pending in self.parts[bound.container])

    def all_parts(self) -> list[Part]:
        """Return all parts of all containers that the policy watches."""
        return [part for parts in self.parts.values() for part in parts]

    def fix(self, mark: str, cut: Cut) -> None:
        """Fix a cut, at which the policy may launch later."""
        fixed = self.marks.pop(mark)
        fixed.drop()
        fixed.cut, fixed.ended = cut, frozenset(self.ended)
        self.marks[mark] = fixed

    def take(self, mark: str | None) -> None:
        """Have a run consume what is pending, or what was when a cut was fixed.

        Cuts that were fixed before that are consumed with it.
        """
        fixed = None if mark is None else self.marks[mark]
        for cells, pending in self.all_parts():
            since = None if fixed is None else fixed.parts[pending][1]
            cells.watchers.consumed[self.name] = pending.take(since)
        self.ended = set() if fixed is None else self.ended - fixed.ended
        for name, one in self.marks.items():
            one.drop()
            if name == mark:
                break


class ActionInputs:
    """An action's inputs at one moment, as a trigger policy sees them."""

    def __init__(
        self,
        action: Action,
        now: float,
        *,
        read: bool = False,
        increases: PossibleIncreases | None = None,
    ) -> None:
        self._action = action
        self.clock = Clock(now, action.since)
        self.increases: PossibleIncreases = {} if increases is None else increases
        """What may come before the policy is asked again."""
        self._read = read
        """Whether cells were just read: then what is still unsettled is taken as it is."""

    @property
    def predecessors(self) -> tuple[str, ...]:
        """The actions that precede."""
        return self._action.spec.after

    @property
    def ended(self) -> set[str]:
        """The predecessors that ended since the action's last launch."""
        return self._action.ended

    @property
    def cuts(self) -> dict[str, Cut]:
        """By predecessor, the cut of its last committed run."""
        return {a.name: a.last.cut for a in self._action.preceding if a.last is not None}

    @property
    def unscanned(self) -> bool:
        """Whether a container's first scan is awaited."""
        return any(not cells.scans.complete for cells, _ in self._action.all_parts())

    @property
    def unsettled(self) -> bool:
        """Whether values are watched of cells that must be read to be known."""
        return not self._read and any(needs_reading(*part) for part in self._action.all_parts())

    def parts(self, container: ContainerId) -> list[Part]:
        """Return a watched container, table by table, with what the action has pending there."""
        return self._action.parts[container]

    def all_parts(self) -> list[Part]:
        """Return all watched containers so."""
        return self._action.all_parts()

    def marked(self, mark: str) -> Cut | None:
        """Return the cut that is fixed under this name; None where there is none any more."""
        return self._action.marks[mark].cut

    def probe(self, name: str) -> list[Part]:
        """Return what a probe has measured since its last reset, whichever action needs it."""
        return self._action.probes[name]


class ActionMoment(ActionInputs):
    """The same while the policy hears of something.

    Args:
        action: whose policy it is.
        now: Unix seconds.
        arrived: returns the cut of all that has arrived; most policies never ask.
    """

    def __init__(self, action: Action, now: float, arrived: Callable[[], Cut]) -> None:
        super().__init__(action, now)
        self._arrived = arrived

    def reset(self, probe: str, since: str | None = None) -> None:
        """Have a probe measure from here on, or from the last reset of another of its containers.

        Whichever actions need them.
        """
        parts = self._action.probes[probe]
        others = [None] * len(parts) if since is None else self._pendings(since)
        for (_, pending), other in zip(parts, others, strict=True):
            pending.reset(other)

    def rest(self, probe: str) -> None:
        """Have a probe measure nothing until its next reset."""
        for _, pending in self._action.probes[probe]:
            pending.rest()

    def _pendings(self, probe: str) -> list[Pending | None]:
        return [pending for _, pending in self._action.probes[probe]]

    def mark(self, name: str) -> None:
        """Fix a cut of all that has arrived."""
        self._action.fix(name, self._arrived())


def _moved(time: float | None, by: float) -> float | None:
    return None if time is None else time + by


def needs_reading(cells: ContainerCells, pending: Pending) -> bool:
    """Return whether cells of the part must be read before a bound on what is there decides."""
    return pending.keeps_cells and bool(cells.reads.unsettled)
