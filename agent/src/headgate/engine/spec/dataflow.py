"""What a dataflow is: actions over containers, with bounds (design: sections 2 and 4).

A specification is plain data. ``check_specification`` says what is wrong with one; the engine
refuses a wrong one, so that all behind it can rely on names that exist and a graph without cycle.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from headgate.engine.spec.codecs import Codec, CodecName
from headgate.engine.spec.conditions import Condition, all_of, bounds_of
from headgate.engine.spec.metrics.table import Metric, definition_of
from headgate.engine.spec.metrics.user import UserMetric
from headgate.engine.spec.order import circles, path_between
from headgate.engine.spec.references import AdjustmentSpec, adjustment_problems
from headgate.engine.spec.stages import ActionFlows, stage_problems
from headgate.events import Container, ContainerId


class SpecificationError(ValueError):
    """A dataflow that cannot be decided on. ``problems`` names each fault and its cure."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Count(StrEnum):
    """What one element of a container is: the unit of sequence bounds and of n in percentages."""

    ROWS = "rows"
    """A write that touches three columns of a container in one request is one update of one row."""
    CELLS = "cells"


class WatchedContainer(Struct, frozen=True):
    """A container, how its values are read and how its elements are counted."""

    container: Container
    codec: Codec = Codec()
    count: Count = Count.ROWS

    @property
    def id(self) -> ContainerId:
        """The container's name in the dataflow."""
        return self.container.id


class Interval(Struct, frozen=True):
    """Ends of a limit that is adjusted while the dataflow runs (see ``AdjustmentSpec``)."""

    minimum: float
    maximum: float


Limit = float | Interval
"""A fixed limit, or the interval within which the engine keeps the current one."""


class SequenceUnit(StrEnum):
    """How the limit of a sequence bound is given."""

    UPDATES = "updates"
    """A number of updates."""
    PERCENT = "percent"
    """100 · updates / n, n being the container's current number of elements. 20 means 20 %."""


class SequenceBound(Struct, frozen=True):
    """σ: the number of updates since the last run's cut. ``distinct`` counts each element once."""

    limit: Limit
    unit: SequenceUnit = SequenceUnit.UPDATES
    distinct: bool = False


class ValueBound(Struct, frozen=True):
    """ν: divergence of values. ``constant`` is None for a metric that takes none."""

    metric: Metric | UserMetric
    limit: Limit
    constant: float | None = None


class Bound(Struct, frozen=True):
    """κ: reached when any of its vectors θ (``time``, seconds), σ or ν is reached."""

    name: str
    container: ContainerId
    time: Limit | None = None
    sequence: SequenceBound | None = None
    value: ValueBound | None = None
    block: bool = False
    """Whether writers of the container wait from when it is found reached until the action has
    run."""


class ActionRole(StrEnum):
    """Whether headgate launches an action."""

    INPUT = "input"
    """Fed from outside: never launched, counts as run at the first update of what it writes."""
    STEP = "step"


class Evaluation(Struct, frozen=True):
    """When bounds are evaluated (paper: evaluation and enforcement, a, b and c). Combinable.

    ``write``: at each message with an update of a bound's container. ``action_end``: when a
    predecessor ends, or the wave of an input predecessor. ``every``: periodically, in seconds.
    """

    write: bool = False
    action_end: bool = False
    every: float | None = None


class RetryPolicy(Struct, frozen=True):
    """How a failed run is repeated: exponential backoff from ``first`` to ``maximum`` seconds."""

    attempts: int = 3
    first: float = 1.0
    maximum: float = 60.0

    def backoff(self, failures: int) -> float:
        """Return the seconds to wait after the given number of failures (1 or more)."""
        return float(min(self.maximum, self.first * 2.0 ** min(failures - 1, 60)))


class Trigger(Struct, frozen=True):
    """Another kind of trigger than bounds, by its name, and its settings for the action."""

    kind: str
    settings: dict[str, Any] = {}


class FirstChanges(StrEnum):
    """What an action's first run is shown as changed, of containers that it has never consumed."""

    SNAPSHOT = "snapshot"
    """All that is there."""
    NONE = "none"
    """What was written since the action is there."""


