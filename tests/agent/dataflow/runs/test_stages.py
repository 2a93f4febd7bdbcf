"""Stages of a dataflow: each is told what to read, and the ledger alone says what it has made."""

from __future__ import annotations

from typing import Any

import pytest
from simulation import World
from simulation.driving import status

from headgate.agent.dataflow.runs.starting import stage_request
from headgate.agent.state.sealed import Definition
from headgate.engine import Cause, Engine, FileFormat, FilesSpec, Launch, OnChange
from headgate.events import Cut
from headgate.flows import parse_dataflow
from headgate.spark import StageResult, decode_result

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
    in: {units: first.units, mine: second.back}
    out: back
    writes: output
    runnable: {lag: 1}
    on_change: keep
  third: {stage: stages:third, in: {others: first.others}}
"""
THIRD = "third: {stage: stages:third, in: {others: first.others}}"
LATE = "third: {stage: stages:third, in: {others: first.others}, when: {input: {sequence: 99}}}"


def waves(world: World, number: int) -> None:
    """Write a row and wait until everything has come of it, so often."""
    world.start_agent()
    world.run(lambda: True)
    for _ in range(number):
        world.write("in", b"r%d" % world.points, b"c:v", b"1")
        world.run(lambda: at_rest(world))


def at_rest(world: World) -> bool:
    runtime = world.agents[-1].runtime
    return runtime is not None and not runtime.state.engine.busy


def flows(world: World, action: str) -> list[Any]:
    return [r.stage for r in world.commits if r.action == action]


def made(world: World, action: str, flow: str) -> list[str]:
    """Names of what committed runs have made of a flow, by the ledger."""
    names = []
    for request in world.commits:
        if request.action == action:
            result = decode_result(world.ledger.state(request.key).result)
            assert result is not None
            names += [one.name for one in result.produced if one.flow == flow]
    return names


def read(world: World, action: str, flow: str) -> list[str]:
    return [name for stage in flows(world, action) for name in stage.increments[flow]]


def test_a_run_of_a_stage_is_told_its_flows_and_where_files_are() -> None:
    world = World(parse_dataflow(TWO_STAGES, "test"))
    waves(world, 2)

    first, second = flows(world, "first")[1], flows(world, "second")[1]
    assert first.location == second.location == "s3://bucket/stages"
    assert (first.increments, first.outputs) == ({}, ("units", "others"))
    assert second.outputs == ("back",)
    assert second.increments == {
        "units": (made(world, "first", "units")[1],),
        "mine": (made(world, "second", "back")[0],),
    }
    assert (first.on_change, second.on_change) == (OnChange.REFUSE, OnChange.KEEP)


def test_a_step_is_told_of_no_flows() -> None:
    text = TWO_STAGES.replace(THIRD, "third: {step: 's:t', after: first}")
    world = World(parse_dataflow(text.replace("out: [units, others]", "out: units"), "test"))
    waves(world, 1)
    assert flows(world, "third") == [None]


@pytest.mark.parametrize(
    ("state", "location"),
    [("state: there\n", "/base/there"), ("state: /abs\n", "/abs"), ("", "/agents/.stages")],
)
def test_files_are_beside_the_dataflow_file_or_where_the_agent_has_them(
    state: str, location: str
) -> None:
    dataflow = parse_dataflow(TWO_STAGES.replace("state: s3://bucket/stages\n", state), "test")
    definition = Definition("two-stages", "", "/base", 0, 0.0)
    launch = Launch("first", "r", 1, Cut(), Cut(), Cause("x", "y"))
    request = stage_request(dataflow, definition, launch, (), "/agents/.stages")
    assert request is not None
    assert request.location == location


ONE_STAGE_OF_FILES = """
name: two-steps
files:
  clicks: {uri: clicks, format: csv, columns: {url: string}}
  totals: s3://bucket/totals
  copies: /copies
actions:
  first:
    stage: stages:first
    reads: clicks
    writes: [totals, copies]
    when: {clicks: {time: 5 min}}
