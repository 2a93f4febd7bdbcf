"""Why the last run happened and what is missing for the next, in words."""

import pytest
from msgspec.structs import replace

from headgate.engine import (
    Bound,
    DataflowSpec,
    EngineTester,
    Evaluation,
    Metric,
    RunFailed,
    SequenceBound,
    SequenceUnit,
    ValueBound,
    at_least_one,
)
from headgate.engine.protocol.stimuli import Paused
from headgate.engine.triggers.bounds.measures import seconds_words
from headgate.events import ContainerId

IN = ContainerId("in")

BOUNDS = (
    Bound("few", IN, sequence=SequenceBound(20, SequenceUnit.PERCENT)),
    Bound("late", IN, time=60.0),
    Bound("far", IN, value=ValueBound(Metric.RELATIVE, 0.05)),
)


def words(tester, action: int = 1) -> str:
    return tester.engine.explain(tester.now).actions[action].words


def ran(pair, rows):
    tester = pair(*BOUNDS, condition=at_least_one(["few", "late", "far"]))
    tester.write("in", rows(100, 10))
    tester.wave("a")
    tester.finish("b")
    return tester


def test_the_last_run_is_explained_by_its_cause(pair, rows):
    tester = ran(pair, rows)
    tester.write("in", rows(25, 10))
    tester.wave("a")
    tester.finish("b")
    tester.pass_time(19)
    assert words(tester).startswith(
        "Run flow-b-2 started 19 s ago: σ of `in` reached 25 % of 20 % (25 updates of 100) "
        "(end of the wave of `a`)."
    )


def test_what_is_missing_is_said_for_each_bound(pair, rows):
    tester = ran(pair, rows)
    tester.write("in", rows(8, 10.5))
    tester.pass_time(19)
    assert tester.engine.explain(tester.now).actions[1].missing == (
        "needs 12 more updates of `in`, or 41 s, or 4.6 % more divergence of `in`"
    )


def test_a_run_under_way_is_explained(pair, rows):
    tester = pair(*BOUNDS)
    tester.write("in", rows(100))
    tester.pass_time(60)
    assert "Run flow-b-1, attempt 1, began 0 s ago: " in words(tester)


def test_an_input_that_was_never_fed_says_so(pair):
    assert words(pair(), 0) == "Fed from outside, nothing has come yet."


def test_a_step_waits_for_the_first_run_of_its_predecessor(pair):
    assert words(pair()) == "It has not run yet. The next run needs the first run of `a`."


def test_a_step_without_bounds_waits_for_the_end_of_its_predecessor(pair, rows):
    tester = pair()
    tester.write("in", rows(1))
    assert words(tester) == "It has not run yet. The next run needs the end of a."


def test_a_step_that_follows_nothing_and_has_bounds_waits_for_them(pair, rows):
    spec = pair(Bound("k", IN, sequence=SequenceBound(3))).spec
    alone = DataflowSpec("flow", spec.containers, (replace(spec.actions[1], after=()),))
    tester = EngineTester(alone)
    tester.write("in", rows(1))
    assert words(tester, 0) == "It has not run yet. The next run needs 2 more updates of `in`."


def test_a_time_bound_says_that_it_has_not_begun(pair):
    (result,) = pair(BOUNDS[1]).engine.explain(0).actions[1].result.parts
    (vector,) = result.vectors
    assert vector.words == "θ starts when every predecessor has run (limit 1 min 0 s)"
    assert (vector.value, vector.reached, result.reached) == (None, False, False)


def test_a_failure_and_the_next_attempt_are_shown(pair, rows):
    tester = pair(*BOUNDS)
    tester.write("in", rows(100))
    tester.pass_time(60)
    tester.fail("b", "ValueError: no zones")
    assert "failed (ValueError: no zones) and is tried again in 1 s" in words(tester)
    late = tester.engine.explain(tester.now + 60).actions[1].words
    assert "is tried again in 0 s" in late
    early = tester.engine.explain(tester.now - 60).actions[1].words
    assert "is tried again in 1 min 1 s" in early


def test_quarantine_is_shown_with_its_reason(pair, rows):
    tester = ran(pair, rows)
    tester.request("b")
    for _ in range(3):
        tester.fail("b", "ValueError")
        tester.pass_time(10)
    assert "needs a release from quarantine (ValueError)" in words(tester)


def test_a_pause_is_shown(pair, rows):
    tester = ran(pair, rows)
    tester.handle(Paused(tester.now))
    assert "waits until the dataflow is resumed" in words(tester)


def test_reached_bounds_wait_for_their_moment(pair, rows):
    tester = ran(pair, rows)
    tester.write("in", rows(60))
    assert words(tester).endswith("The next run comes when a predecessor ends.")


@pytest.mark.parametrize(
    ("evaluation", "moment"),
    [
        (Evaluation(write=True), "at the next write"),
        (Evaluation(every=90.0), "within 1 min 30 s"),
        (Evaluation(action_end=True, every=30.0), "when a predecessor ends or within 30 s"),
    ],
)
def test_the_moment_for_which_reached_bounds_wait_is_that_of_the_evaluation(
    pair, rows, evaluation, moment
):
    tester = pair(Bound("late", IN, time=20.0), evaluation=evaluation)
    tester.write("in", rows(1))
    words = tester.engine.explain(tester.now + 20).actions[1].words
    assert words.endswith(f"The next run comes {moment}.")


def test_explaining_changes_nothing(pair, rows):
    tester = ran(pair, rows)
    before = tester.engine.snapshot()
    tester.engine.explain(tester.now + 1000)
    assert tester.engine.snapshot() == before


def test_every_update_counted_is_consumed_taken_or_pending(pair, rows):
    tester = pair(Bound("few", IN, sequence=SequenceBound(5)))
    tester.write("in", rows(6))
    tester.wave("a")
    tester.write("in", rows(2))
    (updates,) = tester.engine.explain(tester.now).actions[1].updates
    assert (updates.counted, updates.consumed, updates.taken, updates.pending) == (8, 0, 6, 2)
    tester.finish("b")
    (updates,) = tester.engine.explain(tester.now).actions[1].updates
    assert (updates.counted, updates.consumed, updates.taken, updates.pending) == (8, 6, 0, 2)


def test_a_stale_failure_is_explained_nowhere(pair, rows):
    tester = ran(pair, rows)
    tester.handle(RunFailed(tester.now, "b", "flow-b-1", 1, "late news"))
    assert "late news" not in words(tester)


def test_durations_are_for_people():
    assert [seconds_words(s) for s in (0.25, 41, 320, 11100)] == [
        "0.25 s",
        "41 s",
        "5 min 20 s",
        "3 h 5 min",
    ]


def test_a_divergence_from_nothing_is_told_in_words(pair):
    tester = pair(Bound("k", ContainerId("in"), value=ValueBound(Metric.RELATIVE, 0.5)))
    tester.write("in", {b"r": {b"f:x": b"1"}})
    tester.wave("a")
    words = " ".join(decision.words for decision in tester.decisions())
    assert "reached 50 %, as there was nothing before" in words
    assert "∞" not in words