class ActionSpec(Struct, frozen=True):
    """One action. Without bounds it is strictly synchronous: it runs after all predecessors have.

    ``condition`` None means all bounds; ``evaluation`` None means at the end of predecessors, and
    at writes where no action precedes. ``own``: the action's own writes to its input count too.
    ``timeout`` in seconds is for whoever launches the action: the launch instruction carries it.
    ``first_changes`` decides where the ``since`` of a first launch stands. ``trigger`` decides in
    place of the condition. ``stage`` has its flows; where nothing else says when it runs, it does
    so whenever it can.
    """

    name: str
    role: ActionRole = ActionRole.STEP
    after: tuple[str, ...] = ()
    reads: tuple[ContainerId, ...] = ()
    writes: tuple[ContainerId, ...] = ()
    bounds: tuple[Bound, ...] = ()
    condition: Condition | None = None
    evaluation: Evaluation | None = None
    own: bool = False
    retry: RetryPolicy = RetryPolicy()
    timeout: float | None = None
    first_changes: FirstChanges = FirstChanges.SNAPSHOT
    trigger: Trigger | None = None
    stage: ActionFlows | None = None

    @property
    def effective_condition(self) -> Condition | None:
        """The condition over the bounds, ``all`` by default; None for a synchronous action."""
        if self.condition is not None or not self.bounds:
            return self.condition
        return all_of(bound.name for bound in self.bounds)

    @property
    def effective_evaluation(self) -> Evaluation:
        """The declared evaluation, or the default of the action's place in the graph."""
        if self.evaluation is not None:
            return self.evaluation
        return Evaluation(action_end=True) if self.after else Evaluation(write=True)


class SignificanceSpec(Struct, frozen=True):
    """Limits that are found from the change of the output that matters (paper: Figure 4).

    ``change`` is a ratio: Σ|x−x′| / Σ|x′| of the ``output`` between two runs of its step, or
    Σ|x−x′| / (n·c) for the constant c in ``against``. Of ``actions`` σ is searched for, or ν where
    σ does not predict the output: their bounds have ``SOUGHT_SEQUENCE`` and ``SOUGHT_VALUE``.
    """

    output: ContainerId
    change: float
    actions: tuple[str, ...]
    against: float | None = None
    tolerance: float = 0.1
    """Share of the change by which it may be missed."""
    patience: int = 5
    """Standard deviations that runs are out of tolerance together, or runs whose average is, for
    the search to open again."""


SOUGHT_SEQUENCE = SequenceBound(Interval(1.0, math.inf))
"""A number of updates that is searched for; infinite while the divergence is."""
SOUGHT_VALUE = ValueBound(Metric.RELATIVE, Interval(1e-12, math.inf))
"""A divergence that is searched for; infinite while the number of updates is."""


class DataflowSpec(Struct, frozen=True):
    """A dataflow: a DAG of actions over containers; over flows it may have cycles."""

    name: str
    containers: tuple[WatchedContainer, ...]
    actions: tuple[ActionSpec, ...]
    adjustment: AdjustmentSpec = AdjustmentSpec()
    """How limits move that are given as intervals."""
    significance: SignificanceSpec | None = None
    """What is known of the output instead of limits."""
    feeders: tuple[str, ...] | None = None
    """Whose updates count besides those of its own actions; everybody's where None.

    A writer's name, a dataflow, or an action of one as ``dataflow/action``.
    """
    keeps_keys: bool = False
    """Whether all elements are known, where bounds alone would not need them: a scan of everything
    then finds which are gone, and which are new."""
    places: int | None = None
    """Runs that can be under way at a time; any number where None.

    A stage waits for its turn while no place is free (BIPS, section 4.2).
    """

    def triggered(self, kind: str) -> tuple[ActionSpec, ...]:
        """Return the actions that name a trigger of a kind."""
        return tuple(a for a in self.actions if a.trigger is not None and a.trigger.kind == kind)

    def tables(self, action: ActionSpec | None = None) -> set[str]:
        """Return the tables of all containers, or of those that an action reads."""
        read = None if action is None else {*action.reads, *(b.container for b in action.bounds)}
        return {
            table
            for watched in self.containers
            if read is None or watched.id in read
            for table in watched.container.tables
        }


