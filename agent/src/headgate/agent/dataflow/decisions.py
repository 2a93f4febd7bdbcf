"""What was decided about a dataflow: for people, for metrics, and for replays."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

import msgspec

from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.dataflow.state import FlowState
from headgate.agent.kafka.outbox import Outbox
from headgate.agent.parts import Part
from headgate.agent.state.saved_state import FlowProgress
from headgate.engine import Decision, DecisionKind
from headgate.replay import PLACED, RecordedDecision

_KEPT = 100


class Decisions(Part):
    """Decisions of the engine, and what nobody decided and a replay must know."""

    def __init__(self, state: FlowState, context: RuntimeContext, progress: FlowProgress) -> None:
        self._state = state
        self._metrics = context.metrics
        self._outbox = Outbox(context.broker, state.name, context.post, progress.decisions)
        self._skipped = Counter(progress.skipped)
        self.newest: deque[Decision] = deque(maxlen=_KEPT)

    def saved(self) -> dict[str, object]:
        """Return fields of ``FlowProgress``."""
        return {"decisions": self._outbox.left, "skipped": dict(self.skipped)}

    @property
    def skipped(self) -> Counter[str]:
        """Evaluations after which nothing ran, by action."""
        self._skipped += self._state.engine.take_idle_evaluations()
        return self._skipped

    def take(self, decision: Decision) -> None:
        """Take a decision of the engine, and have it published with the next that is sent."""
        self.newest.append(decision)
        self._metrics.decisions.labels(decision.kind.value, decision.action).inc()
        if decision.kind is DecisionKind.SKIPPED:
            self._skipped[decision.action] += 1
        self._record(decision)

    def publish(self, now: float, kind: DecisionKind, words: str, **details: Any) -> None:
        """Publish what nobody decided and a replay must know."""
        self._record(Decision(now, self._state.name, kind, words), **details)
        self.send()

    def send(self) -> None:
        """Publish what was recorded."""
        self._outbox.send()

    def _record(self, decision: Decision, **details: Any) -> None:
        if decision.kind in PLACED:
            details["cut"] = self._state.position
        if decision.kind in {DecisionKind.SUBMITTED, DecisionKind.SPECIFICATION_CHANGED}:
            definition = self._state.definition
            details |= {"source": definition.source, "profile": definition.profile}
        recorded = RecordedDecision(**msgspec.structs.asdict(decision), **details)
        self._outbox.add(msgspec.json.encode(recorded))
