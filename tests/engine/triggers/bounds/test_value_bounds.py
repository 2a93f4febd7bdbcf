"""ν, the divergence of values, as the design says it (section 4)."""

import struct
import sys

import pytest
from measuring import measured, settled, value

from headgate.engine import (
    Bound,
    Codec,
    CodecName,
    Evaluation,
    Metric,
    RetryPolicy,
    ScanContainer,
    ValueBound,
    launched,
)
from headgate.events import ContainerId, Item

IN = ContainerId("in")


def test_relative_is_the_sum_of_differences_by_the_sum_before(pair, rows):
    tester = settled(pair(value(Metric.RELATIVE, 0.5)), rows, 10, 10)
    tester.write("in", rows(2, 15))
    assert measured(tester) == pytest.approx(0.1)


def test_absolute_is_the_largest_difference_in_units(pair, rows):
    tester = settled(pair(value(Metric.ABSOLUTE, 5)), rows)
    tester.write("in", {**rows(1, 12), **rows(1, 6, first=1)})
    assert measured(tester) == 4
    tester.write("in", rows(1, 9, first=1))
    assert measured(tester) == 2


def test_against_is_the_mean_difference_by_a_constant(pair, rows):
    tester = settled(pair(value(Metric.AGAINST, 0.9, 100)), rows, 10, 10)
    tester.write("in", rows(5, 30))
    assert measured(tester) == pytest.approx(5 * 20 / (10 * 100))


def test_changed_is_the_share_of_modified_cells(pair, rows):
    tester = settled(pair(value(Metric.CHANGED, 0.9)), rows, 10, 10)
    tester.write("in", rows(3, 11))
    assert measured(tester) == pytest.approx(0.3)


def test_changed_counts_cells_also_where_elements_are_rows(pair):
    tester = pair(value(Metric.CHANGED, 2))
    tester.write("in", {b"r": {b"f:x": b"1", b"f:y": b"1"}})
    tester.request("b")
    tester.finish("b")
    tester.write("in", {b"r": {b"f:x": b"2"}})
    assert measured(tester) == 0.5


@pytest.mark.parametrize("metric", [Metric.RELATIVE, Metric.ABSOLUTE, Metric.CHANGED])
def test_a_put_of_the_same_value_is_no_divergence(pair, rows, metric):
    tester = settled(pair(value(metric, 0.5)), rows)
    tester.write("in", rows(5, 10))
    assert measured(tester) == 0


@pytest.mark.parametrize("metric", [Metric.RELATIVE, Metric.ABSOLUTE, Metric.CHANGED])
def test_a_value_that_comes_back_is_no_divergence(pair, rows, metric):
    tester = settled(pair(value(metric, 50)), rows)
    tester.write("in", rows(5, 12))
    tester.write("in", rows(5, 10))
    assert measured(tester) == 0


def test_a_missing_previous_value_is_zero(pair, rows):
    tester = settled(pair(value(Metric.ABSOLUTE, 50)), rows)
    tester.write("in", rows(1, 7, first=10))
    assert measured(tester) == 7


def test_a_deleted_value_is_zero(pair, rows):
    tester = settled(pair(value(Metric.RELATIVE, 50)), rows, 10, 10)
    tester.write("in", rows(1, None))
    assert measured(tester) == pytest.approx(0.1)


def test_nothing_against_nothing_is_no_divergence(pair, rows):
    tester = settled(pair(value(Metric.RELATIVE, 0.5)), rows, 10, 0)
    assert measured(tester) == 0


def test_a_first_value_after_zeros_reaches_any_relative_limit(pair, rows):
    tester = settled(pair(value(Metric.RELATIVE, 99)), rows, 10, 0)
    tester.write("in", rows(1, 1))
    assert launched(tester.wave("a")) == ["b"]


def test_what_was_there_before_the_first_run_is_new_to_it(pair):
    tester = pair(value(Metric.CHANGED, 1), answering=False)
    tester.tables["in"] = {(b"r%d" % i, b"f:x"): b"1" for i in range(8)}
    (question,) = [i for i in tester.instructions if type(i).__name__ == "ScanContainer"]
    tester.handle(tester.answer(question))
    assert measured(tester) == 1


def test_an_undecodable_value_counts_as_changed_and_as_dead_letter(pair, rows):
    tester = settled(pair(value(Metric.CHANGED, 1)), rows)
    tester.write("in", {b"r0": {b"f:x": b"broken"}, b"r1": {b"f:x": b"nan"}})
    assert measured(tester) == pytest.approx(0.2)
    assert tester.engine.explain(0).containers[0].dead_letters == 2


