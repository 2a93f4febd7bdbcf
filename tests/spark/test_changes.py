"""What messages tell about the cells of a container, and what must be read."""

from __future__ import annotations

from headgate.engine import WatchedContainer
from headgate.events import (
    BarrierMark,
    Container,
    ContainerId,
    Gap,
    Item,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
)
from headgate.spark.changes import READ, ChangedCells
from headgate.spark.views import view_of

PUT = UpdateKind.PUT


def changed(*items: Item) -> ChangedCells:
    items = items or (Item("t", b"f", b"a"), Item("t", b"f", b"b"))
    return ChangedCells(view_of(WatchedContainer(Container(ContainerId("c"), items))))


def batch(
    *cells: tuple[UpdateKind, bytes, bytes, bytes | None],
    intent: int = 1,
    outcome: Outcome = Outcome.APPLIED,
    ambiguous: tuple[int, ...] = (),
    timestamp: int = -1,
) -> UpdateBatch:
    part = RequestPart(intent, "m", outcome, 0.0, len(cells), ambiguous=ambiguous)
    return UpdateBatch(
        1, "o", 1, 0, 0, "t", (part,),
        bytes(cell[0] for cell in cells),
        tuple(cell[1] for cell in cells),
        tuple(cell[2] for cell in cells),
        (timestamp,) * len(cells),
        tuple(cell[3] for cell in cells),
    )  # fmt: skip


def test_the_last_put_of_a_cell_counts() -> None:
    cells = changed()
    cells.add(batch((PUT, b"r", b"f:a", b"1"), intent=1), 0)
    cells.add(batch((PUT, b"r", b"f:a", b"2"), (PUT, b"s", b"f:b", b"3"), intent=2), 0)

    assert cells.cells == {(b"r", b"f:a"): b"2", (b"s", b"f:b"): b"3"}


def test_a_request_that_comes_twice_counts_once() -> None:
    cells = changed()
    first = batch((PUT, b"r", b"f:a", b"1"), intent=1)
    cells.add(first, 0)
    cells.add(batch((PUT, b"r", b"f:a", b"2"), intent=2), 0)
    cells.add(first, 0)

    assert cells.cells == {(b"r", b"f:a"): b"2"}


def test_the_parts_of_a_request_in_two_partitions_count_both() -> None:
    cells = changed()
    cells.add(batch((PUT, b"r", b"f:a", b"1")), 0)
    cells.add(batch((PUT, b"s", b"f:a", b"2")), 1)

    assert cells.cells == {(b"r", b"f:a"): b"1", (b"s", b"f:a"): b"2"}


def test_cells_outside_the_container_are_left_out() -> None:
    cells = changed(Item("t", b"f", b"a", b"m", None))
    cells.add(batch((PUT, b"a", b"f:a", b"1"), (PUT, b"n", b"g:a", b"1")), 0)

    assert cells.cells == {}


def test_a_deleted_column_has_no_value() -> None:
    cells = changed()
    cells.add(batch((UpdateKind.DELETE_COLUMN, b"r", b"f:a", None)), 0)

    assert cells.cells == {(b"r", b"f:a"): None}
    assert cells.unread() == []


def test_what_is_not_certain_must_be_read() -> None:
    for uncertain in (
        batch((PUT, b"r", b"f:a", b"1"), outcome=Outcome.UNKNOWN),
        batch((PUT, b"r", b"f:a", b"1"), ambiguous=(0,)),
        batch((PUT, b"r", b"f:a", b"1"), timestamp=5),
        batch((PUT, b"r", b"f:a", None)),
        batch((UpdateKind.INCREMENT_DELTA, b"r", b"f:a", b"1")),
        batch((UpdateKind.APPEND_DELTA, b"r", b"f:a", b"1")),
        batch((UpdateKind.DELETE_CELL, b"r", b"f:a", None)),
    ):
        cells = changed()
        cells.add(uncertain, 0)

        assert cells.cells == {(b"r", b"f:a"): READ}, uncertain
        assert cells.unread() == [b"r"]


def test_a_deleted_row_has_all_columns_of_the_container_read() -> None:
    cells = changed()
    cells.add(batch((UpdateKind.DELETE_ROW, b"r", b"", None)), 0)

    assert cells.cells == {(b"r", b"f:a"): READ, (b"r", b"f:b"): READ}


def test_a_deleted_family_reaches_its_own_columns_only() -> None:
    cells = changed(Item("t", b"f", b"a"), Item("t", b"g", b"b"))
    cells.add(batch((UpdateKind.DELETE_FAMILY, b"r", b"g:", None)), 0)

    assert cells.cells == {(b"r", b"g:b"): READ}


def test_a_deleted_row_of_a_table_without_named_columns_is_one_change() -> None:
    cells = changed(Item("t"))
    cells.add(batch((UpdateKind.DELETE_ROW, b"r", b"", None)), 0)

    assert cells.cells == {(b"r", b""): READ}


def test_what_was_read_takes_the_place_of_what_was_not_known() -> None:
    cells = changed()
    cells.add(batch((UpdateKind.DELETE_ROW, b"r", b"", None)), 0)
    cells.settle([b"r"], {b"r": {b"f:a": b"5"}})

    assert cells.cells == {(b"r", b"f:a"): b"5", (b"r", b"f:b"): None}


def test_a_later_put_makes_a_deleted_cell_certain_again() -> None:
    cells = changed(Item("t", b"f", b"a"))
    cells.add(batch((UpdateKind.DELETE_ROW, b"r", b"", None), intent=1), 0)
    cells.add(batch((PUT, b"r", b"f:a", b"1"), intent=2), 0)

    assert cells.cells == {(b"r", b"f:a"): b"1"}


def test_an_emptied_table_and_a_gap_change_everything() -> None:
    for message in (
        TableChange(1, "o", 1, 0, 1, "t", TableChangeKind.TRUNCATED, Outcome.APPLIED, 0.0),
        Gap(1, "o", 1, 0, "t", 0.0, 1.0, "Kafka was down"),
    ):
        cells = changed()
        cells.add(message, 0)

        assert cells.everything


def test_a_disabled_table_and_a_barrier_change_nothing() -> None:
    cells = changed()
    cells.add(TableChange(1, "o", 1, 0, 1, "t", TableChangeKind.DISABLED, Outcome.APPLIED, 0.0), 0)
    cells.add(BarrierMark(1, "o", 1, 1, "b"), 0)

    assert not cells.everything
    assert cells.cells == {}
