"""Launches, attempts, failures, quarantine, pauses and requests."""

import pytest

from headgate.engine import (
    Bound,
    DecisionKind,
    FirstChanges,
    Launch,
    Metric,
    Quarantine,
    RetryPolicy,
    RunFailed,
    RunFinished,
    RunStarted,
    RunState,
    SequenceBound,
    TopicsOpened,
    ValueBound,
    launched,
)
from headgate.engine.actions.runs import TRANSITIONS, RunEvent
from headgate.engine.protocol.stimuli import Paused, Resumed, RetryRequested
from headgate.events import ContainerId, Cut, updates_topic

IN = ContainerId("in")

TWO = Bound("k", IN, sequence=SequenceBound(2))
RETRY = RetryPolicy(attempts=3, first=10.0, maximum=15.0)


def active(pair, rows, *bounds, **step):
    tester = pair(*(bounds or (TWO,)), retry=RETRY, **step)
    tester.write("in", rows(2))
    tester.wave("a")
    return tester


def state(tester) -> RunState:
    return tester.engine.explain(tester.now).actions[1].state


def test_a_launch_says_what_it_consumes_and_why(pair, rows):
    tester = active(pair, rows)
    (launch,) = tester.launches()
    assert (launch.action, launch.run, launch.attempt) == ("b", "flow-b-1", 1)
    assert launch.cut.offsets == {"headgate.updates.in": (1,)}
    assert launch.since.offsets == {}
    assert launch.cause.words == "σ of `in` reached 2 of 2 updates (end of the wave of `a`)"


def test_the_end_of_what_is_no_action_is_refused(pair):
    tester = pair()
    tester.handle(RunFinished(tester.now, "nobody", "flow-nobody-1", 1))
    assert tester.decisions()[-1].kind is DecisionKind.REFUSED


def test_what_does_not_run_cannot_end(pair):
    with pytest.raises(LookupError, match="'b' has no active run"):
        pair().finish("b")


def test_the_next_launch_starts_where_the_last_committed_run_ended(pair, rows):
    tester = active(pair, rows)
    tester.finish("b")
    tester.write("in", rows(2))
    tester.wave("a")
    first, second = tester.launches()
    assert second.since == first.cut
    assert second.cut.offsets == {"headgate.updates.in": (2,)}


def test_run_ids_tell_dataflows_of_one_name_apart(pair):
    from headgate.engine import Engine, RunRequested, Tick

    engine = Engine(pair().spec, incarnation="7f3a")
    engine = Engine(engine.spec, engine.snapshot())
    engine.handle(Tick(1))
    engine.actions["a"].has_run = True
    launches = [i for i in engine.handle(RunRequested(2, "b")) if isinstance(i, Launch)]
    assert launches[0].run == "flow-7f3a-b-1"


def test_a_failed_attempt_is_repeated_with_the_same_run_and_cut(pair, rows):
    tester = active(pair, rows)
    tester.fail("b")
    tester.write("in", rows(5))
    assert launched(tester.pass_time(9)) == []
    tester.pass_time(1)
    first, second = tester.launches()
    assert (second.run, second.attempt, second.cut) == (first.run, 2, first.cut)
    assert second.cause == first.cause


def test_backoff_doubles_up_to_its_maximum(pair, rows):
    tester = active(pair, rows)
    tester.fail("b")
    tester.pass_time(10)
    tester.fail("b")
    tester.pass_time(14)
    assert len(tester.launches()) == 2
    tester.pass_time(1)
    assert len(tester.launches()) == 3


def test_after_the_last_attempt_the_action_is_in_quarantine(pair, rows):
    tester = active(pair, rows)
    for _ in range(3):
        tester.fail("b", "no memory")
        tester.pass_time(15)
    assert state(tester) is RunState.QUARANTINED
    assert Quarantine("b", "flow-b-1", "no memory") in tester.instructions
    tester.write("in", rows(2))
    assert launched(tester.wave("a")) == []


def quarantined(pair, rows, *bounds):
    tester = active(pair, rows, *bounds)
    for _ in range(3):
        tester.fail("b")
        tester.pass_time(15)
    return tester


def test_release_lets_it_run_again_on_what_the_failed_run_had_taken(pair, rows):
    tester = quarantined(pair, rows)
    assert launched(tester.release("b")) == ["b"]
    launch = tester.launches()[-1]
    assert (launch.run, launch.attempt) == ("flow-b-2", 1)
    assert launch.since.offsets == {}


def test_a_retry_does_not_wait_and_keeps_run_and_cut(pair, rows):
    tester = active(pair, rows)
    tester.fail("b")
    assert launched(tester.handle(RetryRequested(tester.now, "b"))) == ["b"]
    first, second = tester.launches()
    assert (second.run, second.attempt, second.cut) == (first.run, 2, first.cut)
    assert launched(tester.pass_time(60)) == []


