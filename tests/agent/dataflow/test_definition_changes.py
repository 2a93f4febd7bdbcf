"""What becomes of counts, runs, sessions and quarantine when a dataflow's definition changes."""

from __future__ import annotations

import pytest
from simulation import World
from simulation.driving import ask, change, changed_to, feed, outcomes, started, status, wave

from headgate.agent.ports import WorkerLost
from headgate.agent.state.sealed import Definition
from headgate.flows import parse_dataflow


def test_another_definition_keeps_what_was_counted(world: World, two_steps: str) -> None:
    agent = started(world)
    feed(world, rows=2)
    wave(world, agent)
    text = two_steps.replace("sequence: 3", "sequence: 2")
    definition = Definition("two-steps", text, ".", 2, 0.0)
    changed = parse_dataflow(text, "test")
    ask(agent, lambda runtime, now: runtime.commands.change(definition, changed, now))
    wave(world, agent)
    assert outcomes(agent, "first") == ["committed"]


@pytest.mark.parametrize("more", ["spark: {a: b}\n", "python_path: lib\n"])
def test_another_session_is_started_where_its_settings_changed(
    world: World, two_steps: str, more: str
) -> None:
    agent = started(world)
    changed_to(world, agent, source=two_steps.replace("sequence: 3", "sequence: 2"))
    assert agent.worker.sessions == []
    changed_to(world, agent, source=f"{two_steps}{more}")
    assert len(agent.worker.sessions) == 1


def test_a_quarantine_ends_with_its_action(world: World, two_steps: str) -> None:
    world.failing["first"] = 2
    agent = started(world)
    feed(world)
    wave(world, agent)
    changed_to(world, agent, source=two_steps.replace("sequence: 3", "sequence: 4"))
    assert "in quarantine: first" in status(world, agent).words
    renamed = two_steps.replace("  first:", "  other:").replace("after: first", "after: other")
    changed_to(world, agent, source=renamed)
    assert status(world, agent).words == ""


def without_second(text: str) -> str:
    return text.partition("  second:")[0].replace("  output: out c:v\n", "")


def test_an_action_that_comes_back_does_not_repeat_the_ids_of_its_runs(
    world: World, two_steps: str
) -> None:
    agent = started(world)
    feed(world)
    wave(world, agent)
    change(world, agent, without_second(two_steps))
    change(world, agent, two_steps)
    feed(world, value=b"2")
    wave(world, agent)
    runs = [request.run for request in world.commits if request.action == "second"]
    assert len(runs) == len(set(runs)) == 2


def test_a_barrier_does_not_wait_for_a_table_that_is_not_read_any_more(
    world: World, two_steps: str
) -> None:
    agent = started(world)
    feed(world)
    world.silent = True
    number = ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    text = without_second(two_steps).replace("in c:v", "elsewhere c:v")
    change(world, agent, text)
    world.silent = False
    world.run(lambda: agent.settled() >= number)


def test_an_attempt_that_waits_is_given_up_with_its_action(world: World, two_steps: str) -> None:
    side = """
  third:
    step: steps:third
    after: first
    reads: middle
"""
    world.dataflow = parse_dataflow(two_steps + side.lstrip("\n"), "test")
    world.hanging.add("second")
    agent = started(world)
    feed(world)
    ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    for _ in range(50):
        world.step()
    assert outcomes(agent, "third") == ["waiting"]
    change(world, agent, two_steps)
    world.hanging.clear()
    assert agent.runtime is not None
    lost = WorkerLost(
        next(r.run for r in agent.runtime.history.records if r.action == "second"), 1, ""
    )
    ask(agent, lambda runtime, now: runtime.report(lost, now))
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "third") == ["lost"]
    assert outcomes(agent, "second") == ["lost", "committed"]


@pytest.mark.parametrize("fails", [True, False])
def test_an_action_that_goes_and_comes_back_has_its_runs_told_apart(
    world: World, two_steps: str, fails: bool
) -> None:
    _, _, rest = two_steps.partition("  first:")
    without = two_steps.replace("  first:" + rest.partition("  second:")[0], "")
    world.hanging.add("first")
    agent = started(world)
    feed(world)
    ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    for _ in range(50):
        world.step()
    assert outcomes(agent, "first") == ["running"]
    change(world, agent, without.replace("after: first", "after: feed"))
    change(world, agent, two_steps)
    ask(agent, lambda runtime, now: runtime.commands.run("first", now))
    assert outcomes(agent, "first") == ["running", "waiting"]
    world.failing["first"] = int(fails)
    world.hanging.clear()
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "first") == ["failed" if fails else "committed", "committed"]


def test_a_scan_is_given_up_with_its_container(two_steps: str) -> None:
    percent = two_steps.replace("sequence: 3", "sequence: 50%")
    world = World(parse_dataflow(percent, "test"))
    feed(world, rows=10)
    world.silent = True
    agent = world.start_agent()
    renamed = percent.replace("  input:", "  arrivals:").replace(" input}", " arrivals}")
    renamed = renamed.replace("reads: input", "reads: arrivals")
    change(world, agent, renamed)
    world.silent = False
    world.run(lambda: status(world, agent).phase.value == "running")
    feed(world, rows=5, value=b"2")
    wave(world, agent)
    assert outcomes(agent, "first") == ["committed"]


def test_a_stage_that_an_edit_has_rebuilt_is_not_in_quarantine() -> None:
    text = """
name: two-steps
containers: {input: in c:v}
actions:
  first: {stage: "stages:first", reads: input, out: made, when: {input: {sequence: 1}}}
  second: {stage: "stages:second", in: {x: first.made}, retries: 1}
"""
    world = World(parse_dataflow(text, "test"))
    world.failing["second"] = 1
    agent = started(world)
    feed(world)
    world.run(lambda: True)
    assert "in quarantine: second" in status(world, agent).words
    changed_to(world, agent, source=text.replace("in c:v", "in c:w"))
    assert status(world, agent).words == ""
    world.run(lambda: True)
    assert [request.action for request in world.commits][-2:] == ["first", "second"]
