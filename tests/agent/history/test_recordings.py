"""What a runtime records is enough to replay it: agents, workers and observers in memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from simulation import World

from headgate.engine import DataflowSpec, DecisionKind, SequenceBound, WaveEnded, policies_of
from headgate.events import updates_topic
from headgate.flows import Dataflow, parse_dataflow
from headgate.replay import (
    Candidate,
    NothingRecorded,
    NotRecorded,
    RecordedUpdate,
    Recording,
    Replayed,
    RetentionPassed,
    differences,
    in_order,
    read_recording,
    replay,
)

MakeWorld = Callable[..., World]


def recorded(world: World) -> Recording:
    return read_recording(world.dataflow.name, world.decisions)


def replayed(world: World, *specs: DataflowSpec) -> list[Replayed]:
    recording = recorded(world)
    topics = {updates_topic(table): world.partitions for table in ("in", "mid", "out")}
    logs = {
        (topic, partition): iter(
            [
                RecordedUpdate(topic, partition, offset, when, message)
                for offset, (message, when) in enumerate(
                    zip(messages, world.times[topic][partition], strict=True)
                )
            ]
        )
        for topic in topics
        for partition, messages in enumerate(world.topic(topic))
    }
    events = in_order(recording.decisions, topics, lambda *place: next(logs[place], None))
    candidates = [Candidate(str(i), spec) for i, spec in enumerate(specs)]
    return list(replay(recording, events, topics, candidates, policies_of).replays)


def bounded(spec: DataflowSpec, limit: float) -> DataflowSpec:
    feed, first, second = spec.actions
    [bound] = first.bounds
    return replace(
        spec,
        actions=(
            feed,
            replace(first, bounds=(replace(bound, sequence=SequenceBound(limit)),)),
            second,
        ),
    )


def waves(world: World, count: int, chance: random.Random, days: float = 0.0) -> None:
    """Have waves of input; so many days after one another, where there are any."""
    world.run(lambda: True)
    for wave in range(1, count + 1):
        for _ in range(chance.randint(0, 4)):
            world.write("in", b"%d" % chance.randrange(5), b"c:v", b"%d" % wave)
        mark(world, days * 86_400.5 * wave if days else None)
        world.run(lambda: world.agents[-1].settled() >= wave)  # noqa: B023


def mark(world: World, time: float | None = None) -> None:
    before = world.agents[-1].waves()
    while world.agents[-1].waves() == before or not world.agents[-1].alive:
        if not world.agents[-1].alive:
            world.start_agent()
            continue
        world.agents[-1].ask(lambda runtime, now: runtime.waves.mark((), now, time) and None)


@pytest.mark.parametrize("seed", range(6))
def test_a_replay_makes_the_runs_that_the_agent_made(
    make_world: MakeWorld, dataflow: Dataflow, seed: int
) -> None:
    world = make_world(seed=seed)
    waves(world, 12, random.Random(seed))
    [same, wider] = replayed(world, dataflow.spec, bounded(dataflow.spec, 6))
    assert differences(same, recorded(world)) == ()
    assert same.runs == len(world.commits) > 4
    assert 0 < wider.runs < same.runs


@pytest.mark.parametrize("kill", range(6, 66, 4))
def test_it_does_so_when_an_agent_was_replaced_meanwhile(
    make_world: MakeWorld, dataflow: Dataflow, kill: int
) -> None:
    world = make_world(kill=kill, victims=frozenset({"agent"}))
    waves(world, 5, random.Random(7))
    assert len(world.agents) == 2
    [same] = replayed(world, dataflow.spec)
    assert {(s.action, len(s.runs)) for s in same.steps} == {
        (action, sum(r.action == action for r in world.commits)) for action in ("first", "second")
    }


@pytest.mark.parametrize("days", [0.0, 1.0])
@pytest.mark.parametrize("kill", [0, 30, 42])
def test_a_replay_ends_waves_with_the_numbers_and_times_that_the_agent_ended_them_with(
    make_world: MakeWorld,
    dataflow: Dataflow,
    ended_waves: list[WaveEnded],
    days: float,
    kill: int,
) -> None:
    world = make_world(kill=kill, victims=frozenset({"agent"}))
    waves(world, 5, random.Random(7), days)
    assert len(world.agents) == 2 - (kill == 0)
    real = {ended.number: ended.time for ended in ended_waves}
    ended_waves.clear()
    replayed(world, dataflow.spec)
    assert [(ended.number, ended.time) for ended in ended_waves] == list(real.items())
    assert list(real) == [1, 2, 3, 4, 5]


def test_cells_that_no_event_tells_of_are_said(dataflow: Dataflow) -> None:
    source = dataflow.source.replace("sequence: 3", "sequence: 50%")
    world = World(parse_dataflow(source, "percentages.yaml"))
    world.tables["in"] = {(b"old", b"c:v"): b"1"}
    waves(world, 1, random.Random(1))
    with pytest.raises(NotRecorded, match="held 1 cells of container 'input'"):
        replayed(world, world.dataflow.spec)


def test_times_to_live_are_recorded_that_scans_have_found(dataflow: Dataflow) -> None:
    source = dataflow.source.replace("sequence: 3", "sequence: 50%")
    world = World(parse_dataflow(source, "percentages.yaml"))
    world.ttls = {b"c": 60_000, b"\xff": 5}
    waves(world, 1, random.Random(1))
    found = [d for d in recorded(world).decisions if d.kind == DecisionKind.SCANNED]
    assert {d.table: d.ttls for d in found} == {"in": {"c": 60_000, "\\xFF": 5}}


def test_nothing_is_known_of_a_strange_name() -> None:
    with pytest.raises(NothingRecorded, match="'strange'"):
        read_recording("strange", [])


def test_a_beginning_that_kafka_has_deleted_is_missed(world: World) -> None:
    waves(world, 2, random.Random(1))
    with pytest.raises(RetentionPassed, match=r"retention\.ms"):
        read_recording(world.dataflow.name, world.decisions[3:])


def test_a_dataflow_submitted_anew_is_recorded_anew(world: World) -> None:
    waves(world, 2, random.Random(1))
    first = [line for line in world.decisions if b'"submitted"' in line]
    again: list[Any] = [*world.decisions, *first]
    assert len(read_recording(world.dataflow.name, again).decisions) == 1
