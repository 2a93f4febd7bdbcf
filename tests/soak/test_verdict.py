"""The verdict sees a lost write, a missed row, a wrong output, and what grows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from soaking import dataflows
from soaking.alerts import TAIL, Raised, without_alert, without_cause
from soaking.happenings import Happening, Kind
from soaking.topics import Told
from soaking.verdict import (
    LEAST_SECONDS,
    MEMORY,
    Note,
    differing,
    grew,
    growth,
    lost_writes,
    missed_rows,
)

from headgate.events import key_bytes, key_text
from headgate.flows import parse_dataflow

TOPIC = "updates"
MIB = 1 << 20


def put(offset: int, row: bytes, value: bytes | None = b"1", *, partition: int = 0) -> Told:
    return Told(partition, offset, row, value, applied=True, deleted=False)


def deleted(offset: int, row: bytes) -> Told:
    return Told(0, offset, row, None, applied=True, deleted=True)


def note(since: list[int], cut: list[int], *rows: bytes) -> Note:
    return Note("run", 1, {TOPIC: since}, {TOPIC: cut}, frozenset(rows))


def test_an_acknowledged_write_without_event_is_lost() -> None:
    acknowledged = [(b"a", b"1"), (b"a", b"2"), (b"b", b"1")]
    assert lost_writes(acknowledged, [put(0, b"a", b"1"), put(1, b"b", b"1")]) == [(b"a", b"2")]


def test_a_value_of_another_row_and_a_delete_are_no_event_of_a_write() -> None:
    assert lost_writes([(b"a", b"1")], [put(0, b"b", b"1"), deleted(1, b"a")]) == [(b"a", b"1")]


def test_an_event_without_value_tells_of_its_row() -> None:
    assert lost_writes([(b"a", b"1")], [put(0, b"a", None)]) == []


def test_a_row_is_missed_where_only_runs_of_other_cuts_were_shown_it() -> None:
    told = [put(0, b"a"), put(1, b"a"), put(2, b"b")]
    notes = [note([0], [1], b"a"), note([1], [3], b"b")]
    assert missed_rows(TOPIC, told, notes) == [(0, 1, b"a")]


def test_what_no_cut_covers_is_missed() -> None:
    notes = [note([0], [1], b"a", b"b")]
    assert missed_rows(TOPIC, [put(0, b"a"), put(1, b"b")], notes) == [(0, 1, b"b")]


def test_a_partition_that_a_cut_does_not_have_stands_at_its_beginning() -> None:
    told = [put(0, b"a", partition=1)]
    assert missed_rows(TOPIC, told, [note([5], [9, 1], b"a")]) == []
    assert missed_rows(TOPIC, told, [note([5], [9], b"a")]) == [(1, 0, b"a")]


def test_what_was_not_applied_for_sure_need_not_be_shown() -> None:
    unsure = Told(0, 0, b"a", b"1", applied=False, deleted=False)
    assert missed_rows(TOPIC, [unsure], []) == []


def test_what_was_deleted_before_a_first_run_is_excused_and_nothing_else() -> None:
    told = [put(0, b"a"), deleted(1, b"a"), put(2, b"b")]
    assert missed_rows(TOPIC, told, [note([-1], [3], b"c")]) == [(0, 2, b"b")]
    assert len(missed_rows(TOPIC, told, [note([0], [3], b"c")])) == 3


def test_what_was_put_again_after_its_delete_is_not_excused() -> None:
    told = [deleted(0, b"a"), put(1, b"a")]
    assert missed_rows(TOPIC, told, [note([-1], [1]), note([1], [2])]) == [(0, 1, b"a")]
    assert missed_rows(TOPIC, told, [note([-1], [2])]) == [(0, 1, b"a")]


def test_after_a_loss_a_delete_that_was_told_is_shown() -> None:
    told = [put(0, b"a"), deleted(1, b"a")]
    assert missed_rows(TOPIC, told, [note([-2], [2], b"c")]) == [(0, 0, b"a"), (0, 1, b"a")]
    assert missed_rows(TOPIC, told, [note([-2], [2], b"a")]) == []


def test_a_cut_that_lost_records_ends_where_it_stood() -> None:
    told = [put(0, b"a"), put(1, b"a")]
    assert missed_rows(TOPIC, told, [note([0], [-3], b"a")]) == [(0, 1, b"a")]
    assert len(missed_rows(TOPIC, told, [note([0], [-1], b"a")])) == 2


def test_rows_differ_by_value_and_by_being_there() -> None:
    found = differing({b"a": b"1", b"b": b"1", b"c": b"1"}, {b"a": b"1", b"b": b"2", b"d": b"1"})
    assert found == [(b"b", b"1", b"2"), (b"c", b"1", None), (b"d", None, b"1")]


def test_no_step_copies_its_input() -> None:
    rows = {b"x-0012": b"120", b"x-0022": b"30", b"x-0013": b"7"}
    assert dataflows.reversed_rows(rows)[b"x-0012"] == b"021"
    assert dataflows.sums(rows) == {b"group-2": b"150", b"group-3": b"7"}
    assert dataflows.extremes(rows) == {b"group-2": b"2000000120", b"group-3": b"1000000007"}


@pytest.mark.parametrize("extra", [None, *range(dataflows.EXTRAS)])
@pytest.mark.parametrize("flow", dataflows.ALL)
def test_a_dataflow_is_accepted_in_each_of_its_forms(
    flow: dataflows.Flow, extra: int | None, tmp_path: Path
) -> None:
    text = dataflows.text(flow, 5, tmp_path, tmp_path, extra)
    dataflow = parse_dataflow(text, "flow.yaml")
    assert len(dataflow.spec.actions) == (2 if extra is None else 3)


def test_a_writer_has_rows_that_are_no_text() -> None:
    rows = {dataflows.row_of("w", number) for number in range(40)}
    assert len(rows) == 40
    assert any(key_text(row).encode() != row for row in rows)
    assert all(key_bytes(key_text(row)) == row for row in rows)


def life(seconds: float, size: object) -> list[tuple[float, float]]:
    return [(float(at), size(at)) for at in range(0, int(seconds), 10)]  # type: ignore[operator]


@pytest.mark.parametrize("leak", [MIB / 20, MIB])
def test_memory_that_grows_all_the_time_is_seen(leak: float) -> None:
    assert grew(growth(life(7200, lambda at: 100 * MIB + leak * at)), MEMORY)


def test_memory_that_grows_at_first_or_goes_up_and_down_is_not() -> None:
    choices = random.Random(1)
    samples = life(7200, lambda at: (60 + min(at, 250) / 5) * MIB + choices.uniform(0, 10) * MIB)
    assert not grew(growth(samples), MEMORY)


def test_of_a_short_life_nothing_is_said() -> None:
    assert growth(life(LEAST_SECONDS - 20, lambda at: MIB * at)) is None
    assert growth([]) is None


def happening(kind: Kind, target: str, at: float = 100.0, lasts: float = 100.0) -> Happening:
    return Happening(at, kind, target, lasts, 0)


def test_an_alert_is_explained_only_by_what_may_raise_it_and_came_before() -> None:
    down = Raised("HeadgateAgentDown", "agent-1", 170.0, 200.0)
    outage = happening(Kind.OUTAGE, "agent-1")
    assert without_cause([down], [outage]) == []
    assert without_cause([down], [happening(Kind.TOMBSTONE, "changing")]) == [down]
    assert without_cause([down], [happening(Kind.OUTAGE, "agent-1", at=180.0)]) == [down]
    late = Raised("HeadgateAgentDown", "agent-1", 201.0 + TAIL, 300.0 + TAIL)
    assert without_cause([late], [outage]) == [late]


def test_an_alert_that_nothing_may_raise_has_no_cause() -> None:
    failed = Raised("HeadgateAgentThreadFailures", "agent-1", 200.0, 300.0)
    everything = [happening(kind, "agent-1") for kind in Kind]
    assert without_cause([failed], everything) == [failed]


def test_an_outage_needs_the_alert_of_the_one_who_was_away() -> None:
    outage = happening(Kind.OUTAGE, "agent-1")
    assert without_alert([Raised("HeadgateAgentDown", "agent-1", 170.0, 200.0)], [outage]) == []
    assert without_alert([Raised("HeadgateAgentDown", "agent-2", 170.0, 200.0)], [outage])
    assert without_alert([Raised("HeadgateObserverDown", "agent-1", 170.0, 200.0)], [outage])
    assert without_alert([Raised("HeadgateAgentDown", "agent-1", 20.0, 50.0)], [outage])
    assert without_alert([], [happening(Kind.TOMBSTONE, "changing", lasts=0.0)])
    assert without_alert([], [happening(Kind.KILL, "agent-1")]) == []
