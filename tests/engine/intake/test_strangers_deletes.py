"""What strangers did otherwise than by a plain put: deletes, increments, and what is in doubt."""

import pytest
from isolated import (
    FEED,
    FOREIGN,
    OWN,
    altered,
    answered,
    batch,
    contents_of,
    counted,
    knowing_row_0,
    looked_at_again,
    wrote,
)
from msgspec.structs import replace

from headgate.engine import RecordArrived
from headgate.engine.cells import strangers
from headgate.events import VERSION, Outcome, RequestPart, UpdateBatch, UpdateKind, updates_topic

DELETES = {
    UpdateKind.DELETE_COLUMN: {b"f:0": None, b"f:1": None},
    UpdateKind.DELETE_CELL: {b"f:0": None, b"f:1": None},
    UpdateKind.DELETE_FAMILY: {b"f:": None},
    UpdateKind.DELETE_FAMILY_VERSION: {b"f:": None},
    UpdateKind.DELETE_ROW: {b"": None},
}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("kind", DELETES)
def test_what_strangers_were_told_to_have_deleted_is_no_lost_update(pair, kind, restarted):
    tester = knowing_row_0(pair)
    known = contents_of(tester)
    wrote(tester, FOREIGN, DELETES[kind], 1, delete=kind)
    if restarted:
        tester.restart()
    assert looked_at_again(tester, {}) == 0
    assert looked_at_again(tester, {}) == 0
    assert contents_of(tester) == known


@pytest.mark.parametrize("kind", DELETES)
def test_what_strangers_deleted_is_no_loss_of_an_altered_table(pair, kind):
    tester = knowing_row_0(pair)
    before, known = counted(tester), contents_of(tester)
    wrote(tester, FOREIGN, DELETES[kind], 1, delete=kind)
    altered(tester, 2)
    answered(tester, {}, b"0")
    assert (counted(tester), contents_of(tester)) == (before, known)


@pytest.mark.parametrize("kind", DELETES)
def test_an_own_write_that_was_lost_after_a_strangers_delete_is_found(pair, kind):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, DELETES[kind], 1, delete=kind)
    assert looked_at_again(tester, {b"f:0": b"5"}) == 1
    assert contents_of(tester) == {(b"0", b"f:0"): 5, (b"0", b"f:1"): 1}


@pytest.mark.parametrize("kind", DELETES)
def test_an_own_delete_that_was_lost_is_found_after_a_write_since_the_strangers_delete(pair, kind):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, DELETES[kind], 1, delete=kind)
    wrote(tester, FEED, {b"f:0": b"2"}, 2)
    assert looked_at_again(tester, {}) == 1
    assert set(contents_of(tester)) == {(b"0", b"f:1")}


def test_a_strangers_put_and_its_own_delete_leave_nothing_to_find(pair):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:new": b"7"}, 1)
    wrote(tester, FOREIGN, {b"f:": None}, 2, delete=UpdateKind.DELETE_FAMILY)
    wrote(tester, FOREIGN, {b"f:1": b"1"}, 3)
    assert looked_at_again(tester, {b"f:1": b"1"}) == 0
    assert looked_at_again(tester, {b"f:1": b"1", b"f:new": b"7"}) == 1, "who wrote it again?"


@pytest.mark.parametrize("timestamp", [-1, 5])
@pytest.mark.parametrize("outcome", [Outcome.APPLIED, Outcome.UNKNOWN])
def test_whether_a_strangers_put_stands_need_not_be_known(pair, timestamp, outcome):
    """It may have another timestamp than the server's, or come to nothing."""
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 1)
    wrote(tester, FOREIGN, {b"f:0": b"8"}, 2, outcome, timestamp=timestamp)
    known = contents_of(tester)
    assert looked_at_again(tester, {**OWN, b"f:0": b"8"}) == 0
    replaced = timestamp == -1 and outcome is Outcome.APPLIED
    assert contents_of(tester) == known
    assert looked_at_again(tester, {**OWN, b"f:0": b"7"}) == replaced
    assert looked_at_again(tester, {**OWN, b"f:0": b"9"}) == 1


