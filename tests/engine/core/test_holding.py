"""Bounds that hold writers back: from when they are found reached until the action has run."""

from __future__ import annotations

import pytest

from headgate.engine import (
    Bound,
    Evaluation,
    Metric,
    Paused,
    Resumed,
    RetryPolicy,
    SequenceBound,
    ValueBound,
    at_least_one,
    launched,
)
from headgate.events import ContainerId

IN = ContainerId("in")
OUT = ContainerId("out")

TWO = Bound("two", IN, sequence=SequenceBound(2), block=True)
FIVE = Bound("five", IN, sequence=SequenceBound(5))
WRITE = Evaluation(write=True)


def holding(tester) -> list[str]:
    return [bound for _, bound in tester.engine.holding()]


def test_writers_wait_from_the_write_that_reaches_the_bound_whatever_else_is_missing(pair, rows):
    tester = pair(TWO, FIVE, evaluation=WRITE)
    tester.write("in", rows(1))
    assert holding(tester) == []
    tester.write("in", rows(1))
    assert holding(tester) == ["two"]
    tester.write("in", rows(3))
    assert launched(tester.instructions) == ["b"]
    assert holding(tester) == ["two"]
    tester.finish("b")
    assert holding(tester) == []


def test_a_wave_is_not_held_before_it_is_looked_at(pair, rows):
    tester = pair(TWO, FIVE)
    tester.write("in", rows(3))
    assert holding(tester) == []
    assert launched(tester.wave("a")) == []
    assert holding(tester) == ["two"]


def test_a_bound_that_is_reached_again_during_a_run_holds_for_the_next_one(pair, rows):
    bounds = (TWO, Bound("late", IN, time=60.0))
    tester = pair(*bounds, condition=at_least_one(["two", "late"]), evaluation=WRITE)
    tester.write("in", rows(1))
    assert launched(tester.pass_time(60)) == ["b"]
    assert holding(tester) == []
    tester.write("in", rows(2))
    assert holding(tester) == ["two"]
    assert launched(tester.finish("b")) == ["b"]
    assert holding(tester) == ["two"]
    tester.finish("b")
    assert holding(tester) == []


def test_nobody_waits_for_an_action_whose_predecessor_has_never_run(chain, rows):
    tester = chain(Bound("two", OUT, sequence=SequenceBound(2), block=True), evaluation=WRITE)
    tester.write("out", rows(3))
    assert holding(tester) == []
    tester.write("in", rows(1))
    assert launched(tester.wave("a")) == ["b"]
    assert launched(tester.finish("b")) == ["c"]
    assert holding(tester) == ["two"]


def test_a_divergence_that_is_taken_back_lets_writers_go(pair, rows):
    far = Bound("far", IN, value=ValueBound(Metric.ABSOLUTE, 5), block=True)
    tester = pair(far, FIVE, evaluation=WRITE)
    tester.write("in", rows(1, 9))
    assert holding(tester) == ["far"]
    tester.write("in", rows(1, 1))
    assert holding(tester) == []


def test_a_paused_dataflow_holds_for_an_attempt_under_way_and_for_nothing_else(pair, rows):
    tester = pair(TWO, evaluation=WRITE, retry=RetryPolicy(5, 10.0))
    tester.write("in", rows(2))
    tester.handle(Paused(tester.now))
    assert holding(tester) == ["two"]
    tester.fail("b")
    assert holding(tester) == []
    tester.pass_time(3600)
    assert holding(tester) == []
    tester.handle(Resumed(tester.now))
    assert holding(tester) == ["two"]
    tester.finish("b")
    tester.handle(Paused(tester.now))
    tester.write("in", rows(4))
    assert holding(tester) == []


def test_nobody_waits_for_an_action_in_quarantine(pair, rows):
    tester = pair(TWO, FIVE, evaluation=WRITE, retry=RetryPolicy(1))
    tester.write("in", rows(5))
    tester.write("in", rows(3))
    tester.fail("b")
    assert holding(tester) == []
    tester.write("in", rows(3))
    assert holding(tester) == []
    assert launched(tester.release("b")) == ["b"]
    assert holding(tester) == ["two"]


@pytest.mark.parametrize("running", [False, True])
def test_another_engine_holds_on(pair, rows, running):
    tester = pair(TWO, FIVE, evaluation=WRITE)
    tester.write("in", rows(5 if running else 2))
    tester.restart()
    assert holding(tester) == ["two"]
