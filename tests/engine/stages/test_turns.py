"""Whose turn it is, and who is held by whom."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.engine.stages.connector import FlowView
from headgate.engine.stages.turns import (
    Hold,
    OutputFlow,
    Reader,
    Turn,
    first_of_circle,
    hold_of,
    in_turn,
)


def reader(name: str, unread: int, *, backlog: int = 10, needs_more: bool = False) -> Reader:
    return Reader(name, FlowView(0 if unread else None, unread, unread), backlog, needs_more)


def first(
    stage: str, due: Mapping[str, Turn], held_by: Mapping[str, tuple[str, ...]]
) -> str | None:
    """Which stage goes on where one is held, by those that are due and who holds them."""
    return first_of_circle(
        stage, lambda name: held_by.get(name, ()) if name in due else None, due.__getitem__
    )


def test_those_that_ran_least_come_first_then_those_due_for_longest():
    due = {"a": Turn(2, 1), "b": Turn(1, 9), "c": Turn(1, 5), "d": Turn(1, 5)}

    assert in_turn(due) == ["c", "d", "b", "a"]


def test_a_stage_without_outputs_is_never_held():
    assert hold_of(()) is None


def test_a_flow_that_nobody_reads_holds_nobody():
    assert hold_of([OutputFlow("result")]) is None


def test_a_stage_is_held_while_all_its_outputs_are_unread():
    hold = hold_of([OutputFlow("u", (reader("cube", 1),)), OutputFlow("v", (reader("log", 2),))])

    assert hold == Hold(("cube", "log"), "`u` is unread by `cube`, `v` is unread by `log`")


def test_one_output_that_was_read_lets_it_run():
    assert hold_of([OutputFlow("u", (reader("a", 1),)), OutputFlow("v", (reader("b", 0),))]) is None


def test_one_consumer_that_has_read_all_lets_it_run():
    assert hold_of([OutputFlow("u", (reader("a", 3), reader("b", 0)))]) is None


def test_what_was_read_and_stays_holds_nobody():
    stays = Reader("join", FlowView(0, 1, 0), 10)

    assert hold_of([OutputFlow("table", (stays,))]) is None


def test_a_consumer_that_needs_more_holds_nobody():
    assert hold_of([OutputFlow("u", (reader("window", 1, needs_more=True),))]) is None


def test_a_full_backlog_holds_whatever_the_other_outputs_have():
    slow, fast = reader("slow", 3, backlog=3), reader("fast", 0)

    hold = hold_of([OutputFlow("u", (slow,)), OutputFlow("v", (fast,))])

    assert hold is not None
    assert hold.holders == ("slow",)
    assert hold.words == "`slow` has 3 increments of `u` unread, and its backlog is 3"


def test_a_stage_waits_for_one_that_holds_it_and_can_run():
    due = {"a": Turn(0, 0), "b": Turn(1, 0)}

    assert first("a", due, {"a": ("b",)}) is None


def test_a_stage_waits_for_one_that_is_not_due():
    assert first("a", {"a": Turn(0, 0)}, {"a": ("slow",)}) is None


def test_of_two_that_hold_each_other_the_one_goes_on_whose_turn_it_is():
    due = {"a": Turn(3, 0), "b": Turn(2, 0)}
    held_by = {"a": ("b",), "b": ("a",)}

    assert [first(stage, due, held_by) for stage in due] == ["b", "b"]


def test_of_equal_ones_in_a_circle_the_first_by_name_goes_on():
    due = {"b": Turn(1, 5), "a": Turn(1, 5)}

    assert first("b", due, {"a": ("b",), "b": ("a",)}) == "a"


def test_a_circle_with_a_way_out_waits_for_it():
    due = {"a": Turn(0, 0), "b": Turn(1, 0)}
    held_by = {"a": ("b",), "b": ("a", "slow")}

    assert [first(stage, due, held_by) for stage in due] == [None, None]
