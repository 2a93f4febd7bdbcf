"""Cells that nobody can know from events alone are read before a value bound decides."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from uncertain import AHEAD, FIVE, IN, KEY, SINCE, after_a_run, asked, beside, write

from headgate.engine import (
    Bound,
    CellsRead,
    Codec,
    CodecName,
    DecisionKind,
    EngineTester,
    Evaluation,
    Metric,
    RecordArrived,
    ScanContainer,
    SequenceBound,
    SequenceUnit,
    ValueBound,
    launched,
)
from headgate.events import (
    VERSION,
    Item,
    Outcome,
    UpdateBatch,
    UpdateKind,
    updates_topic,
)

UNCERTAIN = {
    "unknown outcome": write(outcome=Outcome.UNKNOWN),
    "ambiguous order": write(ambiguous=(0,)),
    "increment without result": write(UpdateKind.INCREMENT_DELTA, b"\0" * 8),
    "append without result": write(UpdateKind.APPEND_DELTA, b"3"),
    "delete of one version": write(UpdateKind.DELETE_CELL, None),
    "delete of versions of a family": write(
        UpdateKind.DELETE_FAMILY_VERSION, None, column=b"f:", timestamp=5
    ),
    "put without value": write(value=None),
    "put in the past": write(timestamp=5),
    "delete up to a timestamp": write(UpdateKind.DELETE_COLUMN, None, timestamp=5),
}


@pytest.mark.parametrize("message", UNCERTAIN.values(), ids=UNCERTAIN.keys())
def test_the_cell_is_read_before_the_bound_decides(pair, rows, message):
    tester = after_a_run(pair, rows, answering=False)
    tester.publish("in", message)
    told = tester.wave("a")
    assert [(q.rows, q.columns) for q in asked(told)] == [((b"r0",), (b"f:x",))]
    assert launched(told) == []
    answer = CellsRead(tester.now, IN, "in", (b"r0",), (b"f:x",), (b"20",))
    assert launched(tester.handle(answer)) == ["b"]


@pytest.mark.parametrize("message", UNCERTAIN.values(), ids=UNCERTAIN.keys())
def test_so_it_is_among_others_that_are_certain(pair, rows, message):
    certain = write(value=b"10")
    for both in (
        beside(message, certain, row=b"r1"),
        beside(replace(certain, rows=(b"r1",)), message, row=b"r0"),
    ):
        tester = after_a_run(pair, rows, answering=False)
        tester.publish("in", both)
        (question,) = asked(tester.wave("a"))
        assert (question.rows, question.columns) == ((b"r0",), (b"f:x",))


@pytest.mark.parametrize("message", UNCERTAIN.values(), ids=UNCERTAIN.keys())
def test_the_update_counts_for_sequence_at_once(pair, rows, message):
    tester = after_a_run(pair, rows, Bound("k", IN, sequence=SequenceBound(1)))
    tester.publish("in", message)
    assert launched(tester.wave("a")) == ["b"]


def test_a_read_and_a_scan_name_the_container_and_its_table(pair):
    share = Bound("s", IN, sequence=SequenceBound(75, SequenceUnit.PERCENT))
    tester = pair(FIVE, share, items=(Item("table"),), answering=False)
    (scan,) = [one for one in tester.instructions if isinstance(one, ScanContainer)]
    tester.handle(tester.answer(scan))
    tester.publish("table", replace(write(ambiguous=(0,)), table="table"))
    (read,) = asked(tester.wave("a"))
    for question in (scan, read):
        assert (question.container, question.table) == ("in", "table")


def test_what_is_waited_for_is_written_down(pair, rows):
    tester = after_a_run(pair, rows, answering=False)
    tester.publish("in", write(ambiguous=(0,)))
    tester.wave("a")
    held = tester.decisions()[-1]
    assert held.kind is DecisionKind.HELD
    assert held.words == "cells are read again; needs 3 more divergence of `in`"


def test_a_read_that_finds_the_old_value_runs_nothing(pair, rows):
    tester = after_a_run(pair, rows)
    tester.publish("in", write(value=b"99", outcome=Outcome.UNKNOWN))
    assert launched(tester.wave("a")) == []
    assert tester.engine.explain(0).containers[0].unsettled == 0


def test_a_read_that_finds_no_cell_means_zero(pair, rows):
    tester = after_a_run(pair, rows)
    tester.publish("in", write(UpdateKind.DELETE_CELL, None))
    del tester.tables["in"][KEY]
    assert launched(tester.wave("a")) == ["b"]


def test_others_hear_that_there_are_fewer_elements(pair, rows):
    share = Bound("s", IN, sequence=SequenceBound(75, SequenceUnit.PERCENT))
    never = Bound("n", IN, value=ValueBound(Metric.ABSOLUTE, 1e6))
    spec = pair(share).engine.spec
    (reader,) = (action for action in spec.actions if action.name == "b")
    reader = replace(reader, name="c", bounds=(never,), evaluation=Evaluation(write=True))
    counter = replace(reader, name="b", bounds=(share,))
    tester = EngineTester(replace(spec, actions=(spec.actions[0], counter, reader)))
    tester.write("in", rows(2, 10))
    tester.request("c")
    for name in ("b", "c"):
        tester.finish(name)
    tester.answering = False
    unsure = replace(write(outcome=Outcome.UNKNOWN, value=b"2e7"), rows=(b"r9",))
    (question,) = asked(tester.publish("in", unsure))
    assert launched(tester.publish("in", write(sequence=101))) == []  # 2 of 3 elements
    answer = CellsRead(tester.now, IN, "in", question.rows, question.columns, (None,))
    assert launched(tester.handle(answer)) == ["b"]  # 2 of 2


def test_no_read_where_nothing_could_come_of_it(pair, rows):
    never = Bound("n", IN, sequence=SequenceBound(1000))
    tester = after_a_run(pair, rows, FIVE, never)
    tester.publish("in", write(outcome=Outcome.UNKNOWN))
    assert asked(tester.wave("a")) == []


def test_what_is_written_during_the_read_stays_unsettled(pair, rows):
    tester = after_a_run(pair, rows, answering=False)
    tester.publish("in", write(ambiguous=(0,)))
    tester.wave("a")
    tester.publish("in", write(value=b"13", sequence=101))
    tester.handle(CellsRead(tester.now, IN, "in", (b"r0",), (b"f:x",), (b"99",)))
    assert tester.engine.explain(0).containers[0].unsettled == 1
    assert len(tester.launches("b")) == 1


def test_a_cell_that_never_settles_does_not_hold_its_bound_for_ever(pair, rows):
    tester = after_a_run(pair, rows, answering=False)
    tester.publish("in", write(ambiguous=(0,)))
    tester.wave("a")
    tester.publish("in", write(value=b"30", sequence=101, ambiguous=(0,)))
    told = tester.handle(CellsRead(tester.now, IN, "in", (b"r0",), (b"f:x",), (b"12",)))
    assert launched(told) == ["b"]


def test_a_cell_is_asked_for_once_at_a_time(pair, rows):
    tester = after_a_run(pair, rows, answering=False, evaluation=Evaluation(True, True))
    first = asked(tester.publish("in", write(ambiguous=(0,))))
    again = asked(tester.wave("a"))
    assert (len(first), len(again)) == (1, 0)


def test_a_restart_asks_again(pair, rows):
    tester = after_a_run(pair, rows, answering=False)
    tester.publish("in", write(ambiguous=(0,)))
    tester.wave("a")
    assert len(asked(tester.restart())) == 1
    answer = CellsRead(tester.now, IN, "in", (b"r0",), (b"f:x",), (b"20",))
    assert launched(tester.handle(answer)) == ["b"]


def test_results_that_the_reply_held_need_no_read(pair, rows):
    tester = after_a_run(pair, rows, codec=Codec(CodecName.INT64))
    tester.publish("in", write(UpdateKind.INCREMENT, (17).to_bytes(8, "big")))
    assert asked(tester.wave("a")) == []


def test_rising_explicit_timestamps_need_no_read(pair):
    tester = pair(FIVE)
    for i in range(3):
        tester.publish("in", write(value=b"%d" % i, sequence=i, timestamp=SINCE + i))
    told = tester.wave("a")
    assert asked(told) == []


def test_rising_timestamps_of_the_past_need_one_read(pair):
    tester = pair(FIVE, answering=False)
    (scan,) = [one for one in tester.instructions if isinstance(one, ScanContainer)]
    tester.handle(tester.answer(scan))
    tester.publish("in", write(value=b"20", sequence=0, timestamp=1000))
    (question,) = asked(tester.wave("a"))  # a delete of before may hide it
    place = (IN, "in", question.rows, question.columns)
    tester.handle(CellsRead(tester.now, *place, (b"20",), (1000,)))
    for i in range(1, 3):
        tester.publish("in", write(value=b"2%d" % i, sequence=i, timestamp=1000 + i))
    assert tester.engine.explain(0).containers[0].unsettled == 0
    assert tester.engine.cells[IN, "in"].columns.contents() == {KEY: 22}


@pytest.mark.parametrize(("deleted", "left"), [(-1, 1), (0, 0), (1, 0)])
def test_a_delete_up_to_a_timestamp_removes_what_was_written_at_it_or_before(pair, deleted, left):
    tester = pair(FIVE)
    tester.publish("in", write(value=b"7", sequence=1, timestamp=SINCE))
    tester.publish(
        "in", write(UpdateKind.DELETE_COLUMN, None, sequence=2, timestamp=SINCE + deleted)
    )
    (container,) = tester.engine.explain(0).containers
    assert (container.cells, container.unsettled) == (left, 0)


def test_a_delete_up_to_a_timestamp_of_a_cell_that_nobody_knows_needs_no_read(pair, rows):
    tester = after_a_run(pair, rows)
    message = write(UpdateKind.DELETE_COLUMN, None, timestamp=5)
    tester.publish("in", replace(message, rows=(b"new",)))
    assert tester.engine.explain(0).containers[0].unsettled == 0


def test_a_read_that_finds_no_number_where_one_was_finds_a_change(pair, rows):
    tester = after_a_run(pair, rows, Bound("k", IN, value=ValueBound(Metric.CHANGED, 0.3)))
    tester.publish("in", write(value=b"10", outcome=Outcome.UNKNOWN))
    tester.tables["in"][KEY] = b"broken"
    assert launched(tester.wave("a")) == ["b"]


def test_a_cell_of_which_only_an_increment_is_known_has_not_moved_until_it_is_read(pair, rows):
    tester = after_a_run(pair, rows)
    message = write(UpdateKind.INCREMENT_DELTA, b"\0" * 8)
    tester.publish("in", replace(message, rows=(b"new",)))
    (result,) = tester.engine.explain(0).actions[1].result.parts
    assert "is at 0 of 5, with 1 cells to be read again" in result.vectors[0].words


def test_an_older_explicit_timestamp_changes_no_value(pair):
    tester = pair(Bound("k", IN, value=ValueBound(Metric.ABSOLUTE, 50)))
    tester.publish("in", write(value=b"7", sequence=1, timestamp=SINCE + 100))
    tester.publish("in", write(value=b"40", sequence=2, timestamp=SINCE))
    result = tester.engine.explain(0).actions[1].result
    assert result.parts[0].vectors[0].value == 7


def test_what_is_put_back_with_the_timestamp_of_what_was_deleted_is_read(pair):
    tester = pair(FIVE)
    tester.publish("in", write(value=b"7", sequence=1, timestamp=SINCE + 100))
    tester.publish("in", write(UpdateKind.DELETE_COLUMN, None, sequence=2))
    tester.publish("in", write(value=b"7", sequence=3, timestamp=SINCE))
    assert tester.engine.explain(0).containers[0].unsettled == 1


def test_of_two_puts_with_one_timestamp_the_later_stands(pair):
    tester = pair(Bound("k", IN, value=ValueBound(Metric.ABSOLUTE, 50)))
    tester.publish("in", write(value=b"7", sequence=1, timestamp=SINCE + 100))
    tester.publish("in", write(value=b"40", sequence=2, timestamp=SINCE + 100))
    assert tester.engine.cells[IN, "in"].columns.contents() == {KEY: 40}


def puts(value: bytes, rows: int, *, sequence: int = 101) -> UpdateBatch:
    """Put a value into so many rows, each by a request, at the server's time."""
    (request,) = write().requests
    requests = tuple(replace(request, intent=sequence + i) for i in range(rows))
    names = tuple(b"r%d" % i for i in range(rows))
    return UpdateBatch(
        VERSION, "other", 1, sequence, 0, "in", requests, bytes([UpdateKind.PUT]) * rows, names,
        (b"f:x",) * rows, (-1,) * rows, (value,) * rows,
    )  # fmt: skip


