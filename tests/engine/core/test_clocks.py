"""Clocks that are set ahead and back: what is due comes after as long a time as without."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.engine import (
    ActionRole,
    ActionSpec,
    AdjustmentSpec,
    Bound,
    DataflowSpec,
    Engine,
    EngineTester,
    Evaluation,
    Interval,
    Launch,
    RecordDecision,
    Restarted,
    RetryPolicy,
    SequenceBound,
    WatchedContainer,
    launched,
)
from headgate.events import Container, ContainerId, Item

IN = ContainerId("in")
DAY = 86_400.0


def flow() -> DataflowSpec:
    """Steps that time starts: by θ, by a period, after a failure, by limits that move."""
    bounds = (
        Bound("late", IN, time=Interval(40, 400)),
        Bound("many", IN, sequence=SequenceBound(Interval(2, 50))),
    )
    return DataflowSpec(
        "flow",
        (WatchedContainer(Container(IN, (Item("in"),))),),
        (
            ActionSpec("a", ActionRole.INPUT, writes=(IN,)),
            ActionSpec("b", after=("a",), bounds=(Bound("k", IN, time=60.0),)),
            ActionSpec("c", after=("a",), bounds=bounds, evaluation=Evaluation(every=7)),
            ActionSpec("d", after=("b",), retry=RetryPolicy(3, 5.0)),
        ),
        AdjustmentSpec(every=5.0, window=20.0, confirmations=1, reversal=30.0, steps=3),
    )


class Clocked:
    """A dataflow and the clock that its time is told by."""

    def __init__(self) -> None:
        self.tester = EngineTester(flow())
        self.set = 0.0
        """Seconds by which the clock was set, all in all."""
        self.tester.write("in", {b"r": {b"f:x": b"1"}})

    def play(self, step: tuple) -> None:
        tester = self.tester
        match step:
            case ("pass", seconds):
                tester.pass_time(seconds)
            case ("write",):
                tester.write("in", {b"r": {b"f:x": b"1"}})
            case ("wave",):
                tester.wave("a")
            case ("sample", cpu):
                tester.sample(cpu=cpu)
            case ("end", name, good) if (run := tester.engine.actions[name].run) is not None:
                if run.retry_at is None:
                    tester.finish(name) if good else tester.fail(name)
            case ("restart", passed):
                tester.engine = Engine(tester.spec, tester.engine.snapshot())
                tester.now += passed
                tester.handle(Restarted(tester.now))

    def leap(self, seconds: float) -> None:
        self.set += seconds
        self.tester.leap(seconds)

    def what_happened(self) -> list[object]:
        """Return what was launched and decided, and when by a clock that nobody set."""
        found: list[object] = []
        for one in self.tester.instructions:
            if isinstance(one, Launch):
                found.append((one.action, one.run, one.attempt, one.cause.moment))
            elif isinstance(one, RecordDecision):
                found.append((one.decision.kind, one.decision.action))
        return found

    def due(self) -> float | None:
        at = self.tester.notify_at
        return None if at is None else round(at - self.set, 3)


steps = st.one_of(
    st.tuples(st.just("pass"), st.integers(1, 90)),
    st.tuples(st.just("write")),
    st.tuples(st.just("wave")),
    st.tuples(st.just("sample"), st.sampled_from([5, 60, 95])),
    st.tuples(st.just("end"), st.sampled_from(["b", "c", "d"]), st.booleans()),
    st.tuples(st.just("restart"), st.integers(0, 20)),
)
leaps = st.sampled_from([0.0, 0.0, 3600.0, -3600.0, DAY, -DAY, 0.25])


@settings(deadline=None)
@given(st.lists(st.tuples(steps, leaps), max_size=30))
@example([(("pass", 40), 0.0), (("write",), 0.0), (("pass", 70), 0.0), (("pass", 90), 3600.0)])
def test_whatever_the_clock_is_set_to_the_same_happens_after_the_same_time(story):
    even, set_again = Clocked(), Clocked()
    for step, by in story:
        even.play(step)
        set_again.play(step)
        if by:
            set_again.leap(by)
        assert set_again.what_happened() == even.what_happened()
        assert set_again.due() == even.due()


@pytest.mark.parametrize("back", [3600.0, DAY])
def test_a_clock_set_back_while_nobody_ran_takes_no_time_away(pair, rows, back):
    tester = pair(Bound("k", IN, time=60.0))
    tester.write("in", rows(1))
    tester.pass_time(50)
    tester.write("in", rows(1))
    tester.now -= back
    assert launched(tester.restart()) == []
    assert launched(tester.pass_time(9)) == []
    assert launched(tester.pass_time(1)) == ["b"]


def test_a_day_ahead_and_back_starts_nothing_early_and_stops_nothing(pair, rows):
    tester = pair(Bound("k", IN, time=60.0))
    tester.write("in", rows(1))
    assert launched(tester.leap(DAY)) == []
    assert launched(tester.pass_time(59)) == []
    assert launched(tester.leap(-DAY)) == []
    assert launched(tester.pass_time(1)) == ["b"]