def launch_order(actions: Iterable[ActionSpec]) -> tuple[str, ...]:
    """Return the names of the actions, predecessors first, otherwise in the order given.

    Who feeds a flow comes before who reads it, too, unless they depend on each other: over flows
    there may be cycles (BIPS, section 2.5).

    Raises:
        SpecificationError: the graph has a cycle that is not over flows only, which is named.
    """
    actions = tuple(actions)
    after = {action.name: action.after for action in actions}
    fed = {action.name: _fed_by(action) for action in actions}
    both = {name: (*after[name], *fed[name]) for name in after}
    looped = circles(both) if any(fed.values()) else {name: frozenset({name}) for name in after}
    before = {
        name: (
            *after[name],
            *(p for one in looped[name] for p in fed[one] if p not in looped[name]),
        )
        for name in after
    }
    order: dict[str, None] = {}
    while len(order) < len(after):
        ready = [
            name
            for name, awaited in before.items()
            if name not in order and all(p in order or p not in after for p in awaited)
        ]
        if not ready:
            raise SpecificationError((f"cycle: {_cycle(after, order)}; remove one of these edges",))
        order.update(dict.fromkeys(ready))
    for name, predecessor in ((n, p) for n in after for p in after[n] if p in looped[n]):
        path = " -> ".join((*path_between(name, predecessor, both), name))
        problem = (
            f"cycle: {path}; only flows may make one, so {name!r} can't be after {predecessor!r}"
        )
        raise SpecificationError((problem,))
    return tuple(order)


def looped_flows(actions: Iterable[ActionSpec]) -> dict[str, frozenset[str]]:
    """Return, by stage, which of its input flows depend on what it makes itself."""
    actions = tuple(actions)
    looped = circles({action.name: _fed_by(action) for action in actions})
    return {
        action.name: frozenset(
            name
            for name, source in action.stage.inputs.items()
            if source.action in looped[action.name]
        )
        for action in actions
        if action.stage is not None
    }


def _fed_by(action: ActionSpec) -> tuple[str, ...]:
    if action.stage is None:
        return ()
    return tuple(dict.fromkeys(source.action for source in action.stage.inputs.values()))


def _cycle(after: Mapping[str, tuple[str, ...]], sound: Mapping[str, None]) -> str:
    name = next(name for name in after if name not in sound)
    path: list[str] = []
    while name not in path:
        path.append(name)
        name = next(p for p in after[name] if p in after and p not in sound)
    return " -> ".join(reversed([*path[path.index(name) :], name]))


def check_specification(spec: DataflowSpec) -> None:
    """Raise if the dataflow cannot be decided on.

    Raises:
        SpecificationError: with every problem found, each naming its action or bound and the cure.
    """
    problems = [*_duplicates("container", (watched.id for watched in spec.containers))]
    problems += adjustment_problems(spec.adjustment)
    problems += _duplicates("action", (action.name for action in spec.actions))
    codecs = {watched.id: watched.codec for watched in spec.containers}
    names = {action.name for action in spec.actions}
    outputs = {a.name: () if a.stage is None else a.stage.outputs for a in spec.actions}
    for action in spec.actions:
        place = f"action {action.name!r}"
        problems += [
            f"{place} comes after {p!r}, which is no action" for p in action.after if p not in names
        ]
        problems += [
            f"{place} names container {c!r}, which is not declared"
            for c in dict.fromkeys((*action.reads, *action.writes))
            if c not in codecs
        ]
        problems += _duplicates(f"{place}: bound", (bound.name for bound in action.bounds))
        for bound in action.bounds:
            problems += _bound_problems(f"{place}, bound {bound.name!r}", bound, codecs)
        if action.condition is not None:
            known = {bound.name for bound in action.bounds}
            problems += [
                f"{place}: the condition names {name!r}, which is no bound of the action"
                for name in bounds_of(action.condition)
                if name not in known
            ]
        if action.role is ActionRole.INPUT and (action.bounds or action.after):
            problems.append(f"{place} is an input, never launched: drop its bounds and its after")
        if action.role is ActionRole.INPUT and action.trigger is not None:
            problems.append(f"{place} is an input, never launched: drop its trigger")
        if action.stage is not None:
            problems += stage_problems(place, action.stage, outputs)
            if action.role is ActionRole.INPUT:
                problems.append(f"{place} is an input, never launched: drop its flows")
        if action.evaluation is not None and action.evaluation.every is not None:
            problems += _positive(f"{place}: every", action.evaluation.every)
        if action.retry.attempts < 1:
            problems.append(f"{place}: a run needs at least 1 attempt, not {action.retry.attempts}")
    if spec.significance is not None:
        problems += _significance_problems(spec, spec.significance, codecs)
    if not problems:
        try:
            launch_order(spec.actions)
        except SpecificationError as error:
            problems += error.problems
    if problems:
        raise SpecificationError(tuple(problems))


