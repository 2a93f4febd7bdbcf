"""σ, the number of updates, as the design says it (section 4)."""

import pytest
from measuring import measured, percent, settled, updates, value

from headgate.engine import Count, Metric, launched
from headgate.events import VERSION, Item, Outcome, RequestPart, UpdateBatch


def test_updates_are_counted_until_the_limit(pair, rows):
    tester = pair(updates(3))
    tester.write("in", rows(2))
    assert launched(tester.wave("a")) == []
    tester.write("in", rows(1))
    assert launched(tester.wave("a")) == ["b"]


def test_a_request_that_writes_three_columns_of_a_row_is_one_update(pair):
    tester = pair(updates(2))
    tester.write("in", {b"r": {b"f:x": b"1", b"f:y": b"1", b"g:z": b"1"}})
    assert measured(tester) == 1


def test_with_cells_as_elements_each_column_is_an_update(pair):
    tester = pair(updates(9), count=Count.CELLS)
    tester.write("in", {b"r": {b"f:x": b"1", b"f:y": b"1", b"g:z": b"1"}})
    assert measured(tester) == 3


def test_a_row_written_by_two_requests_is_two_updates(pair, rows):
    tester = pair(updates(9))
    tester.write("in", rows(1))
    tester.write("in", rows(1))
    assert measured(tester) == 2


def test_a_request_that_writes_nothing_makes_no_update_of_the_next_ones_cells(pair):
    parts = [RequestPart(n, "put", Outcome.APPLIED, 1.0, cells) for n, cells in enumerate((0, 2))]
    message = UpdateBatch(
        VERSION, "o", 1, 0, 0, "in", tuple(parts), bytes(2), (b"r", b"r"), (b"f:x", b"f:y"),
        (-1, -1), (b"1", b"1"),
    )  # fmt: skip
    tester = pair(updates(9))
    tester.publish("in", message)
    assert measured(tester) == 1


def test_a_put_of_the_same_value_counts_for_sequence(pair, rows):
    tester = settled(pair(updates(9)), rows)
    tester.write("in", rows(1, 10))
    assert measured(tester) == 1


def test_distinct_counts_each_element_once(pair, rows):
    tester = pair(updates(9, distinct=True))
    tester.write("in", rows(2))
    tester.write("in", rows(3))
    assert measured(tester) == 3


def test_a_delete_is_an_update(pair, rows):
    tester = settled(pair(updates(9)), rows)
    tester.write("in", rows(1, None))
    assert measured(tester) == 1


def test_percentages_are_of_the_current_number_of_elements(pair, rows):
    tester = settled(pair(percent(50)), rows, 10)
    tester.write("in", rows(4))
    assert measured(tester) == 40


@pytest.mark.parametrize("share", range(1, 101))
def test_a_percentage_is_reached_by_so_many_of_a_hundred_elements(pair, rows, share):
    tester = settled(pair(percent(share)), rows, 100)
    tester.write("in", rows(share - 1, 20))
    assert launched(tester.wave("a")) == []
    tester.write("in", rows(1, 20, first=99))
    assert launched(tester.wave("a")) == ["b"]


def test_percentages_start_from_the_first_scan(pair, rows):
    tester = pair(percent(50), answering=False)
    tester.tables["in"] = {(b"r%d" % i, b"f:x"): b"1" for i in range(8)}
    (question,) = [i for i in tester.instructions if type(i).__name__ == "ScanContainer"]
    tester.handle(tester.answer(question))
    tester.write("in", rows(2))
    assert measured(tester) == 25


@pytest.mark.parametrize("symbol", ["σ", "ν"])
def test_before_the_first_scan_a_bound_says_that_it_waits_for_it(pair, rows, symbol):
    bound = {"σ": percent(50), "ν": value(Metric.CHANGED, 0.5)}[symbol]
    tester = pair(bound, answering=False)
    tester.write("in", rows(1))
    explained = tester.engine.explain(0).actions[1]
    assert explained.missing == "needs the first scan of `in`"
    (vector,) = explained.result.parts[0].vectors
    assert vector.words == f"{symbol} of `in` waits for the container's first scan"


def test_puts_of_new_rows_raise_the_number_of_elements(pair, rows):
    tester = settled(pair(percent(90)), rows, 10)
    tester.write("in", rows(10, first=10))
    assert measured(tester) == 50


def test_deletes_lower_the_number_of_elements(pair, rows):
    tester = settled(pair(percent(90)), rows, 10)
    tester.write("in", rows(5, None))
    assert measured(tester) == 100


def test_a_row_is_there_until_its_last_column_is_deleted(pair):
    tester = pair(percent(200))
    tester.write("in", {b"r": {b"f:x": b"1", b"f:y": b"1"}})
    tester.write("in", {b"r": {b"f:x": None}})
    assert tester.engine.explain(0).containers[0].elements == 1
    tester.write("in", {b"r": {b"f:y": None}})
    assert tester.engine.explain(0).containers[0].elements == 0


def test_any_update_of_an_empty_container_reaches_a_percentage(pair, rows):
    tester = settled(pair(percent(1000)), rows, 1)
    tester.write("in", rows(1, None))
    assert launched(tester.wave("a")) == ["b"]


def test_updates_outside_the_container_do_not_count(pair, rows):
    tester = pair(updates(9), items=(Item("in", b"f", b"x", b"r2", b"r4"),))
    tester.write("in", rows(6))
    tester.write("in", {b"r2": {b"f:other": b"1"}, b"r3": {b"g:x": b"1"}})
    assert measured(tester) == 2


def test_grouped_items_share_one_count(pair):
    tester = pair(updates(9), items=(Item("in", b"f", b"x"), Item("in", b"g"), Item("other")))
    tester.write("in", {b"r": {b"f:x": b"1", b"g:y": b"1", b"f:no": b"1"}})
    tester.write("other", {b"r": {b"f:x": b"1"}})
    assert measured(tester) == 2
