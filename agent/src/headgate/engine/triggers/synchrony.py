"""Strict synchrony: an action without bounds follows each of its predecessors."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from headgate.engine.spec.conditions import ConditionResult, PredecessorsResult
from headgate.engine.spec.dataflow import ActionSpec, SpecificationError
from headgate.engine.triggers.policy import Inputs, Needs, TriggerPolicy


class Synchronous(TriggerPolicy):
    """It runs when all its predecessors have, since its last launch.

    Raises:
        SpecificationError: the action gives it settings.
    """

    kind: ClassVar[str] = "synchrony"

    def __init__(self, spec: ActionSpec) -> None:
        if spec.trigger is not None and spec.trigger.settings:
            names = ", ".join(map(repr, spec.trigger.settings))
            problem = f"action {spec.name!r}: trigger {self.kind!r} takes no settings, not {names}"
            raise SpecificationError((problem,))
        moments = spec.effective_evaluation
        if moments.every is None:
            moments = msgspec.structs.replace(moments, action_end=True)
        self.needs = Needs(moments=moments)

    def explain(self, inputs: Inputs, now: float) -> ConditionResult:  # noqa: ARG002 -- the interface
        """Return which predecessors are awaited; it is reached once none is."""
        ended = tuple(name for name in inputs.predecessors if name in inputs.ended)
        waiting = tuple(name for name in inputs.predecessors if name not in inputs.ended)
        return PredecessorsResult(bool(ended) and not waiting, ended, waiting)
