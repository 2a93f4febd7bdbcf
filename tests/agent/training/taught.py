"""Dataflows that run in memory and are recorded as agents and observers do, and lessons of them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import msgspec
from lived import READS, WRITES, Lived
from msgspec import Struct

from headgate.agent.training.teacher import Lesson, Wanted, teach, teach_service
from headgate.engine import (
    DataflowSpec,
    DecisionKind,
    EngineTester,
    Instruction,
    RecordDecision,
    Stimulus,
)
from headgate.events import Cut, Outcome, UpdateBatch, UpdateMessage, updates_topic
from headgate.learning import Graph, ServiceWaves, Step
from headgate.replay import (
    PLACED,
    RecordedDecision,
    RecordedUpdate,
    Recording,
    ReplayedDecision,
    in_order,
    read_recording,
)

GRAPH = Graph([Step(name, READS[name], (WRITES[name],)) for name in READS])
STEPS = tuple(READS)


class RecordedWorld(EngineTester):
    """A world that is recorded; some messages come twice."""

    twice = 0.0
    """Share of the messages that are published again."""

    def __init__(self, spec: DataflowSpec, **options: Any) -> None:
        self.lines: list[bytes] = []
        self.updates: dict[tuple[str, int], list[RecordedUpdate]] = {}
        self.chance = random.Random(7)
        super().__init__(spec, **options)
        self.lines.insert(0, self._line(kind=DecisionKind.SUBMITTED, source="x"))

    def _line(self, **fields: Any) -> bytes:
        values = {"time": self.now, "dataflow": self.spec.name, "words": "", **fields}
        return msgspec.json.encode(RecordedDecision(**values))

    def record(self, kind: DecisionKind, **fields: Any) -> None:
        self.lines.append(self._line(kind=kind, cut=self.engine.cut, **fields))

    def handle(self, stimulus: Stimulus) -> list[Instruction]:
        wanted = super().handle(stimulus)
        for instruction in wanted:
            if isinstance(instruction, RecordDecision):
                decision = instruction.decision
                cut = self.engine.cut if decision.kind in PLACED else Cut()
                fields = msgspec.structs.asdict(decision)
                self.lines.append(msgspec.json.encode(RecordedDecision(**fields, cut=cut)))
        return wanted

    def publish(
        self, table: str, message: UpdateMessage, *, partition: int = 0
    ) -> list[Instruction]:
        wanted: list[Instruction] = []
        for _ in range(2 if self.chance.random() < self.twice else 1):
            topic = updates_topic(table)
            log = self.updates.setdefault((topic, partition), [])
            log.append(RecordedUpdate(topic, partition, len(log), self.now, message))
            wanted += super().publish(table, message, partition=partition)
        return wanted

    def wave(self, *actions: str, number: int = 0, time: float | None = None) -> list[Instruction]:
        self.record(DecisionKind.WAVE_ENDED, wave=number, wave_time=time, inputs=actions)
        return super().wave(*actions, number=number, time=time)


class Hostile(RecordedWorld):
    twice = 0.3


class Unsure(RecordedWorld):
    """A world in which some clients never hear of a write to the sensors that was not applied."""

    def publish(
        self, table: str, message: UpdateMessage, *, partition: int = 0
    ) -> list[Instruction]:
        wanted = super().publish(table, message, partition=partition)
        if table != "sensors" or not isinstance(message, UpdateBatch):
            return wanted
        if self.chance.random() > 0.05:
            return wanted
        sequence = self._sequences[table, partition]
        self._sequences[table, partition] += 1
        self._intents += 1
        lost = msgspec.structs.replace(
            message,
            sequence=sequence,
            watermark=self._intents,
            requests=tuple(
                msgspec.structs.replace(each, intent=self._intents, outcome=Outcome.UNKNOWN)
                for each in message.requests
            ),
            values=(b"999",) * len(message.values),
        )
        return wanted + super().publish(table, lost, partition=partition)


def recording_of(world: RecordedWorld) -> Recording:
    return read_recording(world.spec.name, world.lines)


class Record(Struct):
    """What Kafka has of a world."""

    recording: Recording
    events: list[RecordedUpdate | ReplayedDecision]
    partitions: dict[str, int]


def record_of(lived: Lived, lost: frozenset[tuple[str, int]] = frozenset()) -> Record:
    """Return all that was recorded, but for records (topics, offsets) that nobody can decode."""
    world = lived.tester
    assert isinstance(world, RecordedWorld)
    recording = recording_of(world)
    topics = {
        updates_topic(table): world.partitions
        for watched in world.spec.containers
        for table in watched.container.tables
    }
    logs = {place: iter(log) for place, log in world.updates.items()}

    def fetch(topic: str, partition: int) -> RecordedUpdate | None:
        found = next(logs.get((topic, partition), iter(())), None)
        if found is not None and (topic, found.offset) in lost:
            return msgspec.structs.replace(found, message=None)
        return found

    return Record(recording, list(in_order(recording.decisions, topics, fetch)), topics)


def lesson_of(
    lived: Lived,
    wanted: Wanted,
    outputs: Iterable[str] = ("level", "map"),
    lost: frozenset[tuple[str, int]] = frozenset(),
) -> Lesson:
    """Return what a teacher makes of all that was recorded; see ``record_of``."""
    record = record_of(lived, lost)
    return teach(
        record.recording,
        record.events,
        record.partitions,
        lived.tester.spec,
        GRAPH,
        tuple(outputs),
        wanted,
    )


def service_of(
    lived: Lived, wanted: Wanted, lost: frozenset[tuple[str, int]] = frozenset()
) -> dict[str, ServiceWaves]:
    """Return in which waves outputs were made, of all that was recorded; see ``record_of``."""
    record = record_of(lived, lost)
    return teach_service(
        record.recording,
        record.events,
        record.partitions,
        lived.tester.spec,
        GRAPH,
        ("level", "map"),
        wanted,
    )
