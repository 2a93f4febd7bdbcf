"""A step that copies what ``run.changes`` shows it has a whole copy, whatever happened between.

Each committed run applies what lies between its ``since`` and its cut to a copy of its input, or
takes the table as it is where its ``since`` says that records are missing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from simulation import ScriptedAgent, World

from headgate.agent.dataflow.runtime import Runtime
from headgate.agent.kafka.feed import FeedRecord
from headgate.events import UpdateBatch, updates_topic
from headgate.flows import parse_dataflow
from headgate.spark import StepRequest
from headgate.spark.kafka.updates import is_broken, ranges_between

ONE_STEP = """
name: two-steps
containers:
  input: in c:v
  other: aside c:v
  output: out c:v
actions:
  feed: {input: [input, other]}
  first:
    step: steps:first
    reads: [input, other]
    writes: output
    when:
      input: {sequence: 3}
profiles:
  eager: {first: {input: {sequence: 1}}}
"""
LIMITS = ONE_STEP.replace("sequence: 3", "sequence: 2")
WITHOUT = ONE_STEP.replace("  other: aside c:v\n", "").replace("[input, other]", "input")
UNREAD = ONE_STEP.replace("reads: [input, other]", "reads: input")
NONE = ONE_STEP.replace("    writes: output", "    writes: output\n    first_changes: none")

Copies = dict[str, dict[tuple[bytes, bytes], bytes]]


class Copied(list[StepRequest]):
    """What committed, and the copies that each of its runs has brought up to date."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.copies: Copies = {}

    def append(self, request: StepRequest) -> None:
        super().append(request)
        for watched in request.containers:
            for table in watched.container.tables:
                self._bring_up_to_date(request, table)

    def _bring_up_to_date(self, request: StepRequest, table: str) -> None:
        topic = updates_topic(table)
        copy = self.copies.setdefault(table, {})
        if is_broken(topic, request.since, request.cut):
            copy.update(self._world.tables.get(table, {}))
        for part in ranges_between(topic, request.since, request.cut):
            for message in self._world.topic(topic)[part.partition][max(0, part.start) : part.stop]:
                if isinstance(message, UpdateBatch):
                    cells = zip(message.rows, message.columns, message.values, strict=True)
                    copy.update({(r, c): v for r, c, v in cells if v is not None})


def copying(text: str = ONE_STEP, *, standing: int = 0) -> tuple[World, Copied, ScriptedAgent]:
    world = World(parse_dataflow(text, "test"))
    copied = Copied(world)
    world.commits = copied
    for row in range(standing):
        world.tables.setdefault("in", {})[b"stood-%d" % row, b"c:v"] = b"0"
    agent = world.start_agent()
    world.run(lambda: True)
    return world, copied, agent


def ask(agent: ScriptedAgent, what: Callable[[Runtime, float], Any]) -> None:
    agent.ask(lambda runtime, now: what(runtime, now) and None)


def change(agent: ScriptedAgent, **fields: Any) -> None:
    assert agent.runtime is not None
    definition = replace(agent.runtime.state.definition, **fields)
    dataflow = parse_dataflow(definition.source, "test", definition.profile)
    agent.world.dataflow = dataflow
    ask(agent, lambda runtime, now: runtime.commands.change(definition, dataflow, now))


def put(world: World, *rows: bytes, table: str = "in") -> None:
    for row in rows:
        world.write(table, row, b"c:v", b"%d" % world.points)


def run(world: World, agent: ScriptedAgent) -> None:
    """Have the step run on all that was written."""
    world.run(lambda: True)
    before = len(world.commits)
    ask(agent, lambda runtime, now: runtime.commands.run("first", now))
    world.run(lambda: len(world.commits) > before)
    world.run(lambda: True)


def kill(world: World, agent: ScriptedAgent) -> ScriptedAgent:
    """End an agent at once; return another that goes on."""
    assert agent.runtime is not None
    agent.alive = False
    definition = agent.runtime.state.definition
    world.store.define(definition)
    other = world.start_agent()
    assert other.runtime is not None
    other.runtime.state.definition = definition
    return other


