"""Limits of intervals: two factors vote, one step at a time, without oscillation (section 4)."""

import itertools
import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from headgate.engine import (
    ActionSpec,
    AdjustmentSpec,
    Assessment,
    Bound,
    DataflowSpec,
    DecisionKind,
    EngineTester,
    Evaluation,
    FrequencyUnit,
    Interval,
    Paused,
    Reference,
    Resource,
    ResourceSample,
    Role,
    SequenceBound,
    SequenceUnit,
    SpecificationChanged,
    SpecificationError,
    Vote,
    WatchedContainer,
    WriteReference,
    check_specification,
    launched,
)
from headgate.engine.tuning.adjustment import Adjuster
from headgate.engine.tuning.resources import Machines
from headgate.engine.tuning.votes import together
from headgate.events import Container, ContainerId, Item

BOUND = Bound("k", ContainerId("in"), sequence=SequenceBound(Interval(100, 1100)))
WRITES = WriteReference(rare=10, frequent=100, unit=FrequencyUnit.UPDATES)
SPEC = AdjustmentSpec(writes=WRITES)
BUSY, QUIET, BETWEEN = 95.0, 5.0, 60.0
"""CPU in percent: overloaded, idle, neither."""


def flow(*bounds: Bound, adjustment: AdjustmentSpec = SPEC, evaluation=None) -> DataflowSpec:
    return DataflowSpec(
        "flow",
        (WatchedContainer(Container(ContainerId("in"), (Item("in"),))),),
        (
            ActionSpec("a", Role.INPUT, writes=(ContainerId("in"),)),
            ActionSpec("b", after=("a",), bounds=bounds, evaluation=evaluation),
        ),
        adjustment,
    )


def many(number: int) -> dict[bytes, dict[bytes, bytes | None]]:
    return {b"r%d" % i: {b"f:x": b"1"} for i in range(number)}


def pass_minutes(tester, minutes, *, writes: int = 0, cpu: float | None = None) -> None:
    """Let minutes pass, with so many writes and one sample of the CPU every 10 s."""
    for _ in range(round(minutes * 6)):
        tester.pass_time(10)
        if writes:
            tester.write("in", many(writes))
        if cpu is not None:
            tester.sample(cpu=cpu)


def adjustments(tester):
    return [d.adjustment for d in tester.decisions() if d.kind is DecisionKind.ADJUSTED]


def explained(tester):
    actions = {a.action: a for a in tester.engine.explain(tester.now).actions}
    return actions["b"].adjusted[0]


def limit(tester) -> float:
    (found,) = explained(tester).limits.values()
    return found


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
        words.append(adjuster.state.last[0].words)
    assert words[5] == "writes not watched for 60 s yet"
    assert words[6] == words[11] == "360 updates in 60 s, what is usual is not known yet"
    assert words[12] == "360 updates in 60 s, usually 360"


def test_where_updates_are_counted_from_zero_again_nothing_is_known_of_their_frequency():
    adjuster = Adjuster(BOUND, SPEC)
    for time in range(0, 101, 10):
        adjuster.assess(float(time), 60 * time, Assessment(Vote.NONE, ""))
    assert adjuster.state.last[0].vote is Vote.RELAX
    adjuster.assess(110.0, 5, Assessment(Vote.NONE, ""))
    assert adjuster.state.last[0] == Assessment(Vote.NONE, "writes not watched for 60 s yet")


def test_a_decision_shows_both_votes_and_the_limits():
    tester = EngineTester(flow(BOUND))
    pass_minutes(tester, 2, writes=50, cpu=BUSY)
    *_, decision = [d for d in tester.decisions() if d.kind is DecisionKind.ADJUSTED]
    assert decision.action == "b"
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
        ContainerId("in"),
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
    tester = EngineTester(flow(Bound("k", "in", sequence=SequenceBound(Interval(1, 3)))))
    assert limit(tester) == 1
    tester = EngineTester(
        flow(Bound("k", "in", sequence=SequenceBound(Interval(1, 3))), adjustment=spec)
    )
    assert limit(tester) == 2


def test_a_limit_in_percent_is_any_number():
    bound = Bound("k", "in", sequence=SequenceBound(Interval(1, 3), SequenceUnit.PERCENT))
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
    tester = EngineTester(flow(BOUND, Bound("late", ContainerId("in"), time=3.0)))
    begun = tester.now
    tester.write("in", many(1))
    assert tester.notify_at == begun + 3
    tester.pass_time(3)
    assert tester.notify_at == begun + SPEC.every


