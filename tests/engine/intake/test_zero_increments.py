"""Increments by 0, with which clients read counters, are no updates unless they make a cell."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.engine import (
    Bound,
    Codec,
    CodecName,
    Count,
    Metric,
    ReadCells,
    SequenceBound,
    SequenceUnit,
    ValueBound,
    launched,
)
from headgate.events import VERSION, ContainerId, Outcome, RequestPart, UpdateBatch, UpdateKind

IN = ContainerId("in")
ANY = Bound("k", IN, sequence=SequenceBound(1))
COUNTERS = Codec(CodecName.INT64)


class Counters:
    """A table of counters, written through an observer."""

    def __init__(self, tester) -> None:
        self.tester = tester
        self.table = tester.tables.setdefault("in", {})
        self.intents = 0

    def increment(self, row: bytes, amount: int, *, lost: bool = False):
        """Increment a counter; ``lost``: its reply does not come, or does not say the counter."""
        key = row, b"c:n"
        before = self.table.get(key)
        value = int.from_bytes(before or bytes(8), "big", signed=True) + amount
        self.table[key] = value.to_bytes(8, "big", signed=True)
        perhaps_new = amount == 0 and value == 0
        kind, told = UpdateKind.INCREMENT, value
        if lost:
            kind, told = UpdateKind.INCREMENT_DELTA, amount
        self.intents += 1
        part = RequestPart(
            self.intents,
            "atomicIncrement",
            Outcome.UNKNOWN if lost else Outcome.APPLIED,
            self.tester.now,
            1,
            ambiguous=(0,) if perhaps_new else (),
            zero_increments=(0,) if amount == 0 else (),
        )
        message = UpdateBatch(
            VERSION, "o", 1, self.intents, 0, "in", (part,), bytes([kind]), (row,), (b"c:n",),
            (-1,), (told.to_bytes(8, "big", signed=True),),
        )  # fmt: skip
        return self.tester.publish("in", message)


@pytest.fixture
def counters(pair):
    def make(*bounds: Bound, **step) -> Counters:
        found = Counters(pair(*bounds, codec=COUNTERS, **step))
        found.increment(b"r", 7)
        found.tester.wave("a")
        while found.tester.engine.busy:
            found.tester.finish("b")
        return found

    return make


def test_reading_a_counter_runs_no_step(counters):
    found = counters(ANY)
    found.increment(b"r", 0)
    assert launched(found.tester.wave("a")) == []
    found.increment(b"r", 1)
    assert launched(found.tester.wave("a")) == ["b"]


def test_reading_a_counter_is_nothing_that_was_written(counters):
    assert counters(ANY).increment(b"r", 0) == []


def test_reading_a_counter_that_is_not_there_makes_a_cell_and_counts(counters):
    found = counters(ANY)
    found.increment(b"new", 0)
    assert launched(found.tester.wave("a")) == ["b"]


@pytest.mark.parametrize("lost", [False, True], ids=["reply 0", "no reply"])
def test_a_counter_that_stands_at_zero_is_read_once_more_and_counts_for_nothing(counters, lost):
    absolute = Bound("v", IN, value=ValueBound(Metric.ABSOLUTE, 0.5))
    found = counters(absolute)
    found.increment(b"r", -7)
    assert launched(found.tester.wave("a")) == ["b"]
    found.tester.finish("b")
    found.increment(b"r", 0, lost=lost)
    wanted = found.tester.wave("a")
    assert [i.rows for i in wanted if isinstance(i, ReadCells)] == [(b"r",)]
    assert launched(wanted) == []


def test_with_bounds_on_plain_counts_a_counter_that_may_be_new_counts(counters):
    """Nothing is known of the table then, and an update is rather counted twice than not at all."""
    found = counters(ANY)
    found.increment(b"other", 0, lost=True)
    assert launched(found.tester.wave("a")) == ["b"]


STEPS = st.lists(
    st.tuples(st.sampled_from([b"r", b"s"]), st.sampled_from([0, 0, 0, 1, -1]), st.booleans()),
    max_size=12,
)
SHARE = Bound("p", IN, sequence=SequenceBound(1e9, SequenceUnit.PERCENT))
VALUE = Bound("v", IN, value=ValueBound(Metric.ABSOLUTE, 1e9))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, count=st.sampled_from(Count), bound=st.sampled_from([SHARE, VALUE]))
def test_only_increments_that_change_or_make_a_counter_are_counted(pair, steps, count, bound):
    found = Counters(pair(bound, codec=COUNTERS, count=count))
    tester = found.tester
    expected = 0
    for row, amount, lost in steps:
        expected += amount != 0 or (row, b"c:n") not in found.table
        found.increment(row, amount, lost=lost)
        tester.wave("a")
    (cells,) = tester.engine.cells.values()
    (pending,) = [each for each in cells.watchers.pendings if each.action == "b"]
    assert pending.received == expected
    assert cells.elements == len(found.table)