"""


def test_a_stage_is_told_its_files_and_a_step_of_no_container_that_is_none() -> None:
    world = World(parse_dataflow(ONE_STAGE_OF_FILES, "test"))
    world.start_agent()
    world.run(lambda: len(world.commits) >= 2)

    first, second = world.commits[:2]
    assert first.stage is not None
    assert first.stage.sources == {"clicks": FilesSpec("clicks", FileFormat.CSV, {"url": "string"})}
    assert first.stage.sinks == {
        "totals": FilesSpec("s3://bucket/totals"),
        "copies": FilesSpec("/copies"),
    }
    assert first.containers == ()
    assert second.token > first.token


def test_files_are_found_from_where_the_dataflow_file_was() -> None:
    dataflow = parse_dataflow(ONE_STAGE_OF_FILES, "test")
    definition = Definition("two-steps", "", "/base", 0, 0.0)
    launch = Launch("first", "r", 1, Cut(), Cut(), Cause("x", "y"))
    request = stage_request(dataflow, definition, launch, (), "/agents/.stages")
    assert request is not None
    files = request.sources | request.sinks
    places = {name: f.location for name, f in files.items() if isinstance(f, FilesSpec)}
    assert places == {
        "clicks": "/base/clicks",
        "totals": "s3://bucket/totals",
        "copies": "/copies",
    }


def test_what_others_have_not_read_is_named_as_needed() -> None:
    world = World(parse_dataflow(TWO_STAGES.replace(THIRD, LATE), "test"))
    waves(world, 3)
    others = made(world, "first", "others")
    needed = [set(stage.needed) for stage in flows(world, "first")]
    assert needed == [set(), {others[0]}, {others[0], others[1]}]


@pytest.mark.parametrize("victims", ["agent", "worker", "both"])
@pytest.mark.parametrize("kill", range(1, 160, 7))
def test_each_increment_is_read_once_in_order_wherever_somebody_is_killed(
    kill: int, victims: str
) -> None:
    ended = frozenset({"agent", "worker"} if victims == "both" else {victims})
    world = World(parse_dataflow(TWO_STAGES, "test"), kill=kill, victims=ended, seed=kill)
    waves(world, 4)

    for maker, flow, reader, name in (
        ("first", "units", "second", "units"),
        ("second", "back", "second", "mine"),
        ("first", "others", "third", "others"),
    ):
        there, taken = made(world, maker, flow), read(world, reader, name)
        assert taken == there[: len(taken)]
        assert len(there) - len(taken) <= (name == "mine")
    assert read(world, "third", "others")


def test_people_are_shown_what_waits_for_a_stage_and_who_holds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = TWO_STAGES.replace(THIRD, LATE).replace("out: [units, others]", "out: others")
    text = text.replace("units: first.units, ", "").replace("runnable: {lag: 1}", "runnable: any")
    world = World(parse_dataflow(text, "test"))
    waves(world, 1)
    monkeypatch.setattr(Engine, "explain", None)  # a report looks at flows alone
    shown = {action.name: action.flows for action in status(world, world.agents[-1]).actions}
    assert shown == {
        "feed": "",
        "first": "held by `third`",
        "second": "",
        "third": "1 of 100 increments of `others` (first.others) wait",
    }


def test_the_record_of_a_committed_run_says_how_many_rows_its_increments_have() -> None:
    world = World(parse_dataflow(TWO_STAGES, "test"))
    waves(world, 1)

    last = {each.name: each.last for each in status(world, world.agents[-1]).actions}
    first, third = last["first"], last["third"]
    assert first is not None
    assert third is not None
    assert first.made == {"units": first.attempt, "others": first.attempt}
    assert third.made == {}


def test_a_stage_is_told_the_states_of_others_that_write_to_containers() -> None:
    text = """
name: flow
containers: {raw: {table: raw}, out: {table: out}}
actions:
  mine: {stage: "stages:mine", reads: raw, writes: out}
  other: {stage: "stages:other", reads: raw, writes: out}
  silent: {stage: "stages:silent", reads: raw}
  step: {step: "steps:step", reads: raw, writes: out}
"""
    dataflow = parse_dataflow(text, "test")
    definition = Definition("flow", "", "/base", 0, 0.0)
    launch = Launch("mine", "r", 1, Cut(), Cut(), Cause("x", "y"))
    results = {
        name: StageResult(f"{name}.manifest").encoded() for name in ("mine", "other", "silent")
    }
    results["step"] = "anything"
    request = stage_request(dataflow, definition, launch, (), "/stages", results)
    assert request is not None
    assert request.others == {"other": "other.manifest"}
