"""Only a dataflow's own updates and those of its feeders count, where it declares feeders."""

import pytest
from msgspec.structs import replace

from headgate.engine import (
    Bound,
    ContainerScanned,
    EngineTester,
    Metric,
    ReconciliationDue,
    RecordArrived,
    ScanBegun,
    ScanContainer,
    SequenceBound,
    ValueBound,
    counted_part,
)
from headgate.engine.cells import strangers
from headgate.engine.cells.arrivals import SERVER_TIME
from headgate.engine.cells.strangers import digest
from headgate.events import (
    VERSION,
    Origin,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
    partition_of,
    updates_topic,
)

FEED = Origin("flow", "a", "", 0)
COLLECTOR = Origin("", "", "", 0, "collector")
FOREIGN = Origin("other", "a", "run", 1)
BOUND = Bound("k", "in", sequence=SequenceBound(99), value=ValueBound(Metric.CHANGED, 9))


def isolated(pair, *feeders: str) -> EngineTester:
    return EngineTester(replace(pair(BOUND).spec, feeders=feeders))


def batch(*origins: Origin | None, first: int = 0) -> UpdateBatch:
    """Each request writes two cells of a row of its own."""
    count = len(origins)
    return UpdateBatch(
        VERSION,
        "o",
        1,
        first,
        0,
        "in",
        tuple(
            RequestPart(first + n, "put", Outcome.APPLIED, 1.0, 2, origin=origin)
            for n, origin in enumerate(origins)
        ),
        bytes(2 * count),
        tuple(b"%d" % (n // 2) for n in range(2 * count)),
        tuple(b"f:%d" % (n % 2) for n in range(2 * count)),
        (-1,) * (2 * count),
        (b"1",) * (2 * count),
    )


def counted(tester: EngineTester) -> int:
    (updates,) = tester.engine.explain(tester.now).actions[1].updates
    return updates.counted


@pytest.mark.parametrize(
    ("feeders", "count"),
    [((), 1), (("collector",), 2), (("other",), 2), (("other/a",), 2), (("other/b",), 1)],
)
def test_updates_of_feeders_count(pair, feeders, count):
    tester = isolated(pair, *feeders)
    tester.publish("in", batch(FEED, COLLECTOR, FOREIGN, None))
    assert counted(tester) == count


def test_everybodys_updates_count_without_isolation(pair):
    tester = pair(BOUND)
    tester.publish("in", batch(FEED, COLLECTOR, FOREIGN, None))
    assert counted(tester) == 4


def test_cells_that_others_wrote_are_no_state_of_the_dataflow(pair):
    tester = isolated(pair)
    tester.publish("in", batch(FOREIGN, None, FEED))
    (cells,) = tester.engine.cells.values()
    assert {row for row, _ in cells.columns.contents()} == {b"2"}


def test_two_dataflows_over_one_table_each_see_their_own(pair):
    one = isolated(pair)
    other = EngineTester(replace(one.spec, name="other"))
    for tester in (one, other):
        tester.publish("in", batch(FEED, FEED, FOREIGN))
    assert (counted(one), counted(other)) == (2, 1)


def test_an_altered_table_counts_no_stranger_during_the_first_scan_either(pair):
    tester = EngineTester(replace(pair(BOUND).spec, feeders=()), answering=False)
    (question,) = [i for i in tester.instructions if isinstance(i, ScanContainer)]
    tester.publish("in", batch(None))  # of a row that the dataflow does not know yet
    tester.tables["in"] = {(b"0", b"f:%d" % n): b"1" for n in range(2)}
    change = (TableChangeKind.MODIFIED, Outcome.APPLIED, 1.0)
    tester.publish("in", TableChange(VERSION, "o", 1, 1, 99, "in", *change))
    marked = frozenset({b"0"})  # its own write of another column of the row
    answer = replace(tester.answer(question), rows=[], columns=[], values=[], marked=marked)
    (again,) = [i for i in tester.tell(answer) if isinstance(i, ScanContainer)]
    tester.tell(replace(tester.answer(again), marked=marked))
    assert counted(tester) == 0


def test_a_duplicate_of_somebody_elses_update_hides_nothing(pair):
    tester = isolated(pair)
    tester.publish("in", batch(FOREIGN, FEED))
    tester.publish("in", batch(FOREIGN, FEED))
    assert counted(tester) == 1


def test_a_batch_of_ones_own_is_passed_on_as_it_is(pair):
    own = batch(FEED, FEED)
    assert counted_part(own, isolated(pair).spec) is own


def test_the_end_of_notify_columns_is_no_update(pair):
    tester = pair(Bound("k", "in", sequence=SequenceBound(99)))
    dropped = TableChangeKind.FAMILY_DROPPED
    for intent, family in enumerate(("hg", "f")):
        change = TableChange(
            VERSION, "o", 1, intent, intent, "in", dropped, Outcome.APPLIED, 1.0, family
        )
        tester.publish("in", change)
        assert counted(tester) == intent


def scanned(tester: EngineTester, *rows: bytes, marked: frozenset[bytes] = frozenset()) -> None:
    found = ContainerScanned(
        tester.now, "in", "in", rows, (b"f:0",) * len(rows), (b"1",) * len(rows), marked=marked
    )
    tester.tell(found)


def altered(tester: EngineTester, sequence: int = 1) -> None:
    change = (TableChangeKind.MODIFIED, Outcome.APPLIED, 1.0)
    tester.publish("in", TableChange(VERSION, "o", 1, sequence, sequence, "in", *change))


def answered(tester: EngineTester, cells: dict[bytes, bytes], *marked: bytes) -> None:
    """Have a scan find these values of row ``0`` by column."""
    found = (b"0",) * len(cells), tuple(cells), tuple(cells.values())
    tester.tell(ContainerScanned(tester.now, "in", "in", *found, marked=frozenset(marked)))


def contents_of(tester: EngineTester) -> dict[tuple[bytes, bytes], object]:
    (cells,) = tester.engine.cells.values()
    return cells.columns.contents()


def knowing_row_0(pair) -> EngineTester:
    """A dataflow that knows its own two cells of row ``0``, and whose scans are answered here."""
    tester = isolated(pair)
    tester.publish("in", batch(FEED))
    tester.answering = False
    return tester


def rows_of(tester: EngineTester) -> set[bytes]:
    (cells,) = tester.engine.cells.values()
    return {row for row, _ in cells.columns.contents()}


def test_the_first_scan_finds_rows_that_the_dataflow_has_marked(pair):
    tester = EngineTester(replace(pair(BOUND).spec, feeders=()), answering=False)
    scanned(tester, b"mine", b"foreign", marked=frozenset({b"mine"}))
    assert rows_of(tester) == {b"mine"}


def test_what_others_changed_is_not_found_by_a_later_scan(pair):
    tester = isolated(pair)
    tester.publish("in", batch(FEED))
    tester.answering = False
    tester.tell(ReconciliationDue(tester.now))
    before = counted(tester)
    scanned(tester, b"0", b"foreign")
    assert rows_of(tester) == {b"0"}
    assert counted(tester) == before + 1, "one cell of its own row is gone"


OVERWRITTEN = {b"f:0": b"7", b"f:1": b"1", b"f:new": b"7"}
"""What a stranger made of row ``0``: one cell has another value, and one is new."""


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
        tester.tell(ReconciliationDue(tester.now))
        answered(tester, OVERWRITTEN, *marked)
        assert counted(tester) == before + 1, "one row"
        assert set(contents_of(tester)) == {(b"0", column) for column in OVERWRITTEN}


@pytest.mark.parametrize("first", ["altered", "lost"])
def test_a_loss_beside_an_altered_table_is_looked_for(pair, first):
    tester = knowing_row_0(pair)
    before = counted(tester)
    happenings = [altered, lambda one: one.tell(ReconciliationDue(one.now))]
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
        tester.tell(ReconciliationDue(tester.now))
    tester.restart()
    answered(tester, OVERWRITTEN, b"0")
    assert counted(tester) == before + lossy


def wrote(
    tester: EngineTester,
    origin: Origin | None,
    cells: dict[bytes, bytes | None],
    sequence: int,
    outcome: Outcome = Outcome.APPLIED,
    *,
    delete: UpdateKind = UpdateKind.DELETE_COLUMN,
    timestamp: int = -1,
    row: bytes = b"0",
) -> None:
    """Have somebody write these values of a row at Unix second 1, or delete the columns."""
    kinds = bytes(delete if value is None else UpdateKind.PUT for value in cells.values())
    request = RequestPart(sequence, "put", outcome, 1.0, len(cells), origin=origin)
    rows = (row,) * len(cells)
    values = tuple(cells.values())
    timestamps = (timestamp,) * len(cells)
    tester.publish(
        "in",
        UpdateBatch(
            VERSION, "o", 1, sequence, 0, "in", (request,), kinds, rows, tuple(cells), timestamps,
            values,
        ),
    )  # fmt: skip


OWN = {b"f:0": b"1", b"f:1": b"1"}
"""What a dataflow knows of row ``0`` as its own."""


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("writer", [FOREIGN, None])
def test_what_strangers_were_told_to_have_written_is_no_lost_update(pair, writer, restarted):
    tester = knowing_row_0(pair)
    wrote(tester, writer, {b"f:0": b"7", b"f:new": b"7"}, 1)
    before, known = counted(tester), contents_of(tester)
    if restarted:
        tester.restart()
    for _ in range(2):
        tester.tell(ReconciliationDue(tester.now))
        answered(tester, OVERWRITTEN, b"0")
        assert (counted(tester), contents_of(tester)) == (before, known)


def test_what_differs_from_what_strangers_were_told_to_have_written_counts(pair):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 1)
    before = counted(tester)
    tester.tell(ReconciliationDue(tester.now))
    answered(tester, {**OWN, b"f:0": b"8"}, b"0")
    assert counted(tester) == before + 1
    assert contents_of(tester)[b"0", b"f:0"] == 8


def test_an_own_write_that_was_lost_beside_a_strangers_cell_is_found(pair):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:new": b"7"}, 1)
    before = counted(tester)
    tester.tell(ReconciliationDue(tester.now))
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
    tester.tell(ReconciliationDue(tester.now))
    answered(tester, {**OWN, b"f:0": b"7"}, b"0")
    assert counted(tester) == before + 1


def test_what_strangers_write_while_a_scan_runs_is_newer_than_it(pair):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 1)
    before, known = counted(tester), contents_of(tester)
    tester.tell(ReconciliationDue(tester.now))
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
    tester.tell(ReconciliationDue(tester.now))
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
            tester.tell(record)
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
        tester.tell(RecordArrived(tester.now, topic, partition, 50, emptied, 2))
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


