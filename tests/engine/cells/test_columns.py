"""Updates taken in columns leave what the same updates leave that are taken one by one."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine import Codec, CodecName, Count, WatchedContainer
from headgate.engine.cells import cells as taking
from headgate.engine.cells.arrivals import Arrivals
from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.columns import CellColumns, Detail
from headgate.engine.cells.routing import Router
from headgate.engine.cells.storage import MemoryStorage
from headgate.events import Container, ContainerId, Item, Outcome, RequestPart, UpdateKind

ROWS = [b"r%d" % i for i in range(9)]
COLUMNS = [b"f:a", b"f:b", b"g:a", b"g:longer", b"h:"]
ITEMS = {
    "table": (Item("t"),),
    "family": (Item("t", b"f"),),
    "column": (Item("t", b"f", b"a"),),
    "range": (Item("t", b"f", None, b"r2", b"r5"), Item("t", b"g", b"a", b"r7")),
}
WRITERS = ["own", "reader", "other"]
VALUES = [b"0", b"1", b"2", b"2.0", b"-3.5", b"7", b"junk", b"nan"]
VALUES += [b"9223372036854775807", b"-1.7976931348623157e308", b"1.7976931348623157e308", b"-inf"]

puts = st.tuples(st.sampled_from(ROWS), st.sampled_from(COLUMNS), st.sampled_from(VALUES))
requests = st.lists(st.lists(puts, min_size=1, max_size=6), min_size=1, max_size=8)
written = st.tuples(st.just("write"), st.sampled_from([None, *WRITERS]), requests)
KINDS = [UpdateKind.DELETE_COLUMN, UpdateKind.DELETE_FAMILY, UpdateKind.DELETE_ROW]
deleted = st.tuples(
    st.just("delete"), st.sampled_from(ROWS), st.sampled_from(COLUMNS), st.sampled_from(KINDS)
)
steps = st.tuples(st.sampled_from(["launch", "finish", "fail"]), st.sampled_from(WRITERS))
scanned = st.tuples(st.just("scan"), st.lists(puts, max_size=12))
tidied = st.just(("tidy",))
stories = st.lists(st.one_of(written, written, written, deleted, steps, scanned, tidied))


def cells_of(shape: str, codec: CodecName, count: Count, detail: Detail) -> ContainerCells:
    container = WatchedContainer(Container(ContainerId("c"), ITEMS[shape]), Codec(codec), count)
    cells = ContainerCells(container, "t", detail, MemoryStorage())
    values = detail is Detail.VALUES
    cells.watchers.add("own", values=values, distinct=True, own=True)
    cells.watchers.add("reader", values=values, distinct=True, own=False)
    cells.watchers.add("other", values=values, distinct=False, own=False)
    return cells


def arrivals(writer: str | None, parts: list[list[tuple[bytes, bytes, bytes]]]) -> Arrivals:
    made = tuple(
        RequestPart(i, "mutateRows", Outcome.APPLIED, 1.0, len(part))
        for i, part in enumerate(parts)
    )
    rows, columns, values = zip(*(put for part in parts for put in part), strict=True)
    kinds = bytes([UpdateKind.PUT] * len(rows))
    return Arrivals(writer, made, kinds, rows, columns, (-1,) * len(rows), values)


def delete(row: bytes, column: bytes, kind: UpdateKind, timestamp: int = -1) -> Arrivals:
    part = (RequestPart(0, "deleteSingle", Outcome.APPLIED, 1.0, 1),)
    if kind is UpdateKind.DELETE_FAMILY:
        column = column.partition(b":")[0] + b":"
    elif kind is UpdateKind.DELETE_ROW:
        column = b""
    return Arrivals(None, part, bytes([kind]), (row,), (column,), (timestamp,), (None,))


def play(cells: ContainerCells, step: tuple, *, few: int) -> None:
    """Have the cells take a step; updates up to ``few`` are taken one by one."""
    pendings = {pending.action: pending for pending in cells.watchers.pendings}
    match step:
        case ("write", writer, parts):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(taking, "_FEW", few)
                for container, positions in Router([cells]).route(arrivals(writer, parts)):
                    container.take(arrivals(writer, parts), positions)
        case ("delete", row, column, kind):
            gone = delete(row, column, kind)
            for container, positions in Router([cells]).route(gone):
                container.take(gone, positions)
        case ("launch", name) if name not in cells.watchers.consumed:
            cells.watchers.consumed[name] = pendings[name].take()
        case ("finish", name) if name in cells.watchers.consumed:
            cells.watchers.consumed.pop(name).release()
        case ("fail", name) if name in cells.watchers.consumed:
            pendings[name].restore(cells.watchers.consumed.pop(name))
        case ("scan", found) if cells.detail is not Detail.COUNTS:
            inside = {(r, c): v for r, c, v in found if cells.matcher.has(r, c)}
            cells.scans.start()
            cells.scans.take([r for r, _ in inside], [c for _, c in inside], list(inside.values()))
        case ("tidy",):
            with patch("headgate.engine.cells.grid._FEW_ROWS", 0):
                cells.columns.tidy()


def seen(cells: ContainerCells) -> object:
    """Return everything that decisions can depend on."""
    assert len(cells.columns.contents()) == cells.columns.size
    in_rows: dict[bytes, list[bytes]] = {row: [] for row in ROWS}
    for row, column in cells.columns.contents():
        in_rows[row].append(column)
    found = cells.columns.grid.columns_in(in_rows)
    assert {row: sorted(names) for row, names in found.items()} == {
        row: sorted(names) for row, names in in_rows.items()
    }
    state = {key: repr(value) for key, value in cells.columns.contents().items()}
    counts = [
        (p.updates, p.received, p.distinct, p.measured(), p.largest(), p.changed)
        for p in cells.watchers.pendings
    ]
    for p in cells.watchers.pendings:
        assert p.difference.least <= p.measured()[1] <= p.difference.most
        assert p.magnitude.least <= p.measured_magnitude() <= p.magnitude.most
    return state, cells.elements, counts, cells.columns.dead_letters


shapes = st.tuples(
    st.sampled_from(sorted(ITEMS)),
    st.sampled_from([CodecName.UTF8, CodecName.OPAQUE]),
    st.sampled_from(Count),
    st.sampled_from(Detail),
)


@given(shapes, stories)
def test_columns_and_single_updates_leave_the_same(shape, story):
    whole, single = cells_of(*shape), cells_of(*shape)
    for step in story:
        play(whole, step, few=0)
        play(single, step, few=10_000)
        assert seen(whole) == seen(single)


@given(shapes, stories, st.integers(1, 4))
def test_cells_with_numbers_of_their_own_are_the_same_cells(shape, story, widest):
    packed, wide = cells_of(*shape), cells_of(*shape)
    for step in story:
        with patch("headgate.engine.cells.grid._WIDEST", widest):
            play(packed, step, few=0)
        play(wide, step, few=0)
        assert seen(packed) == seen(wide)


@given(shapes, stories)
def test_rows_with_few_of_many_columns_are_kept_by_cell(shape, story):
    sparse, wide = cells_of(*shape), cells_of(*shape)
    for step in story:
        with patch.multiple("headgate.engine.cells.grid", _FEW_ROWS=0, _SPARSE=1):
            play(sparse, step, few=0)
        play(wide, step, few=0)
        assert seen(sparse) == seen(wide)


@given(shapes, stories)
def test_sums_kept_in_columns_are_those_computed_from_scratch(shape, story):
    cells = cells_of(*shape)
    for step in story:
        play(cells, step, few=0)
        for pending in cells.watchers.pendings:
            changed, difference, largest = pending.measured()
            assert (changed, largest) == (pending.changed, pending.largest())
            assert pending.difference.least <= difference <= pending.difference.most


NUMBERS = {b"%d" % i: float(i) for i in range(4)}
tables = st.dictionaries(
    st.tuples(st.sampled_from(ROWS[:3]), st.sampled_from(COLUMNS)), st.sampled_from([*NUMBERS])
)
changed = st.tuples(
    st.sampled_from([UpdateKind.PUT, *KINDS]),
    st.sampled_from(ROWS[:3]),
    st.sampled_from(COLUMNS),
    st.sampled_from([*NUMBERS]),
)


@given(
    tables, st.lists(changed, max_size=8), st.tuples(*[st.integers(0, 8)] * 3), st.integers(1, 64)
)
def test_the_first_scan_and_what_came_meanwhile_make_what_the_table_holds(
    table, changes, read, widest
):
    """Each row is read at a moment of its own while updates come."""
    cells = cells_of("table", CodecName.UTF8, Count.ROWS, Detail.VALUES)
    cells.scans.start()
    found: dict[tuple[bytes, bytes], bytes] = {}
    with patch("headgate.engine.cells.grid._WIDEST", widest):
        for moment, change in enumerate([*changes, None] + [None] * 8):
            for row, at in zip(ROWS, read, strict=False):
                if at == moment:
                    found |= {key: value for key, value in table.items() if key[0] == row}
            if change is not None:
                kind, row, column, value = change
                update = delete(row, column, kind)
                if kind is UpdateKind.PUT:
                    table[row, column] = value
                    update = arrivals(None, [[(row, column, value)]])
                gone = [k for k in table if k[0] == row and k[1].startswith(update.columns[0])]
                for key in gone if kind is not UpdateKind.PUT else ():
                    if kind is not UpdateKind.DELETE_COLUMN or key[1] == column:
                        del table[key]
                cells.take(update, [0])
        cells.scans.take([r for r, _ in found], [c for _, c in found], list(found.values()))
    assert cells.columns.contents() == {key: NUMBERS[value] for key, value in table.items()}


def test_a_scan_says_stretch_by_stretch_how_many_elements_it_has_found_changed():
    cells = cells_of("table", CodecName.UTF8, Count.ROWS, Detail.VALUES)
    for value in (b"1", b"2"):
        cells.scans.start()
        found = [cells.scans.take([row], [b"f:a"], [value], stop=row + b"\0") for row in ROWS[:3]]
        cells.scans.take([], [], [])
    assert found == [1, 2, 3]


def test_a_delete_that_may_have_left_something_has_what_a_scan_finds_read_again():
    cells = cells_of("table", CodecName.UTF8, Count.ROWS, Detail.VALUES)
    cells.scans.start()
    cells.take(delete(b"r1", b"f:a", UpdateKind.DELETE_FAMILY, timestamp=5), [0])
    cells.scans.take([b"r1", b"r1", b"r2"], [b"f:a", b"g:a", b"f:a"], [b"1", b"1", b"1"])
    assert cells.columns.contents() == {(b"r1", b"f:a"): 1, (b"r1", b"g:a"): 1, (b"r2", b"f:a"): 1}
    assert cells.reads.unsettled == {(b"r1", b"f:a")}


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_wide_delete_looks_at_the_cells_of_its_row_only(kind):
    cells = cells_of("table", CodecName.UTF8, Count.ROWS, Detail.KEYS)
    for i in range(1500):
        play(cells, ("write", None, [[(b"%d" % (i // 3), b"f:%d" % i, b"1")]]), few=10)
    in_all_cells = patch("headgate.engine.cells.grid.np", None)
    with in_all_cells, patch.object(CellColumns, "get", side_effect=cells.columns.get) as get:
        play(cells, ("delete", b"7", b"f:21", kind), few=10)
    assert {call.args[0] for call in get.call_args_list} == {
        (b"7", b"f:%d" % i) for i in (21, 22, 23)
    }
    assert cells.columns.size == 1497


@pytest.mark.parametrize("left", [0, 3])
def test_columns_that_come_and_go_leave_no_name_behind(left):
    cells = cells_of("table", CodecName.UTF8, Count.ROWS, Detail.VALUES)
    for i in range(1500):
        play(cells, ("write", None, [[(b"r", b"f:%d" % i, b"1")]]), few=10)
        if i < 1500 - left:
            play(cells, ("delete", b"r", b"f:%d" % i, UpdateKind.DELETE_COLUMN), few=10)
    for pending in cells.watchers.pendings:
        pending.take().release()
    before = cells.columns.contents()
    cells.columns.tidy()
    assert len(cells.columns.grid.names) == left
    assert cells.columns.contents() == before
    assert cells.elements == bool(left)
    play(cells, ("write", None, [[(b"r", b"f:1", b"5"), (b"s", b"g:1", b"6")]]), few=10)
    assert cells.columns.contents() == before | {(b"r", b"f:1"): 5.0, (b"s", b"g:1"): 6.0}


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_wide_delete_takes_all_that_a_row_of_many_columns_has(kind):
    cells = cells_of("table", CodecName.UTF8, Count.ROWS, Detail.KEYS)
    names = [b"f:%d" % i for i in range(70)]
    play(cells, ("write", None, [[(row, name, b"1") for row in ROWS for name in names]]), few=0)
    play(cells, ("delete", ROWS[3], b"f:0", kind), few=0)
    assert cells.columns.size == 70 * (len(ROWS) - 1)
    assert not cells.columns.has_row(ROWS[3])


def test_rows_are_counted_on_after_others_have_left_no_room_behind():
    cells = cells_of("table", CodecName.UTF8, Count.ROWS, Detail.KEYS)
    rows = [b"%03d" % i for i in range(300)]
    play(
        cells, ("write", None, [[(row, column, b"1") for row in rows for column in COLUMNS]]), few=0
    )
    for row in rows[:-3]:
        play(cells, ("delete", row, b"", UpdateKind.DELETE_ROW), few=0)
    play(cells, ("tidy",), few=0)
    assert (cells.columns.grid.rows, cells.elements) == (3, 3)
    play(cells, ("delete", rows[-3], b"", UpdateKind.DELETE_ROW), few=0)
    play(cells, ("write", None, [[(b"new", COLUMNS[0], b"1")]]), few=0)
    assert cells.elements == 3


def test_a_grid_has_about_as_much_room_as_its_cells_take():
    cells = cells_of("table", CodecName.UTF8, Count.ROWS, Detail.KEYS)
    written = [(b"%d" % i, column, b"1") for i in range(1000) for column in COLUMNS]
    play(cells, ("write", None, [written]), few=0)
    assert 1000 * 8 <= len(cells.columns.grid.present.data) <= 1.5 * 1000 * 8


@pytest.mark.parametrize("small", [0, 4096])
@pytest.mark.parametrize("detail", [Detail.KEYS, Detail.VALUES])
def test_of_a_cell_that_comes_again_the_last_stands(small, detail):
    cells = cells_of("table", CodecName.UTF8, Count.ROWS, detail)
    again = [(b"r", b"f:a", b"1"), (b"s", b"f:a", b"2"), (b"r", b"f:a", b"3")]
    with patch("headgate.engine.cells.grid._SMALL", small):
        play(cells, ("write", None, [again]), few=0)
    values = (3.0, 2.0) if detail is Detail.VALUES else (1.0, 1.0)
    assert cells.columns.contents() == dict(
        zip([(b"r", b"f:a"), (b"s", b"f:a")], values, strict=True)
    )
    assert cells.columns.size == 2


def test_rows_that_come_and_go_leave_no_room_behind():
    cells = cells_of("column", CodecName.UTF8, Count.ROWS, Detail.VALUES)
    for i in range(3000):
        row = b"%06d" % i
        play(cells, ("write", None, [[(row, b"f:a", b"1")]]), few=10)
        play(cells, ("delete", row, b"f:a", UpdateKind.DELETE_COLUMN), few=10)
        cells.watchers.pendings[0].take().release()
        cells.watchers.pendings[1].take().release()
        cells.watchers.pendings[2].take().release()
        cells.columns.tidy()
    assert cells.columns.size == 0
    assert cells.columns.grid.rows < 2500


kinds = st.sampled_from(UpdateKind)
touched = st.lists(st.tuples(st.sampled_from(ROWS), st.sampled_from(COLUMNS), kinds), min_size=1)
items = st.builds(
    lambda family, qualifier, ends: Item("t", family, qualifier if family else None, *ends),
    st.sampled_from([None, b"f", b"g"]),
    st.sampled_from([None, b"a", b"b"]),
    st.sampled_from([(b"", None), (b"r2", b"r5"), (b"r4", None), (b"", b"r3"), (b"r5", b"r6")]),
)


@given(st.lists(st.lists(items, min_size=1, max_size=3), min_size=1, max_size=6), touched)
def test_updates_reach_the_containers_in_which_they_lie(containers, updates):
    watched = []
    for i, found in enumerate(containers):
        container = Container(ContainerId(f"c{i}"), tuple(found))
        watched.append(
            ContainerCells(WatchedContainer(container), "t", Detail.COUNTS, MemoryStorage())
        )
    rows, columns, kind = zip(*updates, strict=True)
    part = (RequestPart(0, "mutateRows", Outcome.APPLIED, 1.0, len(rows)),)
    nothing = (None,) * len(rows)
    arrived = Arrivals(None, part, bytes(kind), rows, columns, (-1,) * len(rows), nothing)
    routed = {cells: list(positions) for cells, positions in Router(watched).route(arrived)}
    for cells in watched:
        expected = [
            i
            for i, (row, column, k) in enumerate(zip(rows, columns, kind, strict=True))
            if any(item.is_touched_by(k, row, column) for item in cells.matcher.items)
        ]
        assert routed.get(cells, []) == expected


class Looked(tuple):
    """Requests that count how often all of them are looked at."""

    looks = 0

    def __iter__(self):
        type(self).looks += 1
        return super().__iter__()


def test_all_requests_are_looked_at_as_often_for_many_containers_as_for_one():
    requests = [[(row, b"f:a", b"1")] for row in ROWS]
    looks = []
    for containers in (1, 9):
        arrived = arrivals(None, requests)
        arrived.requests = Looked(arrived.requests)
        Looked.looks = 0
        for _ in range(containers):
            cells_of("table", CodecName.UTF8, Count.CELLS, Detail.VALUES).take(arrived, [0])
        looks.append(Looked.looks)
    assert looks[0] == looks[1] > 0