def hang(world: World, agent: ScriptedAgent) -> None:
    """Have the step begin a run that does not end."""
    world.run(lambda: True)
    world.hanging.add("first")
    ask(agent, lambda runtime, now: runtime.commands.run("first", now))
    for _ in range(50):
        world.step()


def begun() -> tuple[World, Copied, ScriptedAgent]:
    """Return a dataflow whose step has run, and two updates that it has not seen."""
    world, copied, agent = copying(standing=2)
    put(world, b"r0", b"r1")
    ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    run(world, agent)
    put(world, b"r2", b"r3")
    return world, copied, agent


@pytest.mark.parametrize(
    "fields",
    [{"source": LIMITS}, {"profile": "eager"}, {"directory": "elsewhere"}],
    ids=["limits", "profile", "code"],
)
def test_an_edit_takes_nothing_from_what_the_next_run_is_shown(fields: dict[str, str]) -> None:
    world, copied, agent = begun()
    change(agent, **fields)
    put(world, b"r4")
    run(world, agent)
    assert copied.copies["in"] == world.tables["in"]
    assert not is_broken(updates_topic("in"), copied[-1].since, copied[-1].cut)


def test_an_edit_during_a_run_takes_nothing_from_the_next_one() -> None:
    world, copied, agent = begun()
    hang(world, agent)
    put(world, b"r4")
    change(agent, source=LIMITS)
    world.hanging.clear()
    world.run(lambda: len(copied) > 1)
    run(world, agent)
    assert copied.copies["in"] == world.tables["in"]
    assert copied[-1].since == copied[-2].cut


def test_a_first_run_is_shown_all_that_stands_in_the_table() -> None:
    world, copied, agent = copying(standing=10)
    put(world, b"r0")
    ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    run(world, agent)
    assert len(copied.copies["in"]) == 11


def test_a_first_run_can_begin_at_the_submit() -> None:
    world, copied, agent = copying(NONE, standing=10)
    put(world, b"r0")
    ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    run(world, agent)
    assert copied.copies["in"].keys() == {(b"r0", b"c:v")}


def test_a_table_without_an_update_until_the_first_run_is_not_shown_whole_again() -> None:
    world, copied, agent = begun()
    put(world, b"a0", table="aside")
    run(world, agent)
    topic = updates_topic("aside")
    assert not is_broken(topic, copied[-1].since, copied[-1].cut)
    assert copied.copies["aside"] == world.tables["aside"]


def test_a_table_that_comes_back_is_shown_whole() -> None:
    world, copied, agent = begun()
    change(agent, source=WITHOUT)
    # Nobody watches it: the observer tells nothing of this write.
    world.tables.setdefault("aside", {})[b"a0", b"c:v"] = b"1"
    run(world, agent)
    change(agent, source=ONE_STEP)
    run(world, agent)
    assert copied.copies["aside"] == world.tables["aside"]


def test_a_table_that_comes_back_is_shown_whole_though_the_action_does_not_name_it() -> None:
    world, copied, agent = copying(UNREAD)
    put(world, b"r0")
    put(world, b"a0", table="aside")
    ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    run(world, agent)
    change(agent, source=WITHOUT)
    world.tables["aside"][b"a1", b"c:v"] = b"1"
    change(agent, source=UNREAD)
    run(world, agent)
    assert copied.copies["aside"] == world.tables["aside"]


def test_a_table_that_comes_back_during_a_run_is_shown_whole_to_the_next() -> None:
    world, copied, agent = begun()
    hang(world, agent)
    change(agent, source=WITHOUT)
    world.tables.setdefault("aside", {})[b"a0", b"c:v"] = b"1"
    change(agent, source=ONE_STEP)
    world.hanging.clear()
    world.run(lambda: len(copied) > 1)
    run(world, agent)
    assert copied.copies["aside"] == world.tables["aside"]


def test_a_container_that_an_action_did_not_read_before_is_shown_whole() -> None:
    world, copied, agent = copying(UNREAD, standing=1)
    put(world, b"a0", table="aside")
    put(world, b"r0")
    ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    run(world, agent)
    change(agent, source=ONE_STEP)
    run(world, agent)
    assert is_broken(updates_topic("aside"), copied[-1].since, copied[-1].cut)
    assert not is_broken(updates_topic("in"), copied[-1].since, copied[-1].cut)


