"""Only a dataflow's own updates and those of its feeders count, where it declares feeders."""

import pytest
from isolated import BOUND, COLLECTOR, FEED, FOREIGN, batch, counted, isolated
from msgspec.structs import replace

from headgate.engine import Bound, EngineTester, ScanContainer, SequenceBound, counted_part
from headgate.events import VERSION, ContainerId, Outcome, TableChange, TableChangeKind

IN = ContainerId("in")


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
    (again,) = [i for i in tester.handle(answer) if isinstance(i, ScanContainer)]
    tester.handle(replace(tester.answer(again), marked=marked))
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
    tester = pair(Bound("k", IN, sequence=SequenceBound(99)))
    dropped = TableChangeKind.FAMILY_DROPPED
    for intent, family in enumerate(("hg", "f")):
        change = TableChange(
            VERSION, "o", 1, intent, intent, "in", dropped, Outcome.APPLIED, 1.0, family
        )
        tester.publish("in", change)
        assert counted(tester) == intent
