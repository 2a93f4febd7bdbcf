"""When bounds are evaluated, whose updates count, and what is written down."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    DataflowSpec,
    DecisionKind,
    EngineTester,
    Evaluation,
    Metric,
    Paused,
    Resumed,
    SequenceBound,
    ValueBound,
    WatchedContainer,
    all_of,
    launched,
)
from headgate.engine.spec.conditions import leaves
from headgate.events import Container, ContainerId, Item

IN = ContainerId("in")
OUT = ContainerId("out")

TWO = Bound("k", IN, sequence=SequenceBound(2))


def test_by_default_bounds_are_evaluated_when_a_predecessor_ends(pair, rows):
    tester = pair(TWO)
    assert launched(tester.write("in", rows(5))) == []
    assert launched(tester.wave("a")) == ["b"]


def test_where_no_action_precedes_bounds_are_evaluated_at_writes(rows):
    watched = WatchedContainer(Container(IN, (Item("in"),)))
    tester = EngineTester(DataflowSpec("flow", (watched,), (ActionSpec("b", bounds=(TWO,)),)))
    assert launched(tester.write("in", rows(1))) == []
    assert launched(tester.write("in", rows(1))) == ["b"]


def test_on_write_a_message_runs_the_step_at_once(pair, rows):
    tester = pair(TWO, evaluation=Evaluation(write=True))
    assert launched(tester.write("in", rows(2))) == ["b"]
    assert launched(tester.wave("a")) == []


@pytest.mark.parametrize(
    ("bounds", "evaluation"),
    [
        ((TWO,), Evaluation(write=True)),
        ((TWO,), Evaluation(every=10.0)),
        ((), Evaluation(every=10.0)),
    ],
)
def test_a_step_with_moments_of_its_own_is_not_evaluated_when_a_predecessor_ends(
    pair, rows, bounds, evaluation
):
    tester = pair(*bounds, evaluation=evaluation)
    tester.write("in", rows(1))
    before = tester.decisions()
    tester.wave("a")
    assert tester.decisions() == before


def test_every_evaluates_periodically_from_when_the_step_could_run(pair, rows):
    tester = pair(TWO, evaluation=Evaluation(every=10.0))
    tester.pass_time(7)
    tester.write("in", rows(2))
    tester.wave("a")
    assert launched(tester.pass_time(9)) == []
    assert launched(tester.pass_time(1)) == ["b"]


def test_a_period_that_was_slept_through_is_evaluated_once(pair, rows):
    from headgate.engine import Tick

    tester = pair(TWO, evaluation=Evaluation(every=10.0))
    tester.write("in", rows(1))
    before = len(tester.decisions())
    tester.now += 95
    tester.handle(Tick(tester.now))
    assert len(tester.decisions()) == before + 1
    assert tester.notify_at == pytest.approx(tester.now + 5)


def test_evaluation_times_combine(pair, rows):
    tester = pair(TWO, evaluation=Evaluation(write=True, action_end=True))
    assert launched(tester.write("in", rows(2))) == ["b"]
    tester.finish("b")
    tester.write("in", rows(1))
    assert launched(tester.wave("a")) == []


def test_time_is_evaluated_whatever_the_evaluation_times(pair, rows):
    tester = pair(Bound("k", IN, time=60.0), evaluation=Evaluation(every=1000.0))
    tester.write("in", rows(1))
    assert launched(tester.pass_time(60)) == ["b"]


def test_time_alone_does_not_run_a_step_that_needs_another_bound_too(pair, rows):
    late = Bound("late", IN, time=60.0)
    tester = pair(late, TWO, condition=all_of(["late", "k"]))
    tester.write("in", rows(1))
    assert launched(tester.pass_time(100)) == []
    tester.write("in", rows(1))
    assert launched(tester.wave("a")) == ["b"]


def test_the_writes_of_every_writer_count(chain, rows):
    tester = chain(Bound("k", OUT, sequence=SequenceBound(3)))
    tester.write("in", rows(1))
    tester.wave("a")
    tester.write("out", rows(2), by="b")
    tester.write("out", rows(1))
    assert launched(tester.finish("b")) == ["c"]


@pytest.mark.parametrize(("own", "runs"), [(False, []), (True, ["c"])])
def test_own_writes_to_its_own_input_count_only_if_asked_for(chain, rows, own, runs):
    tester = chain(Bound("k", OUT, sequence=SequenceBound(3)), own=own)
    tester.write("in", rows(1))
    tester.wave("a")
    tester.write("out", rows(3), by="b")
    tester.finish("b")
    tester.write("out", rows(3), by="c")
    tester.finish("c")
    tester.wave("a")
    assert launched(tester.finish("b")) == runs


def test_own_writes_move_the_previous_values_along(chain, rows):
    tester = chain(Bound("k", OUT, value=ValueBound(Metric.ABSOLUTE, 5)))
    tester.write("in", rows(1))
    tester.wave("a")
    tester.write("out", rows(3, 10), by="b")
    tester.finish("b")
    tester.write("out", rows(3, 50), by="c")
    tester.finish("c")
    tester.wave("a")
    tester.write("out", rows(3, 52), by="b")
    assert launched(tester.finish("b")) == []


@pytest.mark.parametrize("number", [1, 3, 20])
def test_an_own_write_of_the_value_that_is_there_ends_its_divergence(chain, rows, number):
    tester = chain(Bound("k", OUT, value=ValueBound(Metric.ABSOLUTE, 5)))
    tester.write("in", rows(1))
    tester.wave("a")
    tester.write("out", rows(number, 10), by="b")
    tester.finish("b")
    tester.write("out", rows(number, 20))
    tester.write("out", rows(number, 20) | rows(1, 9, first=30), by="c")
    assert launched(tester.finish("c")) == []
    tester.wave("a")
    assert launched(tester.finish("b")) == []


def test_the_same_name_in_another_dataflow_is_another_writer(chain, rows):
    tester = chain(Bound("k", OUT, sequence=SequenceBound(1)))
    tester.spec = DataflowSpec("other", tester.spec.containers, tester.spec.actions)
    tester.write("in", rows(1))
    tester.wave("a")
    tester.write("out", rows(1), by="c")
    assert launched(tester.finish("b")) == ["c"]


def test_two_actions_on_one_container_are_reset_apart(rows):
    watched = WatchedContainer(Container(IN, (Item("in"),)))
    quick = Bound("k", IN, sequence=SequenceBound(1), value=ValueBound(Metric.ABSOLUTE, 100))
    slow = Bound("k", IN, sequence=SequenceBound(3), value=ValueBound(Metric.ABSOLUTE, 100))
    actions = (
        ActionSpec("a", ActionRole.INPUT, writes=(IN,)),
        ActionSpec("quick", after=("a",), bounds=(quick,)),
        ActionSpec("slow", after=("a",), bounds=(slow,)),
    )
    tester = EngineTester(DataflowSpec("flow", (watched,), actions))
    for wave, expected in enumerate([["quick"], ["quick"], ["quick", "slow"], ["quick"]]):
        tester.write("in", rows(1, wave))
        names = launched(tester.wave("a"))
        assert names == expected
        for name in names:
            tester.finish(name)


def test_every_evaluation_is_written_down_with_its_reason(pair, rows):
    tester = pair(TWO)
    tester.write("in", rows(1))
    tester.wave("a")
    tester.write("in", rows(1))
    tester.wave("a")
    skipped, launch = tester.decisions()
    assert (skipped.kind, skipped.action) == (DecisionKind.SKIPPED, "b")
    assert skipped.words == "needs 1 more update of `in`"
    assert launch.kind == DecisionKind.LAUNCHED
    assert launch.words == "σ of `in` reached 2 of 2 updates (end of the wave of `a`)"
    assert launch.result.reached


def test_at_writes_it_is_written_down_when_other_bounds_are_reached_than_before(pair, rows):
    bounds = (
        Bound("ab", IN, value=ValueBound(Metric.ABSOLUTE, 5)),
        Bound("a", IN, sequence=SequenceBound(2)),
        Bound("b", IN, sequence=SequenceBound(2)),
        Bound("never", IN, sequence=SequenceBound(99)),
    )
    tester = pair(*bounds, evaluation=Evaluation(write=True))
    for amount in (7, 0):
        tester.write("in", rows(1, amount))
    first, second = tester.decisions()
    assert [leaf.bound for leaf in leaves(first.result) if leaf.reached] == ["ab"]
    assert [leaf.bound for leaf in leaves(second.result) if leaf.reached] == ["a", "b"]


def test_an_evaluation_at_a_wave_is_written_down_whatever_those_at_writes_said(pair, rows):
    tester = pair(TWO, evaluation=Evaluation(write=True, action_end=True))
    tester.write("in", rows(1))
    for _ in range(2):
        tester.wave("a")
    assert [d.moment for d in tester.decisions()] == ["write", *["end of the wave of `a`"] * 2]


def test_evaluations_at_writes_are_written_down_only_when_they_change(pair, rows):
    tester = pair(TWO, Bound("m", IN, sequence=SequenceBound(9)), evaluation=Evaluation(write=True))
    for _ in range(5):
        tester.write("in", rows(1))
    assert [d.kind for d in tester.decisions()] == [DecisionKind.SKIPPED] * 2
    assert tester.engine.take_idle_evaluations() == {"b": 3}


def _of_two_inputs(bounds: tuple[Bound, ...] = ()) -> EngineTester:
    watched = tuple(
        WatchedContainer(Container(ContainerId(name), (Item(name),)))
        for name in ("in", "other", "out")
    )
    return EngineTester(
        DataflowSpec(
            "flow",
            watched,
            (
                ActionSpec("a", ActionRole.INPUT, writes=(IN,)),
                ActionSpec("b", ActionRole.INPUT, writes=(ContainerId("other"),)),
                ActionSpec("join", after=("a", "b"), bounds=bounds, writes=(OUT,)),
                ActionSpec("last", after=("join", "b")),
            ),
        )
    )


def test_the_first_run_waits_until_the_wave_of_the_second_input_has_ended(rows):
    tester = _of_two_inputs((Bound("k", IN, sequence=SequenceBound(1)),))
    tester.write("in", rows(1))
    assert launched(tester.wave("a", "b")) == []
    assert launched(tester.write("other", rows(1))) == []
    assert launched(tester.write("other", rows(2))) == []
    assert launched(tester.wave("a", "b")) == ["join"]
    assert launched(tester.finish("join")) == ["last"]


@given(
    st.lists(
        st.sampled_from(["in", "other", "end of a", "end of b", "end of both", "finish", "pause"]),
        max_size=20,
    ),
    st.booleans(),
)
def test_no_write_runs_a_step_that_is_evaluated_at_the_ends_of_waves(moments, bounded):
    """Whatever was missed before, or while the dataflow was paused."""
    tester = _of_two_inputs((Bound("k", IN, sequence=SequenceBound(1)),) if bounded else ())
    paused = False
    for moment in moments:
        if moment in ("in", "other"):
            assert launched(tester.write(moment, {b"r": {b"f:x": b"1"}})) == []
        elif moment == "pause":
            paused = not paused
            tester.handle((Paused if paused else Resumed)(tester.now))
        elif moment == "finish":
            for name in ("join", "last"):
                if tester.engine.actions[name].run is not None:
                    tester.finish(name)
        else:
            inputs = {"end of a": ("a",), "end of b": ("b",)}.get(moment, ("a", "b"))
            tester.wave(*inputs)
