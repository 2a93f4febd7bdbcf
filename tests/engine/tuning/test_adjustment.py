"""Limits of intervals: two factors vote, one step at a time (section 4)."""

import msgspec
import pytest
from adjusted import (
    BETWEEN,
    BOUND,
    BUSY,
    QUIET,
    SPEC,
    adjustments,
    explained,
    flow,
    limit,
    many,
    pass_minutes,
)

from headgate.engine import (
    AdjustmentSpec,
    Assessment,
    Bound,
    DecisionKind,
    EngineTester,
    Evaluation,
    Interval,
    Paused,
    SequenceBound,
    SequenceUnit,
    SpecificationChanged,
    SpecificationError,
    Vote,
    WriteReference,
    check_specification,
    launched,
)
from headgate.engine.tuning.adjustment import Adjuster, together
from headgate.events import ContainerId

IN = ContainerId("in")


def said_of_writes(adjuster: Adjuster) -> Assessment:
    assert adjuster.state.last is not None
    return adjuster.state.last[0]


# the two factors


@pytest.mark.parametrize(
    ("one", "other", "outcome"),
    [
        (Vote.RELAX, Vote.RELAX, Vote.RELAX),
        (Vote.RESTRICT, Vote.RESTRICT, Vote.RESTRICT),
        (Vote.NONE, Vote.NONE, Vote.NONE),
        (Vote.RELAX, Vote.NONE, Vote.RELAX),
        (Vote.RESTRICT, Vote.NONE, Vote.RESTRICT),
        (Vote.RELAX, Vote.RESTRICT, Vote.NONE),
    ],
)
def test_equal_votes_are_followed_a_lone_one_too_and_opposed_ones_are_not(one, other, outcome):
    assert together(one, other) is outcome
    assert together(other, one) is outcome


def test_many_writes_relax_the_bound():
    tester = EngineTester(flow(BOUND))
    pass_minutes(tester, 5, writes=50)
    assert {a.outcome for a in adjustments(tester)} == {Vote.RELAX}
    assert limit(tester) > 100


def test_rare_writes_restrict_the_bound():
    spec = msgspec.structs.replace(SPEC, start=1.0)
    tester = EngineTester(flow(BOUND, adjustment=spec))
    assert limit(tester) == 1100
    pass_minutes(tester, 5, writes=1)
    assert {a.outcome for a in adjustments(tester)} == {Vote.RESTRICT}
    assert limit(tester) < 1100


def test_an_overloaded_machine_relaxes_the_bound():
    tester = EngineTester(flow(BOUND))
    pass_minutes(tester, 5, writes=8, cpu=BUSY)
    assert {a.outcome for a in adjustments(tester)} == {Vote.RELAX}


def test_an_idle_machine_restricts_the_bound():
    tester = EngineTester(flow(BOUND, adjustment=msgspec.structs.replace(SPEC, start=0.5)))
    pass_minutes(tester, 5, writes=8, cpu=QUIET)
    assert {a.outcome for a in adjustments(tester)} == {Vote.RESTRICT}


@pytest.mark.parametrize(("writes", "cpu"), [(50, QUIET), (1, BUSY), (8, BETWEEN)])
def test_opposed_votes_and_none_leave_the_bound_alone(writes, cpu):
    tester = EngineTester(flow(BOUND, adjustment=msgspec.structs.replace(SPEC, start=0.5)))
    pass_minutes(tester, 1.5, writes=8, cpu=BETWEEN)  # until both factors have a full window
    pass_minutes(tester, 5, writes=writes, cpu=cpu)
    # While a window holds some of both, one factor may be alone for a moment.
    assert limit(tester) == 600


def test_by_default_frequency_is_compared_with_what_is_usual():
    tester = EngineTester(flow(BOUND, adjustment=AdjustmentSpec()))
    pass_minutes(tester, 12, writes=5)
    assert adjustments(tester) == []
    pass_minutes(tester, 2, writes=50)
    assert {a.outcome for a in adjustments(tester)} == {Vote.RELAX}