@pytest.mark.parametrize("together", [1, 3, 20])
def test_a_put_that_a_version_of_the_future_hides_is_read(pair, rows, together):
    tester = after_a_run(pair, rows)
    tester.publish("in", write(value=b"11", timestamp=AHEAD))
    tester.tables["in"][KEY] = b"11"
    tester.wave("a")
    tester.answering = False
    told = tester.publish("in", puts(b"12", together)) + tester.wave("a")
    (question,) = asked(told)
    assert (question.rows, question.columns) == ((b"r0",), (b"f:x",))


def test_so_is_one_of_records_that_are_taken_together(pair, rows):
    never = Bound("n", IN, value=ValueBound(Metric.ABSOLUTE, 1e6))
    tester = after_a_run(pair, rows, never, evaluation=Evaluation(write=True))
    tester.publish("in", write(value=b"11", timestamp=AHEAD))
    tester.tables["in"][KEY] = b"11"
    tester.publish("in", puts(b"12", 1))  # the first decision at a write
    records = [
        RecordArrived(tester.now, updates_topic("in"), 0, 50 + i, puts(b"12", 9, sequence=200 + i))
        for i in range(16)
    ]
    told = []
    while records:
        taken, instructions = tester.engine.arrive(records)
        told += instructions
        del records[:taken]
    assert KEY in tester.engine.cells[IN, "in"].reads.unsettled


