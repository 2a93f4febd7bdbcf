"""What the engine asks of stages, by the name of an action, at each point of a run."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.engine import (
    ActionFlows,
    ActionSpec,
    FlowId,
    FlowTaken,
    Produced,
    RunnableQuestion,
    RunnableSpec,
    make_policy,
)
from headgate.engine.protocol.work import Advance, Maintain, Ordinary, Rebuild, Work
from headgate.engine.spec.dataflow import DataflowSpec
from headgate.engine.stages.coordination import Delivery, StageFlows, Stages

ACTIONS = (
    ActionSpec("plain"),
    ActionSpec("maker", stage=ActionFlows(outputs=("u",))),
    ActionSpec("reader", stage=ActionFlows({"x": FlowId("maker", "u")})),
    ActionSpec(
        "asking",
        stage=ActionFlows({"x": FlowId("maker", "u")}, runnable=RunnableSpec("python", "m:f")),
    ),
)


class Actions:
    """Nothing else runs, and nothing is due."""

    now = 10.0
    has_place = True

    def launches(self, action: str) -> int:
        return 0

    def is_due(self, action: str) -> bool:
        return False


@pytest.fixture
def stages() -> Stages:
    spec = DataflowSpec("flow", (), ACTIONS)
    return Stages(ACTIONS, {a.name: make_policy(spec, a) for a in ACTIONS}, Actions())


def made(stages: Stages, number: int) -> Delivery:
    return stages.commit("maker", Advance(), [Produced("u", f"u-{number}", None, 3)])


def begun(stages: Stages, action: str, *, requested: bool = False) -> Any:
    work = stages.begin(action, requested=requested)
    assert not isinstance(work, RunnableQuestion)
    return work


def names(work: Work) -> dict[str, list[str]]:
    return {flow: [one.name for one in taken.read] for flow, taken in work.taken.items()}


def waiting(stages: Stages, action: str) -> list[str]:
    return [one.name for one in stages.by_action[action].connectors["x"].waiting]


def test_of_an_action_without_flows_nothing_is_taken_made_or_held(stages: Stages):
    assert stages.begin("plain", requested=True) == Ordinary()
    assert stages.commit("plain", Ordinary(), [Produced("u", "u-0", None, 1)]) == Delivery()
    stages.give_back("plain", Advance({"x": FlowTaken(FlowId("maker", "u"))}))
    stages.rebuild("plain")

    assert stages.begin("plain", requested=True) == Ordinary()
    assert stages.waits_for("plain") is stages.held("plain") is stages.note_held("plain") is None
    assert stages.explain("plain") == StageFlows()
    assert stages.save("plain") is None
    assert not stages.producers("plain")


def test_what_a_run_makes_waits_for_each_reader(stages: Stages):
    assert made(stages, 0) == Delivery((("u", "reader"), ("u", "asking")))
    assert waiting(stages, "reader") == waiting(stages, "asking") == ["u-0"]


def test_increments_of_unknown_flows_are_named_and_left_out(stages: Stages):
    odd = [Produced("v", "v-0", None, 1), Produced("v", "v-1", None, 1)]
    assert stages.commit("maker", Advance(), odd) == Delivery(unknown=("v",))


def test_what_is_given_back_waits_again(stages: Stages):
    made(stages, 0)
    made(stages, 1)
    work = begun(stages, "reader")
    assert names(work) == {"x": ["u-0"]}
    assert waiting(stages, "reader") == ["u-1"]

    stages.give_back("reader", work)
    assert waiting(stages, "reader") == ["u-0", "u-1"]


def test_a_rebuild_that_is_given_back_is_a_rebuild_once_more(stages: Stages):
    stages.rebuild("maker")
    work = begun(stages, "maker")
    assert work == Rebuild()
    assert not stages.is_made_anew("maker")

    stages.give_back("maker", work)
    assert stages.is_made_anew("maker")


def test_what_came_before_a_rebuild_is_not_put_back(stages: Stages):
    made(stages, 0)
    work = begun(stages, "reader")
    stages.rebuild("reader")

    stages.give_back("reader", work)
    assert waiting(stages, "reader") == []


def test_a_reader_waits_for_what_a_rebuild_makes(stages: Stages):
    made(stages, 0)
    stages.rebuild("maker")
    stages.rebuild("reader")
    assert stages.waits_for("reader") == "its state is made anew after that of `maker`"

    stages.commit("maker", begun(stages, "maker"), [Produced("u", "anew", None, 1)])
    assert stages.waits_for("reader") is None

    work = begun(stages, "reader")
    assert isinstance(work, Rebuild)
    assert names(work) == {"x": ["anew"]}


def test_a_runnable_is_asked_before_its_stage_begins(stages: Stages):
    made(stages, 0)
    question = stages.begin("asking", requested=False)

    assert isinstance(question, RunnableQuestion)
    assert (question.number, question.entry) == (1, "m:f")
    assert waiting(stages, "asking") == ["u-0"]
    assert stages.forget_question("asking")
    assert not stages.forget_question("asking")


def test_a_runnable_is_not_asked_about_a_rebuild_that_was_requested(stages: Stages):
    stages.rebuild("asking")
    stages.rebuild("maker")
    stages.commit("maker", begun(stages, "maker"), [Produced("u", "anew", None, 1)])

    assert names(begun(stages, "asking", requested=True)) == {"x": ["anew"]}


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_maintenance_that_is_asked_for_twice_does_all_of_it(
    stages: Stages, first: bool, second: bool
):
    assert stages.ask_for_maintenance("reader", wholly=first) == ""
    assert stages.ask_for_maintenance("reader", wholly=second) == ""
    assert stages.needs_maintenance("reader")

    assert stages.maintain("reader") == Maintain(wholly=first or second)
    assert not stages.needs_maintenance("reader")


def test_a_state_that_is_made_anew_is_not_maintained(stages: Stages):
    stages.rebuild("reader")
    assert stages.ask_for_maintenance("reader", wholly=True) == "its state is made anew anyway"
    assert stages.is_made_anew("reader")


def test_what_runs_under_way_have_taken_is_still_needed(stages: Stages):
    made(stages, 0)
    work = begun(stages, "reader")
    stages.by_action["asking"].rebuild(("x",))  # of it nothing waits any more

    assert stages.needed_increments([work], None) == {"u-0"}
    assert stages.needed_increments([work], "reader") == frozenset()
    assert stages.needed_increments([], None) == frozenset()


def test_since_when_a_stage_is_held_moves_with_the_clock(stages: Stages):
    made(stages, 0)
    assert stages.note_held("maker") is None
    assert stages.turn("maker").since == 10.0
    stages.move_times(-3.0)
    assert stages.turn("maker").since == 7.0
    assert stages.turn("plain").since == 10.0