def test_what_was_decided_in_shadow_mode_is_shown_to_the_first_run_after_it() -> None:
    world, copied, agent = begun()
    change(agent, shadow=True)
    put(world, b"r4", b"r5", b"r6")
    ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    world.run(lambda: agent.settled() == agent.waves())
    assert len(copied) == 1
    change(agent, shadow=False)
    run(world, agent)
    assert copied.copies["in"] == world.tables["in"]
    assert copied[-1].since == copied[0].cut


def test_kafka_keeps_what_shadow_mode_has_only_rehearsed() -> None:
    world, _, agent = begun()
    change(agent, shadow=True)
    put(world, b"r4", b"r5", b"r6")
    ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    world.run(lambda: agent.settled() == agent.waves())
    later = world.now + 1000.0
    world.run(lambda: world.now >= later)
    kill(world, agent)
    later = world.now + 1000.0
    world.run(lambda: world.now >= later)
    assert world.needs[updates_topic("in")] > 1900.0


def test_kafka_keeps_what_a_first_run_from_the_submit_on_is_to_be_shown() -> None:
    world, _, _ = copying(NONE, standing=1)
    put(world, b"r1")
    later = world.now + 1000.0
    world.run(lambda: world.now >= later)
    assert world.needs[updates_topic("in")] > 900.0


def test_a_run_given_up_takes_nothing_from_the_next_one() -> None:
    world, copied, agent = begun()
    world.failing["first"] = 3
    ask(agent, lambda runtime, now: runtime.commands.run("first", now))
    world.run(lambda: agent.runtime is not None and bool(agent.runtime.state.quarantined))
    change(agent, source=LIMITS)
    ask(agent, lambda runtime, now: runtime.commands.release("first", now))
    run(world, agent)
    assert copied.copies["in"] == world.tables["in"]


EDITS: tuple[dict[str, Any], ...] = (
    {"source": LIMITS},
    {"source": WITHOUT, "profile": None},
    {"source": ONE_STEP},
    {"source": UNREAD},
    {"profile": "eager"},
    {"profile": None},
    {"shadow": True},
    {"shadow": False},
)


HAPPENINGS = ("put", "put", "aside", "mark", "step", "edit", "fail", "kill", "lose")


def lose(world: World, agent: ScriptedAgent) -> None:
    """Have Kafka delete the update of a row before it is read."""
    world.tables.setdefault("in", {})[b"lost", b"c:v"] = b"%d" % world.points
    topic = updates_topic("in")
    at = len(world.topic(topic)[0])
    lost = FeedRecord(topic, 0, at, None, world.now, lost=True)
    ask(agent, lambda runtime, now: runtime.consume([lost], now))


@pytest.mark.parametrize("seed", range(60))
def test_the_copy_is_whole_after_any_life(seed: int) -> None:
    choose = random.Random(seed)
    world, copied, agent = copying(standing=choose.randrange(3))
    for _ in range(choose.randrange(5, 40)):
        match choose.choice(
            ("put", "put", "aside", "mark", "step", "edit", "fail", "kill", "lose")
        ):
            case "put":
                put(world, b"r%d" % choose.randrange(9))
            case "aside":
                if "aside" in agent.runtime.state.tables:
                    put(world, b"a%d" % choose.randrange(3), table="aside")
                else:
                    world.tables.setdefault("aside", {})[b"u", b"c:v"] = b"%d" % world.points
            case "mark":
                ask(agent, lambda runtime, now: runtime.waves.mark((), now))
            case "step":
                for _ in range(choose.randrange(60)):
                    world.step()
            case "edit":
                change(agent, **choose.choice(EDITS))
            case "fail":
                world.failing["first"] = 1
            case "kill":
                agent = kill(world, agent)
            case "lose":
                lose(world, agent)
    world.failing.clear()
    change(agent, source=ONE_STEP, profile=None, shadow=False)
    world.run(lambda: True)
    put(world, b"last")
    world.run(lambda: True)
    if agent.runtime.state.quarantined:
        ask(agent, lambda runtime, now: runtime.commands.release(None, now))
    ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    run(world, agent)
    for table in ("in", "aside"):
        assert copied.copies.get(table, {}) == world.tables.get(table, {}), table
