"""Tables that are emptied, dropped or changed while watched; scans."""

import pytest

from headgate.engine import (
    Bound,
    ContainerScanned,
    Count,
    Metric,
    ScanContainer,
    SequenceBound,
    SequenceUnit,
    ValueBound,
    launched,
)
from headgate.events import (
    VERSION,
    ContainerId,
    Item,
    Outcome,
    TableChange,
    TableChangeKind,
    partition_of,
)

IN = ContainerId("in")

PERCENT = Bound("k", IN, sequence=SequenceBound(1e6, SequenceUnit.PERCENT))


LATER = 2e6
"""When others did something: long after what stands there was written."""


def change(kind: TableChangeKind, *, sequence: int = 50, family: str = "", outcome=Outcome.APPLIED):
    return TableChange(VERSION, "o", 1, sequence, 7, "in", kind, outcome, LATER, family)


def container(tester):
    return tester.engine.explain(0).containers[0]


def updates(tester) -> int:
    ((_, pending),) = tester.engine.actions["b"].all_parts()
    return pending.updates


def filled(pair, rows, *bounds, **options):
    tester = pair(*(bounds or (PERCENT,)), **options)
    tester.write("in", rows(6, 10))
    tester.request("b")
    tester.finish("b")
    return tester


@pytest.mark.parametrize("kind", [TableChangeKind.TRUNCATED, TableChangeKind.DROPPED])
def test_an_emptied_table_has_lost_all_its_elements(pair, rows, kind):
    tester = filled(pair, rows)
    tester.publish("in", change(kind))
    assert container(tester).elements == 0
    assert updates(tester) == 6


def test_lost_elements_count_as_changed(pair, rows):
    bound = Bound("k", IN, value=ValueBound(Metric.RELATIVE, 1))
    tester = filled(pair, rows, bound)
    tester.publish("in", change(TableChangeKind.TRUNCATED))
    assert launched(tester.wave("a")) == ["b"]


def test_each_partition_is_emptied_where_its_own_message_stands(pair, rows):
    tester = filled(pair, rows, partitions=3)
    total = 6
    for partition in range(3):
        tester.publish("in", change(TableChangeKind.TRUNCATED), partition=partition)
        total -= sum(partition_of(b"r%d" % i, 3) == partition for i in range(6))
        assert container(tester).elements == total
    assert updates(tester) == 6


def test_what_each_partition_has_lost_is_written_down(pair, rows):
    tester = filled(pair, rows, partitions=3)
    before = len(tester.decisions())
    lost = [
        sum(partition_of(b"r%d" % i, 3) == partition for i in range(6)) for partition in range(3)
    ]
    for partition in range(3):
        tester.publish("in", change(TableChangeKind.TRUNCATED), partition=partition)
    words = [one.words for one in tester.decisions()[before:]]
    assert words == [f"table 'in' truncated: {count} elements removed" for count in lost if count]


def test_a_table_that_was_altered_is_written_down_once(pair, rows):
    tester = filled(pair, rows, partitions=3)
    before = len(tester.decisions())
    for partition in range(3):
        tester.publish("in", change(TableChangeKind.MODIFIED), partition=partition)
    assert [one.words for one in tester.decisions()[before:]] == ["table 'in' modified"]


def test_what_is_written_after_the_change_stays(pair, rows):
    tester = filled(pair, rows, partitions=3)
    tester.publish("in", change(TableChangeKind.TRUNCATED), partition=partition_of(b"r0", 3))
    tester.write("in", rows(1))
    for partition in range(3):
        tester.publish("in", change(TableChangeKind.TRUNCATED, sequence=51), partition=partition)
    assert container(tester).elements == 1


def test_a_change_published_again_removes_nothing_more(pair, rows):
    tester = filled(pair, rows)
    tester.publish("in", change(TableChangeKind.TRUNCATED))
    tester.write("in", rows(2))
    tester.publish("in", change(TableChangeKind.TRUNCATED, sequence=51))
    assert container(tester).elements == 2


