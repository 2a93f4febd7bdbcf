"""When a wave ends: by a mark, a period or a quiet time; and what has settled it."""

from __future__ import annotations

import pytest
from simulation import World
from simulation.driving import ask, change, changed_to, feed, outcomes, started, status, wave

from headgate.agent.dataflow.views import WaveStatus
from headgate.agent.errors import Refused
from headgate.events import VERSION, Gap
from headgate.flows import parse_dataflow


def test_a_wave_below_the_bound_launches_nothing(world: World) -> None:
    agent = started(world)
    feed(world, rows=2)
    wave(world, agent)
    assert outcomes(agent, "first") == []
    assert status(world, agent).actions[1].skipped == 1


def test_a_wave_is_settled_when_its_runs_and_their_successors_have_ended(world: World) -> None:
    agent = started(world)
    feed(world)
    told: list[WaveStatus] = []
    number = ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    ask(agent, lambda runtime, now: runtime.waves.when_settled(number, told.append))
    assert told == []
    world.run(lambda: bool(told))
    assert outcomes(agent, "first") == outcomes(agent, "second") == ["committed"]
    assert told == [WaveStatus(number, settled=True)]


def test_waves_that_were_not_asked_for_cannot_be_waited_for(world: World) -> None:
    agent = started(world)
    with pytest.raises(Refused, match="the last one is 0"):
        ask(agent, lambda runtime, now: runtime.waves.when_settled(1, lambda _: None))


def test_a_quiet_period_ends_a_wave(two_steps: str) -> None:
    world = World(parse_dataflow(two_steps + "waves: quiet 10 s\n", "test"))
    agent = started(world)
    feed(world)
    world.run(lambda: True)
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "second") == ["committed"]


@pytest.mark.parametrize("waves", ["quiet 10 s", "every 2 min"])
@pytest.mark.parametrize("restarts", [1, 3])
def test_input_that_was_consumed_ends_its_wave_whoever_goes_on(
    two_steps: str, waves: str, restarts: int
) -> None:
    world = World(parse_dataflow(two_steps + f"waves: {waves}\n", "test"))
    agent = started(world)
    feed(world)
    for _ in range(restarts):
        for _ in range(40):
            world.now += 0.1
            world.step()
        agent.alive = False
        agent = world.start_agent()
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "second") == ["committed"]
    assert agent.waves() == 1


@pytest.mark.parametrize("by", [86_400.0, -86_400.0])
def test_a_clock_that_is_set_ends_a_quiet_period_neither_early_nor_late(
    two_steps: str, by: float
) -> None:
    world = World(parse_dataflow(two_steps + "waves: quiet 10 s\n", "test"))
    agent = started(world)
    feed(world)
    for _ in range(40):
        world.step()
    world.leap(by)
    for _ in range(90):
        world.now += 0.1
        world.step()
    assert agent.waves() == 0
    for _ in range(20):
        world.now += 0.1
        world.step()
    assert agent.waves() == 1


def test_a_gap_in_the_input_ends_a_wave_too(two_steps: str) -> None:
    world = World(parse_dataflow(two_steps + "waves: quiet 10 s\n", "test"))
    agent = started(world)
    feed(world)
    world.run(lambda: agent.settled() == 1)
    gap = Gap(VERSION, "observer", 1, 0, "in", world.now, world.now, "the journal was full")
    world.publish("in", 0, gap)
    world.run(lambda: agent.settled() == 2)
    assert outcomes(agent, "first") == ["committed", "committed"]


def test_input_of_a_wave_that_was_marked_until_now_ends_by_its_new_rule(two_steps: str) -> None:
    world = World(parse_dataflow(two_steps, "test"))
    agent = started(world)
    feed(world)
    world.run(lambda: True)
    change(world, agent, two_steps + "waves: quiet 10 s\n")
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "first") == ["committed"]


def test_a_period_without_input_ends_no_wave(two_steps: str) -> None:
    world = World(parse_dataflow(two_steps + "waves: every 10 s\n", "test"))
    agent = started(world)
    for _ in range(30):
        world.now += 1
        world.step()
    assert agent.waves() == 0
    feed(world)
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "first") == ["committed"]


def test_another_end_of_waves_holds_at_once(world: World, two_steps: str) -> None:
    agent = started(world)
    changed_to(world, agent, source=f"{two_steps}waves: every 5 s\n")
    feed(world)
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "first") == ["committed"]
