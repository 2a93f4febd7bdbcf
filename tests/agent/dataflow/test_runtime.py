"""What a runtime does with what happens: waves, failures, barriers, pauses and changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from simulation import ScriptedAgent, World

from headgate.agent.dataflow.runtime import Runtime
from headgate.agent.dataflow.views import FlowStatus, WaveStatus
from headgate.agent.errors import Fenced, Refused
from headgate.agent.kafka.feed import Record
from headgate.agent.ports import WorkerLost
from headgate.agent.state.run_records import RunRecord
from headgate.agent.state.saved_state import SavedState
from headgate.agent.state.sealed import Definition, Owner
from headgate.events import (
    GONE,
    VERSION,
    BarrierMark,
    BarrierRequest,
    Fence,
    Gap,
    ObserverLease,
    WatchList,
    updates_topic,
)
from headgate.flows import Launcher, parse_dataflow
from headgate.spark import Ending, StepEnded, StepRequest


def started(world: World) -> ScriptedAgent:
    agent = world.start_agent()
    world.run(lambda: True)
    return agent


def feed(world: World, rows: int = 3, value: bytes = b"1") -> None:
    for row in range(rows):
        world.write("in", b"%d" % row, b"c:v", value)


def ask(agent: ScriptedAgent, what: Callable[[Runtime, float], Any]) -> Any:
    found: list[Any] = []
    agent.ask(lambda runtime, now: found.append(what(runtime, now)))
    return found[0]


def wave(world: World, agent: ScriptedAgent) -> int:
    number = ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    world.run(lambda: agent.settled() >= number)
    return int(number)


def outcomes(agent: ScriptedAgent, action: str) -> list[str]:
    assert agent.runtime is not None
    return [r.outcome.value for r in reversed(agent.runtime.history.records) if r.action == action]


def status(world: World, agent: ScriptedAgent) -> FlowStatus:
    assert agent.runtime is not None
    return agent.runtime.reporting.status(world.now)


def states(world: World, agent: ScriptedAgent) -> dict[str, str]:
    return {action.name: action.state for action in status(world, agent).actions}


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
        Record(updates_topic(table), 0, len(messages) - 1, messages[-1], world.now)
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


def test_a_wave_below_the_bound_launches_nothing(world: World) -> None:
    agent = started(world)
    feed(world, rows=2)
    wave(world, agent)
    assert outcomes(agent, "first") == []
    assert status(world, agent).actions[1].skipped == 1


def test_a_wave_is_settled_when_its_runs_and_their_successors_have_ended(world: World) -> None:
    agent = started(world)
    feed(world)
    told: list[WaveStatus] = []
    number = ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    ask(agent, lambda runtime, now: runtime.waves.when_settled(number, told.append))
    assert told == []
    world.run(lambda: bool(told))
    assert outcomes(agent, "first") == outcomes(agent, "second") == ["committed"]
    assert told == [WaveStatus(number, settled=True)]


def test_waves_that_were_not_asked_for_cannot_be_waited_for(world: World) -> None:
    agent = started(world)
    with pytest.raises(Refused, match="the last one is 0"):
        ask(agent, lambda runtime, now: runtime.waves.when_settled(1, lambda _: None))


def test_a_step_that_fails_is_tried_again(world: World) -> None:
    world.failing["first"] = 1
    agent = started(world)
    feed(world)
    wave(world, agent)
    assert outcomes(agent, "first") == ["failed", "committed"]


def test_the_ledger_keeps_a_run_whose_attempts_outgrow_the_history(two_steps: str) -> None:
    patient = two_steps.replace("attempts: 2", "attempts: 60")
    world = World(parse_dataflow(patient, "two-steps.yaml"))
    world.failing["first"] = 55
    agent = started(world)
    feed(world)
    wave(world, agent)
    assert outcomes(agent, "first")[-1] == "committed"
    assert world.forgotten == []


def test_an_agent_that_is_to_keep_fewer_records_keeps_the_newest(world: World) -> None:
    agent = started(world)
    for _ in range(3):
        feed(world)
        wave(world, agent)
    ask(agent, lambda runtime, now: runtime.commands.pause(now))  # which is saved
    records = world.store.history("two-steps")
    assert len(records) == 6
    agent.alive = False
    world.history = 2
    other = started(world)
    assert [r.number for r in other.runtime.history.records] == [5, 4]
    assert [r.number for r in world.store.history("two-steps")] == [5, 4]
    assert {key.run for key in world.forgotten} == {r.run for r in records[2:]}


def test_a_step_that_goes_on_failing_is_quarantined_until_it_is_released(world: World) -> None:
    world.failing["first"] = 2
    agent = started(world)
    feed(world)
    wave(world, agent)
    assert outcomes(agent, "first") == ["failed", "failed"]
    assert states(world, agent)["first"] == "quarantined"
    assert "flow release" in status(world, agent).words
    assert ask(agent, lambda runtime, now: runtime.commands.release(None, now)) == ("first",)
    wave(world, agent)
    assert outcomes(agent, "first")[-1] == "committed"


def test_a_quarantine_outlives_its_agent(world: World) -> None:
    world.failing["first"] = 2
    agent = started(world)
    feed(world)
    wave(world, agent)
    agent.alive = False
    other = started(world)
    assert states(world, other)["first"] == "quarantined"
    assert ask(other, lambda runtime, now: runtime.commands.release("first", now)) == ("first",)


def test_only_what_is_in_quarantine_is_released(world: World) -> None:
    agent = started(world)
    with pytest.raises(Refused, match="not in quarantine"):
        ask(agent, lambda runtime, now: runtime.commands.release("first", now))


def test_each_attempt_is_announced_by_a_fence_with_a_higher_token(world: World) -> None:
    world.failing["first"] = 1
    agent = started(world)
    feed(world)
    wave(world, agent)
    tokens = [m.token for m in world.control if isinstance(m, Fence) and m.action == "first"]
    assert tokens[0] < tokens[1]


def test_a_new_run_waits_until_what_is_left_of_a_failed_one_cannot_write(world: World) -> None:
    agent = started(world)
    world.failing["first"] = 99
    feed(world)
    wave(world, agent)
    world.failing.clear()
    world.silent = True
    ask(agent, lambda runtime, now: runtime.commands.retry("first", now))
    for _ in range(200):
        world.step()
    assert outcomes(agent, "first")[-1] == "waiting"
    world.silent = False
    world.run(lambda: outcomes(agent, "first")[-1] == "committed")


def test_after_a_run_that_committed_the_next_one_starts_at_once(world: World) -> None:
    world.failing["first"] = 2
    agent = started(world)
    feed(world)
    wave(world, agent)
    ask(agent, lambda runtime, now: runtime.commands.retry("first", now))
    world.run(lambda: True)
    assert outcomes(agent, "first") == ["failed", "failed", "committed"]
    world.silent = True
    ask(agent, lambda runtime, now: runtime.commands.run("first", now))
    for _ in range(200):
        world.step()
    assert outcomes(agent, "first")[3:] == ["running"]


def test_after_a_removal_the_first_run_waits_until_what_is_left_cannot_write(world: World) -> None:
    agent = started(world)
    feed(world)
    wave(world, agent)
    world.store.remove(world.dataflow.name, agent.epoch)
    world.store.define(replace(agent.runtime.state.definition, submitted=world.now))
    world.agents.clear()
    again = started(world)
    feed(world)
    ask(again, lambda runtime, now: runtime.waves.mark((), now))
    before = len(world.control)
    while not any(isinstance(message, Fence) for message in world.control[before:]):
        world.step()
    world.silent = True
    for _ in range(200):
        world.step()
    assert outcomes(again, "first") == ["waiting"]


def test_a_lost_worker_costs_an_attempt_and_not_the_run(world: World) -> None:
    agent = started(world)
    world.hanging.add("first")
    feed(world)
    ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    for _ in range(50):
        world.step()
    agent.worker.kill()
    world.hanging.clear()
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "first") == ["lost", "committed"]


def test_a_step_beyond_its_timeout_is_stopped_and_tried_again(
    two_steps: str,
) -> None:
    text = two_steps.replace("    reads: input\n", "    reads: input\n    timeout: 5 s\n")
    world = World(parse_dataflow(text, "test"))
    agent = started(world)
    world.hanging.add("first")
    feed(world)
    ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    for _ in range(50):
        world.step()
    world.now += 5
    world.step()
    world.hanging.clear()
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "first") == ["timed-out", "committed"]


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


def test_a_quiet_period_ends_a_wave(two_steps: str) -> None:
    world = World(parse_dataflow(two_steps + "waves: quiet 10 s\n", "test"))
    agent = started(world)
    feed(world)
    world.run(lambda: True)
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "second") == ["committed"]


@pytest.mark.parametrize("waves", ["quiet 10 s", "every 2 min"])
@pytest.mark.parametrize("restarts", [1, 3])
def test_input_that_was_consumed_ends_its_wave_whoever_goes_on(
    two_steps: str, waves: str, restarts: int
) -> None:
    world = World(parse_dataflow(two_steps + f"waves: {waves}\n", "test"))
    agent = started(world)
    feed(world)
    for _ in range(restarts):
        for _ in range(40):
            world.now += 0.1
            world.step()
        agent.alive = False
        agent = world.start_agent()
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "second") == ["committed"]
    assert agent.waves() == 1


@pytest.mark.parametrize("by", [86_400.0, -86_400.0])
def test_a_clock_that_is_set_ends_a_quiet_period_neither_early_nor_late(
    two_steps: str, by: float
) -> None:
    world = World(parse_dataflow(two_steps + "waves: quiet 10 s\n", "test"))
    agent = started(world)
    feed(world)
    for _ in range(40):
        world.step()
    world.leap(by)
    for _ in range(90):
        world.now += 0.1
        world.step()
    assert agent.waves() == 0
    for _ in range(20):
        world.now += 0.1
        world.step()
    assert agent.waves() == 1


@pytest.mark.parametrize("by", [86_400.0, -86_400.0])
def test_a_step_has_its_timeout_whatever_the_clock_is_set_to(two_steps: str, by: float) -> None:
    text = two_steps.replace("    retries:", "    timeout: 30 s\n    retries:", 1)
    world = World(parse_dataflow(text, "test"))
    agent = started(world)
    world.hanging.add("first")
    feed(world)
    ask(agent, lambda runtime, now: runtime.waves.mark((), now) and None)
    for _ in range(60):
        world.step()
    world.leap(by)
    for _ in range(250):
        world.now += 0.1
        world.step()
    assert outcomes(agent, "first") == ["running"]
    for _ in range(100):
        world.now += 0.1
        world.step()
    assert "timed-out" in outcomes(agent, "first")


def test_a_gap_in_the_input_ends_a_wave_too(two_steps: str) -> None:
    world = World(parse_dataflow(two_steps + "waves: quiet 10 s\n", "test"))
    agent = started(world)
    feed(world)
    world.run(lambda: agent.settled() == 1)
    gap = Gap(VERSION, "observer", 1, 0, "in", world.now, world.now, "the journal was full")
    world.publish("in", 0, gap)
    world.run(lambda: agent.settled() == 2)
    assert outcomes(agent, "first") == ["committed", "committed"]


def test_input_of_a_wave_that_was_marked_until_now_ends_by_its_new_rule(two_steps: str) -> None:
    world = World(parse_dataflow(two_steps, "test"))
    agent = started(world)
    feed(world)
    world.run(lambda: True)
    change(world, agent, two_steps + "waves: quiet 10 s\n")
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "first") == ["committed"]


def test_a_period_without_input_ends_no_wave(two_steps: str) -> None:
    world = World(parse_dataflow(two_steps + "waves: every 10 s\n", "test"))
    agent = started(world)
    for _ in range(30):
        world.now += 1
        world.step()
    assert agent.waves() == 0
    feed(world)
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "first") == ["committed"]


def test_another_definition_keeps_what_was_counted(world: World, two_steps: str) -> None:
    agent = started(world)
    feed(world, rows=2)
    wave(world, agent)
    text = two_steps.replace("sequence: 3", "sequence: 2")
    definition = Definition("two-steps", text, ".", 2, 0.0)
    changed = parse_dataflow(text, "test")
    ask(agent, lambda runtime, now: runtime.commands.change(definition, changed, now))
    wave(world, agent)
    assert outcomes(agent, "first") == ["committed"]


def change(world: World, agent: ScriptedAgent, text: str) -> None:
    changed = parse_dataflow(text, "test")
    definition = Definition("two-steps", text, ".", 2, 0.0)
    ask(agent, lambda runtime, now: runtime.commands.change(definition, changed, now))


def changed_to(world: World, agent: ScriptedAgent, **fields: Any) -> None:
    assert agent.runtime is not None
    definition = replace(agent.runtime.state.definition, **fields)
    dataflow = parse_dataflow(definition.source, "test", definition.profile)
    ask(agent, lambda runtime, now: runtime.commands.change(definition, dataflow, now))


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


def test_a_retry_does_not_wait_for_the_backoff(two_steps: str) -> None:
    world = World(parse_dataflow(two_steps.replace("backoff: 1 s", "backoff: [1 h, 1 h]"), "test"))
    world.failing["first"] = 1
    agent = started(world)
    feed(world)
    number = ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    before = world.now
    while outcomes(agent, "first") != ["failed"]:
        world.step()
    assert ask(agent, lambda runtime, now: runtime.commands.retry(None, now)) == ("first",)
    world.run(lambda: agent.settled() >= number)
    assert outcomes(agent, "first") == ["failed", "committed"]
    assert world.now - before < 3600


def test_a_retry_takes_an_action_out_of_quarantine(world: World) -> None:
    world.failing["first"] = 2
    agent = started(world)
    feed(world)
    wave(world, agent)
    assert states(world, agent)["first"] == "quarantined"
    assert ask(agent, lambda runtime, now: runtime.commands.retry("first", now)) == ("first",)
    world.run(lambda: True)
    assert outcomes(agent, "first") == ["failed", "failed", "committed"]


def test_only_what_failed_is_tried_again(world: World) -> None:
    agent = started(world)
    with pytest.raises(Refused, match="nothing failed of any action"):
        ask(agent, lambda runtime, now: runtime.commands.retry(None, now))
    with pytest.raises(Refused, match="nothing failed of first"):
        ask(agent, lambda runtime, now: runtime.commands.retry("first", now))
    with pytest.raises(Refused, match="no action 'third'"):
        ask(agent, lambda runtime, now: runtime.commands.retry("third", now))


def test_another_end_of_waves_holds_at_once(world: World, two_steps: str) -> None:
    agent = started(world)
    changed_to(world, agent, source=f"{two_steps}waves: every 5 s\n")
    feed(world)
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "first") == ["committed"]


@pytest.mark.parametrize("more", ["spark: {a: b}\n", "python_path: lib\n"])
def test_another_session_is_started_where_its_settings_changed(
    world: World, two_steps: str, more: str
) -> None:
    agent = started(world)
    changed_to(world, agent, source=two_steps.replace("sequence: 3", "sequence: 2"))
    assert agent.worker.sessions == []
    changed_to(world, agent, source=f"{two_steps}{more}")
    assert len(agent.worker.sessions) == 1


def test_a_quarantine_ends_with_its_action(world: World, two_steps: str) -> None:
    world.failing["first"] = 2
    agent = started(world)
    feed(world)
    wave(world, agent)
    changed_to(world, agent, source=two_steps.replace("sequence: 3", "sequence: 4"))
    assert "in quarantine: first" in status(world, agent).words
    renamed = two_steps.replace("  first:", "  other:").replace("after: first", "after: other")
    changed_to(world, agent, source=renamed)
    assert status(world, agent).words == ""


def test_modules_are_read_again_when_somebody_asks(world: World) -> None:
    agent = started(world)
    ask(agent, lambda runtime, _: runtime.commands.reload())
    assert len(agent.worker.sessions) == 1


def without_second(text: str) -> str:
    return text.partition("  second:")[0].replace("  output: out c:v\n", "")


def test_an_action_that_comes_back_does_not_repeat_the_ids_of_its_runs(
    world: World, two_steps: str
) -> None:
    agent = started(world)
    feed(world)
    wave(world, agent)
    change(world, agent, without_second(two_steps))
    change(world, agent, two_steps)
    feed(world, value=b"2")
    wave(world, agent)
    runs = [request.run for request in world.commits if request.action == "second"]
    assert len(runs) == len(set(runs)) == 2


def test_a_barrier_does_not_wait_for_a_table_that_is_not_read_any_more(
    world: World, two_steps: str
) -> None:
    agent = started(world)
    feed(world)
    world.silent = True
    number = ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    text = without_second(two_steps).replace("in c:v", "elsewhere c:v")
    change(world, agent, text)
    world.silent = False
    world.run(lambda: agent.settled() >= number)


def test_records_of_a_table_that_was_dropped_are_passed_over(world: World, two_steps: str) -> None:
    agent = started(world)
    late = Record("headgate.updates.none", 0, 0, BarrierMark(1, "observer", 1, 0, "b"), world.now)
    ask(agent, lambda runtime, now: runtime.consume([late], now))
    feed(world)
    wave(world, agent)
    assert outcomes(agent, "first") == ["committed"]


def test_an_attempt_that_waits_is_given_up_with_its_action(world: World, two_steps: str) -> None:
    side = """
  third:
    step: steps:third
    after: first
    reads: middle
