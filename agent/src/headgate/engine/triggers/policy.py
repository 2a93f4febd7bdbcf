"""Trigger policies: whether an action should run now, given the state of its inputs.

The interface is narrow on purpose: whatever decides (bounds, strict synchrony, something learned)
sees ``Inputs`` and answers with a ``Verdict``; the engine does everything else.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Protocol

from msgspec import Struct

from headgate.engine.spec.conditions import (
    BoundResult,
    Condition,
    ConditionResult,
    PredecessorsResult,
    bounds_of,
    evaluate,
)
from headgate.engine.triggers.bounds import Precision


class Run(Struct, frozen=True):
    """Run now."""

    result: ConditionResult


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


Verdict = Run | WaitUntil | Nothing | NeedsReading


class Inputs(Protocol):
    """The state of an action's inputs at one moment."""

    @property
    def predecessors(self) -> tuple[str, ...]:
        """The actions that precede."""

    @property
    def ended(self) -> AbstractSet[str]:
        """The predecessors that ended since the action's last launch."""

    @property
    def unscanned(self) -> bool:
        """Whether a container's first scan is awaited."""

    @property
    def unsettled(self) -> bool:
        """Whether a value bound watches cells that must be read to be known."""

    def measure(self, bound: str, precision: Precision) -> BoundResult:
        """Return how far a bound of the action is."""

    def is_below(self, bound: str) -> bool:
        """Return cheaply whether a bound is surely not reached, and nothing of it unknown."""

    def time_bound(self, bound: str) -> float | None:
        """Return when the bound's θ is reached, in Unix seconds; None if never or not known yet."""


class TriggerPolicy(Protocol):
    """Decides when an action runs."""

    def judge(self, inputs: Inputs, now: float) -> Verdict:
        """Return what to do at ``now``, with the reason."""

    def stays_idle(self, inputs: Inputs, now: float, wait_until: float | None) -> bool:
        """Return cheaply whether nothing is to be done before ``wait_until``; False: judge."""


class Synchronous:
    """An action without bounds: it runs when all its predecessors have, since its last launch."""

    def judge(self, inputs: Inputs, now: float) -> Verdict:  # noqa: ARG002 -- the interface
        """Return ``Run`` once no predecessor is awaited."""
        ended = tuple(name for name in inputs.predecessors if name in inputs.ended)
        waiting = tuple(name for name in inputs.predecessors if name not in inputs.ended)
        result = PredecessorsResult(bool(ended) and not waiting, ended, waiting)
        return Run(result) if result.reached else Nothing(result)

    def stays_idle(self, inputs: Inputs, now: float, wait_until: float | None) -> bool:  # noqa: ARG002
        """Return False: there is nothing cheaper than to judge."""
        return False


class Bounded:
    """An action with a condition over bounds."""

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self._bounds = bounds_of(condition)

    def judge(self, inputs: Inputs, now: float) -> Verdict:
        """Return ``Run`` when the condition is reached, for reasons that rounding cannot change."""
        result = self.result(inputs, Precision.RUNNING)
        # Unsettled cells are read even when a run is certain: their values become its x′.
        unknown = inputs.unsettled or (inputs.unscanned and not result.reached)
        if unknown and self.result(inputs, Precision.OPTIMISTIC).reached:
            return NeedsReading(result)
        if result.reached:
            exact = self.result(inputs, Precision.EXACT)
            if exact.reached:
                return Run(exact)
            result = exact
        ahead = self._ahead(inputs, now)
        return Nothing(result) if ahead is None else WaitUntil(ahead, result)

    def stays_idle(self, inputs: Inputs, now: float, wait_until: float | None) -> bool:
        """Return whether every bound is surely below its limits: then no condition is reached."""
        return all(map(inputs.is_below, self._bounds)) and wait_until == self._ahead(inputs, now)

    def _ahead(self, inputs: Inputs, now: float) -> float | None:
        times = [inputs.time_bound(name) for name in self._bounds]
        return min((time for time in times if time is not None and time > now), default=None)

    def result(self, inputs: Inputs, precision: Precision) -> ConditionResult:
        """Return the condition's result tree."""
        measured = {name: inputs.measure(name, precision) for name in self._bounds}
        return evaluate(self.condition, measured)
