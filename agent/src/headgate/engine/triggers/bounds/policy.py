"""Bounds as a policy: a condition over them is reached, or not yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from headgate.engine.cells.columns import Detail
from headgate.engine.spec.conditions import (
    BoundResult,
    ConditionResult,
    Dimension,
    bounds_of,
    evaluate,
)
from headgate.engine.spec.dataflow import ActionSpec, Bound, SequenceUnit, SpecificationError
from headgate.engine.triggers.bounds.asked import AskedMetrics
from headgate.engine.triggers.bounds.measures import Precision, current_limit, is_below, measure
from headgate.engine.triggers.facets import Adjusts, Blocks, Foresees
from headgate.engine.triggers.policy import (
    Advice,
    ContainerWatch,
    Heard,
    Inputs,
    Limits,
    Moment,
    Needs,
    NeedsAnswer,
    NeedsReading,
    Nothing,
    Notice,
    Response,
    RunNow,
    TriggerPolicy,
    Verdict,
    WaitUntil,
)

BOUNDS: Final = "bounds"
"""The kind of these policies, and of who answers what their users' metrics ask."""


class Bounded(TriggerPolicy, Foresees, Blocks, Adjusts):
    """An action with a condition over bounds.

    Raises:
        SpecificationError: the action has none.
    """

    kind: ClassVar[str] = BOUNDS

    def __init__(self, spec: ActionSpec) -> None:
        condition = spec.effective_condition
        if condition is None:
            raise SpecificationError((f"action {spec.name!r} has no bounds; give it some",))
        self._condition = condition
        self._named = bounds_of(condition)
        self.bounds = {bound.name: bound for bound in spec.bounds}
        self.limits: dict[tuple[str, Dimension], float] = {}
        """Current limits of intervals."""
        self.blocking = tuple(bound.name for bound in spec.bounds if bound.block)
        self.adjustable = spec.bounds
        self.needs = Needs(watches_of(spec), spec.effective_evaluation)
        self._asked = AskedMetrics(spec.bounds)

    def judge(self, inputs: Inputs, now: float) -> Verdict:
        """Return ``RunNow`` when the condition is reached, and rounding cannot change why."""
        verdict = self._judged(inputs, now)
        self._asked.settle()
        return verdict

    def _judged(self, inputs: Inputs, now: float) -> Verdict:
        result = self.result(inputs, Precision.RUNNING)
        # Unsettled cells are read even when a run is certain: their values become its x′.
        unknown = inputs.unsettled or (inputs.unscanned and not result.reached)
        if unknown and self.result(inputs, Precision.OPTIMISTIC).reached:
            return NeedsReading(result)
        if result.reached:
            exact = self.result(inputs, Precision.EXACT)
            if exact.reached:
                return RunNow(exact)
            result = exact
        if self._asked.names and self.result(inputs, Precision.OPTIMISTIC).reached:
            parts = {name: inputs.parts(self.bounds[name].container) for name in self._asked.names}
            question = self._asked.question(parts)
            if question is not None:
                return NeedsAnswer(question, result)
        ahead = self._ahead(inputs, now)
        return Nothing(result) if ahead is None else WaitUntil(ahead, result)

    def stays_idle(self, inputs: Inputs, now: float, wait_until: float | None) -> bool:
        """Return whether every bound is surely below its limits: then no condition is reached."""
        clock, increases = inputs.clock, inputs.increases
        for name in self._named:
            bound = self.bounds[name]
            parts = inputs.parts(bound.container)
            if not is_below(bound, self.limits, parts, clock, increases, self._asked):
                return False
        return wait_until == self._ahead(inputs, now)

    def explain(self, inputs: Inputs, now: float) -> ConditionResult:  # noqa: ARG002 -- the interface
        """Return the condition as it stands; sums that may be rounded away are not kept."""
        return self.result(inputs, Precision.SHOWN)

    def times(self, inputs: Inputs) -> Sequence[float]:
        """Return when the θ of each bound is reached."""
        found = (self._time_of(bound, inputs.clock.since) for bound in self.bounds.values())
        return [time for time in found if time is not None]

    def holding(self, inputs: Inputs) -> tuple[str, ...]:
        """Return the blocking bounds that are reached."""
        return tuple(name for name in self.blocking if self._is_reached(inputs, name))

    def adjust(self, limits: Limits) -> None:
        """Have other limits hold."""
        self.limits.update(limits)

    def heard(self, event: Heard, inputs: Moment) -> Sequence[Response]:  # noqa: ARG002 -- the interface
        """Take what users' metrics have answered; have them answer anew from another cut on."""
        match event:
            case Advice(answer, reason):
                self._asked.take(answer, reason)
            case Notice.LAUNCHED | Notice.GIVEN_UP:
                self._asked.forget()
            case _:
                pass
        return ()

    def result(self, inputs: Inputs, precision: Precision) -> ConditionResult:
        """Return the condition's result tree."""
        measured = {name: self._measured(inputs, name, precision) for name in self._named}
        return evaluate(self._condition, measured)

    def _measured(self, inputs: Inputs, name: str, precision: Precision) -> BoundResult:
        bound = self.bounds[name]
        parts = inputs.parts(bound.container)
        return measure(bound, self.limits, parts, inputs.clock, precision, self._asked)

    def _is_reached(self, inputs: Inputs, name: str) -> bool:
        bound = self.bounds[name]
        parts = inputs.parts(bound.container)
        if is_below(bound, self.limits, parts, inputs.clock, inputs.increases, self._asked):
            return False
        return self._measured(inputs, name, Precision.RUNNING).reached

    def _ahead(self, inputs: Inputs, now: float) -> float | None:
        since = inputs.clock.since
        times = [self._time_of(self.bounds[name], since) for name in self._named]
        return min((time for time in times if time is not None and time > now), default=None)

    def _time_of(self, bound: Bound, since: float | None) -> float | None:
        """Return when the bound's θ is reached; None if never or if its clock does not run yet."""
        if bound.time is None or since is None:
            return None
        return since + current_limit(self.limits, bound.name, Dimension.TIME, bound.time)


def watches_of(spec: ActionSpec) -> tuple[ContainerWatch, ...]:
    """Return the containers of an action's bounds, each once, as these need them."""
    found: dict[str, ContainerWatch] = {}
    for bound in spec.bounds:
        before = found.get(bound.container, ContainerWatch(bound.container))
        distinct = bound.sequence is not None and bound.sequence.distinct
        found[bound.container] = ContainerWatch(
            bound.container, max(before.detail, _detail_of(bound)), before.distinct or distinct
        )
    return tuple(found.values())


def _detail_of(bound: Bound) -> Detail:
    """Return how much of a container's cells a bound must know."""
    if bound.value is not None:
        return Detail.VALUES
    if bound.sequence is not None and bound.sequence.unit is SequenceUnit.PERCENT:
        return Detail.KEYS
    return Detail.COUNTS
