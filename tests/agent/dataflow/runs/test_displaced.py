"""Attempts that were lost by what others did in a shared session."""

from __future__ import annotations

from collections.abc import Callable

from simulation import ScriptedAgent, World

from headgate.agent.state.run_records import RunOutcome
from headgate.engine import DecisionKind


def until(world: World, holds: Callable[[], object]) -> None:
    """Take steps; a step that hangs keeps the world moving without end."""
    for _ in range(2000):
        if holds():
            return
        if not world.step():
            world.now = max(world.now, world.agents[-1].due())
    raise AssertionError(world.agents[-1].words())


def at_work(world: World) -> ScriptedAgent:
    agent = world.start_agent()
    world.run(lambda: True)
    world.hanging.add("first")
    for row in range(3):
        world.write("in", b"%d" % row, b"c:v", b"1")
    agent.ask(lambda runtime, now: runtime.waves.mark((), now))
    until(world, lambda: agent.worker.busy)
    return agent


def test_a_displaced_attempt_is_made_again_and_has_not_failed(world: World) -> None:
    agent = at_work(world)
    for _ in range(4):  # more often than the action may fail
        agent.worker.displace("the session of pool p was ended by a run of other")
        assert not agent.worker.busy
        until(world, lambda: agent.worker.busy)
    world.hanging.clear()
    world.run(lambda: len(world.commits) == 2)

    records: list[object] = []
    kinds: list[DecisionKind] = []
    agent.ask(lambda runtime, now: records.extend(runtime.history.records))
    agent.ask(lambda runtime, now: kinds.extend(d.kind for d in runtime.decisions.newest))
    first = [r for r in records if getattr(r, "action", "") == "first"]
    assert [(getattr(r, "attempt", 0), getattr(r, "outcome", "")) for r in first] == [
        (1, RunOutcome.COMMITTED)
    ]
    assert "counts as no failure" in getattr(first[0], "reason", "")
    assert DecisionKind.FAILED not in kinds


def test_each_beginning_has_a_token_above_the_last(world: World) -> None:
    agent = at_work(world)
    tokens: list[int] = []

    def note() -> None:
        agent.ask(lambda runtime, now: tokens.append(runtime.history.records[0].token or 0))

    note()
    agent.worker.displace("another ended the session")
    until(world, lambda: agent.worker.busy)
    note()
    assert tokens[1] > tokens[0] > 0


def test_a_run_that_was_to_end_anyway_is_not_begun_again(world: World) -> None:
    agent = at_work(world)
    agent.worker.kill = lambda: agent.worker.displace("another ended the session")
    agent.ask(lambda runtime, now: runtime.commands.cancel("first"))
    outcomes: list[RunOutcome] = []
    until(world, lambda: agent.worker.busy)
    agent.ask(lambda runtime, now: outcomes.extend(r.outcome for r in runtime.history.records))
    assert RunOutcome.CANCELLED in outcomes


def test_what_had_committed_is_not_begun_again(world: World) -> None:
    agent = at_work(world)
    world.hanging.clear()
    until(world, lambda: world.commits)
    agent.worker.displace("another ended the session")
    until(world, lambda: len(world.commits) > 1)
    assert [c.action for c in world.commits] == ["first", "second"]