def test_what_is_usual_is_known_after_two_windows():
    adjuster = Adjuster(BOUND, AdjustmentSpec())
    none, words = Assessment(Vote.NONE, ""), []
    for time in range(0, 121, 10):
        adjuster.assess(float(time), 6 * time, none)
        words.append(said_of_writes(adjuster).words)
    assert words[5] == "writes not watched for 60 s yet"
    assert words[6] == words[11] == "360 updates in 60 s, what is usual is not known yet"
    assert words[12] == "360 updates in 60 s, usually 360"


def test_where_updates_are_counted_from_zero_again_nothing_is_known_of_their_frequency():
    adjuster = Adjuster(BOUND, SPEC)
    for time in range(0, 101, 10):
        adjuster.assess(float(time), 60 * time, Assessment(Vote.NONE, ""))
    assert said_of_writes(adjuster).vote is Vote.RELAX
    adjuster.assess(110.0, 5, Assessment(Vote.NONE, ""))
    assert said_of_writes(adjuster) == Assessment(Vote.NONE, "writes not watched for 60 s yet")


def test_a_decision_shows_both_votes_and_the_limits():
    tester = EngineTester(flow(BOUND))
    pass_minutes(tester, 2, writes=50, cpu=BUSY)
    *_, decision = [d for d in tester.decisions() if d.kind is DecisionKind.ADJUSTED]
    assert decision.action == "b"
    assert decision.adjustment is not None
    assert decision.adjustment.writes.vote is Vote.RELAX
    assert decision.adjustment.resources.vote is Vote.RELAX
    assert "bound `k` relaxed: σ 300 to 400" in decision.words
    assert "host: overloaded, cpu 95 % of 85 %" in decision.words


def test_explaining_says_where_the_limit_is_and_what_both_factors_said():
    tester = EngineTester(flow(BOUND))
    assert "0% of the way" in explained(tester).words
    pass_minutes(tester, 2, writes=50, cpu=BETWEEN)
    assert "writes say relax: 300 updates in 60 s" in explained(tester).words
    assert "resources say none: host: cpu 60 %" in explained(tester).words


# progress


def test_a_limit_moves_one_step_at_a_time_to_the_end_of_its_interval():
    tester = EngineTester(flow(BOUND))
    pass_minutes(tester, 30, writes=50)
    shares = [a.share for a in adjustments(tester)]
    assert shares == pytest.approx([step / 10 for step in range(1, 11)])


@pytest.mark.parametrize(
    ("start", "vote", "end"), [(0.95, Vote.RELAX, 1.0), (0.05, Vote.RESTRICT, 0.0)]
)
def test_a_step_ends_where_the_interval_does(start, vote, end):
    adjuster = Adjuster(BOUND, msgspec.structs.replace(SPEC, start=start, confirmations=1))
    adjuster.assess(0.0, 0, Assessment(vote, ""))
    assert adjuster.state.share == end


def test_a_lone_vote_between_others_moves_nothing():
    adjuster = Adjuster(BOUND, msgspec.structs.replace(SPEC, start=0.5))
    none, relax = Assessment(Vote.NONE, ""), Assessment(Vote.RELAX, "")
    moves = [
        adjuster.assess(10.0 * i, 8 * i, relax if i % 3 else none)  # two of three in a row
        for i in range(60)
    ]
    assert not any(moves)


def test_all_vectors_of_a_bound_move_together():
    bound = Bound(
        "k",
        IN,
        time=Interval(600, 1200),
        sequence=SequenceBound(Interval(20, 80), SequenceUnit.PERCENT),
    )
    tester = EngineTester(flow(bound))
    pass_minutes(tester, 2, writes=50, cpu=BUSY)
    assert list(explained(tester).limits.values()) == pytest.approx(
        [600 + 600 * explained(tester).share, 20 + 60 * explained(tester).share]
    )


def test_a_limit_in_updates_is_a_whole_number():
    spec = msgspec.structs.replace(SPEC, start=1 / 3)
    tester = EngineTester(flow(Bound("k", IN, sequence=SequenceBound(Interval(1, 3)))))
    assert limit(tester) == 1
    tester = EngineTester(
        flow(Bound("k", IN, sequence=SequenceBound(Interval(1, 3))), adjustment=spec)
    )
    assert limit(tester) == 2


