"""An agent, its worker or both end between any two steps of a launch, a run and a commit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.agent.scripted import World
from headgate.agent.store import RunOutcome

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
        settle(world, wave)


def mark(world: World, wave: int) -> None:
    """Ask for the end of a wave as a client does: again, when the agent ends before it answers."""
    while True:
        if not world.agents[-1].alive:
            world.start_agent()
        elif world.agents[-1].waves() >= wave:
            return
        else:
            world.agents[-1].ask(lambda runtime, now: runtime.mark((), now) and None)


def settle(world: World, wave: int) -> None:
    world.run(lambda: world.agents[-1].settled() >= wave)


def check(world: World) -> None:
    runtime = world.agents[-1].runtime
    assert runtime is not None
    committed = [r for r in runtime.records if r.outcome is RunOutcome.COMMITTED]
    by_action: dict[str, list[str]] = {}
    for record in committed:
        by_action.setdefault(record.action, []).append(record.run)
    for action, runs in by_action.items():
        assert len(runs) == len(set(runs)), f"a run of {action} committed twice: {runs}"
    assert set(by_action) == {"first", "second"}
    assert len(by_action["first"]) == len(by_action["second"]) == 2
    tokens: dict[str, int] = {}
    for write in world.written:
        if write.origin is not None:
            before = tokens.get(write.origin.action, 0)
            assert write.origin.token >= before, f"a stale attempt has written: {write}"
            tokens[write.origin.action] = write.origin.token
    for table in ("mid", "out"):
        last = set(world.tables[table].values())
        assert len(last) == 1, f"{table} holds values of several attempts: {world.tables[table]}"


@pytest.mark.parametrize(
    "victims",
    [frozenset({"agent"}), frozenset({"worker"}), frozenset({"agent", "worker"})],
    ids=["agent", "worker", "both"],
)
def test_exactly_one_attempt_commits_wherever_something_ends(
    make_world: Callable[..., World], victims: Victims
) -> None:
    whole = make_world()
    scenario(whole)
    check(whole)
    assert 20 < whole.points < EVERYTHING
    for kill in range(1, whole.points + 1):
        world = make_world(kill=kill, victims=victims)
        try:
            scenario(world)
            check(world)
        except AssertionError as error:
            raise AssertionError(f"ended at point {kill} of {whole.points}: {error}") from error