"""
    world.dataflow = parse_dataflow(two_steps + side.lstrip("\n"), "test")
    world.hanging.add("second")
    agent = started(world)
    feed(world)
    ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    for _ in range(50):
        world.step()
    assert outcomes(agent, "third") == ["waiting"]
    change(world, agent, two_steps)
    world.hanging.clear()
    assert agent.runtime is not None
    lost = WorkerLost(
        next(r.run for r in agent.runtime.history.records if r.action == "second"), 1, ""
    )
    ask(agent, lambda runtime, now: runtime.report(lost, now))
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "third") == ["lost"]
    assert outcomes(agent, "second") == ["lost", "committed"]


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


def test_of_a_failure_is_kept_what_people_read_and_no_more(world: World) -> None:
    world.hanging.add("first")
    agent = started(world)
    feed(world)
    ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    for _ in range(50):
        world.step()
    assert agent.runtime is not None
    (record,) = agent.runtime.history.records
    words = "x" * 20_000_000
    detail = f"Traceback: it began\n{words}\nOSError: it ended"
    ended = StepEnded(record.run, 1, Ending.FAILED, 0.0, reason=words, detail=detail)
    ask(agent, lambda runtime, now: runtime.report(ended, now))
    (record,) = agent.runtime.history.records
    assert len(record.reason) < 2_000
    assert len(record.detail) < 100_000
    assert record.detail.startswith("Traceback: it began")
    assert record.detail.endswith("OSError: it ended")
    assert len(agent.runtime.decisions.newest[-1].words) < 3_000


@pytest.mark.parametrize("fails", [True, False])
def test_an_action_that_goes_and_comes_back_has_its_runs_told_apart(
    world: World, two_steps: str, fails: bool
) -> None:
    _, _, rest = two_steps.partition("  first:")
    without = two_steps.replace("  first:" + rest.partition("  second:")[0], "")
    world.hanging.add("first")
    agent = started(world)
    feed(world)
    ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    for _ in range(50):
        world.step()
    assert outcomes(agent, "first") == ["running"]
    change(world, agent, without.replace("after: first", "after: feed"))
    change(world, agent, two_steps)
    ask(agent, lambda runtime, now: runtime.commands.run("first", now))
    assert outcomes(agent, "first") == ["running", "waiting"]
    world.failing["first"] = int(fails)
    world.hanging.clear()
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "first") == ["failed" if fails else "committed", "committed"]


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
    unread = Record(topic, 0, end, None, world.now, lost=lost)
    ask(agent, lambda runtime, now: runtime.consume([unread], now))
    world.run(lambda: True)
    wave(world, agent)
    assert outcomes(agent, "first") == ["committed"]


def test_a_first_run_learns_that_updates_were_deleted_before_it(world: World) -> None:
    agent = started(world)
    topic = updates_topic("in")
    lost = Record(topic, 0, 0, None, world.now, lost=True)
    ask(agent, lambda runtime, now: runtime.consume([lost], now))
    feed(world, rows=3)
    wave(world, agent)
    first = next(r for r in agent.runtime.history.records if r.action == "first")
    assert first.since.position(topic, 0) == GONE
    assert first.cut.position(topic, 0) >= 0


def test_a_scan_is_given_up_with_its_container(two_steps: str) -> None:
    percent = two_steps.replace("sequence: 3", "sequence: 50%")
    world = World(parse_dataflow(percent, "test"))
    feed(world, rows=10)
    world.silent = True
    agent = world.start_agent()
    renamed = percent.replace("  input:", "  arrivals:").replace(" input}", " arrivals}")
    renamed = renamed.replace("reads: input", "reads: arrivals")
    change(world, agent, renamed)
    world.silent = False
    world.run(lambda: status(world, agent).phase.value == "running")
    feed(world, rows=5, value=b"2")
    wave(world, agent)
    assert outcomes(agent, "first") == ["committed"]


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