def test_a_dropped_family_takes_only_its_columns(pair):
    tester = pair(PERCENT, count=Count.CELLS)
    tester.write("in", {b"r": {b"f:x": b"1", b"g:x": b"1"}})
    tester.publish("in", change(TableChangeKind.FAMILY_DROPPED, family="f"))
    assert container(tester).cells == 1
    assert updates(tester) == 3


def test_a_dropped_family_of_others_is_no_update(pair, rows):
    tester = filled(pair, rows, items=(Item("in", b"f"),))
    tester.publish("in", change(TableChangeKind.FAMILY_DROPPED, family="g"))
    assert updates(tester) == 0


def test_without_known_elements_an_emptied_table_is_one_update(pair, rows):
    tester = filled(pair, rows, Bound("k", IN, sequence=SequenceBound(99)), partitions=3)
    for partition in range(3):
        tester.publish("in", change(TableChangeKind.TRUNCATED), partition=partition)
    assert updates(tester) == 1


def test_a_disabled_table_has_lost_nothing(pair, rows):
    tester = filled(pair, rows)
    tester.publish("in", change(TableChangeKind.DISABLED))
    assert container(tester).elements == 6
    assert updates(tester) == 0


@pytest.mark.parametrize(
    "message",
    [
        change(TableChangeKind.MODIFIED),
        change(TableChangeKind.TRUNCATED, outcome=Outcome.UNKNOWN),
    ],
    ids=["modified", "perhaps truncated"],
)
def test_what_the_message_cannot_say_is_scanned(pair, rows, message):
    tester = filled(pair, rows)
    tester.publish("in", message)
    assert container(tester).elements == 6


def scan_of(tester) -> ScanContainer:
    return [i for i in tester.instructions if isinstance(i, ScanContainer)][-1]


def test_percentages_wait_for_the_first_scan(pair, rows):
    bound = Bound("k", IN, sequence=SequenceBound(50, SequenceUnit.PERCENT))
    tester = pair(bound, answering=False)
    tester.tables["in"] = {(b"old%d" % i, b"f:x"): b"1" for i in range(6)}
    tester.write("in", rows(6))
    assert launched(tester.wave("a")) == []
    assert tester.engine.busy == ("b",)
    assert launched(tester.handle(tester.answer(scan_of(tester)))) == ["b"]


def test_the_stream_is_newer_than_a_scan_under_way(pair, rows):
    bound = Bound("k", IN, value=ValueBound(Metric.ABSOLUTE, 50))
    tester = pair(bound, answering=False)
    tester.write("in", rows(1, 7))
    tester.write("in", {b"r1": {b"f:x": None}})
    stale = ContainerScanned(
        tester.now, IN, "in", [b"r0", b"r1", b"r2"], [b"f:x"] * 3, [b"1", b"1", b"3"]
    )
    tester.handle(stale)
    values = {row: v for (row, _), v in tester.engine.cells[IN, "in"].columns.contents().items()}
    assert values == {b"r0": 7.0, b"r2": 3.0}


def test_a_table_emptied_during_a_scan_is_scanned_again(pair, rows):
    tester = pair(PERCENT, answering=False)
    tester.publish("in", change(TableChangeKind.TRUNCATED))
    stale = ContainerScanned(tester.now, IN, "in", [b"r0"], [b"f:x"], [])
    told = tester.handle(stale)
    assert any(isinstance(i, ScanContainer) for i in told)
    assert container(tester).elements == 0


def test_an_answer_that_nobody_asked_for_is_ignored(pair, rows):
    tester = filled(pair, rows)
    tester.handle(ContainerScanned(tester.now, IN, "in", [], [], []))
    assert container(tester).elements == 6


def test_counts_of_updates_need_no_scan(pair):
    tester = pair(Bound("k", IN, sequence=SequenceBound(9)))
    assert not any(isinstance(i, ScanContainer) for i in tester.instructions)
