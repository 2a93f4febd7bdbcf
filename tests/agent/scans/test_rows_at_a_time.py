"""Containers are scanned in stretches of rows, each between two barriers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from simulation import ScriptedAgent, World

from headgate.events import BarrierRequest
from headgate.flows import parse_dataflow
from headgate.replay import RecordedDecision

ROWS = [b"%d" % number for number in range(7)]


def flow(mode: str) -> str:
    return f"""
name: percent
mode: {mode}
containers:
  input: in c:v
actions:
  feed: {{input: input}}
  step:
    step: steps:first
    reads: input
    when:
      input: {{sequence: 5000%}}
"""


def started(mode: str = "normal") -> tuple[World, ScriptedAgent]:
    world = World(parse_dataflow(flow(mode), "percent.yaml"))
    world.tables["in"] = {(row, b"c:v"): b"1" for row in ROWS}
    agent = world.start_agent()
    world.run(lambda: True)
    return world, agent


def known(agent: ScriptedAgent) -> Any:
    assert agent.runtime is not None
    (container,) = agent.runtime.reporting.explain(agent.world.now).containers
    return container


def scans(world: World) -> list[RecordedDecision]:
    decisions = [msgspec.json.decode(one, type=RecordedDecision) for one in world.decisions]
    return [one for one in decisions if one.kind == "scanned"]


def test_all_rows_come_and_the_record_says_in_which_stretches() -> None:
    world, agent = started()
    assert known(agent).scanned
    assert known(agent).elements == len(ROWS)
    assert [(one.start, one.stop, one.cells) for one in scans(world)] == [
        (b"", b"2", 2),
        (b"2", b"4", 2),
        (b"4", b"6", 2),
        (b"6", None, 1),
    ]
    assert scans(world)[1].words == "2 cells of `input` in 'in', rows from '2' to before '4'"


@pytest.mark.parametrize(("mode", "barriers"), [("normal", 6), ("observer", 9)])
def test_the_barrier_behind_a_stretch_is_the_one_before_the_next(mode: str, barriers: int) -> None:
    world, _ = started(mode)
    asked = {one.id for one in world.control if isinstance(one, BarrierRequest)}
    # Of the watches, before the first stretch, and behind each of four. What other scans are still
    # to tell of must be known before a stretch's own barrier.
    assert len(asked) == barriers


def test_what_is_written_meanwhile_counts_once_and_an_agent_that_takes_over_goes_on() -> None:
    world = World(parse_dataflow(flow("normal"), "percent.yaml"))
    world.tables["in"] = {(row, b"c:v"): b"1" for row in ROWS}
    agent = world.start_agent()
    for _ in range(10_000):
        world.step()
        if scans(world):
            break
    assert not known(agent).scanned
    world.write("in", b"0", b"c:v", b"2")
    world.write("in", b"5", b"c:v", b"2")
    later = world.now + 3.0
    world.silent = True
    world.run(lambda: world.now >= later)
    agent.alive = False
    world.silent = False
    successor = world.start_agent()
    world.run(lambda: True)
    assert known(successor).scanned
    assert known(successor).elements == len(ROWS)
    assert successor.runtime is not None
    assert successor.runtime.reporting.status(world.now).consumed == 2
    assert [one.start for one in scans(world)].count(b"") == 1


def test_what_is_read_outranks_what_was_consumed_before() -> None:
    text = flow("normal").replace("sequence: 5000%", "value: {absolute: 500}")
    text = text.replace("input: in c:v", "input: {table: in, column: c:v, codec: number}")
    world = World(parse_dataflow(text, "values.yaml"))
    world.tables["in"] = {(row, b"c:v"): b"1" for row in ROWS}
    world.silent = True  # nobody answers the barrier before the scan's beginning
    agent = world.start_agent()
    world.write("in", b"0", b"c:v", b"2")
    for _ in range(10):
        world.step()
    assert agent.runtime is not None
    assert agent.runtime.reporting.status(world.now).consumed == 1
    world.tables["in"][b"0", b"c:v"] = b"9"  # of which nobody tells
    world.silent = False
    world.run(lambda: known(agent).scanned)
    (cells,) = agent.runtime.state.engine.cells.values()  # what it knows is shown nowhere else
    assert cells.columns.get((b"0", b"c:v")) == 9.0
