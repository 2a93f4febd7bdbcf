"""Bounds that hold writers back until their action has run."""

from __future__ import annotations

from itertools import pairwise

import pytest
from simulation import ScriptedAgent, World
from simulation.driving import started

from headgate.agent.state.run_records import RunOutcome, RunRecord
from headgate.events import Gate
from headgate.flows import parse_dataflow


@pytest.fixture
def blocking(two_steps: str) -> World:
    text = two_steps.replace("{sequence: 3}", "{sequence: 3, block: true}")
    return World(parse_dataflow(text, "two-steps.yaml"))


def reach(world: World) -> None:
    for row in range(3):
        world.write("in", b"%d" % row, b"c:v", b"1")
    world.agents[-1].ask(lambda runtime, now: runtime.waves.mark((), now))


def gates(world: World) -> list[Gate]:
    return [message for message in world.control if isinstance(message, Gate)]


def records(agent: ScriptedAgent) -> list[RunRecord]:
    assert agent.runtime is not None
    return list(agent.runtime.history.records)


def run_for(world: World, seconds: float) -> None:
    """Let time pass while a step hangs."""
    until = world.now + seconds
    while world.now < until:
        world.step()
        world.now += 0.05


def test_writers_are_held_from_the_launch_to_the_end_of_the_run(blocking: World) -> None:
    agent = started(blocking)
    assert gates(blocking) == []
    reach(blocking)
    blocking.run(lambda: agent.settled() == 1)
    closed, opened = gates(blocking)
    assert (closed.action, closed.bound, closed.released) == ("first", "input", False)
    assert [item.table for item in closed.containers[0].items] == ["in"]
    assert closed.until > blocking.now
    assert opened.released
    assert opened.revision > closed.revision


def test_the_lease_is_renewed_before_its_end_while_the_run_goes_on(blocking: World) -> None:
    started(blocking)
    blocking.hanging.add("first")
    reach(blocking)
    run_for(blocking, 60.0)
    held = gates(blocking)
    assert len(held) > 5
    assert not any(gate.released for gate in held)
    assert held[-1].until > blocking.now
    assert all(b.until - a.until < 10.0 for a, b in pairwise(held))


@pytest.mark.parametrize("by", [86_400.0, -86_400.0])
def test_a_clock_that_is_set_has_the_lease_end_by_the_clock_of_now(
    blocking: World, by: float
) -> None:
    started(blocking)
    blocking.hanging.add("first")
    reach(blocking)
    run_for(blocking, 1.0)
    blocking.leap(by)
    assert not gates(blocking)[-1].released
    assert 0 < gates(blocking)[-1].until - blocking.now <= 10.0


def test_another_agent_holds_them_on_and_outranks_the_one_before(blocking: World) -> None:
    agent = started(blocking)
    blocking.hanging.add("first")
    reach(blocking)
    run_for(blocking, 1.0)
    before = gates(blocking)[-1]
    agent.alive = False
    blocking.start_agent()
    run_for(blocking, 1.0)
    after = gates(blocking)[-1]
    assert not after.released
    assert after.revision > before.revision


def test_they_pass_again_once_the_run_was_given_up(blocking: World) -> None:
    agent = started(blocking)
    blocking.failing["first"] = 2
    reach(blocking)
    blocking.run(lambda: agent.settled() == 1)
    assert gates(blocking)[-1].released


def test_nobody_is_held_for_a_retry_that_a_pause_keeps_from_coming(blocking: World) -> None:
    agent = started(blocking)
    blocking.failing["first"] = 1
    reach(blocking)
    while not any(record.outcome is RunOutcome.FAILED for record in records(agent)):
        blocking.step()
    assert not gates(blocking)[-1].released
    agent.ask(lambda runtime, now: runtime.commands.pause(now))
    run_for(blocking, 30.0)
    assert gates(blocking)[-1].released
    agent.ask(lambda runtime, now: runtime.commands.resume(now))
    run_for(blocking, 1.0)
    assert not gates(blocking)[-2].released
    assert gates(blocking)[-1].released, "the run has ended"


def test_writers_are_held_as_soon_as_the_bound_is_found_reached(two_steps: str) -> None:
    text = two_steps.replace(
        "      input: {sequence: 3}",
        "      input: {container: input, sequence: 3, block: true}\n"
        "      more: {container: input, sequence: 6}\n"
        "    evaluate: write",
    )
    world = World(parse_dataflow(text, "two-steps.yaml"))
    agent = started(world)
    for row in range(3):
        world.write("in", b"%d" % row, b"c:v", b"1")
    run_for(world, 1.0)
    assert records(agent) == []
    assert [gate.released for gate in gates(world)] == [False]


def test_nobody_is_held_for_a_dataflow_that_is_removed(blocking: World) -> None:
    agent = started(blocking)
    blocking.hanging.add("first")
    reach(blocking)
    run_for(blocking, 1.0)
    agent.ask(lambda runtime, now: runtime.commands.withdraw(lambda: None, now))
    assert gates(blocking)[-1].released


def test_a_bound_that_does_not_block_holds_nobody(world: World) -> None:
    agent = started(world)
    reach(world)
    world.run(lambda: agent.settled() == 1)
    assert gates(world) == []
