"""Who runs so seldom that Kafka soon deletes what its next run needs is told of before."""

from __future__ import annotations

import pytest
from simulation import ScriptedAgent, World

from headgate.events import updates_topic


def used(agent: ScriptedAgent, table: str) -> float:
    runtime = agent.runtime
    assert runtime is not None
    return runtime.reporting.retention_used(agent.world.now)[updates_topic(table)]


def wave(world: World, agent: ScriptedAgent) -> None:
    before = agent.waves()
    agent.ask(lambda runtime, now: runtime.waves.mark((), now) and None)
    world.run(lambda: agent.settled() == before + 1)


@pytest.fixture
def agent(world: World) -> ScriptedAgent:
    """An agent whose dataflow has run once, and was written to since."""
    world.retention = 1000.0
    agent = world.start_agent()
    world.run(lambda: True)
    for row in (b"1", b"2", b"3"):
        world.write("in", row, b"c:v", b"1")
    wave(world, agent)
    world.write("in", b"4", b"c:v", b"1")
    world.run(lambda: True)
    return agent


def test_what_the_next_run_needs_grows_old(world: World, agent: ScriptedAgent) -> None:
    world.now += 850.0
    assert 0.84 < used(agent, "in") < 0.87


def test_a_run_makes_it_young_again(world: World, agent: ScriptedAgent) -> None:
    world.now += 850.0
    for row in (b"5", b"6"):
        world.write("in", row, b"c:v", b"1")
    wave(world, agent)
    assert used(agent, "in") < 0.1


def test_what_no_action_reads_may_be_as_old_as_it_is(world: World, agent: ScriptedAgent) -> None:
    world.now += 5000.0
    assert used(agent, "out") == 0.0


def test_before_the_first_run_nothing_is_needed(world: World) -> None:
    agent = world.start_agent()
    world.run(lambda: True)
    world.write("in", b"1", b"c:v", b"1")
    world.now += 1e10
    assert used(agent, "in") == 0.0
