"""What strangers wrote before the dataflow knew the row."""

import pytest
from isolated import (
    BOUND,
    FEED,
    FOREIGN,
    OWN,
    altered,
    answered,
    contents_of,
    knowing_row_0,
    looked_at_again,
    scanned,
    wrote,
)
from msgspec.structs import replace

from headgate.engine import EngineTester, ReconciliationDue, ScanBegun
from headgate.events import ContainerId, Outcome

IN = ContainerId("in")


@pytest.mark.parametrize("restarted", [False, True])
def test_what_strangers_wrote_before_a_row_was_known_is_no_lost_update(pair, restarted):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 1, row=b"later")
    if restarted:
        tester.restart()
    wrote(tester, FEED, {b"f:1": b"2"}, 2, row=b"later")
    known = contents_of(tester)
    assert looked_at_again(tester, {b"f:0": b"7", b"f:1": b"2"}, b"later") == 0
    assert contents_of(tester) == known
    assert looked_at_again(tester, {b"f:0": b"8", b"f:1": b"2"}, b"later") == 1


def test_what_stood_in_a_row_that_nobody_had_marked_is_no_lost_update(pair):
    tester = EngineTester(replace(pair(BOUND).spec, feeders=()), answering=False)
    scanned(tester, b"0")
    wrote(tester, FEED, {b"f:1": b"2"}, 1)
    assert looked_at_again(tester, {b"f:0": b"1", b"f:1": b"2"}) == 0
    assert looked_at_again(tester, {b"f:0": b"8", b"f:1": b"2"}) == 1


def test_what_was_told_during_the_first_scan_is_newer_than_what_it_found(pair):
    tester = EngineTester(replace(pair(BOUND).spec, feeders=()), answering=False)
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 1)
    scanned(tester, b"0")
    wrote(tester, FEED, {b"f:1": b"2"}, 2)
    assert looked_at_again(tester, {b"f:0": b"7", b"f:1": b"2"}) == 0
    assert looked_at_again(tester, {b"f:0": b"1", b"f:1": b"2"}) == 1


def test_the_first_scan_takes_no_strangers_value_for_an_own_one(pair):
    tester = EngineTester(replace(pair(BOUND).spec, feeders=()), answering=False)
    wrote(tester, FEED, {b"f:0": b"2"}, 1)
    wrote(tester, FOREIGN, {b"f:0": b"1", b"f:1": b"1"}, 2)
    tester.handle(ScanBegun(tester.now, IN, "in"))
    scanned(tester, b"0", marked=frozenset({b"0"}))
    assert contents_of(tester) == {(b"0", b"f:0"): 2}


@pytest.mark.parametrize("lossy", [False, True])
def test_a_scan_settles_what_is_remembered_of_cells_that_are_gone(pair, lossy):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 1, Outcome.UNKNOWN, row=b"foreign")
    wrote(tester, FOREIGN, {b"f:0": None}, 2, Outcome.UNKNOWN, row=b"foreign")
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 3, Outcome.UNKNOWN)
    if lossy:
        tester.handle(ReconciliationDue(tester.now))
    else:
        altered(tester, 4)
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 5, row=b"since")
    answered(tester, OWN, b"0")
    (cells,) = tester.engine.cells.values()
    assert set(cells.strangers.writes) == {(b"0", b"f:0"), (b"since", b"f:0")}