def test_a_limit_in_percent_is_any_number():
    bound = Bound("k", IN, sequence=SequenceBound(Interval(1, 3), SequenceUnit.PERCENT))
    spec = msgspec.structs.replace(SPEC, start=1 / 4)
    assert limit(EngineTester(flow(bound, adjustment=spec))) == 1.5


def test_a_limit_that_comes_down_to_what_was_written_launches_at_once():
    spec = msgspec.structs.replace(SPEC, start=1.0)
    tester = EngineTester(flow(BOUND, adjustment=spec, evaluation=Evaluation(write=True)))
    tester.write("in", many(1050))
    assert tester.launches("b") == []
    tester.pass_time(300)
    assert launched(tester.launches("b")) == ["b"]


def test_a_time_that_is_reached_before_the_next_vote_is_waited_for():
    tester = EngineTester(flow(BOUND, Bound("late", IN, time=3.0)))
    begun = tester.now
    tester.write("in", many(1))
    assert tester.notify_at == begun + 3
    tester.pass_time(3)
    assert tester.notify_at == begun + SPEC.every


def test_a_shorter_time_is_waited_for_from_the_moment_it_is_set():
    spec = msgspec.structs.replace(SPEC, start=1.0, every=1.0, confirmations=1)
    bound = Bound("k", IN, time=Interval(100, 1100))
    tester = EngineTester(flow(bound, adjustment=spec))
    tester.write("in", many(1))
    tester.pass_time(150)  # nothing more comes: at the minimum long before
    assert launched(tester.launches("b")) == ["b"]


def test_a_time_that_comes_down_below_what_has_passed_is_reached_at_once():
    spec = msgspec.structs.replace(SPEC, start=1.0, steps=1, every=10.0, confirmations=5)
    bound = Bound("k", IN, time=Interval(50, 1000))
    tester = EngineTester(flow(bound, adjustment=spec, evaluation=Evaluation(every=53)))
    tester.write("in", many(1))
    assert launched(tester.pass_time(1000))[:1] == ["b"]
    (first, *_) = tester.launches("b")
    restricted = next(d.time for d in tester.decisions() if d.kind is DecisionKind.ADJUSTED)
    run = next(d.time for d in tester.decisions() if d.run == first.run)
    assert run == restricted


# state


def test_a_restart_goes_on_where_the_limit_was():
    one, other = EngineTester(flow(BOUND)), EngineTester(flow(BOUND))
    for tester in (one, other):
        pass_minutes(tester, 2.5, writes=50, cpu=BUSY)
    other.restart()
    assert explained(other) == explained(one)
    for tester in (one, other):
        pass_minutes(tester, 3, writes=50, cpu=BUSY)
    # The times of votes begin anew with the service; nothing else does.
    assert abs(explained(other).share - explained(one).share) <= 0.1 + 1e-9
    assert explained(other).share > 0.5


def test_another_interval_takes_over_the_place_in_the_old_one():
    tester = EngineTester(flow(BOUND))
    pass_minutes(tester, 30, writes=50)
    wider = msgspec.structs.replace(BOUND, sequence=SequenceBound(Interval(100, 2100)))
    tester.handle(SpecificationChanged(tester.now, flow(wider)))
    assert limit(tester) == 2100


def test_a_paused_dataflow_keeps_its_limits():
    tester = EngineTester(flow(BOUND))
    tester.handle(Paused(tester.now))
    pass_minutes(tester, 5, writes=50, cpu=BUSY)
    assert limit(tester) == 100


def test_a_dataflow_without_intervals_asks_for_no_votes():
    fixed = Bound("k", IN, sequence=SequenceBound(100))
    tester = EngineTester(flow(fixed))
    assert tester.notify_at is None
    tester.sample(cpu=BUSY)
    assert tester.engine.state.machines.samples == {}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"start": 1.5}, "between 0"),
        ({"steps": 0}, "below 1"),
        ({"every": 0}, "above 0"),
        ({"every": 90}, "make the window at least as long"),
        ({"reversal": -1}, "negative"),
        ({"writes": WriteReference(2, 1)}, "below frequent"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, words):
    spec = flow(BOUND, adjustment=msgspec.structs.replace(SPEC, **changes))
    with pytest.raises(SpecificationError, match=words):
        check_specification(spec)