def test_a_retry_of_what_was_given_up_is_another_run_at_once(pair, rows):
    tester = quarantined(pair, rows, Bound("k", IN, sequence=SequenceBound(2)))
    assert launched(tester.handle(RetryRequested(tester.now, "b"))) == ["b"]
    assert tester.launches()[-1].run == "flow-b-2"
    assert tester.launches()[-1].since.offsets == {}


def test_a_retry_while_paused_comes_when_resumed(pair, rows):
    tester = active(pair, rows)
    tester.fail("b")
    tester.handle(Paused(tester.now))
    assert launched(tester.handle(RetryRequested(tester.now, "b"))) == []
    assert launched(tester.handle(Resumed(tester.now))) == ["b"]


@pytest.mark.parametrize("name", ["a", "b", "x"])
def test_only_what_failed_is_retried(pair, rows, name):
    tester = active(pair, rows)
    tester.handle(RetryRequested(tester.now, name))
    assert tester.decisions()[-1].kind is DecisionKind.REFUSED
    assert len(tester.launches()) == 1


def test_a_failed_run_restores_counts_and_adds_what_came_meanwhile(pair, rows):
    tester = active(pair, rows, Bound("k", IN, sequence=SequenceBound(2, distinct=True)))
    tester.write("in", rows(2, first=1))
    for _ in range(3):
        tester.fail("b")
        tester.pass_time(15)
    result = tester.engine.explain(0).actions[1].result
    assert result.parts[0].vectors[0].value == 3


def test_a_failed_run_restores_previous_values(pair, rows):
    bound = Bound("k", IN, value=ValueBound(Metric.ABSOLUTE, 5))
    tester = pair(bound, retry=RetryPolicy(attempts=1))
    tester.write("in", rows(3, 10))
    tester.wave("a")
    tester.finish("b")
    tester.write("in", rows(1, 17))
    tester.wave("a")
    tester.write("in", rows(1, 18))
    tester.fail("b")
    result = tester.engine.explain(0).actions[1].result
    assert result.parts[0].vectors[0].value == 8


def test_a_failed_run_restores_time(pair, rows):
    tester = pair(Bound("k", IN, time=60.0), retry=RetryPolicy(attempts=1))
    tester.write("in", rows(1))
    tester.pass_time(60)
    tester.pass_time(5)
    tester.fail("b")
    result = tester.engine.explain(tester.now).actions[1].result
    assert result.parts[0].vectors[0].value == 65


def test_a_failed_run_restores_the_ends_of_predecessors(chain, rows):
    tester = chain(retry=RetryPolicy(attempts=1))
    tester.write("in", rows(1))
    tester.wave("a")
    tester.finish("b")
    tester.fail("c")
    assert launched(tester.release("c")) == ["c"]


def test_backoff_holds_time_back_too(pair, rows):
    tester = pair(Bound("k", IN, time=5.0), retry=RETRY)
    tester.write("in", rows(1))
    tester.pass_time(5)
    tester.fail("b")
    tester.pass_time(9)
    assert len(tester.launches()) == 1
    tester.pass_time(1)
    assert [launch.attempt for launch in tester.launches()] == [1, 2]


def test_a_run_that_committed_after_all_is_finished_whatever_its_attempt(pair, rows):
    tester = active(pair, rows)
    tester.fail("b")
    tester.handle(RunFinished(tester.now, "b", "flow-b-1", 1))
    assert state(tester) is RunState.IDLE
    tester.pass_time(100)
    assert len(tester.launches()) == 1


def test_what_is_said_of_another_run_is_refused(pair, rows):
    tester = active(pair, rows)
    tester.handle(RunFinished(tester.now, "b", "flow-b-9", 1))
    tester.handle(RunFailed(tester.now, "b", "flow-b-1", 7, "stale"))
    assert state(tester) is RunState.LAUNCHED
    assert [d.kind for d in tester.decisions()[-2:]] == [DecisionKind.REFUSED] * 2


def test_a_run_that_finished_once_is_not_finished_twice(pair, rows):
    tester = active(pair, rows)
    tester.finish("b")
    tester.handle(RunFinished(tester.now, "b", "flow-b-1", 1))
    assert tester.decisions()[-1].kind == DecisionKind.REFUSED


def test_paused_counts_and_launches_nothing(pair, rows):
    tester = pair(TWO)
    tester.handle(Paused(tester.now))
    tester.write("in", rows(2))
    assert launched(tester.wave("a")) == []
    assert launched(tester.handle(Resumed(tester.now))) == ["b"]


def test_paused_holds_retries_back(pair, rows):
    tester = active(pair, rows)
    tester.fail("b")
    tester.handle(Paused(tester.now))
    assert launched(tester.pass_time(100)) == []
    assert launched(tester.handle(Resumed(tester.now))) == ["b"]


