"""Requests in partitions, delivered to an engine in any order, twice, or from a restart on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from random_dataflows import CLOSE, COLUMNS, EDGES, ROWS, Update
from recomputed import Oracle

from headgate.engine import (
    BoundResult,
    DataflowSpec,
    Dimension,
    Engine,
    Launch,
    Metric,
    PredecessorsResult,
    ReadCells,
    Restarted,
    RunFailed,
    RunFinished,
    ScanContainer,
    Tick,
    WaveEnded,
    check_invariants,
)
from headgate.engine.actions.runs import ActiveRun
from headgate.engine.protocol.stimuli import ContainerScanned, RecordArrived, Stimulus
from headgate.engine.spec.conditions import leaves
from headgate.events import (
    VERSION,
    Origin,
    Outcome,
    RequestPart,
    UpdateBatch,
    UpdateKind,
    partition_of,
    updates_topic,
)

PARTITIONS = 3


@dataclass
class World:
    """Publishes requests into partitions and delivers them to an engine, well or badly behaved."""

    spec: DataflowSpec
    chance: random.Random
    disorder: bool = False
    redeliver: bool = False
    republish: bool = False
    restart: bool = False
    engine: Engine = field(init=False)
    now: float = 1000.0
    launched: list[Launch] = field(default_factory=list)
    attempts: list[Launch] = field(default_factory=list)
    log: dict[tuple[str, int], list[UpdateBatch]] = field(default_factory=dict)
    read: dict[tuple[str, int], int] = field(default_factory=dict)
    updates: list[Update] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = Engine(self.spec)
        self.handle(Tick(self.now))

    def handle(self, stimulus: Stimulus) -> list[str]:
        names = []
        waiting = [stimulus]
        while waiting:
            for instruction in self.engine.handle(waiting.pop(0)):
                assert not isinstance(instruction, ReadCells)
                if isinstance(instruction, ScanContainer):
                    place = (instruction.container, instruction.table)
                    waiting.append(ContainerScanned(self.now, *place, [], []))
                if isinstance(instruction, Launch):
                    self.attempts.append(instruction)
                    if instruction.run not in {launch.run for launch in self.launched}:
                        self.launched.append(instruction)
                        names.append(instruction.action)
        return names

    def publish(self, updates: list[Update]) -> None:
        self.updates += updates
        parts: dict[tuple[str, int], list[Update]] = {}
        for update in updates:
            partition = partition_of(update.row, PARTITIONS)
            parts.setdefault((update.table, partition), []).append(update)
        for place, part in parts.items():
            log = self.log.setdefault(place, [])
            sequence = len({message.sequence for message in log})
            log.append(_batch(place[0], part, sequence))
            if self.republish and self.chance.random() < 0.3:
                log.append(self.chance.choice(log))

    def deliver(self) -> None:
        while True:
            places = [p for p, log in self.log.items() if self.read.get(p, 0) < len(log)]
            if not places:
                return
            place = self.chance.choice(places) if self.disorder else min(places)
            if self.redeliver and self.chance.random() < 0.3:
                self.read[place] = self.chance.randint(0, self.read.get(place, 0))
            offset = self.read.get(place, 0)
            topic = updates_topic(place[0])
            message = self.log[place][offset]
            self.handle(RecordArrived(self.now, topic, place[1], offset, message, PARTITIONS))
            self.read[place] = offset + 1
            self.maybe_restart()

    def maybe_restart(self) -> None:
        # A run that loses more attempts in a row is given up, which no story here tells.
        often = any(a.run and a.run.losses >= 3 for a in self.engine.actions.values())
        if self.restart and not often and self.chance.random() < 0.2:
            self.engine = Engine(self.spec, self.engine.snapshot())
            assert self.handle(Restarted(self.now)) == []


def _batch(table: str, updates: list[Update], sequence: int) -> UpdateBatch:
    requests = []
    for number in dict.fromkeys(u.request for u in updates):
        part = [u for u in updates if u.request == number]
        writer = part[0].writer
        origin = Origin("flow", writer, "run", 1) if writer is not None else None
        requests.append(
            RequestPart(number, "mutateRows", Outcome.APPLIED, 1000.0, len(part), 0, origin)
        )
    return UpdateBatch(
        VERSION,
        "observer",
        1,
        sequence,
        0,
        table,
        tuple(requests),
        bytes(UpdateKind.DELETE_COLUMN if u.value is None else UpdateKind.PUT for u in updates),
        tuple(u.row for u in updates),
        tuple(u.column for u in updates),
        (-1,) * len(updates),
        tuple(None if u.value is None else str(u.value).encode() for u in updates),
    )


def updates_of(numbers: Iterator[int], writer: str | None, table: str, written) -> list[Update]:
    request = next(numbers)
    return [Update(request, writer, table, row, c, v) for (row, c), v in written.items()]


def _output(run: str) -> dict[tuple[bytes, bytes], int | None]:
    chance = random.Random(run)
    keys = [(row, column) for row in ROWS for column in COLUMNS]
    return {
        key: chance.choice([None, 0, 1, 2, 3, 4, 5])
        for key in chance.sample(keys, chance.randint(0, 6))
    }


def play_waves(world: World, waves, failures: set[str], oracle: Oracle | None) -> None:
    """Play waves; each run writes what its id says, and fails for good if the script says so."""
    numbers = iter(range(1, 1_000_000))
    for wave in waves:
        for table, written in wave:
            updates = updates_of(numbers, None, table, written)
            world.publish(updates)
            if oracle is not None:
                oracle.history += updates
        world.deliver()
        if oracle is not None and any(u.table == "t-in" for u in oracle.history):
            oracle.has_run.add("in")
        world.now += 1
        _check(world, oracle, world.handle(WaveEnded(world.now, ("in",))), lambda o: _wave_ended(o))
        while active := [a for a in world.engine.actions.values() if a.run is not None]:
            play(world, active[0].name, failures, oracle, numbers)
            world.maybe_restart()


def _wave_ended(oracle: Oracle) -> list[str]:
    return oracle.end(["in"]) if "in" in oracle.has_run else []


def _active(world: World, name: str) -> ActiveRun:
    run = world.engine.actions[name].run
    assert run is not None
    return run


def play(world: World, name: str, failures: set[str], oracle: Oracle | None, numbers) -> None:
    run = _active(world, name)
    table = {"one": "t-one", "two": "t-two"}.get(name, "t-in")
    updates = updates_of(numbers, name, table, _output(run.run))
    world.publish(updates)
    if oracle is not None:
        oracle.history += updates
    world.deliver()
    world.now += 1
    run = _active(world, name)
    if run.run in failures:
        if world.engine.actions[name].state == "backoff":
            assert run.retry_at is not None
            world.now = max(world.now, run.retry_at)
            world.handle(Tick(world.now))
            run = _active(world, name)
        world.handle(RunFailed(world.now, name, run.run, run.attempt, "scripted"))
        if world.engine.actions[name].run is None and oracle is not None:
            oracle.give_up(name)
        return
    stimulus = RunFinished(world.now, name, run.run, run.attempt)
    _check(world, oracle, world.handle(stimulus), lambda o: o.finish(name))


def _check(world: World, oracle: Oracle | None, names: list[str], expected) -> None:
    check_invariants(world.engine)
    if oracle is None:
        return
    assert names == expected(oracle)
    for action in world.engine.explain(world.now).actions:
        result = action.result
        if result is None or isinstance(result, PredecessorsResult):
            continue
        for leaf in leaves(result):
            _agree(oracle, action.action, leaf)


ROUGH = {*EDGES, *CLOSE}


def _agree(oracle: Oracle, action: str, leaf: BoundResult) -> None:
    bound = next(b for b in oracle.steps[action].bounds if b.name == leaf.bound)
    sigma, nu = oracle.measure(action, bound)
    found = {vector.dimension: vector for vector in leaf.vectors}
    if sigma is not None:
        assert found[Dimension.SEQUENCE].value == sigma
    counted = bound.value is not None and bound.value.metric is Metric.CHANGED
    if nu is not None and (counted or not any(u.value in ROUGH for u in oracle.history)):
        assert found[Dimension.VALUE].value == nu
    if nu is not None and bound.value is not None:
        # Beside the largest values others are shown roughly; whether it is reached is exact.
        assert found[Dimension.VALUE].reached == (nu >= bound.value.limit)


def failing_runs(launched: list[Launch], chance: random.Random) -> set[str]:
    runs = [launch.run for launch in launched]
    return set(chance.sample(runs, min(1, len(runs))))
