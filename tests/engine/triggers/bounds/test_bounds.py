"""θ, and bounds of several vectors or intervals, as the design says them (section 4)."""

import pytest
from measuring import settled

from headgate.engine import (
    Bound,
    Evaluation,
    Interval,
    Metric,
    SequenceBound,
    SequenceUnit,
    ValueBound,
    all_of,
    at_least_one,
    launched,
)
from headgate.events import ContainerId

IN = ContainerId("in")

# θ


def test_time_runs_a_step_without_any_update(pair, rows):
    tester = settled(pair(Bound("k", IN, time=60.0)), rows)
    assert launched(tester.pass_time(59)) == []
    assert launched(tester.pass_time(1)) == ["b"]


def test_time_starts_when_every_predecessor_has_run(pair, rows):
    tester = pair(Bound("k", IN, time=60.0))
    assert launched(tester.pass_time(1000)) == []
    tester.write("in", rows(1))
    assert launched(tester.pass_time(59)) == []
    assert launched(tester.pass_time(1)) == ["b"]


def test_time_starts_again_at_the_launch_not_at_the_end(pair, rows):
    tester = pair(Bound("k", IN, time=60.0))
    tester.write("in", rows(1))
    tester.pass_time(60)
    tester.pass_time(50)
    tester.finish("b")
    assert launched(tester.pass_time(9)) == []
    assert launched(tester.pass_time(1)) == ["b"]


def test_the_timer_comes_exactly_when_the_bound_is_reached(pair, rows):
    tester = pair(Bound("k", IN, time=0.3))
    tester.now = 1_700_000_000.1
    tester.write("in", rows(1))
    tester.pass_time(1)
    assert len(tester.launches("b")) == 1


def test_an_hour_without_ticks_makes_one_run(pair, rows):
    tester = settled(pair(Bound("k", IN, time=60.0)), rows)
    tester.now += 3600
    from headgate.engine import Tick

    assert launched(tester.handle(Tick(tester.now))) == ["b"]
    tester.finish("b")
    assert launched(tester.handle(Tick(tester.now))) == []


# κ


@pytest.mark.parametrize(
    ("sequence", "metric", "units"),
    [
        (SequenceBound(9), Metric.ABSOLUTE, ["s", "updates", ""]),
        (SequenceBound(9, SequenceUnit.PERCENT), Metric.RELATIVE, ["s", "%", "%"]),
    ],
)
def test_each_vector_says_its_unit(pair, sequence, metric, units):
    tester = pair(Bound("k", IN, 60.0, sequence, ValueBound(metric, 5)))
    (result,) = tester.engine.explain(0).actions[1].result.parts
    assert [vector.unit for vector in result.vectors] == units


def test_a_bound_is_reached_by_any_of_its_vectors(pair, rows):
    bound = Bound("k", IN, 60.0, SequenceBound(100), ValueBound(Metric.ABSOLUTE, 5))
    tester = settled(pair(bound), rows)
    tester.write("in", rows(1, 15))
    assert launched(tester.wave("a")) == ["b"]
    tester.finish("b")
    assert launched(tester.pass_time(60)) == ["b"]


@pytest.mark.parametrize(
    ("condition", "runs"), [(None, 0), (all_of("xy"), 0), (at_least_one("xy"), 1)]
)
def test_all_bounds_must_be_reached_unless_the_condition_says_otherwise(
    pair, rows, condition, runs
):
    x, y = Bound("x", IN, sequence=SequenceBound(1)), Bound("y", IN, sequence=SequenceBound(5))
    tester = pair(x, y, condition=condition)
    tester.write("in", rows(2))
    assert len(launched(tester.wave("a"))) == runs


def test_an_interval_of_values_starts_at_its_minimum_at_writes_too(pair, rows):
    bound = Bound("k", IN, value=ValueBound(Metric.ABSOLUTE, Interval(5, 50)))
    tester = pair(bound, evaluation=Evaluation(write=True))
    for amount, runs in ((1, []), (4, []), (5, ["b"])):
        assert launched(tester.write("in", rows(1, amount))) == runs


def test_an_interval_starts_at_its_minimum(pair, rows):
    tester = pair(Bound("k", IN, sequence=SequenceBound(Interval(3, 30))))
    tester.write("in", rows(3))
    assert launched(tester.wave("a")) == ["b"]
