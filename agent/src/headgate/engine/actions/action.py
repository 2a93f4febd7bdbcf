"""What is known of one action: its run, its clock, and what it has not consumed."""

from __future__ import annotations

import math
from collections.abc import Collection

from headgate.engine.actions.runs import TRANSITIONS, ActiveRun, PastRun, RunEvent, RunState
from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.columns import Detail
from headgate.engine.cells.pending import Pending
from headgate.engine.spec.conditions import BoundResult, Dimension, leaves
from headgate.engine.spec.dataflow import ActionSpec, Bound, FirstChanges, Role, SequenceUnit
from headgate.engine.triggers.bounds import (
    Clock,
    Part,
    PossibleIncreases,
    Precision,
    current_limit,
    is_below,
    measure,
)
from headgate.engine.triggers.policy import Bounded, Synchronous, TriggerPolicy
from headgate.engine.triggers.significance.search import Search
from headgate.engine.tuning.adjustment import Adjuster
from headgate.events import GONE, ContainerId, Cut


class ImpossibleTransition(Exception):
    """Something happened to a run that cannot happen in its state."""


class Action:
    """The state of one action. ``parts`` holds, by container, what its bounds watch."""

    def __init__(self, spec: ActionSpec, place: int) -> None:
        self.spec = spec
        self.place = place
        """Its place in the launch order, predecessors first."""
        self.bounds = {bound.name: bound for bound in spec.bounds}
        condition = spec.effective_condition
        self.policy: TriggerPolicy = Synchronous() if condition is None else Bounded(condition)
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
        self.next_evaluation: float | None = None
        self.adjusters: list[Adjuster] = []
        """One for each bound with an interval."""
        self.search: Search | None = None
        """Where the limits of its bounds are found from the output that matters."""
        self.meter: list[Part] = []
        """Of such an action: what it writes, as of its last run."""
        self.limits: dict[tuple[str, Dimension], float] = {}
        """Current limits of intervals."""
        self.failure = ""
        """Why it is in quarantine, or why the last attempt failed."""
        self.shown = ""
        """What the last recorded decision at a write was about."""
        self.blocking = tuple(bound.name for bound in spec.bounds if bound.block)
        """Bounds that hold writers back when they are reached."""
        self.found: tuple[str, ...] = ()
        """Those of them that were reached when it was last evaluated, since its last launch."""
        self.wait_until: float | None = None
        """When the trigger policy wants to be asked again."""
        self.looked_at = -math.inf
        """When it was last evaluated because its time had come."""

    @property
    def name(self) -> str:
        """The action's name."""
        return self.spec.name

    @property
    def is_input(self) -> bool:
        """Whether it is fed from outside and never launched."""
        return self.spec.role is Role.INPUT

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
        if not self.blocking or self.state is RunState.QUARANTINED:
            return ()
        found = () if paused else self.found
        under_way = not paused or self.state in (RunState.LAUNCHED, RunState.RUNNING)
        if self.run is not None and self.run.cause.result is not None and under_way:
            found += tuple(leaf.bound for leaf in leaves(self.run.cause.result) if leaf.reached)
        return tuple(bound for bound in self.blocking if bound in found)

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
        times = (self.wait_until, *map(self.time_of, self.spec.bounds))
        return [time for time in times if time is not None and time > self.looked_at]

    def time_of(self, bound: Bound) -> float | None:
        """Return when the bound's θ is reached; None if never or if its clock does not run yet."""
        if bound.time is None or self.since is None:
            return None
        return self.since + current_limit(self.limits, bound.name, Dimension.TIME, bound.time)

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
        """Let the limits hold that the adjusters, or the search, are at."""
        if self.search is not None:
            for bound in self.spec.bounds:
                for dimension, limit in self.search.limits.items():
                    self.limits[bound.name, dimension] = limit
        for adjuster in self.adjusters:
            for dimension, limit in adjuster.limits.items():
                self.limits[adjuster.bound.name, dimension] = limit

    def updates_of(self, bound: Bound) -> int:
        """Return how many updates of the bound's container ever came."""
        return sum(pending.received for _, pending in self.parts[bound.container])

    def all_parts(self) -> list[Part]:
        """Return all parts of all containers that bounds watch."""
        return [part for parts in self.parts.values() for part in parts]


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
        self._clock = Clock(now, action.since)
        self._bounds = action.bounds
        self._read = read
        """Whether cells were just read: then what is still unsettled is taken as it is."""
        self._rises = {} if increases is None else increases
        """What may come before the policy is asked again."""

    @property
    def predecessors(self) -> tuple[str, ...]:
        """The actions that precede."""
        return self._action.spec.after

    @property
    def ended(self) -> set[str]:
        """The predecessors that ended since the action's last launch."""
        return self._action.ended

    @property
    def unscanned(self) -> bool:
        """Whether a container's first scan is awaited."""
        return any(not cells.scans.complete for cells, _ in self._action.all_parts())

    @property
    def unsettled(self) -> bool:
        """Whether a value bound watches cells that must be read to be known."""
        return not self._read and any(needs_reading(*part) for part in self._action.all_parts())

    def measure(self, bound: str, precision: Precision) -> BoundResult:
        """Return how far a bound of the action is."""
        found = self._bounds[bound]
        parts = self._action.parts[found.container]
        return measure(found, self._action.limits, parts, self._clock, precision)

    def is_below(self, bound: str) -> bool:
        """Return cheaply whether a bound is surely not reached, and nothing of it unknown."""
        found = self._bounds[bound]
        parts = self._action.parts[found.container]
        return is_below(found, self._action.limits, parts, self._clock, self._rises)

    def time_bound(self, bound: str) -> float | None:
        """Return when the bound's θ is reached, in Unix seconds."""
        return self._action.time_of(self._bounds[bound])


def _moved(time: float | None, by: float) -> float | None:
    return None if time is None else time + by


def needs_reading(cells: ContainerCells, pending: Pending) -> bool:
    """Return whether cells of the part must be read before a value bound decides."""
    return pending.keeps_values and bool(cells.reads.unsettled)


def detail_of(bound: Bound) -> Detail:
    """Return how much of a container's cells a bound must know."""
    if bound.value is not None:
        return Detail.VALUES
    if bound.sequence is not None and bound.sequence.unit is SequenceUnit.PERCENT:
        return Detail.KEYS
    return Detail.COUNTS