def test_so_is_the_next_put_until_the_time_has_come(pair, rows):
    tester = after_a_run(pair, rows, answering=False)
    tester.publish("in", write(value=b"11", timestamp=AHEAD))
    for sequence in (101, 102):
        tester.publish("in", write(value=b"30", sequence=sequence))
        assert len(asked(tester.wave("a"))) == 1
        tester.handle(CellsRead(tester.now, IN, "in", (b"r0",), (b"f:x",), (b"11",)))
    later = write(value=b"12", sequence=103)
    (request,) = later.requests
    tester.publish("in", replace(later, requests=(replace(request, received=3.1e6),)))
    assert asked(tester.wave("a")) == []


@pytest.mark.parametrize(("seconds", "reads"), [(-1.0, 1), (29.0, 1), (31.0, 0)])
def test_a_put_is_read_that_was_received_before_the_time_of_the_version(pair, seconds, reads):
    tester = pair(FIVE)
    tester.publish("in", write(value=b"11", timestamp=AHEAD))
    put = write(sequence=101)
    (request,) = put.requests
    request = replace(request, received=AHEAD / 1000 + seconds)
    tester.publish("in", replace(put, requests=(request,)))
    assert tester.engine.explain(0).containers[0].unsettled == reads


@pytest.mark.parametrize("together", [1, 3, 20])
def test_a_put_at_the_servers_time_has_no_timestamp_of_the_one_before(pair, rows, together):
    tester = pair(FIVE)
    tester.publish("in", write(value=b"11", timestamp=SINCE))
    tester.publish("in", puts(b"12", together))
    tester.publish("in", write(UpdateKind.DELETE_COLUMN, None, sequence=150, timestamp=SINCE + 9))
    assert tester.engine.cells[IN, "in"].columns.get(KEY) == 12


