from headgate.engine import Bound, SequenceBound, at_least_one
from headgate.engine.actions.timers import Timers
from headgate.events import ContainerId

IN = ContainerId("in")


def test_an_action_is_due_at_its_earliest_time():
    timers = Timers()
    timers.wake("a", 5.0)
    timers.wake("a", 3.0)
    timers.wake("b", 4.0)
    assert timers.next == 3.0
    assert timers.due(4.0) == {"a", "b"}


def test_nothing_is_due_before_its_time():
    timers = Timers()
    timers.wake("a", 5.0)
    assert timers.due(4.9) == set()
    assert timers.next == 5.0


def test_a_time_comes_once():
    timers = Timers()
    timers.wake("a", 5.0)
    timers.wake("a", 5.0)
    timers.wake("a", 2.0)
    assert timers.due(9.0) == {"a"}
    assert timers.due(9.0) == set()
    assert timers.next is None


def test_a_time_can_be_set_again_after_it_came():
    timers = Timers()
    timers.wake("a", 5.0)
    timers.due(5.0)
    timers.wake("a", 5.0)
    assert timers.due(5.0) == {"a"}


def test_many_launches_within_one_time_bound_leave_few_timers(pair, rows):
    bounds = (Bound("late", IN, time=86_400.0), Bound("k", IN, sequence=SequenceBound(1)))
    tester = pair(*bounds, condition=at_least_one(["late", "k"]))
    for _ in range(100):
        tester.write("in", rows(1))
        tester.wave("a")
        tester.finish("b")
        tester.pass_time(1)
    assert len(tester.engine._clocks._timers._heap) <= 2
    runs = len(tester.launches())
    tester.pass_time(86_398)
    assert len(tester.launches()) == runs
    tester.pass_time(1)
    assert len(tester.launches()) == runs + 1
