"""An engine that contradicts itself is noticed, and told by what contradicts what."""

from collections.abc import Callable

import pytest

from headgate.engine import (
    Bound,
    BrokenInvariant,
    Count,
    EngineTester,
    Metric,
    RunState,
    SequenceBound,
    ValueBound,
    check_invariants,
)
from headgate.engine.cells.columns import Detail
from headgate.engine.cells.pending import Pending
from headgate.events import ContainerId, Cut, Item, updates_topic

IN = ContainerId("in")

BOUND = Bound("k", IN, None, SequenceBound(9, distinct=True), ValueBound(Metric.ABSOLUTE, 5))
Break = Callable[[EngineTester], None]


@pytest.fixture
def running(pair, rows) -> EngineTester:
    """Step ``b`` has run, and runs again: there are updates that it has taken, and others."""
    tester = pair(BOUND, items=(Item("in", b"f"),), count=Count.ROWS)
    tester.write("in", rows(3, 10))
    tester.request("b")
    tester.finish("b")
    tester.write("in", rows(2, 11))
    tester.request("b")
    tester.write("in", rows(2, 12))
    check_invariants(tester.engine)
    return tester


def action(name: str, field: str, value: object) -> Break:
    return lambda tester: setattr(tester.engine.actions[name], field, value)


def run(field: str, value: object) -> Break:
    return lambda tester: setattr(tester.engine.actions["b"].run, field, value)


def cells(field: str, value: object) -> Break:
    return lambda tester: setattr(tester.engine.cells[IN, "in"], field, value)


def columns(field: str, value: object) -> Break:
    return lambda tester: setattr(tester.engine.cells[IN, "in"].columns, field, value)


def pending(field: str, value: object) -> Break:
    def change(tester: EngineTester) -> None:
        ((_, found),) = tester.engine.actions["b"].all_parts()
        setattr(found, field, value)

    return change


def total(field: str) -> Break:
    def change(tester: EngineTester) -> None:
        ((_, found),) = tester.engine.actions["b"].all_parts()
        getattr(found, field).set(99.0)

    return change


def unknown_key(tester: EngineTester) -> None:
    tester.engine.cells[IN, "in"].reads.reading.add((b"r", b"f:x"))


def strangers_share(tester: EngineTester) -> None:
    cells = tester.engine.cells[IN, "in"]
    cells.watchers.consumed["a"] = Pending(
        "a", cells.columns.grid, None, distinct=False, own=False
    ).take()


FUTURE = Cut({updates_topic("in"): (99,)})

BROKEN = {
    "state idle with run": action("b", "state", RunState.IDLE),
    "a retry is due while launched": run("retry_at", 5.0),
    "the cut goes backwards": run("since", FUTURE),
    "a cut of the future": run("cut", FUTURE),
    "an input was launched": action("a", "number", 1),
    r"ran before \['a'\]": action("a", "has_run", False),
    "nobody remembers that a run was asked for": action("b", "requested", True),
    "are not all predecessors": action("b", "ended", {"nobody"}),
    "cells are kept that no bound needs": cells("detail", Detail.COUNTS),
    "there are not 4 cells": columns("size", 4),
    "rows and cells disagree": columns("rows", 4),
    "settled cells are read": unknown_key,
    "consumed by a, which has no run": strangers_share,
    "99 updates came, 7 are accounted for": pending("received", 99),
    "more distinct elements than updates": pending("distinct", dict.fromkeys("abcdefgh")),
    "99 changed cells were counted, there are 2": pending("changed", 99),
    "Σ|x−x′| is 2.0, not 99.0": total("difference"),
    "max |x−x′| is 1.0, not 99.0": pending("_largest", 99.0),
    "Σ|x′| is 32.0, not 99.0": total("magnitude"),
}


@pytest.mark.parametrize("words", BROKEN)
def test_what_contradicts_itself_is_said(running, words):
    BROKEN[words](running)
    with pytest.raises(BrokenInvariant, match=words.replace("|", r"\|")):
        check_invariants(running.engine)
