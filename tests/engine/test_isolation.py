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
    ScanContainer,
    SequenceBound,
    ValueBound,
    counted_part,
    told,
)
from headgate.engine.told import digest
from headgate.events import (
    VERSION,
    Origin,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
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
    assert {row for row, _ in cells.contents()} == {b"2"}


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
    return cells.contents()


def knowing_row_0(pair) -> EngineTester:
    """A dataflow that knows its own two cells of row ``0``, and whose scans are answered here."""
    tester = isolated(pair)
    tester.publish("in", batch(FEED))
    tester.answering = False
    return tester


def rows_of(tester: EngineTester) -> set[bytes]:
    (cells,) = tester.engine.cells.values()
    return {row for row, _ in cells.contents()}


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
) -> None:
    """Have somebody write these values of row ``0``, or delete the columns."""
    kinds = bytes(
        UpdateKind.DELETE_COLUMN if value is None else UpdateKind.PUT for value in cells.values()
    )
    request = RequestPart(sequence, "put", outcome, 1.0, len(cells), origin=origin)
    rows = (b"0",) * len(cells)
    values = tuple(cells.values())
    timestamps = (-1,) * len(cells)
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
        (FOREIGN, {b"f:0": b"3"}, Outcome.UNKNOWN),
    ],
)
def test_a_strangers_cell_that_was_written_since_is_in_doubt(pair, later):
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
    while one.engine.deliveries.positions[topic] != [40]:
        one.engine.arrive(records[one.engine.deliveries.positions[topic][0] - 1 :])
    assert one.engine.cells["in", "in"].told.cells == {(b"0", b"f:new"): digest(b"39")}


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
    monkeypatch.setattr(told, "_MOST", 3)
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:%d" % n: b"7" for n in range(5)}, 1)
    wrote(tester, FOREIGN, {b"f:2": b"7", b"f:9": b"7"}, 2)
    (cells,) = tester.engine.cells.values()
    assert [column for _, column in cells.told.cells] == [b"f:4", b"f:2", b"f:9"]


def test_rows_that_the_dataflow_does_not_know_take_no_memory(pair):
    tester = isolated(pair)
    tester.publish("in", batch(FOREIGN, FOREIGN, FEED))
    (cells,) = tester.engine.cells.values()
    assert not cells.told.cells


def test_of_a_table_that_was_emptied_nothing_told_is_left(pair):
    tester = knowing_row_0(pair)
    wrote(tester, FOREIGN, {b"f:0": b"7"}, 1)
    (cells,) = tester.engine.cells.values()
    assert cells.told.cells
    change = (TableChangeKind.TRUNCATED, Outcome.APPLIED, 1.0)
    tester.publish("in", TableChange(VERSION, "o", 1, 2, 2, "in", *change))
    assert not cells.told.cells
