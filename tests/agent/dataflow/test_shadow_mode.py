"""In shadow mode it is decided, and nothing is launched."""

from __future__ import annotations

import pytest
from simulation import World
from simulation.driving import ask, changed_to, feed, outcomes, started, status, wave
from simulation.worker import result_of

from headgate.agent.errors import Refused
from headgate.agent.state.sealed import Definition
from headgate.events import Fence


def test_in_shadow_mode_it_is_decided_and_nothing_launched(world: World) -> None:
    agent = started(world)
    changed_to(world, agent, shadow=True)
    feed(world)
    wave(world, agent)
    assert outcomes(agent, "first") == outcomes(agent, "second") == ["shadow"]
    assert world.commits == []
    assert not [m for m in world.control if isinstance(m, Fence)]
    assert agent.worker.sessions == [None]
    assert status(world, agent).words == "shadow mode: it decides and launches nothing"


def test_counts_begin_anew_after_a_run_in_shadow_mode_too(world: World) -> None:
    agent = started(world)
    changed_to(world, agent, shadow=True)
    feed(world)
    wave(world, agent)
    feed(world, rows=2)
    wave(world, agent)
    assert outcomes(agent, "first") == ["shadow"]
    assert status(world, agent).actions[1].runs == 1
    assert status(world, agent).actions[1].skipped == 1


def test_a_shadow_mode_outlives_its_agent(world: World, two_steps: str) -> None:
    world.store.define(Definition("two-steps", two_steps, ".", 0, 0.0, shadow=True))
    agent = started(world)
    feed(world)
    number = ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    agent.alive = False
    world.run(lambda: world.agents[-1].settled() >= number)
    assert set(outcomes(world.agents[-1], "first")) <= {"lost", "shadow"}
    assert world.commits == []


def test_what_waits_for_the_worker_is_not_launched_once_in_shadow_mode(world: World) -> None:
    world.hanging.add("first")
    agent = started(world)
    feed(world)
    ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    for _ in range(50):
        world.step()
    changed_to(world, agent, shadow=True)
    assert agent.runtime is not None
    agent.worker.kill()
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "first") == ["lost", "shadow"]
    assert outcomes(agent, "second") == ["shadow"]


def test_out_of_shadow_mode_it_launches_again(world: World) -> None:
    agent = started(world)
    changed_to(world, agent, shadow=True)
    feed(world)
    wave(world, agent)
    changed_to(world, agent, shadow=False)
    feed(world, value=b"2")
    wave(world, agent)
    assert outcomes(agent, "first") == ["shadow", "committed"]
    assert [start is None for start in agent.worker.sessions] == [True, False]


def test_in_shadow_mode_nothing_runs_when_somebody_asks(world: World) -> None:
    agent = started(world)
    changed_to(world, agent, shadow=True)
    with pytest.raises(Refused, match="headgate flow update two-steps --launch"):
        ask(agent, lambda runtime, now: runtime.commands.run("first", now))


def test_runs_in_shadow_mode_leave_the_result_of_the_last_one_that_was_launched(
    world: World,
) -> None:
    agent = started(world)
    for shadow in (False, True, True, False):
        changed_to(world, agent, shadow=shadow)
        feed(world, value=b"%d" % world.points)
        wave(world, agent)
    assert outcomes(agent, "first") == ["committed", "shadow", "shadow", "committed"]
    one, two = (r for r in world.commits if r.action == "first")
    assert (one.previous, two.previous) == ("", result_of(one))
