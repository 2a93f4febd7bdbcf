"""Whose turn it is, and who is held by whom."""

from __future__ import annotations

from headgate.engine.connectors.connector import FlowView
from headgate.engine.connectors.turns import (
    Hold,
    OutputFlow,
    Reader,
    Turn,
    hold_of,
    in_turn,
    next_in_turn,
)


def reader(name: str, unread: int, *, backlog: int = 10, needs_more: bool = False) -> Reader:
    return Reader(name, FlowView(0 if unread else None, unread, unread), backlog, needs_more)


def held_by(*names: str) -> Hold:
    return Hold(names, "")


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


def test_the_first_that_is_not_held_runs():
    due = {"a": Turn(0, 0), "b": Turn(1, 0), "c": Turn(2, 0)}

    assert next_in_turn(due, {"a": held_by("c")}) == "b"


def test_nobody_runs_while_all_wait_for_one_that_is_not_due():
    assert next_in_turn({"a": Turn(0, 0)}, {"a": held_by("slow")}) is None


def test_two_that_hold_each_other_go_on_in_turn():
    due = {"a": Turn(3, 0), "b": Turn(2, 0)}

    assert next_in_turn(due, {"a": held_by("b"), "b": held_by("a")}) == "b"


def test_a_circle_with_a_way_out_waits_for_it():
    due = {"a": Turn(0, 0), "b": Turn(1, 0)}

    assert next_in_turn(due, {"a": held_by("b"), "b": held_by("a", "slow")}) is None


def test_nobody_runs_where_nobody_is_due():
    assert next_in_turn({}, {}) is None