def _duplicates(what: str, names: Iterable[str]) -> list[str]:
    return [
        f"{what} {n!r} is declared twice; rename one" for n, k in Counter(names).items() if k > 1
    ]


def _positive(place: str, limit: Limit) -> list[str]:
    if isinstance(limit, Interval):
        if not 0 < limit.minimum <= limit.maximum:
            return [f"{place}: [{limit.minimum:g}, {limit.maximum:g}] must be 0 < min <= max"]
    elif not limit > 0:
        return [f"{place}: {limit:g} is always reached; give a limit above 0"]
    return []


def _significance_problems(
    spec: DataflowSpec, significance: SignificanceSpec, codecs: Mapping[ContainerId, Codec]
) -> Iterable[str]:
    place, output = "significance", significance.output
    if output not in codecs:
        yield f"{place}: the output {output!r} is not declared"
    elif codecs[output].name is CodecName.OPAQUE:
        yield f"{place}: its change needs numbers; give {output!r} a codec"
    if not significance.change > 0:
        yield f"{place}: a change of {significance.change:g} always matters; give one above 0"
    if significance.against is not None and not significance.against > 0:
        yield f"{place}: the reference {significance.against:g} must be above 0"
    if not 0 < significance.tolerance < 1:
        yield f"{place}: a tolerance of {significance.tolerance:g} is not between 0 and 1"
    if significance.patience < 1:
        yield f"{place}: a patience of {significance.patience} runs is below 1"
    actions = {action.name: action for action in spec.actions}
    for name in significance.actions:
        action = actions.get(name)
        if action is None or not action.bounds:
            yield f"{place} searches the limits of {name!r}, which is no action with bounds"
    yield from (
        f"{place} does not name {action.name!r}, whose limits are to be searched for"
        for action in spec.actions
        if action.name not in significance.actions
        and any(bound.sequence == SOUGHT_SEQUENCE for bound in action.bounds)
    )
    if not any(output in actions[name].writes for name in significance.actions if name in actions):
        yield f"{place}: none of its actions writes the output {output!r}"


def _bound_problems(place: str, bound: Bound, codecs: Mapping[ContainerId, Codec]) -> Iterable[str]:
    if bound.container not in codecs:
        yield f"{place} watches container {bound.container!r}, which is not declared"
    if bound.time is None and bound.sequence is None and bound.value is None:
        yield f"{place} has no time, sequence or value; give at least one"
    if bound.time is not None:
        yield from _positive(f"{place}, time", bound.time)
    if bound.sequence is not None:
        yield from _positive(f"{place}, sequence", bound.sequence.limit)
    value = bound.value
    if value is None:
        return
    yield from _positive(f"{place}, value", value.limit)
    metric = definition_of(value.metric)
    if metric.constant and not (value.constant or 0) > 0:
        yield f"{place}: metric {value.metric.value!r} needs a constant above 0"
    if not metric.constant and value.constant is not None:
        yield f"{place}: metric {value.metric.value!r} takes no constant"
    codec = codecs.get(bound.container)
    if codec and codec.name is CodecName.OPAQUE and metric.numeric:
        name = value.metric.value
        yield f"{place}: metric {name!r} needs numbers; give {bound.container!r} a codec"
