"""Only a dataflow's own updates and those of its feeders count, where it declares feeders."""

import pytest
from msgspec.structs import replace

from headgate.engine import (
    Bound,
    ContainerScanned,
    EngineTester,
    Metric,
    ReconciliationDue,
    SequenceBound,
    ValueBound,
    counted_part,
)
from headgate.events import (
    VERSION,
    Origin,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
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
