"""Of a row that two observers wrote at about one time nobody has told who wrote last."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine import (
    Bound,
    CellsRead,
    EngineTester,
    Metric,
    ReadCells,
    RecordArrived,
    ScanContainer,
    ValueBound,
    launched,
)
from headgate.engine.intake.rivals import Rivals, doubted
from headgate.events import (
    VERSION,
    ContainerId,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
    updates_topic,
)

IN = ContainerId("in")

FIVE = Bound("k", IN, value=ValueBound(Metric.ABSOLUTE, 5))
NOW = 1_000_000.0


def told(
    observer: str,
    *requests: tuple[float, tuple[bytes, ...]],
    value: bytes = b"1",
    kind: UpdateKind = UpdateKind.PUT,
    intent: int = 0,
    sequence: int = 0,
) -> UpdateBatch:
    """Requests, each received at a time, of one cell in each of these rows."""
    rows = [row for _, some in requests for row in some]
    parts = [
        RequestPart(intent + n, "m", Outcome.APPLIED, received, len(some))
        for n, (received, some) in enumerate(requests)
    ]
    put = kind is UpdateKind.PUT
    return UpdateBatch(
        VERSION, observer, 1, sequence, 0, "in", tuple(parts), bytes([kind]) * len(rows),
        tuple(rows), (b"f:x" if put else b"",) * len(rows), (-1,) * len(rows),
        (value if put else None,) * len(rows),
    )  # fmt: skip


def test_one_observer_alone_is_never_in_doubt():
    rivals = Rivals()
    for received in (100.0, 99.0, 100.5, 3.0):
        assert rivals.doubtful(told("a", (received, (b"r", b"s", b"r")))) == []


def test_rows_that_two_wrote_at_a_time_are_in_doubt_and_no_others():
    rivals = Rivals()
    rivals.doubtful(told("b", (95.0, (b"else",))))
    rivals.doubtful(told("a", (100.0, (b"r", b"s"))))
    batch = told("b", (100.5, (b"new", b"s")), (101.0, (b"r",)), (103.0, (b"r", b"s")))
    assert rivals.doubtful(batch) == [1, 2]


@pytest.mark.parametrize(("seconds", "doubtful"), [(2.0, [0]), (2.001, [])])
def test_a_row_is_in_doubt_for_two_seconds_after_another_received_it(seconds, doubtful):
    rivals = Rivals()
    rivals.doubtful(told("b", (95.0, (b"else",))))
    rivals.doubtful(told("a", (100.0, (b"r",))))
    assert rivals.doubtful(told("b", (100.0 + seconds, (b"r",)))) == doubtful


def test_who_told_late_is_in_doubt():
    rivals = Rivals()
    rivals.doubtful(told("a", (90.0, (b"other",))))
    rivals.doubtful(told("b", (100.0, (b"r",))))
    assert rivals.doubtful(told("a", (95.0, (b"s", b"r")))) == [1]


def test_the_oldest_request_of_a_message_tells_whether_others_wrote_meanwhile():
    rivals = Rivals()
    rivals.doubtful(told("b", (70.0, (b"else",))))
    rivals.doubtful(told("a", (100.0, (b"r",))))
    # What an observer could not publish for a while comes at once.
    assert rivals.doubtful(told("b", (100.5, (b"r",)), (160.0, (b"s",)))) == [0]


def test_the_newest_request_is_what_an_observer_has_told_of_whatever_stands_last():
    rivals = Rivals()
    rivals.doubtful(told("a", (150.0, (b"r",)), (100.0, (b"s",))))
    assert rivals.doubtful(told("b", (151.0, (b"r",)))) == [0]


def test_of_what_comes_later_than_rows_are_remembered_everything_is_in_doubt():
    rivals = Rivals()
    rivals.doubtful(told("a", (90.0, (b"other",))))
    for second in range(100, 200):
        rivals.doubtful(told("b", (float(second), (b"r",))))
    assert rivals.doubtful(told("a", (95.0, (b"never", b"seen")))) == [0, 1]


def test_what_came_before_the_second_observer_was_heard_is_in_doubt():
    rivals = Rivals()
    rivals.doubtful(told("a", (100.0, (b"r",))))
    assert rivals.doubtful(told("b", (101.0, (b"r",)))) == [0]
    assert rivals.doubtful(told("b", (103.0, (b"r",)))) == []


@pytest.mark.parametrize(("received", "doubtful"), [(102.0, [0]), (102.001, [])])
def test_what_came_two_seconds_after_the_first_was_heard_is_in_no_doubt(received, doubtful):
    rivals = Rivals()
    rivals.doubtful(told("a", (100.0, (b"r",))))
    assert rivals.doubtful(told("b", (received, (b"new",)))) == doubtful


def test_a_row_stays_in_doubt_while_its_first_writer_goes_on():
    rivals = Rivals()
    rivals.doubtful(told("b", (95.0, (b"else",))))
    rivals.doubtful(told("a", (100.0, (b"r",))))
    assert rivals.doubtful(told("b", (100.5, (b"r",)))) == [0]
    assert rivals.doubtful(told("a", (101.0, (b"r",)))) == [0]
    assert rivals.doubtful(told("a", (101.5, (b"r",)))) == [0], "b's may be later still"
    assert rivals.doubtful(told("a", (103.0, (b"r",)))) == []


def test_an_observer_whose_clock_is_behind_is_always_in_doubt():
    rivals = Rivals()
    for second in range(20):
        rivals.doubtful(told("ahead", (5000.0 + second, (b"r",))))
        assert rivals.doubtful(told("behind", (1000.0 + second, (b"r", b"s")))) == [0, 1]


def test_who_goes_on_after_a_restart_knows_when_others_were_heard():
    rivals = Rivals()
    rivals.doubtful(told("a", (100.0, (b"r",))))
    again = Rivals(rivals.newest.items())
    assert again.doubtful(told("b", (101.0, (b"r", b"s")))) == [0, 1]
    assert again.doubtful(told("b", (103.0, (b"r",)))) == []


DAY = 86_400.0


@pytest.mark.parametrize("first", ["a", "b"])
def test_rows_are_in_doubt_after_the_clocks_of_their_hosts_were_set_back(first):
    second = {"a": "b", "b": "a"}[first]
    rivals = Rivals([("a", DAY)])
    rivals.doubtful(told(first, (100.0, (b"r",))))
    assert rivals.doubtful(told(second, (100.0, (b"r", b"s")))) == [0, 1]


def test_a_clock_that_was_set_back_leaves_no_doubt_behind():
    rivals = Rivals([("a", DAY), ("b", DAY)])
    for observer in ("a", "b"):
        rivals.doubtful(told(observer, (100.0, (b"r",))))
    rivals.doubtful(told("a", (103.0, (b"r",))))
    assert rivals.doubtful(told("b", (103.5, (b"r", b"s")))) == [0]


def test_a_table_that_changed_after_a_clock_was_set_back_may_have_been_written_meanwhile():
    assert Rivals([("a", DAY)]).changed("a", 100.0)


def test_a_row_of_the_generation_before_is_remembered():
    rivals = Rivals()
    for observer, received, row in (("b", 95.0, b"x"), ("a", 100.0, b"y"), ("b", 99.0, b"z")):
        rivals.doubtful(told(observer, (received, (row,))))
    rivals.doubtful(told("a", (107.5, (b"r",))))
    assert rivals.doubtful(told("b", (108.0, (b"new", b"r")))) == [1]


def test_rows_are_not_remembered_for_ever():
    rivals = Rivals()
    for second in range(200):
        for observer in ("a", "b"):
            row = b"%s %d" % (observer.encode(), second)
            assert rivals.doubtful(told(observer, (1000.0 + second, (row,)))) in ([], [0])
    remembered = rivals._rows.keys() | rivals._former.keys()
    assert len(remembered) < 60
    for number in range(2000):
        rivals.doubtful(told(f"observer-{number}", (2000.0 + number, (b"r",))))
    assert len(rivals.newest) < 1300


writes = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.floats(0.0, 0.8),
        st.sampled_from([0.0, 0.0, 0.0, 0.5, 3.0, 8.0]),
        st.sampled_from([b"r", b"s", b"t"]),
    ),
    max_size=40,
)


@given(writes)
def test_whatever_may_have_been_written_before_is_in_doubt(chosen):
    """Each is told in the order of its observer, some time after it was done."""
    done = []
    now = 1000.0
    ready = dict.fromkeys("abc", 0.0)
    for observer, pause, delay, row in chosen:
        now += pause
        ready[observer] = max(ready[observer], now + delay)
        done.append((ready[observer], observer, now, row))
    rivals = Rivals()
    last: dict[bytes, float] = {}
    for _, observer, received, row in sorted(done, key=lambda one: one[0]):
        doubtful = rivals.doubtful(told(observer, (received, (row,))))
        if received < last.get(row, 0.0):
            assert doubtful == [0]
        last[row] = max(received, last.get(row, 0.0))


def test_doubted_cells_are_ambiguous_beside_those_that_are():
    batch = told("a", (1.0, (b"r", b"s")), (2.0, (b"t",)), (3.0, (b"u", b"v")))
    marked = doubted(doubted(batch, [1]), [0, 4])
    assert [request.ambiguous for request in marked.requests] == [(0, 1), (), (1,)]
    assert [request.ambiguous for request in doubted(batch, [2]).requests] == [(), (0,), ()]


# -- the engine ------------------------------------------------------------------------------------


def begun(pair, rows) -> EngineTester:
    """Row r0 held 10 when ``b`` ran last."""
    tester = pair(FIVE)
    tester.write("in", rows(3, 10))
    tester.request("b")
    tester.finish("b")
    tester.pass_time(100.0)
    tester.answering = False
    return tester


def asked(instructions) -> list[ReadCells]:
    return [one for one in instructions if isinstance(one, ReadCells)]


def settle(tester: EngineTester, read: ReadCells, value: bytes):
    answer = (read.container, read.table, read.rows, read.columns, [value])
    return tester.handle(CellsRead(tester.now, *answer))


def in_two_orders(tester: EngineTester, *, together: bool) -> list:
    """The write of 20 was done before that of 11, and is told after it."""
    late = told("late", (tester.now - 1.0, (b"r0",)), value=b"20")
    soon = told("soon", (tester.now - 0.5, (b"r0",)), value=b"11")
    if not together:
        return tester.publish("in", soon) + tester.publish("in", late)
    first = tester._offsets["in", 0]
    records = [
        RecordArrived(tester.now, updates_topic("in"), 0, first + n, message, 1)
        for n, message in enumerate((soon, late))
    ]
    made = []
    while records:
        taken, instructions = tester.engine.arrive(records)
        del records[:taken]
        made += instructions
    return made


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("holds", "runs"), [(b"11", []), (b"20", ["b"])])
def test_what_the_table_holds_decides(pair, rows, together, holds, runs):
    tester = begun(pair, rows)
    assert not launched(in_two_orders(tester, together=together))
    (read,) = asked(tester.wave("a"))
    assert (read.rows, read.columns) == ((b"r0",), (b"f:x",))
    assert launched(settle(tester, read, holds)) == runs


def test_a_delete_of_another_observer_may_be_older_than_the_cell(pair, rows):
    tester = begun(pair, rows)
    late = told("late", (tester.now - 1.0, (b"r0",)), kind=UpdateKind.DELETE_ROW)
    tester.publish("in", told("soon", (tester.now - 0.5, (b"r0",)), value=b"11"))
    tester.publish("in", late)
    (read,) = asked(tester.wave("a"))
    assert launched(settle(tester, read, b"11")) == []
    assert tester.engine.cells[IN, "in"].columns.get((b"r0", b"f:x")) == 11


def test_an_agent_that_takes_over_reads_what_came_in_two_orders(pair, rows):
    tester = begun(pair, rows)
    tester.publish("in", told("soon", (tester.now - 0.5, (b"r0",)), value=b"11"))
    tester.restart()
    tester.publish("in", told("late", (tester.now - 1.0, (b"r0",)), value=b"20"))
    assert asked(tester.wave("a"))


def test_a_table_emptied_by_another_observer_is_looked_through(pair, rows):
    tester = begun(pair, rows)
    tester.publish("in", told("writer", (tester.now - 1.0, (b"r0",)), value=b"11"))
    emptied = (TableChangeKind.TRUNCATED, Outcome.APPLIED, tester.now - 1.5)
    instructions = tester.publish("in", TableChange(VERSION, "o", 1, 0, 7, "in", *emptied))
    assert any(isinstance(one, ScanContainer) for one in instructions)


def test_what_another_wrote_before_a_table_was_emptied_is_read(pair, rows):
    tester = begun(pair, rows)
    emptied = (TableChangeKind.TRUNCATED, Outcome.APPLIED, tester.now - 1.0)
    tester.publish("in", TableChange(VERSION, "o", 1, 0, 7, "in", *emptied))
    tester.publish("in", told("writer", (tester.now - 1.5, (b"r0",)), value=b"11"))
    assert tester.engine.explain(tester.now).containers[0].unsettled == 1
