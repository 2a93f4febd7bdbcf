"""What is lost while a table is scanned is looked for afterwards, whatever says that it is lost."""

import pytest

from headgate.engine import (
    Bound,
    Count,
    Launch,
    Metric,
    ObserverLost,
    PartitionReset,
    ReconciliationDue,
    ScanContainer,
    ValueBound,
)
from headgate.events import (
    VERSION,
    BarrierMark,
    ContainerId,
    Gap,
    Outcome,
    TableChange,
    TableChangeKind,
    known_from,
    lost_after,
    updates_topic,
)

IN = ContainerId("in")

BOUND = Bound("k", IN, value=ValueBound(Metric.ABSOLUTE, 1e9))


def gap(tester):
    return tester.publish("in", Gap(VERSION, "o", 1, 1, "in", 5.0, 9.0, "Kafka was down"))


def missing(tester):
    tester.publish("in", BarrierMark(VERSION, "o", 1, 0, "id", 1))
    return tester.publish("in", BarrierMark(VERSION, "o", 1, 7, "id", 1))


def reset(tester):
    return tester.handle(PartitionReset(tester.now, updates_topic("in"), 0))


def altered(tester):
    change = (TableChangeKind.MODIFIED, Outcome.APPLIED, 1.0)
    return tester.publish("in", TableChange(VERSION, "o", 1, 0, 7, "in", *change))


def perhaps_truncated(tester):
    change = (TableChangeKind.TRUNCATED, Outcome.UNKNOWN, 1.0)
    return tester.publish("in", TableChange(VERSION, "o", 1, 0, 7, "in", *change))


def reconciliation(tester):
    return tester.handle(ReconciliationDue(tester.now))


LOSSES = (gap, missing, reset, altered, perhaps_truncated, reconciliation)


def scans(told):
    return [one for one in told if isinstance(one, ScanContainer)]


@pytest.fixture
def scanning(pair, rows):
    """A dataflow that waits for the answer to a scan."""

    def make():
        tester = pair(BOUND, count=Count.CELLS)
        tester.write("in", rows(6, 10))
        tester.answering = False
        (question,) = scans(reconciliation(tester))
        return tester, question

    return make


def cells(tester):
    return set(tester.engine.cells[IN, "in"].columns.contents())


@pytest.mark.parametrize("loss", LOSSES)
def test_another_scan_finds_what_the_one_under_way_may_have_missed(scanning, loss):
    tester, question = scanning()
    stale = tester.answer(question)
    tester.tables["in"][b"unseen", b"f:x"] = b"5"
    assert scans(loss(tester)) == []
    (again,) = scans(tester.handle(stale))
    tester.handle(tester.answer(again))
    assert cells(tester) == set(tester.tables["in"])


@pytest.mark.parametrize("loss", LOSSES)
def test_so_does_the_scan_that_is_asked_for_after_a_restart(scanning, loss):
    tester, _ = scanning()
    tester.tables["in"][b"unseen", b"f:x"] = b"5"
    loss(tester)
    tester.answering = True
    tester.restart()
    assert cells(tester) == set(tester.tables["in"])


def test_many_losses_are_one_more_scan_and_the_one_under_way_ends(scanning):
    tester, question = scanning()
    for number in range(5):
        tester.publish("in", Gap(VERSION, "o", 1, number, "in", 5.0, 9.0, "Kafka was down"))
    (again,) = scans(tester.handle(tester.answer(question)))
    assert scans(tester.handle(tester.answer(again))) == []


def observer_lost(tester):
    return tester.handle(ObserverLost(tester.now, "o"))


def written_round(tester):
    tester.tables["in"][b"unseen", b"f:x"] = b"5"
    return reconciliation(tester)


UNTOLD = (missing, reset, observer_lost, written_round)


def is_told_what_is_missing(launch):
    return launch.since.has_lost(updates_topic("in"))


def run(tester):
    (launch,) = [one for one in tester.request("b") if isinstance(one, Launch)]
    return launch


@pytest.mark.parametrize("loss", UNTOLD)
def test_the_next_run_is_told_that_changes_are_missing(pair, rows, loss):
    tester = pair(BOUND)
    tester.write("in", rows(6, 10))
    run(tester)
    tester.finish("b")
    loss(tester)
    assert is_told_what_is_missing(run(tester))
    tester.finish("b")
    assert not is_told_what_is_missing(run(tester))


@pytest.mark.parametrize("loss", [missing, observer_lost, written_round])
def test_it_is_told_too_from_where_on_updates_tell_of_deletes(pair, rows, loss):
    tester = pair(BOUND)
    tester.write("in", rows(6, 10))
    topic, first = updates_topic("in"), run(tester)
    tester.finish("b")
    loss(tester)
    second = run(tester)
    assert known_from(second.since.position(topic, 0)) == first.cut.position(topic, 0) > 0


def test_so_are_the_next_attempt_and_the_next_run_where_one_is_under_way(pair, rows):
    tester = pair(BOUND)
    tester.write("in", rows(6, 10))
    topic = updates_topic("in")
    run(tester)
    tester.finish("b")
    second = run(tester)
    observer_lost(tester)
    tester.fail("b")
    (again,) = [i for i in tester.pass_time(600.0) if isinstance(i, Launch)]
    assert known_from(again.since.position(topic, 0)) == second.since.position(topic, 0)
    assert again.cut.position(topic, 0) == lost_after(second.cut.position(topic, 0))
    tester.finish("b")
    third = run(tester)
    assert third.since.position(topic, 0) == again.cut.position(topic, 0)


@pytest.mark.parametrize("loss", UNTOLD)
def test_so_is_the_one_after_a_run_that_was_under_way(pair, rows, loss):
    tester = pair(BOUND)
    tester.write("in", rows(6, 10))
    run(tester)
    loss(tester)
    tester.finish("b")
    assert is_told_what_is_missing(run(tester))


def test_a_first_scan_and_one_that_finds_nothing_leave_changes_whole(pair, rows):
    tester = pair(BOUND, answering=False)
    (first,) = scans(tester.engine.handle(ReconciliationDue(tester.now))) or scans(
        tester.instructions
    )
    tester.tables["in"] = {(b"old", b"f:x"): b"1"}
    tester.answering = True
    tester.handle(tester.answer(first))
    tester.write("in", rows(6, 10))
    run(tester)
    tester.finish("b")
    reconciliation(tester)
    assert not is_told_what_is_missing(run(tester))
