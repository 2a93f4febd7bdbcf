"""Decisions reach their topic, though Kafka is away when they are made and their agent ends."""

from __future__ import annotations

from typing import cast

import msgspec
from simulation import ScriptedAgent, World

from headgate.agent.kafka.broker import Broker
from headgate.agent.kafka.outbox import Outbox
from headgate.replay import RecordedDecision


def kinds(world: World) -> list[str]:
    found = [msgspec.json.decode(value, type=RecordedDecision) for value in world.decisions]
    return [decision.kind.value for decision in found]


def begun(world: World) -> ScriptedAgent:
    agent = world.start_agent()
    world.run(lambda: True)
    return agent


def run_once(world: World) -> None:
    for row in (b"1", b"2", b"3"):
        world.write("in", row, b"c:v", b"1")
    agent = world.agents[-1]
    before = agent.waves()
    agent.ask(lambda runtime, now: runtime.waves.mark((), now) and None)
    world.run(lambda: agent.settled() == before + 1)


def told(world: World) -> list[str]:
    """Return what is decided where Kafka is always there."""
    begun(world)
    run_once(world)
    return kinds(world)


def test_what_was_decided_while_kafka_was_away_comes_from_the_next_agent(
    world: World, make_world: type[World]
) -> None:
    expected = told(make_world())
    agent = begun(world)
    world.decisions_wait = True
    run_once(world)
    assert "launched" not in kinds(world)
    world.now += 10.0  # until the next checkpoint
    world.run(lambda: True)
    agent.alive = False
    world.decisions_wait = False
    begun(world)
    assert kinds(world)[: len(expected)] == expected


def test_a_launch_is_saved_with_the_decision_for_it(world: World) -> None:
    agent = begun(world)
    world.decisions_wait = True
    world.hanging.add("first")
    for row in (b"1", b"2", b"3"):
        world.write("in", row, b"c:v", b"1")
    agent.ask(lambda runtime, now: runtime.waves.mark((), now) and None)
    for _ in range(200):
        world.step()
    assert agent.runtime is not None
    assert agent.runtime.history.records
    agent.alive = False
    world.hanging.clear()
    world.decisions_wait = False
    begun(world)
    said = ["submitted", "wave-ended", "launched", "restarted", "retried"]
    assert kinds(world)[: len(said)] == said


def test_what_is_delivered_is_not_saved_any_more(world: World) -> None:
    begun(world)
    run_once(world)
    world.now += 10.0
    world.run(lambda: True)
    state = world.store.acquire("two-steps", world.agents[-1]._owner, world.now, 10.0).state
    assert state is not None
    assert state.progress.decisions == ()


def test_the_newest_are_kept_where_they_are_too_many() -> None:
    class Silent:
        def decision(self, *_: object) -> None:
            pass

    broker = cast("Broker", Silent())
    outbox = Outbox(broker, "flow", lambda _: None, [b"%d" % n for n in range(600)])
    outbox.send()
    outbox.add(b"last")
    assert len(outbox.left) == 500
    assert outbox.left[-1] == b"last"