def test_a_shorter_time_is_waited_for_from_the_moment_it_is_set():
    spec = msgspec.structs.replace(SPEC, start=1.0, every=1.0, confirmations=1)
    bound = Bound("k", ContainerId("in"), time=Interval(100, 1100))
    tester = EngineTester(flow(bound, adjustment=spec))
    tester.write("in", many(1))
    tester.pass_time(150)  # nothing more comes: at the minimum long before
    assert launched(tester.launches("b")) == ["b"]


def test_a_time_that_comes_down_below_what_has_passed_is_reached_at_once():
    spec = msgspec.structs.replace(SPEC, start=1.0, steps=1, every=10.0, confirmations=5)
    bound = Bound("k", ContainerId("in"), time=Interval(50, 1000))
    tester = EngineTester(flow(bound, adjustment=spec, evaluation=Evaluation(every=53)))
    tester.write("in", many(1))
    assert launched(tester.pass_time(1000))[:1] == ["b"]
    (first, *_) = tester.launches("b")
    restricted = next(d.time for d in tester.decisions() if d.kind is DecisionKind.ADJUSTED)
    run = next(d.time for d in tester.decisions() if d.run == first.run)
    assert run == restricted


# no oscillation


def reversals(moves) -> int:
    directions = [move.outcome for _, move in moves]
    return sum(a is not b for a, b in itertools.pairwise(directions))


@given(
    load=some.lists(
        some.tuples(some.integers(0, 40), some.sampled_from(list(Vote))), min_size=60, max_size=200
    ),
    start=some.floats(0, 1),
)
def test_whatever_the_load_does_the_direction_changes_once_in_ten_minutes_at_most(load, start):
    adjuster = Adjuster(BOUND, msgspec.structs.replace(SPEC, start=start))
    updates, moves = 0, []
    for step, (writes, vote) in enumerate(load):
        updates += writes
        move = adjuster.assess(10.0 * step, updates, Assessment(vote, ""))
        if move is not None:
            moves.append((10.0 * step, move))
        assert 0 <= adjuster.state.share <= 1
    for begin, _ in moves:
        within = [(time, move) for time, move in moves if begin <= time < begin + 600]
        assert reversals(within) <= 1


@settings(max_examples=20)
@given(writes=some.integers(0, 40), gain=some.floats(5, 200), start=some.floats(0, 1))
def test_under_steady_load_that_the_limit_itself_drives_it_hardly_ever_turns(writes, gain, start):
    """A closed loop: the lower the limit, the more runs, the busier the machine."""
    tester = EngineTester(flow(BOUND, adjustment=msgspec.structs.replace(SPEC, start=start)))
    moves = []
    for _ in range(180):
        told = tester.pass_time(10)
        if writes:
            told += tester.write("in", many(writes))
        share = explained(tester).share
        told += tester.sample(cpu=min(100.0, gain * (1.2 - share)))
        moves += [
            (tester.now, i.decision.adjustment)
            for i in told
            if hasattr(i, "decision") and i.decision.kind is DecisionKind.ADJUSTED
        ]
    assert reversals(moves) <= math.floor(180 / 60)
    for begin, _ in moves:
        within = [(time, move) for time, move in moves if begin <= time < begin + 600]
        assert reversals(within) <= 1


def test_relax_then_restrict_under_a_load_that_comes_and_goes():
    tester = EngineTester(flow(BOUND))
    pass_minutes(tester, 10, writes=50, cpu=BUSY)
    top = limit(tester)
    pass_minutes(tester, 20, writes=1, cpu=QUIET)
    assert top == 1100
    assert limit(tester) == 100
    directions = [a.outcome for a in adjustments(tester)]
    assert directions == sorted(directions, key=directions.index)  # one turn
    assert set(directions) == {Vote.RELAX, Vote.RESTRICT}


# machines


def test_the_weighted_majority_of_machines_decides():
    tester = EngineTester(flow(BOUND, adjustment=msgspec.structs.replace(SPEC, start=0.5)))
    for _ in range(30):
        tester.pass_time(10)
        tester.write("in", many(8))
        tester.sample("one", cpu=BUSY)
        tester.sample("two", cpu=QUIET)
    assert limit(tester) == 600
    for _ in range(30):
        tester.pass_time(10)
        tester.write("in", many(8))
        for machine in ("one", "two", "three", "four"):
            tester.sample(machine, cpu=QUIET if machine == "two" else BUSY)
    assert limit(tester) > 600