def test_deletes_of_rows_and_families_remove_their_cells(pair, rows):
    tester = after_a_run(pair, rows)
    tester.publish("in", write(UpdateKind.DELETE_ROW, None, column=b""))
    assert tester.engine.explain(0).containers[0].cells == 2
    message = write(UpdateKind.DELETE_FAMILY, None, column=b"f:", sequence=101)
    tester.publish("in", replace(message, rows=(b"r1",)))
    assert tester.engine.explain(0).containers[0].cells == 1
    assert launched(tester.wave("a")) == ["b"]


kinds = st.sampled_from(["put", "perhaps put", "increment", "delete", "perhaps delete"])
histories = st.lists(
    st.tuples(st.sampled_from([b"r0", b"r1", b"r2"]), kinds, st.integers(0, 9), st.booleans()),
    max_size=20,
)


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(histories, st.integers(0, 20))
def test_after_an_evaluation_the_engine_knows_what_the_table_holds(pair, rows, history, wave):
    tester = after_a_run(pair, rows)
    table = tester.tables["in"]
    for i, (row, kind, number, really) in enumerate(history):
        key, value = (row, b"f:x"), b"%d" % number
        outcome = Outcome.UNKNOWN if kind.startswith("perhaps") else Outcome.APPLIED
        done = really or outcome is Outcome.APPLIED
        match kind:
            case "put" | "perhaps put":
                message = write(value=value, sequence=i, outcome=outcome)
                after = value if done else table.get(key)
            case "delete" | "perhaps delete":
                message = write(UpdateKind.DELETE_COLUMN, None, sequence=i, outcome=outcome)
                after = None if done else table.get(key)
            case _:
                message = write(UpdateKind.INCREMENT_DELTA, b"\0" * 8, sequence=i)
                after = b"%d" % (int(table.get(key, b"0")) + number)
        table.pop(key, None)
        if after is not None:
            table[key] = after
        tester.publish("in", replace(message, rows=(row,)))
        if i == wave:
            tester.wave("a")
    tester.wave("a")
    while tester.engine.busy:
        tester.finish("b")
    tester.wave("a")
    cells = tester.engine.cells[IN, "in"]
    assert not cells.reads.unsettled
    assert cells.columns.contents() == {key: float(value) for key, value in table.items()}


def test_cells_that_a_doubtful_delete_may_have_left_are_read_where_keys_count(pair, rows):
    share = Bound("s", IN, sequence=SequenceBound(75, SequenceUnit.PERCENT))
    tester = pair(share, answering=False)
    tester.tables["in"] = {(b"r0", b"f:x"): b"1", (b"r1", b"f:x"): b"1"}
    (question,) = [one for one in tester.instructions if isinstance(one, ScanContainer)]
    read = tester.answer(question)
    tester.publish("in", write(UpdateKind.DELETE_ROW, None, column=b"", ambiguous=(0,)))
    del tester.tables["in"][KEY]
    tester.handle(read)
    (again,) = asked(tester.wave("a"))
    told = tester.handle(tester.answer(again))
    assert set(tester.engine.cells[IN, "in"].columns.contents()) == set(tester.tables["in"])
    assert launched(told) == ["b"]  # one update of one element
