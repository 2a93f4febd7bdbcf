"""An agent, its worker or both end between any two steps of a launch, a run and a commit."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from simulation import World
from simulation.worker import result_of

from headgate.agent.state.run_records import RunOutcome, RunRecord
from headgate.flows import parse_dataflow
from headgate.spark import Committed, Free, StepRequest

Victims = frozenset[str]
EVERYTHING = 400
"""More points than the scenario has."""


def scenario(world: World) -> None:
    """Two waves of three updates each: both steps run twice."""
    world.start_agent()
    for wave in (1, 2):
        settle(world, wave - 1)  # before the first: until the submit has taken effect
        for row in (b"x", b"y", b"z"):
            world.write("in", row, b"c:v", str(wave).encode())
        mark(world, wave)
        for late in range(4):  # while the wave's runs are launched, run and commit
            for _ in range(9):
                if not world.agents[-1].alive:
                    world.start_agent()
                world.step()
            world.write("in", b"late-%d" % late, b"c:v", str(wave).encode())
        settle(world, wave)


def mark(world: World, wave: int) -> None:
    """Ask for the end of a wave as a client does: again, when the agent ends before it answers."""
    while True:
        if not world.agents[-1].alive:
            world.start_agent()
        elif world.agents[-1].waves() >= wave:
            return
        else:
            world.agents[-1].ask(lambda runtime, now: runtime.waves.mark((), now) and None)


def settle(world: World, wave: int) -> None:
    world.run(lambda: world.agents[-1].settled() >= wave)


def check(world: World) -> None:
    runtime = world.agents[-1].runtime
    assert runtime is not None
    committed: dict[str, list[RunRecord]] = {"first": [], "second": []}
    for record in reversed(runtime.history.records):
        if record.outcome is RunOutcome.COMMITTED:
            committed[record.action].append(record)
    commits = {request.run: request for request in world.commits}
    assert len(commits) == len(world.commits), "a run was committed twice"
    for action, records in committed.items():
        runs = [record.run for record in records]
        assert len(runs) == len(set(runs)), f"a run of {action} counts twice: {runs}"
        assert set(runs) == {r.run for r in world.commits if r.action == action}
        for record in records:
            request = commits[record.run]
            assert request.cut == record.cut, "the engine counts another cut than was consumed"
        for before, after in pairwise(records):
            assert after.since == before.cut, "updates between two runs were left out"
    check_writes(world, commits)
    check_results(world)
    if isinstance(world, ValueWorld):
        world.check()


def check_results(world: World) -> None:
    """Each run goes on from what the commit before it named, and the ledger says the same."""
    standing = {"first": "", "second": ""}
    for request in world.commits:
        assert request.previous == standing[request.action], f"{request.run} goes on from another"
        standing[request.action] = result_of(request)
        state = world.ledger.state(request.key)
        assert not isinstance(state, Committed) or state.result == result_of(request)


def check_writes(world: World, commits: dict[str, StepRequest]) -> None:
    tokens: dict[str, int] = {}
    for write in world.written:
        if write.origin is not None:
            before = tokens.get(write.origin.action, 0)
            assert write.origin.token >= before, f"a stale attempt has written: {write}"
            tokens[write.origin.action] = write.origin.token
    for table, action in (("mid", "first"), ("out", "second")):
        last = set(world.tables[table].values())
        token = [r.token for r in world.commits if r.action == action][-1]
        assert last == {str(token).encode()}, f"{table} is not what the last commit wrote"


VICTIMS = [frozenset({"agent"}), frozenset({"worker"}), frozenset({"agent", "worker"})]
NAMES = ["agent", "worker", "both"]


def each_point(make_world: Callable[..., World], victims: Victims, seed: int | None) -> None:
    whole = make_world(seed=seed)
    scenario(whole)
    check(whole)
    assert 20 < whole.points < EVERYTHING
    for kill in range(1, whole.points + 1):
        world = make_world(kill=kill, victims=victims, seed=seed)
        try:
            scenario(world)
            check(world)
        except AssertionError as error:
            raise AssertionError(f"ended at point {kill} of {whole.points}: {error}") from error


@pytest.mark.parametrize("victims", VICTIMS, ids=NAMES)
def test_exactly_one_attempt_commits_wherever_something_ends(
    make_world: Callable[..., World], victims: Victims
) -> None:
    each_point(make_world, victims, None)


@pytest.mark.parametrize("victims", VICTIMS[:1], ids=NAMES[:1])
def test_values_are_remembered_wherever_an_agent_ends(two_steps: str, victims: Victims) -> None:
    values = two_steps.replace("{sequence: 3}", "{sequence: 3, value: {relative: 1000000%}}")
    flow = parse_dataflow(values, "two-steps.yaml")
    each_point(lambda **more: ValueWorld(flow, saved_whole=0, **more), victims, None)


FILES = """
name: files
files:
  clicks: {uri: /clicks, columns: {n: int64}}
  totals: /totals
actions:
  count: {stage: "stages:totals", reads: clicks, writes: totals, when: {clicks: {time: 5 s}}}
"""
"""Without tables no barrier has to pass: a run may be found to be over while it is launched."""


def test_time_goes_on_to_launch_runs_wherever_an_agent_ends() -> None:
    flow = parse_dataflow(FILES, "files.yaml")

    def lived(kill: int) -> World:
        world = World(flow, kill=kill, victims=VICTIMS[0])
        world.start_agent()
        world.run(lambda: len(world.commits) >= 4)
        return world

    for kill in range(1, lived(0).points + 1):
        lived(kill)


def test_the_ledger_is_asked_wherever_an_agent_ends_and_keeps_nothing_in_the_end(
    make_world: Callable[..., World],
) -> None:
    """With one record only, each launch has what is known of the run before given up."""
    whole = make_world(history=1)
    scenario(whole)
    for kill in range(1, whole.points + 1):
        world = make_world(history=1, kill=kill, victims=VICTIMS[0])
        scenario(world)
        world.agents[-1].ask(lambda runtime, now: runtime.commands.pause(now))  # which is saved
        world.step()
        runs = [request.run for request in world.commits]
        assert len(runs) == len(set(runs)), f"a run was committed twice, ended at point {kill}"
        history = [record.run for record in world.store.history("two-steps")]
        assert len(history) == 1, f"ended at point {kill}"
        keys = {request.key for request in world.commits}
        kept = {key.run for key in keys if not isinstance(world.ledger.state(key), Free)}
        assert kept == set(history), f"ended at point {kill}"


class ValueWorld(World):
    """One whose engine remembers every value of the input."""

    def check(self) -> None:
        runtime = self.agents[-1].runtime
        assert runtime is not None
        known = runtime.state.engine.cells["input", "in"].columns.contents()
        assert known == {key: float(value) for key, value in self.tables["in"].items()}
        assert any(row.startswith(b"cells/") for row in self.rows.rows)


@pytest.mark.parametrize("victims", VICTIMS, ids=NAMES)
@pytest.mark.parametrize("seed", range(2))
def test_it_holds_when_observer_and_orphaned_workers_lag_behind(
    make_world: Callable[..., World], victims: Victims, seed: int
) -> None:
    each_point(make_world, victims, seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("victims", VICTIMS, ids=NAMES)
@pytest.mark.parametrize("seed", range(2, 60))
def test_it_holds_in_many_orders(
    make_world: Callable[..., World], victims: Victims, seed: int
) -> None:
    each_point(make_world, victims, seed)
