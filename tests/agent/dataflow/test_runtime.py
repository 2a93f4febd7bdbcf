"""What a runtime does from start to end: watches, checkpoints, barriers, pauses, requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from simulation import World
from simulation.driving import ask, feed, outcomes, started, status, wave

from headgate.agent.dataflow.runtime import Runtime
from headgate.agent.errors import Fenced, Refused
from headgate.agent.kafka.feed import FeedRecord
from headgate.agent.state.run_records import RunRecord
from headgate.agent.state.saved_state import SavedState
from headgate.agent.state.sealed import Owner
from headgate.events import (
    GONE,
    BarrierMark,
    BarrierRequest,
    ObserverLease,
    WatchList,
    updates_topic,
)
from headgate.flows import Launcher, parse_dataflow
from headgate.spark import StepRequest


def test_watches_are_published_before_the_first_barrier(world: World) -> None:
    started(world)
    kinds = [type(message) for message in world.control]
    assert kinds.index(WatchList) < kinds.index(BarrierRequest)
    assert {watch.table for watch in world.control[0].watches} == {"in", "mid", "out"}


def test_watches_of_a_dataflow_submitted_after_a_removal_outrank_all_earlier_ones(
    world: World,
) -> None:
    agent = started(world)
    definition = agent.runtime.state.definition
    for _ in range(5):
        definition = world.store.define(definition)
        ask(agent, lambda runtime, now: runtime.commands.change(definition, world.dataflow, now))  # noqa: B023
    ask(agent, lambda runtime, _: runtime.commands.withdraw(lambda: None, _))
    world.store.remove(world.dataflow.name, agent.epoch)
    earlier = [m.revision for m in world.control if isinstance(m, WatchList)]
    world.store.define(definition)
    world.agents.clear()
    started(world)
    assert earlier == sorted(set(earlier))
    [later] = [m for m in world.control if isinstance(m, WatchList)][len(earlier) :]
    assert later.revision > max(earlier)


def test_what_was_written_before_the_submit_is_no_update(world: World) -> None:
    feed(world)
    agent = started(world)
    wave(world, agent)
    assert outcomes(agent, "first") == []


TWO_AT_ONCE = """
name: two-at-once
containers:
  left: one c:v
  right: two c:v
actions:
  feed: {input: [left, right]}
  a: {step: "steps:a", reads: left, evaluate: write, when: {left: {sequence: 1}}}
  b: {step: "steps:b", reads: right, evaluate: write, when: {right: {sequence: 1}}}
