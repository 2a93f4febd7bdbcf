"""A scan that comes in stretches of rows says what one in one segment says, whatever happens."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stretches import BOUNDS, COLUMNS, HIDDEN, IN, SHAPES, TOLD, World, specification

from headgate.engine import (
    ActionSpec,
    Bound,
    Count,
    DataflowSpec,
    Evaluation,
    Metric,
    ReconciliationDue,
    ScanBegun,
    SequenceBound,
    SpecificationChanged,
    ValueBound,
)
from headgate.engine.checkpoint.snapshot import read_snapshot
from headgate.events import UpdateKind

AT_WRITE = Evaluation(write=True)
EDGES = sorted([*TOLD, *HIDDEN, b"a", b"r05\0", b"z"])


def same(one: World, other: World) -> None:
    """Check that both know and have decided the same."""
    assert one.contents() == other.contents()
    assert one.cells.elements == other.cells.elements
    states = [read_snapshot(world.engine.snapshot()) for world in (one, other)]
    for mine, others in zip(*(state.cells for state in states), strict=True):
        assert mine.scanning == others.scanning
        assert mine.scanned == others.scanned
        assert set(mine.unsettled.keys()) == set(others.unsettled.keys())
        assert mine.dead_letters == others.dead_letters
    for mine, others in zip(
        one.cells.watchers.pendings, other.cells.watchers.pendings, strict=True
    ):
        assert (mine.updates, mine.received) == (others.updates, others.received)
        assert mine.distinct.keys() == others.distinct.keys()
        assert mine.measured() == others.measured()
        assert mine.measured_magnitude() == others.measured_magnitude()
        assert one.cells.columns.previous(mine.past) == other.cells.columns.previous(others.past)
    assert states[0].actions == states[1].actions


def segments(rng: random.Random) -> Iterator[bytes]:
    yield from sorted(rng.sample(EDGES, rng.randint(1, 6)))


def number(rng: random.Random) -> bytes:
    return b"%d" % rng.randint(0, 9)


@given(st.integers(0, 10**6), st.sampled_from(sorted(BOUNDS)), st.sampled_from(sorted(SHAPES)))
def test_nothing_differs_from_one_segment(seed: int, detail: str, shape: str) -> None:
    rng = random.Random(seed)
    count = rng.choice(list(Count))
    worlds = [World(specification(detail, shape, count)) for _ in range(2)]
    first = rng.random() < 0.5
    stood = {
        (row, column): number(rng)
        for row in (*TOLD, *HIDDEN)
        for column in COLUMNS
        if rng.random() < 0.5
    }
    told = [(rng.choice(TOLD), rng.choice(COLUMNS), number(rng)) for _ in range(5)]
    hidden = [
        (row, column, None if rng.random() < 0.4 else number(rng))
        for row in HIDDEN
        for column in COLUMNS
        if rng.random() < 0.5
    ]
    for world in worlds:
        world.tables["in"] = dict(stood)
        if not first:
            world.end_scans()
            world.handle(ReconciliationDue(world.now))
        for row, column, value in told:
            world.write("in", {row: {column: value}})
        for change in hidden:
            world.hide(*change)
    whole, parts = worlds
    whole.end_scans()
    for stop in segments(rng):
        parts.look(stop)
        if rng.random() < 0.2:
            parts.save(logged=rng.random() < 0.5)
        parts.take()
        if first and rng.random() < 0.3:
            parts.crash()
    parts.end_scans()
    same(whole, parts)


def expected(world: World, row: bytes, column: bytes, value: bytes | None) -> int:
    """Return how many updates a change behind the observers is found to be."""
    before = world.tables["in"].get((row, column))
    if not world.cells.matcher.has(row, column) or before == value:
        return 0
    return int(world.cells.columns.values is not None or (before is None) != (value is None))


@given(st.integers(0, 10**6), st.sampled_from(sorted(BOUNDS)), st.sampled_from(sorted(SHAPES)))
@settings(max_examples=2 * settings().max_examples)
def test_nothing_is_lost_or_counted_twice_whatever_happens_meanwhile(
    seed: int, detail: str, shape: str
) -> None:
    rng = random.Random(seed)
    world = World(specification(detail, shape, rng.choice(list(Count))))
    world.tables["in"] = {
        (row, column): number(rng)
        for row in (*TOLD, *HIDDEN)
        for column in COLUMNS
        if rng.random() < 0.5
    }
    first = rng.random() < 0.5
    hidden, updates, emptied = list(HIDDEN), 0, False
    if not first:
        world.end_scans()
        world.save()
        world.handle(ReconciliationDue(world.now))
    for _ in range(rng.randint(5, 30)):
        match rng.choice(["write", "write", "delete", "hide", "look", "look", "take", "rare"]):
            case "write" | "delete" as what:
                row, column = rng.choice(TOLD), rng.choice(COLUMNS)
                updates += world.cells.matcher.has(row, column)
                world.write("in", {row: {column: None if what == "delete" else number(rng)}})
            case "hide" if hidden:
                change = (hidden.pop(), rng.choice(COLUMNS), rng.choice([None, number(rng)]))
                updates += 0 if first else expected(world, *change)
                world.hide(*change)
            case "look":
                world.look(rng.choice([None, *EDGES]))
            case "take":
                world.take()
            case "rare":
                match rng.choice(["row", "family", "truncate", "lose", "save", "log", "crash"]):
                    case "row" | "family" as extent:
                        row = rng.choice(TOLD)
                        emptied = True  # what they count is another test's
                        world.delete_row(row, b"" if extent == "row" else b"f:")
                    case "truncate":
                        emptied = True
                        world.truncate()
                    case "lose":
                        world.lose()
                    case "save" | "log" as form:
                        world.save(logged=form == "log")
                    case "crash":
                        world.crash()
    world.end_scans()
    assert world.cells.scans.complete
    world.handle(ReconciliationDue(world.now))  # for rows that were changed after they were read
    world.end_scans()
    assert world.contents() == world.present()
    assert world.cells.scans.current is None
    if not emptied and not first:
        assert world.counted == updates
    world.crash()
    world.handle(ReconciliationDue(world.now))
    world.end_scans()
    assert world.contents() == world.present()


@pytest.fixture
def rescanning() -> World:
    """A dataflow that looks for changes, after its first scan."""
    world = World(specification("values", "table", Count.ROWS))
    world.tables["in"] = {(row, b"f:a"): b"1" for row in (*TOLD, *HIDDEN)}
    world.end_scans()
    world.handle(ReconciliationDue(world.now))
    return world


def test_each_stretch_is_asked_for_where_the_one_before_ended(rescanning: World) -> None:
    starts = []
    for stop in (b"r05", b"r11", None):
        assert rescanning.question is not None
        starts.append(rescanning.question.start)
        rescanning.look(stop)
        rescanning.take()
    assert starts == [b"", b"r05", b"r11"]
    assert rescanning.question is None


def test_only_rows_ahead_are_remembered_of_what_is_written_meanwhile(rescanning: World) -> None:
    rescanning.look(b"r10")
    rescanning.take()
    rescanning.write("in", {b"r02": {b"f:a": b"5"}, b"r12": {b"f:a": b"5"}})
    assert set(rescanning.cells.scans.current.written) == {(b"r12", b"f:a")}


def test_only_rows_ahead_are_remembered_of_what_is_deleted_meanwhile(rescanning: World) -> None:
    rescanning.look(b"r10")
    rescanning.take()
    for row in (b"r02", b"r12"):
        rescanning.delete_row(row)
        rescanning.delete_row(row, b"f:")
    assert set(rescanning.cells.scans.current.deleted_rows) == {b"r12"}
    assert set(rescanning.cells.scans.current.deleted_families) == {(b"r12", b"f:")}


@pytest.mark.parametrize("logged", [False, True])
def test_who_takes_over_a_first_scan_knows_what_was_said_of_rows_ahead(logged: bool) -> None:
    world = World(specification("values", "table", Count.ROWS))
    world.tables["in"] = {(row, b"f:a"): b"1" for row in HIDDEN}
    world.look(b"r10")
    world.take()
    world.write("in", {b"r12": {b"f:a": b"5"}})
    world.delete_row(b"r14")
    world.delete_row(b"r16", b"f:")
    world.save(logged=logged)
    world.crash()
    assert set(world.cells.scans.current.written) == {(b"r12", b"f:a")}
    assert set(world.cells.scans.current.deleted_rows) == {b"r14"}
    assert set(world.cells.scans.current.deleted_families) == {(b"r16", b"f:")}


def test_who_takes_over_a_first_scan_knows_no_cell_that_is_gone_when_it_is_read() -> None:
    world = World(specification("values", "table", Count.ROWS))
    world.tables["in"] = {(row, b"f:a"): b"1" for row in HIDDEN}
    world.look(b"r12")
    world.take()
    world.write("in", {b"r12": {b"f:a": b"5"}, b"r14": {b"f:a": b"5"}})
    world.handle(ScanBegun(world.now, IN, "in", b"r12"))
    world.save()
    world.crash()
    world.hide(b"r12", b"f:a", None)
    world.end_scans()
    assert world.contents() == world.present()


def test_a_cell_is_settled_by_the_stretch_that_shows_it_or_when_all_have_come() -> None:
    world = World(specification("values", "table", Count.ROWS))
    world.tables["in"] = {(row, b"f:a"): b"1" for row in (*TOLD, *HIDDEN)}
    world.end_scans()
    for row in (b"r01", b"r03", b"r15"):
        world.doubt(row, b"f:a")
    for row in (b"r02", b"r16"):
        world.doubt(row, b"f:a", UpdateKind.DELETE_COLUMN)
    world.handle(ReconciliationDue(world.now))
    world.hide(b"r03", b"f:a", None)
    world.look(b"r10")
    world.take()
    assert {row for row, _ in world.cells.reads.unsettled} == {b"r03", b"r15", b"r16"}
    world.end_scans()
    assert world.cells.reads.unsettled == set()
    assert world.contents() == world.present()


def test_a_first_scan_in_which_something_was_lost_begins_anew_after_a_restart() -> None:
    world = World(specification("values", "table", Count.ROWS))
    world.tables["in"] = {(row, b"f:a"): b"1" for row in TOLD}
    world.look(b"r06")
    world.take()
    world.tables["in"][b"r02", b"f:a"] = b"7"
    world.lose()
    world.save()
    world.crash()
    world.end_scans()
    assert world.contents() == world.present()


def test_a_row_that_changed_and_lost_a_cell_is_one_update(rescanning: World) -> None:
    rescanning.end_scans()
    rescanning.hide(b"r01", b"f:b", b"1")
    rescanning.handle(ReconciliationDue(rescanning.now))
    rescanning.end_scans()
    before = rescanning.counted
    rescanning.hide(b"r01", b"f:a", b"7")
    rescanning.hide(b"r01", b"f:b", None)
    rescanning.hide(b"r03", b"f:a", None)
    rescanning.handle(ReconciliationDue(rescanning.now))
    rescanning.look(b"r05")
    rescanning.take()
    rescanning.end_scans()
    assert rescanning.counted - before == 2


def test_a_stretch_read_before_the_table_was_emptied_is_read_again(rescanning: World) -> None:
    rescanning.look(b"r10")
    rescanning.take()
    rescanning.look(b"r15")
    rescanning.truncate()
    rescanning.take()
    assert rescanning.question is not None
    assert rescanning.question.start == b"r10"
    rescanning.end_scans()
    assert rescanning.contents() == {}


def test_a_first_scan_goes_on_where_it_came_to_and_a_later_one_begins_anew() -> None:
    world = World(specification("values", "table", Count.ROWS))
    world.tables["in"] = {(row, b"f:a"): b"1" for row in TOLD}
    world.look(b"r06")
    world.take()
    world.save()
    world.crash()
    assert world.question is not None
    assert world.question.start == b"r06"
    world.end_scans()
    world.handle(ReconciliationDue(world.now))
    world.look(b"r06")
    world.take()
    world.save()
    world.crash()
    assert world.question is not None
    assert world.question.start == b""


def test_an_answer_to_an_earlier_question_is_nobodys(rescanning: World) -> None:
    rescanning.look(b"r10")
    stale = rescanning.read
    rescanning.take()
    rescanning.look()
    rescanning.handle(stale)
    assert rescanning.cells.scans.current.at == b"r10"
    rescanning.take()
    assert rescanning.cells.scans.current is None


def test_what_stretches_found_is_evaluated_when_the_scan_ends_even_after_a_crash() -> None:
    world = World(specification("values", "table", Count.ROWS))
    world.tables["in"] = {(row, b"f:a"): b"1" for row in TOLD}
    world.end_scans()
    limit = Bound("k", IN, sequence=SequenceBound(2.0), value=ValueBound(Metric.ABSOLUTE, 1e9))
    spec = specification("values", "table", Count.ROWS)
    step = ActionSpec("b", after=("a",), reads=(IN,), bounds=(limit,), evaluation=AT_WRITE)
    world.spec = DataflowSpec("flow", spec.containers, (spec.actions[0], step))
    world.handle(SpecificationChanged(world.now, world.spec))
    world.handle(ReconciliationDue(world.now))
    world.hide(b"r00", b"f:a", b"5")
    world.hide(b"r02", b"f:a", b"5")
    world.look(b"r06")
    world.take()
    assert world.launches("b") == []
    world.save()
    world.crash()
    world.end_scans()
    assert len(world.launches("b")) == 1


def test_as_much_that_changed_as_is_gone_is_evaluated_when_a_scan_has_found_it() -> None:
    bound = Bound("k", IN, sequence=SequenceBound(2.0), value=ValueBound(Metric.ABSOLUTE, 1e9))
    spec = specification("values", "table", Count.ROWS)
    step = ActionSpec("b", after=("a",), reads=(IN,), bounds=(bound,), evaluation=AT_WRITE)
    world = World(DataflowSpec("flow", spec.containers, (spec.actions[0], step)))
    world.end_scans()
    world.write("in", {b"r00": {b"f:a": b"1"}, b"r02": {b"f:a": b"1"}})
    world.finish("b")
    world.handle(ReconciliationDue(world.now))
    world.hide(b"r00", b"f:a", b"5")
    world.hide(b"r02", b"f:a", None)
    world.end_scans()
    assert len(world.launches("b")) == 2


def test_an_edit_in_the_middle_of_a_scan_has_all_of_it_read() -> None:
    world = World(specification("keys", "table", Count.ROWS))
    world.tables["in"] = {(row, b"f:a"): b"1" for row in TOLD}
    world.look(b"r06")
    world.take()
    world.spec = specification("values", "table", Count.ROWS)
    world.handle(SpecificationChanged(world.now, world.spec))
    assert world.question is not None
    assert world.question.values
    world.end_scans()
    assert world.contents() == world.present()


def test_a_checkpoint_of_before_has_the_scan_begin_anew() -> None:
    world = World(specification("values", "table", Count.ROWS))
    world.tables["in"] = {(row, b"f:a"): b"1" for row in TOLD}
    world.look(b"r06")
    world.take()
    world.save()
    state, known = world.saved
    assert isinstance(state, bytes)
    world.saved = (without_stretches(state), known)
    world.crash()
    assert world.question is not None
    assert world.question.start == b""
    world.end_scans()
    assert world.contents() == world.present()


def without_stretches(state: bytes) -> bytes:
    """Return a snapshot as versions wrote it that read tables in one segment."""
    plain = msgspec.msgpack.decode(zlib.decompress(state))
    for cells in plain["cells"]:
        for name in ("at", "found"):
            del cells["scanning"][name]
    return zlib.compress(msgspec.msgpack.encode(plain))
