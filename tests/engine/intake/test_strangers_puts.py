"""What strangers were told to have put is no lost update of a dataflow's own."""

import pytest
from isolated import (
    FEED,
    FOREIGN,
    OVERWRITTEN,
    OWN,
    altered,
    answered,
    contents_of,
    counted,
    knowing_row_0,
    looked_at_again,
    rows_of,
    wrote,
)

from headgate.engine import ReconciliationDue, RecordArrived
from headgate.engine.cells import strangers
from headgate.engine.cells.arrivals import SERVER_TIME
from headgate.engine.cells.strangers import digest
from headgate.events import (
    VERSION,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    partition_of,
    updates_topic,
)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("writer", [FOREIGN, None])
def test_what_strangers_were_told_to_have_written_is_no_lost_update(pair, writer, restarted):
    tester = knowing_row_0(pair)
    wrote(tester, writer, {b"f:0": b"7", b"f:new": b"7"}, 1)
    before, known = counted(tester), contents_of(tester)
    if restarted:
        tester.restart()
    for _ in range(2):
        tester.handle(ReconciliationDue(tester.now))
        answered(tester, OVERWRITTEN, b"0")
        assert (counted(tester), contents_of(tester)) == (before, known)


def test_what_differs_from_what_strangers_were_told_to_have_written_counts(pair):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 1)
    before = counted(tester)
    tester.handle(ReconciliationDue(tester.now))
    answered(tester, {**OWN, b"f:0": b"8"}, b"0")
    assert counted(tester) == before + 1
    assert contents_of(tester)[b"0", b"f:0"] == 8


def test_an_own_write_that_was_lost_beside_a_strangers_cell_is_found(pair):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:new": b"7"}, 1)
    before = counted(tester)
    tester.handle(ReconciliationDue(tester.now))
    answered(tester, {**OWN, b"f:1": b"5", b"f:new": b"7"}, b"0")
    assert counted(tester) == before + 1
    assert contents_of(tester) == {(b"0", b"f:0"): 1, (b"0", b"f:1"): 5}


@pytest.mark.parametrize(
    "later",
    [
        (FEED, {b"f:0": b"3"}, Outcome.APPLIED),
        (FOREIGN, {b"f:0": None}, Outcome.APPLIED),
        (FOREIGN, {b"f:0": b"3"}, Outcome.APPLIED),
    ],
)
def test_what_a_stranger_wrote_does_not_stand_after_a_later_write(pair, later):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 1)
    origin, cells, outcome = later
    wrote(tester, origin, cells, 2, outcome)
    before = counted(tester)
    tester.handle(ReconciliationDue(tester.now))
    answered(tester, {**OWN, b"f:0": b"7"}, b"0")
    assert counted(tester) == before + 1


def test_what_strangers_write_while_a_scan_runs_is_newer_than_it(pair):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 1)
    before, known = counted(tester), contents_of(tester)
    tester.handle(ReconciliationDue(tester.now))
    wrote(tester, FOREIGN, {b"f:0": b"8", b"f:new": b"8"}, 2)
    answered(tester, {**OWN, b"f:0": b"7", b"f:new": b"8"}, b"0")
    assert (counted(tester), contents_of(tester)) == (before, known)


def test_a_cell_that_is_gone_whoever_deleted_it_need_not_be_read_any_more(pair):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:0": None}, 1)
    wrote(tester, FEED, {b"f:0": None}, 2, Outcome.UNKNOWN)
    assert tester.engine.explain(tester.now).containers[0].unsettled == 1
    altered(tester, 3)
    answered(tester, {b"f:1": b"1"}, b"0")
    assert tester.engine.explain(tester.now).containers[0].unsettled == 0


def test_an_own_put_that_a_strangers_delete_hides_is_no_lost_cell(pair):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:9": None}, 1, timestamp=9_000_000)
    wrote(tester, FEED, {b"f:9": b"3"}, 2)
    before = counted(tester)
    tester.handle(ReconciliationDue(tester.now))
    answered(tester, OWN, b"0")
    assert counted(tester) == before


def test_of_a_delete_of_what_nobody_has_nothing_is_remembered(pair):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:9": None}, 1)
    (cells,) = tester.engine.cells.values()
    assert not cells.strangers.writes


def test_rows_of_which_the_dataflow_has_only_deleted_are_not_its_own(pair):
    tester = knowing_row_0(pair)
    rows = [b"row %d" % number for number in range(9)]
    for number, row in enumerate(rows):
        wrote(tester, FEED, {b"f:0": None}, 1 + 2 * number, row=row)
        wrote(tester, FOREIGN, {b"f:0": b"7"}, 2 + 2 * number, row=row)
    assert rows_of(tester) == {b"0"}
    (cells,) = tester.engine.cells.values()
    assert {row for row, _ in cells.strangers.writes.others} == set(rows)


def test_records_taken_together_tell_of_strangers_too(pair):
    one = knowing_row_0(pair)
    records = []
    for sequence in range(1, 40):
        request = RequestPart(sequence, "put", Outcome.APPLIED, 1.0, 1, origin=FOREIGN)
        message = UpdateBatch(
            VERSION, "o", 1, sequence, 0, "in", (request,), bytes(1), (b"0",), (b"f:new",), (-1,),
            (b"%d" % sequence,),
        )  # fmt: skip
        topic = updates_topic("in")
        records.append(RecordArrived(one.now, topic, 0, sequence, message, 1))
    assert one.engine.arrive(records)[0] > 1, "in one pass"
    while one.engine.state.deliveries.positions[topic] != [40]:
        one.engine.arrive(records[one.engine.state.deliveries.positions[topic][0] - 1 :])
    assert one.engine.cells["in", "in"].strangers.writes.cells == {
        (b"0", b"f:new"): ((SERVER_TIME, digest(b"39")),)
    }


