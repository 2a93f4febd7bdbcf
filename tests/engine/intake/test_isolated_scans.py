"""What scans find of a dataflow that declares feeders: its own rows, and what was lost of them."""

import pytest
from isolated import (
    BOUND,
    FEED,
    OVERWRITTEN,
    altered,
    answered,
    batch,
    contents_of,
    counted,
    isolated,
    knowing_row_0,
    rows_of,
    scanned,
)
from msgspec.structs import replace

from headgate.engine import EngineTester, ReconciliationDue


def test_the_first_scan_finds_rows_that_the_dataflow_has_marked(pair):
    tester = EngineTester(replace(pair(BOUND).spec, feeders=()), answering=False)
    scanned(tester, b"mine", b"foreign", marked=frozenset({b"mine"}))
    assert rows_of(tester) == {b"mine"}


def test_what_others_changed_is_not_found_by_a_later_scan(pair):
    tester = isolated(pair)
    tester.publish("in", batch(FEED))
    tester.answering = False
    tester.handle(ReconciliationDue(tester.now))
    before = counted(tester)
    scanned(tester, b"0", b"foreign")
    assert rows_of(tester) == {b"0"}
    assert counted(tester) == before + 1, "one cell of its own row is gone"


def test_where_no_update_was_lost_strangers_in_an_own_row_change_nothing(pair):
    tester = knowing_row_0(pair)
    before, known = counted(tester), contents_of(tester)
    altered(tester)
    answered(tester, OVERWRITTEN, b"0")
    assert (counted(tester), contents_of(tester)) == (before, known)


def test_what_an_altered_table_has_lost_counts(pair):
    tester = knowing_row_0(pair)
    before = counted(tester)
    altered(tester)
    answered(tester, {b"f:0": b"7", b"f:new": b"7"}, b"0")
    assert set(contents_of(tester)) == {(b"0", b"f:0")}
    assert counted(tester) == before + 1


@pytest.mark.parametrize("marked", [(), (b"0",)])
def test_after_a_loss_a_cell_of_an_own_row_counts_once_whoever_wrote_it_last(pair, marked):
    tester = knowing_row_0(pair)
    before = counted(tester)
    for _ in range(2):
        tester.handle(ReconciliationDue(tester.now))
        answered(tester, OVERWRITTEN, *marked)
        assert counted(tester) == before + 1, "one row"
        assert set(contents_of(tester)) == {(b"0", column) for column in OVERWRITTEN}


@pytest.mark.parametrize("first", ["altered", "lost"])
def test_a_loss_beside_an_altered_table_is_looked_for(pair, first):
    tester = knowing_row_0(pair)
    before = counted(tester)
    happenings = [altered, lambda one: one.handle(ReconciliationDue(one.now))]
    for happening in happenings if first == "altered" else reversed(happenings):
        happening(tester)
    answered(tester, {b"f:0": b"1", b"f:1": b"1"}, b"0")
    answered(tester, OVERWRITTEN, b"0")
    assert counted(tester) == before + 1


def test_a_table_altered_twice_is_looked_through_twice_for_what_is_gone_alone(pair):
    tester = knowing_row_0(pair)
    before = counted(tester)
    altered(tester, 1)
    altered(tester, 2)
    answered(tester, OVERWRITTEN, b"0")
    answered(tester, {b"f:0": b"7", b"f:new": b"7"}, b"0")
    assert set(contents_of(tester)) == {(b"0", b"f:0")}
    assert counted(tester) == before + 1


@pytest.mark.parametrize("lossy", [False, True])
def test_an_agent_that_takes_over_knows_whether_losses_are_looked_for(pair, lossy):
    tester = knowing_row_0(pair)
    before = counted(tester)
    altered(tester)
    if lossy:
        tester.handle(ReconciliationDue(tester.now))
    tester.restart()
    answered(tester, OVERWRITTEN, b"0")
    assert counted(tester) == before + lossy
