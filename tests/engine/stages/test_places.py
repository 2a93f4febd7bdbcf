"""Stages that share places: who has run least goes first (BIPS, section 4.2 and Figure 6)."""

from __future__ import annotations

import pytest

from headgate.engine import (
    ActionFlows,
    ActionSpec,
    DataflowSpec,
    EngineTester,
    FlowId,
    Produced,
    RetryPolicy,
    SpecificationChanged,
    launched,
)

ACTIONS = (
    ActionSpec("a", stage=ActionFlows(outputs=("u",))),
    ActionSpec("b", stage=ActionFlows({"x": FlowId("a", "u")}), retry=RetryPolicy(2)),
    ActionSpec("c", stage=ActionFlows({"x": FlowId("a", "u")}), retry=RetryPolicy(1)),
)


def driven(places: int | None) -> EngineTester:
    return EngineTester(DataflowSpec("flow", (), ACTIONS, places=places))


def made(number: int) -> Produced:
    return Produced("u", f"u-{number}", None, 1)


def missing(tester: EngineTester, action: str) -> str:
    [found] = [one for one in tester.engine.explain(tester.now).actions if one.action == action]
    return found.missing


def test_without_places_all_that_are_due_run():
    tester = driven(None)
    tester.request("a")

    assert launched(tester.finish("a", made(0))) == ["b", "c"]


def test_with_one_place_they_run_one_after_another():
    tester = driven(1)
    tester.request("a")

    assert launched(tester.finish("a", made(0))) == ["b"]
    assert launched(tester.finish("b")) == ["c"]


def test_with_two_places_two_run():
    tester = driven(2)
    tester.request("a")

    assert launched(tester.finish("a", made(0))) == ["b", "c"]
    assert launched(tester.request("a")) == []
    assert launched(tester.finish("c")) == ["a"]


def test_the_place_goes_to_who_has_run_least_and_not_to_who_comes_first():
    tester = driven(1)
    tester.request("a")
    tester.finish("a", made(0))
    tester.finish("b")
    tester.request("a")
    assert launched(tester.finish("c")) == ["a"]
    tester.request("a")

    assert launched(tester.finish("a", made(1))) == ["b"]
    assert launched(tester.finish("b")) == ["c"]
    assert launched(tester.finish("c")) == ["a"]


def test_what_comes_for_a_stage_is_not_taken_while_it_waits_for_a_place():
    tester = driven(1)
    tester.request("a")
    tester.finish("a", made(0))

    stage = tester.engine.stages["c"]
    assert stage.connectors["x"].view().waiting == 1


def test_what_waits_to_be_tried_again_leaves_its_place():
    tester = driven(1)
    tester.request("a")
    tester.finish("a", made(0))

    assert launched(tester.fail("b")) == ["c"]


def test_what_is_given_up_leaves_its_place():
    tester = driven(1)
    tester.request("a")
    tester.finish("a", made(0))
    tester.finish("b")

    tester.request("a")
    assert launched(tester.fail("c")) == ["a"]


def test_a_stage_says_that_it_waits_for_its_turn():
    tester = driven(1)
    tester.request("a")
    tester.finish("a", made(0))

    assert missing(tester, "c") == "waits for its turn: others run, and no place is free"


@pytest.mark.parametrize(("places", "runs"), [(2, ["c"]), (None, ["c"]), (1, [])])
def test_places_that_are_added_are_taken_at_once(places: int | None, runs: list[str]):
    tester = driven(1)
    tester.request("a")
    tester.finish("a", made(0))
    spec = DataflowSpec("flow", (), ACTIONS, places=places)

    assert launched(tester.handle(SpecificationChanged(tester.now, spec))) == runs


def test_a_restart_keeps_who_waits_for_a_place():
    tester = driven(1)
    tester.request("a")
    tester.finish("a", made(0))
    tester.restart()
    tester.pass_time(1)

    assert launched(tester.finish("b")) == ["c"]
