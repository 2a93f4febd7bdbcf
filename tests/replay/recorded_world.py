"""A dataflow in memory that is recorded as its agent and its observers would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headgate.agent import POLICIES
from headgate.engine import (
    DataflowSpec,
    DecisionKind,
    EngineTester,
    Instruction,
    RecordDecision,
    Stimulus,
)
from headgate.events import Cut, UpdateMessage, updates_topic
from headgate.replay import (
    PLACED,
    Candidate,
    ModelKey,
    RecordedDecision,
    RecordedModels,
    RecordedUpdate,
    Recording,
    ReplayReport,
    in_order,
    read_recording,
    replay,
)


class RecordedTester(EngineTester):
    """An engine with imagined tables, what it decides, and what others publish."""

    def __init__(self, spec: DataflowSpec, **options: Any) -> None:
        self.lines: list[bytes] = []
        """The decisions topic."""
        self.updates: dict[tuple[str, int], list[RecordedUpdate]] = {}
        super().__init__(spec, **options)
        begun = RecordedDecision(self.now, spec.name, DecisionKind.SUBMITTED, "", source="x")
        self.lines.insert(0, msgspec.json.encode(begun))

    def handle(self, stimulus: Stimulus) -> list[Instruction]:
        told = super().handle(stimulus)
        for instruction in told:
            if isinstance(instruction, RecordDecision):
                decision = instruction.decision
                cut = self.engine.cut if decision.kind in PLACED else Cut()
                recorded = RecordedDecision(**msgspec.structs.asdict(decision), cut=cut)
                self.lines.append(msgspec.json.encode(recorded))
        return told

    def note(self, kind: DecisionKind, **details: Any) -> None:
        """Record what nobody decided and a replay must know."""
        noted = RecordedDecision(self.now, self.spec.name, kind, "", cut=self.engine.cut, **details)
        self.lines.append(msgspec.json.encode(noted))

    def publish(
        self, table: str, message: UpdateMessage, *, partition: int = 0
    ) -> list[Instruction]:
        log = self.updates.setdefault((updates_topic(table), partition), [])
        log.append(RecordedUpdate(updates_topic(table), partition, len(log), self.now, message))
        return super().publish(table, message, partition=partition)

    def recording(self) -> Recording:
        return read_recording(self.spec.name, self.lines)

    def replay(
        self,
        *specs: DataflowSpec,
        models: Mapping[ModelKey, bytes] | None = None,
        changes: Mapping[int, DataflowSpec] | None = None,
    ) -> ReplayReport:
        recording = self.recording()
        topics = {
            updates_topic(table): self.partitions
            for watched in self.spec.containers
            for table in watched.container.tables
        }
        logs = {place: iter(log) for place, log in self.updates.items()}
        events = in_order(
            recording.decisions, topics, lambda *place: next(logs.get(place, iter(())), None)
        )
        candidates = [Candidate(str(i), spec, changes or {}) for i, spec in enumerate(specs)]
        known = RecordedModels(recording, models or {})
        return replay(recording, events, topics, candidates, POLICIES, known)
