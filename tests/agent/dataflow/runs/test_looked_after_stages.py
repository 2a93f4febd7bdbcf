"""What an agent says of stages, and has done to their states."""

from __future__ import annotations

from typing import Any

import pytest
from simulation import World

from headgate.agent.errors import Refused
from headgate.engine import RunPurpose
from headgate.flows import parse_dataflow

FLOW = """
name: chained
containers:
  input: in c:v
  output: out c:v
actions:
  feed: {input: input}
  first:
    stage: stages:first
    reads: input
    out: units
    when: {input: {sequence: 1}}
    evaluate: write
  second: {stage: stages:second, in: {units: first.units}, writes: output}
  step: {step: "steps:step", after: second}
"""


@pytest.fixture
def world() -> World:
    world = World(parse_dataflow(FLOW, "test"))
    world.start_agent()
    world.run(lambda: True)
    world.write("in", b"r", b"c:v", b"1")
    rest(world)
    return world


def rest(world: World) -> None:
    world.run(lambda: not world.agents[-1].runtime.state.engine.busy)


def stages(world: World) -> Any:
    return world.agents[-1].runtime.stages


def purposes(world: World) -> list[tuple[str, RunPurpose]]:
    return [(r.action, r.stage.purpose) for r in world.commits if r.stage is not None]


def test_stages_are_listed_with_their_manifests(world: World) -> None:
    first, second = stages(world).listed(world.now)
    assert (first.action, second.action) == ("first", "second")
    assert first.manifest.startswith("first/")
    assert first.location == second.location == "stages"
    assert [flow.source for flow in second.flows] == ["first.units"]


def test_a_rebuild_is_carried_to_the_worker_and_on_to_who_reads(world: World) -> None:
    answer = stages(world).rebuild("first", with_sources=False, now=world.now)
    assert answer.actions == ("first", "second")
    assert set(answer.runs) == {"first"}
    assert set(answer.waits) == {"second"}
    listed = stages(world).listed(world.now)
    assert (listed[1].wanted, listed[1].awaits) == (RunPurpose.REBUILD, ("first",))
    rest(world)
    assert purposes(world)[-2:] == [
        ("first", RunPurpose.REBUILD),
        ("second", RunPurpose.REBUILD),
    ]


def test_a_compaction_is_carried_to_the_worker(world: World) -> None:
    answer = stages(world).compact("second", world.now)
    assert answer.run is not None
    rest(world)
    assert purposes(world)[-1] == ("second", RunPurpose.COMPACT)


def test_a_stage_that_needs_its_sources_rebuilt_says_so(world: World) -> None:
    with pytest.raises(Refused, match="--with-sources"):
        stages(world).rebuild("second", with_sources=False, now=world.now)


def test_a_step_has_no_state(world: World) -> None:
    with pytest.raises(Refused, match="is a step and has no state"):
        stages(world).compact("step", world.now)