def test_each_undecodable_value_of_many_is_a_dead_letter(pair):
    tester = pair(value(Metric.CHANGED, 1))
    tester.write("in", {b"r%d" % i: {b"f:x": b"broken" if i < 8 else b"1"} for i in range(20)})
    assert tester.engine.explain(0).containers[0].dead_letters == 8


def test_an_undecodable_value_adds_nothing_to_sums_of_others(pair, rows):
    tester = settled(pair(value(Metric.ABSOLUTE, 50)), rows)
    tester.write("in", {b"r0": {b"f:x": b"11"}, b"new": {b"f:x": b"broken"}})
    assert measured(tester) == 1


def test_opaque_values_are_compared_as_bytes(pair):
    tester = pair(value(Metric.CHANGED, 1), codec=Codec(CodecName.OPAQUE))
    tester.write("in", {b"r": {b"f:x": b"text"}, b"s": {b"f:x": b"1"}})
    tester.request("b")
    tester.finish("b")
    tester.write("in", {b"r": {b"f:x": b"text"}, b"s": {b"f:x": b"1.0"}})
    assert measured(tester) == 0.5


def test_binary_values_are_decoded(pair):
    tester = pair(value(Metric.ABSOLUTE, 9), codec=Codec(CodecName.FLOAT64))
    tester.write("in", {b"r": {b"f:x": struct.pack(">d", 2.5)}})
    assert measured(tester) == 2.5


def test_many_small_changes_sum_up_without_drift(pair, rows):
    tester = settled(pair(value(Metric.RELATIVE, 0.5)), rows, 10, 10)
    for i in range(200):
        tester.write("in", rows(10, 10 + 0.1 * (i % 7)))
    tester.write("in", rows(10, 10))
    assert measured(tester) == pytest.approx(0, abs=1e-9)


@pytest.fixture
def rounded(pair, rows):
    """Return a tester whose running sum has lost a digit by which the limit is reached."""
    tester = settled(pair(value(Metric.RELATIVE, 0.1)), rows, 10, 10)
    for i in range(18):
        for row in range(3):
            tester.write("in", rows(1, 10 + 0.1 * ((7 * i + 13 * row) % 97), first=row))
    tester.write("in", {**rows(1, 20), **rows(2, 10, first=1)})
    ((_, pending),) = tester.engine.actions["b"].all_parts()
    assert pending.difference.value < 10
    return tester


def test_a_limit_reached_exactly_is_reached_whatever_the_rounding_on_the_way(rounded):
    assert launched(rounded.wave("a")) == ["b"]


def test_an_explanation_is_exact_and_keeps_nothing_of_what_it_has_counted(rounded):
    ((_, pending),) = rounded.engine.actions["b"].all_parts()

    def sums():
        both = pending.difference, pending.magnitude
        return pending.changed, [(total.value, total.error) for total in both]

    before = sums()
    assert measured(rounded) == 0.1
    assert sums() == before


@pytest.mark.parametrize(("amount", "runs"), [(14.9999, []), (15, ["b"])])
def test_a_limit_that_a_write_reaches_exactly_is_reached_at_that_write(pair, rows, amount, runs):
    tester = pair(value(Metric.ABSOLUTE, 5), evaluation=Evaluation(write=True))
    tester.write("in", rows(3, 10))
    tester.finish("b")
    tester.write("in", rows(1, 11))
    assert launched(tester.write("in", {b"r0": {b"f:x": b"%r" % amount}})) == runs


LONG_MAX = 2**63 - 1
DOUBLE_MAX = sys.float_info.max


def of_long(number: int) -> dict[bytes, dict[bytes, bytes]]:
    return {b"sensor": {b"f:x": struct.pack(">q", number)}}


def of_double(row: bytes, number: float) -> dict[bytes, dict[bytes, bytes]]:
    return {row: {b"f:x": struct.pack(">d", number)}}


@pytest.mark.parametrize("own", [False, True])
def test_a_value_at_the_edge_of_its_type_hides_no_change_once_it_is_corrected(pair, own):
    writer = "b" if own else None
    tester = pair(value(Metric.AGAINST, 5, 100), codec=Codec(CodecName.INT64))
    tester.write("in", {b"other": {b"f:x": struct.pack(">q", 0)}})
    tester.write("in", of_long(0))
    tester.request("b")
    tester.finish("b")
    tester.write("in", {b"other": {b"f:x": struct.pack(">q", 1000)}})
    tester.write("in", of_long(LONG_MAX), by=writer)
    tester.write("in", of_long(0), by=writer)
    assert measured(tester) == 5
    assert launched(tester.wave("a")) == ["b"]


