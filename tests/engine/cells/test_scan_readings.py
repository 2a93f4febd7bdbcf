"""What a scan reads outranks what was consumed before it began to read, and nothing later."""

import pytest

from headgate.engine import (
    Bound,
    ContainerScanned,
    Count,
    Metric,
    ObserverLost,
    ScanBegun,
    ScanContainer,
    ValueBound,
)
from headgate.events import (
    VERSION,
    ContainerId,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
)

IN = ContainerId("in")

BOUND = Bound("k", IN, value=ValueBound(Metric.ABSOLUTE, 1e9))


@pytest.fixture
def tester(pair, rows):
    """A dataflow that has asked for a scan, since an observer is lost."""
    made = pair(BOUND, count=Count.CELLS)
    made.write("in", rows(3, 10))
    made.pass_time(100)  # so that no other observer's delete may be older
    made.answering = False
    told = made.handle(ObserverLost(made.now, "lost"))
    assert any(isinstance(one, ScanContainer) for one in told)
    return made


def begin(tester, start=b""):
    return tester.handle(ScanBegun(tester.now, IN, "in", start))


def found(tester, cells, start=b"", stop=None):
    keys = sorted(cells)
    return tester.handle(
        ContainerScanned(
            tester.now,
            IN,
            "in",
            [key[0] for key in keys],
            [key[1] for key in keys],
            [cells[key] for key in keys],
            start=start,
            stop=stop,
        )
    )


def contents(tester):
    return tester.engine.cells[IN, "in"].columns.contents()


def table(tester):
    return dict(tester.tables["in"])


def put(tester, row, value):
    tester.write("in", {row: {b"f:x": value}})


def delete_row(tester, row):
    request = RequestPart(1, "deleteAllRow", Outcome.APPLIED, tester.now, 1)
    kinds = bytes([UpdateKind.DELETE_ROW])
    tester.publish(
        "in",
        UpdateBatch(
            VERSION, "other", 1, 0, 1, "in", (request,), kinds, (row,), (b"",), (-1,), (None,)
        ),
    )


def test_what_was_consumed_before_the_reading_is_older_than_what_was_read(tester):
    put(tester, b"r0", b"1")
    begin(tester)
    # The lost observer had written once more.
    found(tester, table(tester) | {(b"r0", b"f:x"): b"2"})
    assert contents(tester)[b"r0", b"f:x"] == 2.0


def test_what_is_consumed_after_the_reading_has_begun_is_newer(tester):
    begin(tester)
    before = table(tester)
    put(tester, b"r0", b"3")
    found(tester, before)
    assert contents(tester)[b"r0", b"f:x"] == 3.0


def test_a_cell_told_of_before_the_reading_and_not_found_is_gone(tester):
    put(tester, b"new", b"1")
    begin(tester)
    # The lost observer had deleted it.
    left = table(tester)
    del left[b"new", b"f:x"]
    found(tester, left)
    assert (b"new", b"f:x") not in contents(tester)


def test_a_cell_put_again_after_its_row_was_deleted_is_found(tester):
    delete_row(tester, b"r0")
    begin(tester)
    found(tester, table(tester) | {(b"r0", b"f:x"): b"7"})
    assert contents(tester)[b"r0", b"f:x"] == 7.0


def test_a_reading_of_other_rows_changes_nothing(tester):
    put(tester, b"r0", b"3")
    before = table(tester)
    begin(tester, b"r1")  # an answer to a question of before
    found(tester, before | {(b"r0", b"f:x"): b"1"})
    assert contents(tester)[b"r0", b"f:x"] == 3.0


def test_the_rows_that_came_stay_as_they_came(tester):
    begin(tester)
    put(tester, b"r0", b"4")
    whole = table(tester)
    first = {key: value for key, value in whole.items() if key[0] < b"r1"}
    found(tester, first, stop=b"r1")
    put(tester, b"r0", b"5")
    begin(tester, b"r1")
    found(tester, {key: value for key, value in whole.items() if key not in first}, start=b"r1")
    assert contents(tester)[b"r0", b"f:x"] == 5.0


def delete_family(tester, row, outcome=Outcome.APPLIED):
    request = RequestPart(1, "deleteAll", outcome, tester.now, 1)
    kinds = bytes([UpdateKind.DELETE_FAMILY])
    tester.publish(
        "in",
        UpdateBatch(
            VERSION, "other", 1, 0, 1, "in", (request,), kinds, (row,), (b"f:",), (-1,), (None,)
        ),
    )


def test_a_cell_put_again_after_its_family_was_deleted_is_found(tester):
    delete_family(tester, b"r0")
    begin(tester)
    found(tester, table(tester) | {(b"r0", b"f:x"): b"7"})
    assert contents(tester)[b"r0", b"f:x"] == 7.0


def test_a_family_deleted_while_it_is_read_is_not_found(tester):
    begin(tester)
    delete_family(tester, b"r0")
    found(tester, table(tester) | {(b"r0", b"f:new"): b"7"})
    assert not [key for key in contents(tester) if key[0] == b"r0"]


@pytest.mark.parametrize(("deleted", "unsettled"), [("before", 0), ("during", 1)])
def test_what_a_doubtful_delete_has_left_is_known_where_it_was_read_later(
    tester, deleted, unsettled
):
    if deleted == "before":
        delete_family(tester, b"r9", Outcome.UNKNOWN)
    begin(tester)
    if deleted == "during":
        delete_family(tester, b"r9", Outcome.UNKNOWN)
    found(tester, table(tester) | {(b"r9", b"f:x"): b"7"})
    assert tester.engine.explain(tester.now).containers[0].unsettled == unsettled


def test_a_cell_of_a_table_first_scanned_empty_is_gone_where_it_is_not_found(pair):
    tester = pair(BOUND, count=Count.CELLS, answering=False)
    put(tester, b"r0", b"1")
    begin(tester)
    found(tester, {})
    assert not contents(tester)


def test_what_was_consumed_between_two_stretches_is_older_than_the_second(tester):
    begin(tester)
    whole = table(tester)
    found(tester, {key: value for key, value in whole.items() if key[0] < b"r1"}, stop=b"r1")
    put(tester, b"r0", b"5")
    put(tester, b"r1", b"5")
    begin(tester, b"r1")
    # The lost observer had deleted r1.
    found(tester, {key: value for key, value in whole.items() if key[0] > b"r1"}, start=b"r1")
    assert contents(tester) == {(b"r0", b"f:x"): 5.0, (b"r2", b"f:x"): 10.0}


def test_a_reading_that_begins_after_the_table_was_emptied_is_the_last(tester):
    change = (TableChangeKind.TRUNCATED, Outcome.APPLIED, tester.now)
    tester.publish("in", TableChange(VERSION, "other", 1, 0, 1, "in", *change))
    begin(tester)
    told = found(tester, {(b"r0", b"f:x"): b"7"})
    assert not [one for one in told if isinstance(one, ScanContainer)]
    assert contents(tester) == {(b"r0", b"f:x"): 7.0}