def test_paused_lets_time_fire_when_resumed(pair, rows):
    tester = pair(Bound("k", IN, time=60.0))
    tester.write("in", rows(1))
    tester.handle(Paused(tester.now))
    assert launched(tester.pass_time(100)) == []
    assert launched(tester.handle(Resumed(tester.now))) == ["b"]


def test_a_run_is_launched_by_hand_whatever_the_bounds_say(pair, rows):
    tester = pair(Bound("k", IN, sequence=SequenceBound(99)))
    tester.write("in", rows(1))
    assert launched(tester.request("b")) == ["b"]
    assert tester.launches()[0].cause.words == "somebody asked for it"


def test_a_request_while_active_makes_one_next_run(pair, rows):
    tester = active(pair, rows)
    tester.request("b")
    tester.request("b")
    assert launched(tester.finish("b")) == ["b"]
    assert launched(tester.finish("b")) == []


def test_a_request_waits_for_predecessors_that_never_ran(pair, rows):
    tester = pair(TWO)
    assert launched(tester.request("b")) == []
    assert launched(tester.write("in", rows(1))) == ["b"]


@pytest.mark.parametrize("name", ["a", "nobody"])
def test_only_steps_can_be_asked_for(pair, name):
    tester = pair(TWO)
    tester.request(name)
    assert tester.decisions()[-1].kind == DecisionKind.REFUSED


def test_a_request_in_quarantine_is_refused(pair, rows):
    tester = quarantined(pair, rows)
    assert launched(tester.request("b")) == []
    assert "release it first" in tester.decisions()[-1].words


def test_busy_names_what_runs_or_is_about_to(pair, rows):
    tester = active(pair, rows)
    assert tester.engine.busy == ("b",)
    tester.finish("b")
    assert tester.engine.busy == ()


def test_every_way_out_of_a_run_leads_to_idle():
    reachable = {RunState.IDLE}
    while True:
        more = {following for (before, _), following in TRANSITIONS.items() if before in reachable}
        if more <= reachable:
            break
        reachable |= more
    assert reachable == set(RunState)
    for start in RunState:
        seen = {start}
        for _ in RunState:
            seen |= {f for (before, _), f in TRANSITIONS.items() if before in seen}
        assert RunState.IDLE in seen


def test_each_event_has_a_place_in_the_table():
    assert {event for _, event in TRANSITIONS} == set(RunEvent)


def restarts(tester, times: int) -> list[int]:
    """Have the agent end so often under what is under way; return what was launched for each."""
    return [len([i for i in tester.restart() if isinstance(i, Launch)]) for _ in range(times)]


def test_a_step_that_ends_its_agent_each_time_is_given_up_in_the_end(pair, rows):
    tester = active(pair, rows)
    assert restarts(tester, 3) == [1, 1, 1]
    for wait in (10.0, 15.0):
        assert restarts(tester, 1) == [0]
        assert state(tester) is RunState.BACKOFF
        assert tester.decisions()[-1].kind is DecisionKind.FAILED
        assert "its agent ended under it" in tester.decisions()[-1].words
        assert restarts(tester, 1) == [0]  # while it waits nothing is lost
        assert len([i for i in tester.pass_time(wait) if isinstance(i, Launch)]) == 1
    told = tester.restart()
    assert [i for i in told if isinstance(i, Launch)] == []
    (given_up,) = [i for i in told if isinstance(i, Quarantine)]
    assert given_up.reason == "its agent ended under it, 6 times in a row"


def test_what_outlived_its_agents_was_never_lost(pair, rows):
    tester = active(pair, rows)
    for _ in range(20):
        (launch,) = [i for i in tester.restart() if isinstance(i, Launch)]
        tester.handle(
            RunStarted(tester.now, launch.action, launch.run, launch.attempt, recovered=True)
        )
    assert state(tester) is RunState.RUNNING


def test_losses_before_a_failure_of_its_own_are_forgiven(pair, rows):
    tester = active(pair, rows)
    assert restarts(tester, 3) == [1, 1, 1]
    tester.fail("b")
    assert len([i for i in tester.pass_time(10.0) if isinstance(i, Launch)]) == 1
    assert restarts(tester, 3) == [1, 1, 1]


def test_what_a_first_run_is_to_be_shown_is_as_old_as_the_first_sight_of_its_topic(pair):
    """Of an action that is shown all that stands nothing is too old."""
    topics = [Cut({updates_topic(table): (3,)}) for table in ("in", "other")]
    seen = {}
    for first in FirstChanges:
        tester = pair(TWO, first_changes=first)
        begun = tester.now
        for topic in topics:
            tester.handle(TopicsOpened(tester.now, topic))
            tester.pass_time(60)
        seen[first] = tester.engine.actions["b"].seen_at
    assert seen == {FirstChanges.SNAPSHOT: None, FirstChanges.NONE: begun}