@pytest.mark.parametrize("together", [False, True])
def test_who_of_two_strangers_wrote_last_is_not_asked(pair, together):
    tester = knowing_row_0(pair)
    known, records = contents_of(tester), []
    for number in range(1, 40):
        observer = f"observer-{number % 2}"
        request = RequestPart(number, "put", Outcome.APPLIED, 1.0, 2, origin=FOREIGN)
        message = UpdateBatch(
            VERSION, observer, 1, number // 2, 0, "in", (request,), bytes(2), (b"0", b"0"),
            (b"f:0", b"f:new"), (-1, -1), (b"7", b"7"),
        )  # fmt: skip
        records.append(RecordArrived(tester.now, updates_topic("in"), 0, number, message, 1))
    if together:
        assert tester.engine.arrive(records)[0] > 1, "in one pass"
    else:
        for record in records:
            tester.handle(record)
    assert tester.engine.explain(tester.now).containers[0].unsettled == 0
    assert contents_of(tester) == known


def test_no_more_of_strangers_is_remembered_than_a_limit(pair, monkeypatch):
    monkeypatch.setattr(strangers, "_MOST", 3)
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:%d" % n: b"7" for n in range(5)}, 1)
    wrote(tester, FOREIGN, {b"f:2": b"7", b"f:9": b"7"}, 2)
    (cells,) = tester.engine.cells.values()
    assert [column for _, column in cells.strangers.writes.cells] == [b"f:4", b"f:2", b"f:9"]


def test_of_rows_that_the_dataflow_does_not_know_less_is_remembered(pair, monkeypatch):
    monkeypatch.setattr(strangers, "_MOST", 3)
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 1)
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 2, row=b"later")
    wrote(tester, FEED, {b"f:1": b"7"}, 3, row=b"later")
    wrote(tester, FOREIGN, {b"f:%d" % n: b"7" for n in range(9)}, 4, row=b"foreign")
    (cells,) = tester.engine.cells.values()
    assert set(cells.strangers.writes.cells) == {(b"0", b"f:0"), (b"later", b"f:0")}
    assert set(cells.strangers.writes.others) == {(b"foreign", b"f:8")}


def test_of_a_table_that_was_emptied_nothing_told_is_left(pair):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 1)
    (cells,) = tester.engine.cells.values()
    assert cells.strangers.writes.cells
    change = (TableChangeKind.TRUNCATED, Outcome.APPLIED, 1.0)
    tester.publish("in", TableChange(VERSION, "o", 1, 2, 2, "in", *change))
    assert not cells.strangers.writes.cells


def test_a_table_that_was_emptied_in_one_partition_has_lost_nothing_in_the_others(pair):
    tester = knowing_row_0(pair)
    here = partition_of(b"0", 2)
    topic = updates_topic("in")
    for partition in (here, 1 - here):
        change = (TableChangeKind.TRUNCATED, Outcome.APPLIED, 1.0)
        emptied = TableChange(VERSION, "o", 1, partition, 9, "in", *change)
        tester.handle(RecordArrived(tester.now, topic, partition, 50, emptied, 2))
        if partition == here:
            wrote(tester, FOREIGN, {b"f:0": b"7"}, 10)
    (cells,) = tester.engine.cells.values()
    assert set(cells.strangers.writes) == {(b"0", b"f:0")}


def test_of_a_family_that_was_dropped_nothing_told_is_left(pair):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:0": b"7", b"g:0": b"7"}, 1)
    change = (TableChangeKind.FAMILY_DROPPED, Outcome.APPLIED, 1.0, "g")
    tester.publish("in", TableChange(VERSION, "o", 1, 2, 2, "in", *change))
    (cells,) = tester.engine.cells.values()
    assert set(cells.strangers.writes) == {(b"0", b"f:0")}


@pytest.mark.parametrize("last", [FEED, FOREIGN])
def test_in_one_message_who_was_last_is_told(pair, last):
    tester = knowing_row_0(pair)
    origins = (FOREIGN, FEED) if last is FEED else (FEED, FOREIGN)
    requests = tuple(
        RequestPart(1 + n, "put", Outcome.APPLIED, 1.0, 1, origin=origin)
        for n, origin in enumerate(origins)
    )
    values = tuple(b"3" if origin is FEED else b"7" for origin in origins)
    cells = (bytes(2), (b"0",) * 2, (b"f:0",) * 2, (-1,) * 2, values)
    tester.publish("in", UpdateBatch(VERSION, "o", 1, 1, 0, "in", requests, *cells))
    assert looked_at_again(tester, {**OWN, b"f:0": b"7"}) == (last is FEED)


@pytest.mark.parametrize("together", [False, True])
def test_of_two_strangers_either_may_have_been_last(pair, together):
    tester = knowing_row_0(pair)
    records = []
    for number in range(1, 40):
        observer, value = (("p", b"7"), ("q", b"8"))[number % 2]
        request = RequestPart(number, "put", Outcome.APPLIED, 1.0, 1, origin=FOREIGN)
        cells = (bytes(1), (b"0",), (b"f:0",), (-1,), (value,))
        message = UpdateBatch(VERSION, observer, 1, number // 2, 0, "in", (request,), *cells)
        records.append(RecordArrived(tester.now, updates_topic("in"), 0, number, message, 1))
    if together:
        assert tester.engine.arrive(records)[0] == len(records), "in one pass"
    else:
        for record in records:
            tester.handle(record)
    for value in (b"7", b"8"):
        assert looked_at_again(tester, {**OWN, b"f:0": value}) == 0