@pytest.mark.parametrize("metric", [Metric.RELATIVE, Metric.ABSOLUTE, Metric.AGAINST])
def test_the_largest_doubles_count_as_changed_and_hide_nothing_afterwards(pair, metric):
    constant = 1.0 if metric is Metric.AGAINST else None
    tester = pair(value(metric, 0.5, constant), codec=Codec(CodecName.FLOAT64))
    tester.write("in", of_double(b"r", -DOUBLE_MAX) | of_double(b"s", 1) | of_double(b"t", 1))
    assert launched(tester.wave("a")) == ["b"]
    tester.finish("b")
    tester.write("in", of_double(b"r", DOUBLE_MAX) | of_double(b"s", DOUBLE_MAX))
    assert launched(tester.wave("a")) == ["b"]
    tester.finish("b")
    tester.write("in", of_double(b"r", -DOUBLE_MAX))
    tester.write("in", of_double(b"r", 1) | of_double(b"s", 1))
    assert launched(tester.wave("a")) == ["b"]
    tester.finish("b")
    tester.write("in", of_double(b"t", 3))
    assert launched(tester.wave("a")) == ["b"]


def test_a_sum_that_overflowed_in_one_table_hides_no_change_in_another(pair):
    items = (Item("in"), Item("aside"))
    codec = Codec(CodecName.FLOAT64)
    tester = pair(value(Metric.AGAINST, 0.5, 1.0), items=items, codec=codec)
    tester.write("in", of_double(b"r", -DOUBLE_MAX) | of_double(b"s", 1))
    tester.write("aside", of_double(b"r", 1))
    assert launched(tester.wave("a")) == ["b"]
    tester.finish("b")
    for number in (DOUBLE_MAX, -DOUBLE_MAX):
        tester.write("in", of_double(b"r", number))
    tester.write("aside", of_double(b"r", 100))
    assert launched(tester.wave("a")) == ["b"]


def test_changes_against_more_than_a_double_can_sum_are_told_too_large_not_too_small(pair):
    tester = pair(value(Metric.RELATIVE, 0.5), codec=Codec(CodecName.FLOAT64))
    tester.write("in", of_double(b"r", DOUBLE_MAX) | of_double(b"s", DOUBLE_MAX))
    tester.wave("a")
    tester.finish("b")
    tester.write("in", of_double(b"r", 0))
    assert launched(tester.wave("a")) == ["b"]


def test_tables_that_are_too_large_for_one_sum_hide_no_change_together(pair):
    items = (Item("in"), Item("aside"))
    tester = pair(value(Metric.RELATIVE, 0.5), items=items, codec=Codec(CodecName.FLOAT64))
    for table in ("in", "aside"):
        tester.write(table, of_double(b"r", DOUBLE_MAX))
    tester.wave("a")
    tester.finish("b")
    tester.write("in", of_double(b"r", 0))
    assert launched(tester.wave("a")) == ["b"]


def test_what_the_first_scan_finds_after_the_first_run_failed_is_new(pair):
    bound = Bound("k", IN, time=60.0, value=ValueBound(Metric.CHANGED, 1))
    tester = pair(bound, answering=False, retry=RetryPolicy(attempts=1))
    tester.tables["in"] = {(b"r%d" % i, b"f:x"): b"7" for i in range(8)}
    (question,) = [i for i in tester.instructions if isinstance(i, ScanContainer)]
    tester.write("in", {b"r0": {b"f:x": b"8"}})
    assert launched(tester.pass_time(60)) == ["b"]
    tester.fail("b")
    tester.handle(tester.answer(question))
    ((_, pending),) = tester.engine.actions["b"].all_parts()
    assert pending.measured() == (8, 57.0, 8.0)


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("restart", [True, False])
def test_what_the_first_scan_finds_is_new_again_when_the_first_run_fails(pair, fails, restart):
    bound = Bound("k", IN, time=60.0, value=ValueBound(Metric.CHANGED, 1))
    tester = pair(bound, answering=False, retry=RetryPolicy(attempts=1))
    tester.tables["in"] = {(b"r%d" % i, b"f:x"): b"7" for i in range(8)}
    (question,) = [i for i in tester.instructions if isinstance(i, ScanContainer)]
    tester.write("in", {b"r0": {b"f:x": b"8"}})
    assert launched(tester.pass_time(60)) == ["b"]
    tester.handle(tester.answer(question))
    if restart:
        tester.restart()
    if not fails:
        tester.finish("b")
        ((_, pending),) = tester.engine.actions["b"].all_parts()
        assert pending.measured()[0] == 0
        return
    while tester.engine.actions["b"].run is not None:
        tester.fail("b")
    ((_, pending),) = tester.engine.actions["b"].all_parts()
    assert pending.measured() == (8, 57.0, 8.0)
    assert "ν of `in` (changed) reached" in tester.release("b")[1].decision.words