"""


def test_one_checkpoint_comes_before_all_that_records_handed_over_together_launch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(parse_dataflow(TWO_AT_ONCE, "test"), partitions=1)
    agent = started(world)
    for table in ("one", "two"):
        world.write(table, b"row", b"c:v", b"1")
    records = [
        FeedRecord(updates_topic(table), 0, len(messages) - 1, messages[-1], world.now)
        for table in ("one", "two")
        for messages in world.topic(updates_topic(table))
    ]
    done: list[str] = []
    save, start = agent.save, agent.worker.start

    def note_save(state: SavedState, runs: Sequence[RunRecord], now: float) -> None:
        done.append(f"saved {' '.join(run.action for run in runs)}")
        save(state, runs, now)

    def note_start(request: StepRequest, by: Launcher, directory: str) -> None:
        done.append(f"started {request.action}")
        start(request, by, directory)

    monkeypatch.setattr(agent, "save", note_save)
    monkeypatch.setattr(agent.worker, "start", note_start)
    ask(agent, lambda runtime, now: runtime.consume(records, now))
    assert done == ["saved a b", "started a"]  # a session runs one at a time
    # That an attempt has begun, or committed, its ledger tells, should the agent end before its
    # next checkpoint.
    done.clear()
    world.run(lambda: outcomes(agent, "b") == ["committed"])
    assert done == ["started b"]
    world.run(lambda: len(done) > 1)
    assert done == ["started b", "saved a b"]


def test_without_an_observer_the_status_says_how_to_start_one(world: World) -> None:
    agent = world.start_agent()
    agent.observers.hear(ObserverLease(1, "observer", 1, 0.0, {}, ended=True), world.now)
    world.now += 5
    assert "headgate observer" in status(world, agent).words
    assert status(world, agent).phase.value == "starting"


def test_a_barrier_is_asked_for_again_until_the_observer_answers(world: World) -> None:
    world.silent = True
    agent = world.start_agent()
    for _ in range(3):
        world.now += 1.1
        world.step()
    assert "waiting for observer observer (6 partitions)" in status(world, agent).words
    assert sum(isinstance(m, BarrierRequest) for m in world.control) > 2
    world.silent = False
    world.run(lambda: status(world, agent).phase.value == "running")


def test_a_paused_dataflow_counts_and_launches_when_it_is_resumed(world: World) -> None:
    agent = started(world)
    ask(agent, lambda runtime, now: runtime.commands.pause(now))
    feed(world)
    wave(world, agent)
    assert outcomes(agent, "first") == []
    ask(agent, lambda runtime, now: runtime.commands.resume(now))
    wave(world, agent)
    assert outcomes(agent, "first") == ["committed"]


def test_a_pause_outlives_its_agent(world: World) -> None:
    agent = started(world)
    ask(agent, lambda runtime, now: runtime.commands.pause(now))
    agent.alive = False
    other = started(world)
    assert status(world, other).phase.value == "paused"


def test_an_action_runs_when_somebody_asks(world: World) -> None:
    agent = started(world)
    feed(world, rows=1)
    wave(world, agent)
    ask(agent, lambda runtime, now: runtime.commands.run("first", now))
    wave(world, agent)
    assert outcomes(agent, "first") == ["committed"]


@pytest.mark.parametrize(("action", "words"), [("feed", "fed from outside"), ("frist", "first")])
def test_what_cannot_run_is_refused(world: World, action: str, words: str) -> None:
    agent = started(world)
    with pytest.raises(Refused, match=words):
        ask(agent, lambda runtime, now: runtime.commands.run(action, now))


def test_an_agent_that_was_taken_over_saves_nothing_more(world: World) -> None:
    agent = started(world)
    world.store.listings()
    world.now += 100.0
    world.store.acquire("two-steps", Owner("other", "x", ""), world.now, 10.0)
    with pytest.raises(Fenced):
        ask(agent, lambda runtime, now: runtime.waves.mark((), now))


def test_runs_say_exactly_what_they_consumed(world: World) -> None:
    agent = started(world)
    for value in (b"1", b"2"):
        feed(world, value=value)
        wave(world, agent)
    assert agent.runtime is not None
    later, earlier = [r for r in agent.runtime.history.records if r.action == "first"]
    assert later.since == earlier.cut
    assert later.cut.covers(earlier.cut)


def test_modules_are_read_again_when_somebody_asks(world: World) -> None:
    agent = started(world)
    ask(agent, lambda runtime, _: runtime.commands.reload())
    assert len(agent.worker.sessions) == 1


def test_records_of_a_table_that_was_dropped_are_passed_over(world: World, two_steps: str) -> None:
    agent = started(world)
    late = FeedRecord(
        "headgate.updates.none", 0, 0, BarrierMark(1, "observer", 1, 0, "b", 1), world.now
    )
    ask(agent, lambda runtime, now: runtime.consume([late], now))
    feed(world)
    wave(world, agent)
    assert outcomes(agent, "first") == ["committed"]


@pytest.mark.parametrize(
    "ends", [Runtime.drain, lambda runtime: runtime.commands.withdraw(lambda: None, 0)]
)
def test_one_that_begins_nothing_any_more_is_in_nobodys_way(
    world: World, ends: Callable[[Runtime], None]
) -> None:
    agent = started(world)
    while agent.admission.take("another", 0, lambda: None):
        pass
    agent.admission.leave("another")
    feed(world)
    ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    for _ in range(50):
        world.step()
    assert outcomes(agent, "first") == ["waiting"]
    ask(agent, lambda runtime, _: ends(runtime))
    agent.admission.give()
    assert agent.admission.take("another", 0, lambda: None)


@pytest.mark.parametrize("lost", [True, False])
def test_what_lost_records_would_have_told_is_found_by_a_scan(two_steps: str, lost: bool) -> None:
    world = World(parse_dataflow(two_steps.replace("sequence: 3", "sequence: 50%"), "test"))
    feed(world, rows=4)
    agent = started(world)
    feed(world, rows=1)
    wave(world, agent)
    for row in range(4, 8):
        world.tables["in"][b"%d" % row, b"c:v"] = b"1"
    topic = updates_topic("in")
    end = len(world.topic(topic)[0])
    unread = FeedRecord(topic, 0, end, None, world.now, lost=lost)
    ask(agent, lambda runtime, now: runtime.consume([unread], now))
    world.run(lambda: True)
    wave(world, agent)
    assert outcomes(agent, "first") == ["committed"]


def test_a_first_run_learns_that_updates_were_deleted_before_it(world: World) -> None:
    agent = started(world)
    topic = updates_topic("in")
    lost = FeedRecord(topic, 0, 0, None, world.now, lost=True)
    ask(agent, lambda runtime, now: runtime.consume([lost], now))
    feed(world, rows=3)
    wave(world, agent)
    first = next(r for r in agent.runtime.history.records if r.action == "first")
    assert first.since.position(topic, 0) == GONE
    assert first.cut.position(topic, 0) >= 0


def test_percentages_are_of_what_a_scan_between_two_barriers_finds(two_steps: str) -> None:
    world = World(parse_dataflow(two_steps.replace("sequence: 3", "sequence: 50%"), "test"))
    feed(world, rows=10)
    agent = started(world)
    feed(world, rows=4)
    wave(world, agent)
    assert outcomes(agent, "first") == []
    world.write("in", b"4", b"c:v", b"2")
    wave(world, agent)
    assert outcomes(agent, "first") == ["committed"]


def test_a_stopped_runtime_waits_for_the_attempt_under_way_and_starts_no_other(
    world: World,
) -> None:
    agent = started(world)
    feed(world)
    ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    while outcomes(agent, "first") != ["running"]:
        world.step()
    assert agent.runtime is not None
    agent.runtime.drain()
    while not agent.runtime.idle:
        world.step()
    assert outcomes(agent, "first") == ["committed"]
    for _ in range(20):
        world.step()
    assert outcomes(agent, "second") == ["waiting"]