@pytest.mark.parametrize("timestamp", [-1, 5])
def test_whether_a_strangers_delete_had_an_effect_need_not_be_known(pair, timestamp):
    tester = knowing_row_0(pair)
    outcome = Outcome.UNKNOWN if timestamp == -1 else Outcome.APPLIED
    wrote(tester, FOREIGN, {b"f:0": None}, 1, outcome, timestamp=timestamp)
    assert looked_at_again(tester, OWN) == 0
    assert looked_at_again(tester, {b"f:1": b"1"}) == 0
    assert looked_at_again(tester, {b"f:1": b"2"}) == 1


@pytest.mark.parametrize(("timestamp", "stands"), [(5, False), (200_000, True)])
def test_a_strangers_put_for_a_time_to_come_stands_before_own_ones(pair, timestamp, stands):
    tester = knowing_row_0(pair)  # everything is written at 100,000 ms
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 1, timestamp=timestamp)
    wrote(tester, FEED, {b"f:0": b"3"}, 2)
    assert looked_at_again(tester, {**OWN, b"f:0": b"7"}) == (not stands)


def test_an_own_put_with_a_timestamp_hides_no_later_version(pair):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:0": b"6"}, 1)
    wrote(tester, FOREIGN, {b"f:1": b"7"}, 2, timestamp=90)
    wrote(tester, FEED, {b"f:0": b"3", b"f:1": b"3"}, 3, timestamp=80)
    assert looked_at_again(tester, {b"f:0": b"6", b"f:1": b"7"}) == 0
    wrote(tester, FEED, {b"f:1": b"4"}, 4, timestamp=90)
    assert looked_at_again(tester, {b"f:0": b"6", b"f:1": b"7"}) == 1


def test_of_an_increment_without_its_result_nobody_knows_what_stands(pair):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 1)
    (request,) = batch(FOREIGN).requests
    request = replace(request, intent=2, cells=1)
    kinds = bytes([UpdateKind.INCREMENT_DELTA])
    one = (kinds, (b"0",), (b"f:0",), (-1,), (b"1",))
    tester.publish("in", UpdateBatch(VERSION, "o", 1, 2, 0, "in", (request,), *one))
    assert looked_at_again(tester, {**OWN, b"f:0": b"7"}) == 1


def test_of_many_that_may_stand_the_latest_are_remembered(pair, monkeypatch):
    monkeypatch.setattr(strangers, "_MOST_VERSIONS", 2)
    tester = knowing_row_0(pair)
    for sequence, number in enumerate((5, 6, 5, 7), 1):
        wrote(tester, FOREIGN, {b"f:0": b"%d" % number}, sequence, Outcome.UNKNOWN)
    for number in (5, 7):
        assert looked_at_again(tester, {**OWN, b"f:0": b"%d" % number}) == 0
    assert looked_at_again(tester, {**OWN, b"f:0": b"6"}) == 1


def test_a_pass_does_not_hide_what_strangers_delete_in_it(pair):
    tester = knowing_row_0(pair)
    records = []
    for number in range(1, 40):
        own = number < 20
        request = RequestPart(number, "put", Outcome.APPLIED, 1.0, 1, origin=FEED if own else None)
        kind = UpdateKind.PUT if own else UpdateKind.DELETE_FAMILY
        row = b"r%d" % (number % 20)
        cells = (bytes([kind]), (row,), (b"f:0" if own else b"f:",), (-1,), (b"1",))
        message = UpdateBatch(VERSION, "o", 1, number, 0, "in", (request,), *cells)
        records.append(RecordArrived(tester.now, updates_topic("in"), 0, number, message, 1))
    while records:
        del records[: tester.engine.arrive(records)[0]]
    assert looked_at_again(tester, OWN) == 0
