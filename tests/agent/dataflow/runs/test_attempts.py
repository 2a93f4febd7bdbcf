"""Attempts of runs: failures, retries, quarantine, timeouts, lost workers, and fences between."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from simulation import World
from simulation.driving import ask, feed, outcomes, started, states, status, wave
from simulation.worker import result_of

from headgate.agent.errors import Refused
from headgate.agent.ports import Report, WorkerLost
from headgate.events import Fence
from headgate.flows import parse_dataflow
from headgate.spark import Claimed, Ending, RunKey, StepEnded


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


def test_a_run_is_told_the_result_of_the_one_before_in_all_its_attempts(world: World) -> None:
    agent = started(world)
    feed(world)
    wave(world, agent)
    world.failing["first"] = 1
    feed(world)
    wave(world, agent)
    feed(world)
    wave(world, agent)
    assert outcomes(agent, "first") == ["committed", "failed", "committed", "committed"]
    one, two, three = (r for r in world.commits if r.action == "first")
    assert [r.previous for r in (one, two, three)] == ["", result_of(one), result_of(two)]
    assert two.attempt == 2


@pytest.mark.parametrize("route", ["said", "uncertain", "lost claim", "lost worker", "cancelled"])
def test_the_result_is_that_of_the_commit_whoever_reports_the_end(world: World, route: str) -> None:
    world.hanging.add("first")
    agent = started(world)
    feed(world)
    number = ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    for _ in range(50):
        world.step()
    assert agent.runtime is not None
    (record,) = agent.runtime.history.records
    key = RunKey("two-steps", "first", record.run)
    claim = world.ledger.state(key)
    assert isinstance(claim, Claimed)
    world.ledger.commit(key, claim, "m1")
    reports: dict[str, Report] = {
        "said": StepEnded(record.run, 1, Ending.COMMITTED, 1.0, result="m1"),
        "uncertain": StepEnded(record.run, 1, Ending.UNCERTAIN, 1.0, reason="no reply"),
        "lost claim": StepEnded(record.run, 1, Ending.LOST_CLAIM, 1.0),
        "lost worker": WorkerLost(record.run, 1, "it was killed"),
        "cancelled": WorkerLost(record.run, 1, "it was cancelled by hand"),
    }
    if route == "cancelled":
        agent.runtime._attempts._under_way[record.run].cancelled = True
    ask(agent, lambda runtime, now: runtime.report(reports[route], now))
    world.run(lambda: agent.settled() >= number)
    last = agent.runtime.state.engine.actions["first"].last
    assert last is not None
    assert (last.run, last.result) == (record.run, "m1")


def test_what_a_given_up_run_would_have_named_is_nobodys(world: World) -> None:
    agent = started(world)
    feed(world)
    wave(world, agent)
    (one,) = (r for r in world.commits if r.action == "first")
    world.failing["first"] = 2
    feed(world)
    wave(world, agent)
    assert states(world, agent)["first"] == "quarantined"
    agent.alive = False
    other = started(world)
    ask(other, lambda runtime, now: runtime.commands.retry("first", now))
    world.run(lambda: True)
    assert [r.previous for r in world.commits if r.action == "first"] == ["", result_of(one)]