@pytest.mark.parametrize(
    ("busy", "quiet", "vote"),
    [
        (8, 2, Vote.RELAX),
        (0.08, 0.02, Vote.RELAX),
        (7, 3, Vote.NONE),
        (3, 7, Vote.NONE),
        (2, 8, Vote.RESTRICT),
    ],
)
def test_a_machine_counts_by_its_weight_among_all(busy, quiet, vote):
    machines = Machines()
    machines.take(
        (
            ResourceSample("one", 0.0, {Resource.CPU: BUSY}, busy),
            ResourceSample("two", 0.0, {Resource.CPU: QUIET}, quiet),
        )
    )
    assert machines.assess(0.0, SPEC).vote is vote


@pytest.mark.parametrize(
    ("resource", "idle", "overloaded"),
    [
        (Resource.CPU, 30, 85),
        (Resource.MEMORY, 70, 92),
        (Resource.DISK, 30, 85),
        (Resource.LOAD, 0.5, 1.5),
    ],
)
def test_each_resource_has_values_from_which_on_a_machine_is_not_idle_or_overloaded(
    resource, idle, overloaded
):
    for used, vote in (
        (idle - 0.01, Vote.RESTRICT),
        (idle, Vote.NONE),
        (overloaded - 0.01, Vote.NONE),
        (overloaded, Vote.RELAX),
    ):
        machines = Machines()
        machines.take([ResourceSample("one", 0.0, {resource: used})])
        assert machines.assess(0.0, SPEC).vote is vote


def test_where_samples_are_rarer_than_windows_the_last_one_alone_stands():
    machines, spec = Machines(), msgspec.structs.replace(SPEC, window=60.0, silence=100.0)
    machines.take(
        ResourceSample("one", time, {Resource.CPU: cpu})
        for time, cpu in ((0.0, BUSY), (90.0, QUIET))
    )
    assert machines.assess(160.0, spec).vote is Vote.RESTRICT


def test_one_resource_makes_a_machine_overloaded_and_all_make_it_idle():
    tester = EngineTester(flow(BOUND))
    pass_minutes(tester, 1.5, writes=8)
    tester.sample(cpu=5, memory=95)
    tester.pass_time(10)
    assert explained(tester).resources.vote is Vote.RELAX
    tester.pass_time(120)
    tester.sample(cpu=5, memory=80)
    tester.pass_time(10)
    assert explained(tester).resources.vote is Vote.NONE


def test_what_a_machine_has_used_is_said_with_its_unit():
    machines = Machines()
    used = dict.fromkeys(Resource, 60.0)
    machines.take([ResourceSample("one", 0.0, used)])
    looked_at = dict.fromkeys(Resource, Reference(50, 90))
    spec = msgspec.structs.replace(SPEC, resources=looked_at)
    assert machines.assess(0.0, spec).words == (
        "one: cpu 60 %, memory 60 %, disk 60 %, network 60 B/s, load 60 per core"
    )


def test_a_machine_of_which_nothing_is_looked_at_says_nothing():
    machines = Machines()
    machines.take([ResourceSample("one", 0.0, {Resource.MEMORY: 1.0})])
    spec = msgspec.structs.replace(SPEC, resources={Resource.CPU: Reference(50, 90)})
    assert machines.assess(0.0, spec) == Assessment(Vote.NONE, "no samples of resources")


def test_a_machine_that_falls_silent_says_nothing_any_more():
    tester = EngineTester(flow(BOUND))
    pass_minutes(tester, 1, writes=8, cpu=BUSY)
    assert explained(tester).resources.vote is Vote.RELAX
    tester.pass_time(40)
    assert explained(tester).resources == Assessment(Vote.NONE, "no samples of resources")


def test_a_late_sample_of_the_past_is_left_out():
    tester = EngineTester(flow(BOUND))
    tester.sample(cpu=QUIET)
    now, tester.now = tester.now, tester.now - 5
    tester.sample(cpu=BUSY)
    tester.now = now
    tester.pass_time(10)
    assert explained(tester).resources.vote is Vote.RESTRICT


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
    tester.tell(SpecificationChanged(tester.now, flow(wider)))
    assert limit(tester) == 2100


def test_a_paused_dataflow_keeps_its_limits():
    tester = EngineTester(flow(BOUND))
    tester.tell(Paused(tester.now))
    pass_minutes(tester, 5, writes=50, cpu=BUSY)
    assert limit(tester) == 100


def test_a_dataflow_without_intervals_asks_for_no_votes():
    fixed = Bound("k", ContainerId("in"), sequence=SequenceBound(100))
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
