"""Runnables in Python under an agent: asked again by who takes over, and failures shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from simulation import World
from simulation.driving import status

from headgate.agent.advisers.runnable_program import answer_of
from headgate.agent.errors import Refused
from headgate.engine import PYTHON_RUNNABLE, decode_runnable_question, encode_runnable
from headgate.flows import parse_dataflow
from headgate.spark import decode_result

TWO_STAGES = """
name: two-stages
state: s3://bucket/stages
containers:
  input: in c:v
  output: out c:v
actions:
  feed: {input: input}
  first:
    stage: stages:first
    reads: input
    out: [units, others]
    when: {input: {sequence: 1}}
    evaluate: write
  second:
    stage: stages:second
    in: {units: first.units, others: first.others}
    writes: output
    runnable: {python: "own:pairs"}
"""

Waiting = Mapping[str, Any]


def pairs(waiting: Waiting, state: int | None) -> Mapping[str, Any] | None:
    """Two of each flow in turn, as soon as they are there."""
    turn = state or 0
    flow = ("units", "others")[turn % 2]
    if waiting[flow]["waiting"] < 2:
        return None
    return {"reads": {flow: 2}, "state": turn + 1}


class Answering:
    """An adviser that asks a function where it stands; what it takes for it is not long ago."""

    def __init__(self, function: Callable[[Waiting, Any], Any]) -> None:
        self.function = function
        self.asked = 0

    def answer(self, question: bytes, done: Callable[[bytes | None, str], None]) -> None:
        self.asked += 1
        asked = decode_runnable_question(question)
        done(encode_runnable(answer_of(asked, lambda _: self.function)), "")


def made(function: Callable[[Waiting, Any], Any], **settings: Any) -> World:
    world = World(parse_dataflow(TWO_STAGES, "test"), **settings)
    world.advisers[PYTHON_RUNNABLE] = Answering(function)
    return world


def waves(world: World, number: int) -> None:
    world.start_agent()
    world.run(lambda: True)
    for _ in range(number):
        world.write("in", b"r%d" % world.points, b"c:v", b"1")
        world.run(lambda: at_rest(world))


def at_rest(world: World) -> bool:
    runtime = world.agents[-1].runtime
    return runtime is not None and not runtime.state.engine.busy


def increments(world: World, flow: str) -> list[str]:
    """Names of what committed runs have made of a flow, by the ledger."""
    found = [decode_result(world.ledger.state(r.key).result) for r in committed(world, "first")]
    return [one.name for result in found if result for one in result.produced if one.flow == flow]


def committed(world: World, action: str) -> list[Any]:
    return [request for request in world.commits if request.action == action]


@pytest.mark.parametrize("victims", ["agent", "worker", "both"])
@pytest.mark.parametrize("kill", range(1, 160, 19))
def test_wherever_somebody_is_killed_it_reads_what_the_function_says_once_in_order(
    kill: int, victims: str
) -> None:
    ended = frozenset({"agent", "worker"} if victims == "both" else {victims})
    world = made(pairs, kill=kill, victims=ended, seed=kill)
    waves(world, 5)

    read = [request.stage.increments for request in committed(world, "second")]
    assert read
    for turn, names in enumerate(read):
        flow, other = ("units", "others")[:: -1 if turn % 2 else 1]
        before = 2 * (turn // 2)
        there = tuple(increments(world, flow)[before : before + 2])
        assert names == {flow: there, other: ()}
    assert len(read) == 2 * (len(increments(world, "units")) // 2)


def test_a_function_that_raises_is_shown_and_asked_again_after_a_retry() -> None:
    def fails(waiting: Waiting, state: Any) -> None:
        raise ValueError("no idea")

    world = made(fails)
    waves(world, 1)
    agent = world.agents[-1]
    [shown] = [one for one in status(world, agent).actions if one.name == "second"]
    said = shown.runnable_failure.splitlines()
    assert said[0] == "`own:pairs` raised ValueError: no idea"
    assert "in fails" in shown.runnable_failure
    assert not committed(world, "second")

    adviser = world.advisers[PYTHON_RUNNABLE]
    assert isinstance(adviser, Answering)
    adviser.function = lambda _waiting, _state: {"reads": {"units": 1, "others": 1}}
    agent.ask(lambda runtime, now: runtime.commands.retry("second", now))
    world.run(lambda: bool(committed(world, "second")))
    [request] = committed(world, "second")
    assert all(request.stage.increments[flow] for flow in ("units", "others"))
    [shown] = [one for one in status(world, agent).actions if one.name == "second"]
    assert shown.runnable_failure == ""


def test_without_a_failure_there_is_nothing_to_retry() -> None:
    world = made(lambda _waiting, _state: None)
    waves(world, 1)
    agent = world.agents[-1]
    assert agent.runtime is not None
    with pytest.raises(Refused, match="nothing failed of second"):
        agent.runtime.commands.retry("second", world.now)


def test_where_nobody_answers_that_is_shown() -> None:
    world = World(parse_dataflow(TWO_STAGES, "test"))
    waves(world, 1)
    [shown] = [one for one in status(world, world.agents[-1]).actions if one.name == "second"]
    assert "could not be asked: nobody answers" in shown.runnable_failure
