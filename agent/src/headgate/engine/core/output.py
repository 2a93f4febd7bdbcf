"""What an engine wants done about a stimulus, in its order."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.engine.actions.action import Action
from headgate.engine.actions.state import EngineState
from headgate.engine.protocol.adjustments import Adjustment
from headgate.engine.protocol.instructions import (
    Decision,
    DecisionKind,
    Instruction,
    RecordDecision,
)
from headgate.engine.spec.conditions import ConditionResult

_JUDGED = frozenset({DecisionKind.LAUNCHED, DecisionKind.SKIPPED, DecisionKind.HELD})
"""Decisions that a trigger has made, where they have a result."""


class Output:
    """Instructions that are not returned yet, decisions among them."""

    def __init__(self, state: EngineState) -> None:
        self._state = state
        self._instructions: list[Instruction] = []

    def add(self, instruction: Instruction) -> None:
        """Have an instruction returned after those before."""
        self._instructions.append(instruction)

    def take(self) -> list[Instruction]:
        """Return all instructions since the last call."""
        taken, self._instructions = self._instructions, []
        return taken

    def decide(
        self,
        kind: DecisionKind,
        words: str,
        action: Action | None = None,
        *,
        moment: str = "",
        result: ConditionResult | None = None,
        adjustment: Adjustment | None = None,
        versions: Mapping[str, str] | None = None,
    ) -> None:
        """Record a decision, about an action and its run where one is named.

        With ``versions`` None, what a trigger has judged is recorded with what it goes by.
        """
        run = action.run if action is not None else None
        if versions is None and action is not None and result is not None and kind in _JUDGED:
            versions = None if action.adopts is None else action.adopts.versions()
        decision = Decision(
            time=self._state.now,
            dataflow=self._state.spec.name,
            kind=kind,
            words=words,
            action=action.name if action is not None else "",
            run=run.run if run is not None else "",
            attempt=run.attempt if run is not None else 0,
            moment=moment,
            result=result,
            adjustment=adjustment,
            versions=dict(versions or {}),
        )
        self._instructions.append(RecordDecision(decision))

    def refuse(self, words: str, action: Action | None = None) -> None:
        """Record that what was asked for makes no sense now."""
        self.decide(DecisionKind.REFUSED, words, action)
