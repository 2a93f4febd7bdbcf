"""Predecessors: strict synchrony, first runs, one active run per action."""

from typing import Any

import pytest

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    DataflowSpec,
    DecisionKind,
    EngineTester,
    Evaluation,
    SequenceBound,
    WatchedContainer,
    launched,
)
from headgate.engine.triggers.synchrony import Synchronous
from headgate.events import Container, ContainerId, Item

IN = ContainerId("in")


def diamond(*bounds: Bound, **d: Any) -> EngineTester:
    """a -> b, c -> d; d watches table ``in``."""
    return EngineTester(
        DataflowSpec(
            "flow",
            (WatchedContainer(Container(IN, (Item("in"),))),),
            (
                ActionSpec("a", ActionRole.INPUT, writes=(IN,)),
                ActionSpec("d", after=("b", "c"), bounds=bounds, **d),
                ActionSpec("b", after=("a",)),
                ActionSpec("c", after=("a",)),
            ),
        )
    )


def test_without_bounds_a_step_runs_when_its_predecessor_ended(chain, rows):
    tester = chain()
    tester.write("in", rows(1))
    assert launched(tester.wave("a")) == ["b"]
    assert launched(tester.finish("b")) == ["c"]


def test_without_bounds_a_step_waits_for_all_its_predecessors(rows):
    tester = diamond()
    tester.write("in", rows(1))
    assert launched(tester.wave("a")) == ["b", "c"]
    assert launched(tester.finish("b")) == []
    assert launched(tester.finish("c")) == ["d"]


def test_without_bounds_a_step_runs_once_however_often_one_predecessor_ended(rows):
    tester = diamond()
    tester.write("in", rows(1))
    tester.wave("a")
    tester.finish("b")
    tester.request("b")
    tester.finish("b")
    assert launched(tester.finish("c")) == ["d"]
    assert launched(tester.finish("d")) == []


def test_nothing_runs_before_each_predecessor_has_run_once(rows):
    tester = diamond(Bound("k", IN, sequence=SequenceBound(1)))
    tester.write("in", rows(5))
    tester.wave("a")
    assert launched(tester.finish("b")) == []
    assert launched(tester.finish("c")) == ["d"]


def test_what_a_write_reached_before_predecessors_ran_runs_as_soon_as_they_have(rows):
    bound = Bound("k", IN, sequence=SequenceBound(1))
    tester = diamond(bound, evaluation=Evaluation(write=True))
    tester.write("in", rows(5))
    tester.wave("a")
    assert launched(tester.finish("b")) == []
    assert launched(tester.finish("c")) == ["d"]


def test_an_input_has_run_at_its_first_update(pair, rows):
    tester = pair(Bound("k", IN, sequence=SequenceBound(1)))
    assert launched(tester.wave("a")) == []
    assert not tester.engine.explain(0).actions[0].has_run
    tester.write("in", rows(1))
    assert tester.engine.explain(0).actions[0].has_run


def test_a_wave_before_anything_came_runs_nothing_later(pair, rows):
    tester = pair()
    tester.wave("a")
    assert launched(tester.write("in", rows(1))) == []
    assert launched(tester.wave("a")) == ["b"]


def test_an_input_whose_output_nobody_declares_has_run_when_its_wave_ended():
    spec = DataflowSpec(
        "flow", (), (ActionSpec("a", ActionRole.INPUT), ActionSpec("b", after=("a",)))
    )
    assert launched(EngineTester(spec).wave("a")) == ["b"]


@pytest.mark.parametrize(
    ("named", "kind", "words"),
    [
        ("nobody", DecisionKind.REFUSED, "a wave of 'nobody' ended, which is no input action"),
        ("fed later", DecisionKind.HELD, "its wave ended before anything came"),
    ],
)
def test_a_wave_that_comes_to_nothing_says_so_and_keeps_no_other_back(named, kind, words):
    later = ActionSpec("fed later", ActionRole.INPUT, writes=(IN,))
    fed = ActionSpec("fed", ActionRole.INPUT)
    watched = WatchedContainer(Container(IN, (Item("in"),)))
    spec = DataflowSpec("flow", (watched,), (later, fed, ActionSpec("b", after=("fed",))))
    tester = EngineTester(spec)
    assert launched(tester.wave(named, "fed")) == ["b"]
    (said, _) = tester.decisions()
    assert (said.kind, said.words) == (kind, words)


def test_all_that_follow_an_input_from_which_something_came_are_its_followers(rows):
    tester = diamond()
    assert tester.engine.followers(["a"]) == set()
    tester.write("in", rows(1))
    assert tester.engine.followers(["a"]) == {"b", "c", "d"}


def test_a_second_run_waits_for_the_first(pair, rows):
    tester = pair()
    tester.write("in", rows(1))
    tester.wave("a")
    assert launched(tester.wave("a")) == []
    assert launched(tester.wave("a")) == []
    assert launched(tester.finish("b")) == ["b"]
    assert launched(tester.finish("b")) == []


def test_bounds_reached_while_active_make_exactly_one_run(pair, rows):
    tester = pair(Bound("k", IN, sequence=SequenceBound(2)))
    tester.write("in", rows(2))
    tester.wave("a")
    for _ in range(3):
        tester.write("in", rows(4))
        tester.wave("a")
    assert launched(tester.finish("b")) == ["b"]
    assert launched(tester.finish("b")) == []


def test_updates_that_arrive_while_active_count_for_the_next_run(pair, rows):
    tester = pair(Bound("k", IN, sequence=SequenceBound(4)))
    tester.write("in", rows(4))
    tester.wave("a")
    tester.write("in", rows(3))
    tester.finish("b")
    assert launched(tester.wave("a")) == []
    tester.write("in", rows(1))
    assert launched(tester.wave("a")) == ["b"]


def test_the_end_of_another_predecessors_run_is_not_forgotten_while_active(rows):
    tester = diamond()
    tester.write("in", rows(1))
    tester.wave("a")
    tester.finish("b")
    tester.finish("c")
    tester.request("b")
    tester.finish("b")
    tester.finish("d")
    tester.request("c")
    assert launched(tester.finish("c")) == ["d"]


def test_whether_an_action_without_bounds_runs_is_always_judged(rows):
    tester = diamond()
    tester.write("in", rows(1))
    action = tester.engine.actions["d"]
    assert isinstance(action.policy, Synchronous)
    assert action.foresees is None