# What strangers did otherwise than by a plain put.


def looked_at_again(tester: EngineTester, cells: dict[bytes, bytes], row: bytes = b"0") -> int:
    """Have a scan after a loss find these cells of a row; return how many updates it counts."""
    before = counted(tester)
    tester.tell(ReconciliationDue(tester.now))
    here = (b"0",) * 2 if row != b"0" else ()
    found = (*here, *(row,) * len(cells))
    columns = (*(OWN if here else ()), *cells)
    values = (*(OWN.values() if here else ()), *cells.values())
    marked = frozenset({b"0", row})
    tester.tell(ContainerScanned(tester.now, "in", "in", found, columns, values, marked=marked))
    return counted(tester) - before


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


@pytest.mark.parametrize(("timestamp", "stands"), [(5, False), (2_000, True)])
def test_a_strangers_put_for_a_time_to_come_stands_before_own_ones(pair, timestamp, stands):
    tester = knowing_row_0(pair)  # everything is written at 1,000 ms
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


# What strangers wrote before the dataflow knew the row.


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
    tester.tell(ScanBegun(tester.now, "in", "in"))
    scanned(tester, b"0", marked=frozenset({b"0"}))
    assert contents_of(tester) == {(b"0", b"f:0"): 2}


@pytest.mark.parametrize("lossy", [False, True])
def test_a_scan_settles_what_is_remembered_of_cells_that_are_gone(pair, lossy):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 1, Outcome.UNKNOWN, row=b"foreign")
    wrote(tester, FOREIGN, {b"f:0": None}, 2, Outcome.UNKNOWN, row=b"foreign")
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 3, Outcome.UNKNOWN)
    if lossy:
        tester.tell(ReconciliationDue(tester.now))
    else:
        altered(tester, 4)
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 5, row=b"since")
    answered(tester, OWN, b"0")
    (cells,) = tester.engine.cells.values()
    assert set(cells.strangers.writes) == {(b"0", b"f:0"), (b"since", b"f:0")}


# Who of both was last.


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
            tester.tell(record)
    for value in (b"7", b"8"):
        assert looked_at_again(tester, {**OWN, b"f:0": value}) == 0


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
