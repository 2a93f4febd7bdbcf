"""Dataflows that run in memory and are recorded as an agent and its observers would."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import msgspec
import pytest

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    DataflowSpec,
    DecisionKind,
    EngineTester,
    Instruction,
    RecordDecision,
    Stimulus,
    WatchedContainer,
)
from headgate.events import Container, ContainerId, Cut, Item, UpdateMessage, updates_topic
from headgate.replay import (
    PLACED,
    Candidate,
    RecordedDecision,
    RecordedUpdate,
    Recording,
    ReplayReport,
    in_order,
    read_recording,
    replay,
)

Cells = dict[tuple[bytes, bytes], bytes]
Step = Callable[["Recorded", list[bytes]], Mapping[bytes, Mapping[bytes, bytes | None]]]
"""Rows to write, given the recorded world and the rows of its input that changed since."""

COLUMN = b"c:v"


class Recorded(EngineTester):
    """A dataflow over tables of its containers' names; every run takes ``seconds``."""

    def __init__(
        self, spec: DataflowSpec, steps: Mapping[str, Step], *, partitions: int = 2
    ) -> None:
        self.steps = steps
        self.lines: list[bytes] = []
        self.updates: dict[tuple[str, int], list[RecordedUpdate]] = {}
        self.waves = 0
        self.changed: dict[str, dict[bytes, None]] = {name: {} for name in steps}
        self.seconds = 2.0
        self._cut = Cut()
        self.source = spec.name
        super().__init__(spec, partitions=partitions)
        self.lines.insert(
            0,
            msgspec.json.encode(
                RecordedDecision(self.now, spec.name, DecisionKind.SUBMITTED, "", source="x")
            ),
        )

    def handle(self, stimulus: Stimulus) -> list[Instruction]:
        told = super().handle(stimulus)
        for instruction in told:
            if isinstance(instruction, RecordDecision):
                decision = instruction.decision
                cut = self.engine.cut if decision.kind in PLACED else Cut()
                recorded = RecordedDecision(**msgspec.structs.asdict(decision), cut=cut)
                self.lines.append(msgspec.json.encode(recorded))
        return told

    def publish(
        self, table: str, message: UpdateMessage, *, partition: int = 0
    ) -> list[Instruction]:
        log = self.updates.setdefault((updates_topic(table), partition), [])
        log.append(RecordedUpdate(updates_topic(table), partition, len(log), self.now, message))
        return super().publish(table, message, partition=partition)

    def feed(self, table: str, values: Mapping[bytes, float]) -> None:
        self.now += 0.01
        self._note(table, values)
        self.write(table, {row: {COLUMN: b"%.6f" % value} for row, value in values.items()})

    def _note(self, table: str, rows: Mapping[bytes, object]) -> None:
        for action in self.spec.actions:
            if table in action.reads and action.name in self.changed:
                self.changed[action.name].update(dict.fromkeys(rows))

    def end_wave(self) -> None:
        """End a wave of all inputs, and let all runs end that come of it."""
        for _ in range(60):
            self.pass_time(1.0)
            self.work()
        self.waves += 1
        inputs = tuple(a.name for a in self.spec.actions if a.role is ActionRole.INPUT)
        wave = RecordedDecision(
            self.now,
            self.spec.name,
            DecisionKind.WAVE_ENDED,
            "",
            cut=self.engine.cut,
            wave=self.waves,
            inputs=inputs,
        )
        self.lines.append(msgspec.json.encode(wave))
        self.wave(*inputs)
        self.work()

    def work(self) -> None:
        while active := [name for name, a in self.engine.actions.items() if a.run is not None]:
            self.run_step(active[0])

    def run_step(self, action: str) -> None:
        """Let a step write and end."""
        self.pass_time(self.seconds)
        changed, self.changed[action] = sorted(self.changed[action]), {}
        written = self.steps[action](self, changed)
        spec = next(a for a in self.spec.actions if a.name == action)
        if written:
            table = str(spec.writes[0])
            self._note(table, written)
            self.write(table, written, by=action)
        self.finish(action)

    def values(self, table: str) -> dict[bytes, float]:
        return {row: float(value) for (row, _), value in self.tables.get(table, {}).items()}

    def recording(self) -> Recording:
        return read_recording(self.spec.name, self.lines)

    def replay(self, *specs: DataflowSpec) -> ReplayReport:
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
        candidates = [Candidate(str(i), spec) for i, spec in enumerate(specs)]
        return replay(recording, events, topics, candidates)


def watched(name: str) -> WatchedContainer:
    return WatchedContainer(Container(ContainerId(name), (Item(name, b"c", b"v"),)))


def chain(**bounds: Bound | None) -> DataflowSpec:
    """Return ``readings -> smooth -> high -> total``, each step with its bound or synchronous."""
    names = ("readings", "smoothed", "heights", "totals")
    steps = {"smooth": 0, "high": 1, "total": 2}
    return DataflowSpec(
        "chain",
        tuple(map(watched, names)),
        (
            ActionSpec("feed", ActionRole.INPUT, writes=(ContainerId("readings"),)),
            *(
                ActionSpec(
                    name,
                    after=("feed",) if place == 0 else (list(steps)[place - 1],),
                    reads=(ContainerId(names[place]),),
                    writes=(ContainerId(names[place + 1]),),
                    bounds=tuple(filter(None, [bounds.get(name)])),
                )
                for name, place in steps.items()
            ),
        ),
    )


def smooth(world: Recorded, changed: list[bytes]) -> dict[bytes, dict[bytes, bytes]]:
    """Mean of each place and its neighbours, for places with a changed one."""
    values = world.values("readings")
    near = {n for row in changed for n in (int(row) - 1, int(row), int(row) + 1)}
    out = {}
    for place in sorted(near):
        known = [v for n in (place - 1, place, place + 1) if (v := values.get(b"%03d" % n))]
        if b"%03d" % place in values:
            out[b"%03d" % place] = {COLUMN: b"%.6f" % (sum(known) / len(known))}
    return out


def high(world: Recorded, changed: list[bytes]) -> dict[bytes, dict[bytes, bytes]]:
    """Places above 50; only those that are not as before."""
    values, before = world.values("smoothed"), world.values("heights")
    out = {}
    for row in changed:
        value = values[row] if values[row] > 50 else 0.0
        if before.get(row) != value:
            out[row] = {COLUMN: b"%.6f" % value}
    return out


def total(world: Recorded, changed: list[bytes]) -> dict[bytes, dict[bytes, bytes]]:
    del changed
    heights = [v for v in world.values("heights").values() if v > 0]
    return {b"now": {COLUMN: b"%.6f" % (sum(heights) / 10)}}


STEPS: dict[str, Step] = {"smooth": smooth, "high": high, "total": total}


def run_waves(
    spec: DataflowSpec, seed: int, waves: int = 30, places: int = 40, seconds: float = 2.0
) -> Recorded:
    """Record ``spec`` over seeded waves, each of a random part of the places."""
    chance = random.Random(seed)
    world = Recorded(spec, STEPS)
    world.seconds = seconds
    for wave in range(waves):
        count = places if wave == 0 else max(1, round(chance.random() * places))
        chosen = sorted(chance.sample(range(places), count))
        level = 50 + 10 * chance.random() - 5
        world.feed("readings", {b"%03d" % n: level + 15 * chance.gauss(0, 1) for n in chosen})
        world.end_wave()
    return world


@pytest.fixture(scope="module")
def make_chain() -> Callable[..., DataflowSpec]:
    return chain


@pytest.fixture(scope="module")
def record() -> Callable[..., Recorded]:
    return run_waves
