"""What messages tell about the cells of a container, and what must be read."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from msgspec.structs import replace
from tests.hostile_lives import TABLE, Life
from tests.seeds import each_seed

from headgate.engine import WatchedContainer
from headgate.events import (
    BarrierMark,
    Container,
    ContainerId,
    Dated,
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
        1, "o", 1, intent, 0, "t", (part,),
        bytes(cell[0] for cell in cells),
        tuple(cell[1] for cell in cells),
        tuple(cell[2] for cell in cells),
        (timestamp,) * len(cells),
        tuple(cell[3] for cell in cells),
    )  # fmt: skip


def told(
    intent: int,
    value: bytes,
    *,
    sequence: int | None = None,
    observer: str = "o",
    received: float = 0.0,
    row: bytes = b"r",
) -> UpdateBatch:
    """One put of column ``f:a``."""
    made = batch((PUT, row, b"f:a", value), intent=intent)
    (part,) = made.requests
    return replace(
        made,
        observer=observer,
        sequence=intent if sequence is None else sequence,
        requests=(replace(part, received=received),),
    )


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
    cells.add(BarrierMark(1, "o", 1, 1, "b", 1), 0)

    assert not cells.everything
    assert cells.cells == {}


def test_a_request_told_again_is_not_newer_than_what_was_told_after_it() -> None:
    cells = changed()
    cells.add(told(2, b"2", sequence=7), 0)
    cells.add(told(1, b"1", sequence=6), 0)  # its first message lies before the last cut
    cells.add(told(2, b"2", sequence=7), 0)

    assert cells.cells == {(b"r", b"f:a"): READ}


def test_a_row_that_two_observers_wrote_at_one_time_must_be_read() -> None:
    cells = changed()
    cells.add(told(1, b"1", observer="one", received=100.0), 0)
    cells.add(told(1, b"2", observer="two", received=100.5), 0)

    assert cells.cells == {(b"r", b"f:a"): READ}


def test_a_row_that_they_wrote_one_after_the_other_need_not() -> None:
    cells = changed()
    cells.add(told(1, b"1", observer="one", received=100.0), 0)
    cells.add(told(1, b"2", observer="two", received=105.0), 0)

    assert cells.cells == {(b"r", b"f:a"): b"2"}


def test_a_row_whose_updates_lie_in_two_partitions_must_be_read() -> None:
    for order in ((3, 0), (0, 3)):
        cells = changed()
        for intent, partition in enumerate(order):
            cells.add(told(intent, b"%d" % intent), partition)
        cells.add(told(9, b"9", row=b"s"), 0)

        assert cells.cells == {(b"r", b"f:a"): READ, (b"s", b"f:a"): b"9"}
        assert cells.unread() == [b"r"]
        cells.settle([b"r"], {b"r": {b"f:a": b"5"}})
        assert cells.cells == {(b"r", b"f:a"): b"5", (b"s", b"f:a"): b"9"}


def test_deleted_rows_take_as_long_as_they_are_many() -> None:
    class Counted(bytes):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return bytes.__eq__(self, other)

        __hash__ = bytes.__hash__

    cells = changed()
    rows = [Counted(b"%d" % i) for i in range(300)]
    cells.add(batch(*((PUT, row, b"f:a", b"1") for row in rows)), 0)
    cells.add(batch(*((UpdateKind.DELETE_ROW, row, b"", None) for row in rows), intent=2), 0)

    assert cells.unread() == sorted(rows)
    assert Counted.compared < 20 * len(rows)


def test_cells_that_are_told_of_and_not_there_are_deleted() -> None:
    cells = changed()
    cells.add(batch((PUT, b"r1", b"f:a", b"1"), (PUT, b"r2", b"f:a", b"2"), intent=1), 0)
    gone = [(UpdateKind.DELETE_COLUMN, row, b"f:a", None) for row in (b"r2", b"r3")]
    cells.add(batch(*gone, intent=2), 0)
    there = {(b"r1", b"f:a"): b"5", (b"r3", b"f:a"): b"6", (b"r4", b"f:b"): b"7"}
    assert cells.with_deleted(dict(there)) == {**there, (b"r2", b"f:a"): None}


def test_of_a_row_that_is_there_only_columns_known_by_name_are_deleted() -> None:
    cells = changed(Item("t"))
    cells.add(batch((UpdateKind.DELETE_ROW, b"r", b"", None), intent=1), 0)
    assert cells.with_deleted({(b"r", b"f:a"): b"1"}) == {(b"r", b"f:a"): b"1"}
    assert cells.with_deleted({}) == {(b"r", b""): None}


def test_a_counter_that_was_only_read_has_not_changed() -> None:
    cells = changed()
    for intent, ambiguous in enumerate(((), (0,)), start=1):
        made = batch(
            (UpdateKind.INCREMENT, b"r%d" % intent, b"f:a", bytes(8)),
            intent=intent,
            ambiguous=ambiguous,
        )
        (part,) = made.requests
        cells.add(replace(made, requests=(replace(part, zero_increments=(0,)),)), 0)

    assert cells.cells == {(b"r2", b"f:a"): READ}


COLUMNS = (b"f:a", b"f:b", b"g:a")
ITEMS = tuple(Item(TABLE, *column.split(b":")) for column in COLUMNS)


def changed_since(
    dated: Dated, ttls: Mapping[bytes, int] | None = None, now: float = 0.0
) -> ChangedCells:
    view = view_of(WatchedContainer(Container(ContainerId("c"), ITEMS)))
    return ChangedCells(view, dated.state(), ttls=ttls or {}, now=now)


@each_seed(150, 20_000)
def test_changes_between_two_cuts_are_what_hbase_shows(seed: int) -> None:
    chance = random.Random(seed)
    life = Life(chance, columns=COLUMNS, cell_ttls=seed % 3 == 1, thrift2=seed % 2 == 1)
    if seed % 3 == 2:
        life.table.ttls = {b"f": chance.choice((3_000, 60_000))}
    dated = Dated()
    mortal: set[tuple[bytes, bytes]] = set()
    """Cells that may expire without a word, as those of a family that expires."""
    for _ in range(chance.randrange(8)):
        for batch in life.go_on():
            dated.doubtful(batch)
            if batch.requests[0].ttls:
                mortal.add((batch.rows[0], batch.columns[0]))
    before, state = life.table.shown(), dated.state()
    batches: list[UpdateBatch] = []
    for _ in range(chance.randrange(1, 8)):
        batches += life.go_on()
        known = Dated(state)
        cells = changed_since(known, life.table.ttls, life.clock * 1000)
        for batch in batches:
            cells.add(batch, 0)
        shown = life.table.shown()
        for key, latest in cells.cells.items():
            # An increment keeps a time to live of before the cut, which no event after it has.
            assert latest is READ or latest == shown.get(key) or key in mortal, key
        moved = {key for key in shown.keys() | before.keys() if shown.get(key) != before.get(key)}
        expiring = {key for key in moved if key[1].partition(b":")[0] in life.table.ttls}
        assert moved <= cells.cells.keys() | expiring | mortal


@pytest.mark.parametrize(
    ("kind", "settled"),
    [(PUT, True), (UpdateKind.DELETE_COLUMN, True), (UpdateKind.INCREMENT, False)],
)
def test_a_cell_with_a_time_to_live_is_read_until_it_is_written_anew(
    kind: UpdateKind, settled: bool
) -> None:
    cells = changed()
    mortal = told(1, b"1")
    (part,) = mortal.requests
    cells.add(replace(mortal, requests=(replace(part, ttls=(60_000,)),)), 0)
    assert cells.cells == {(b"r", b"f:a"): READ}
    assert cells.mortal == {(b"r", b"f:a")}
    value = None if kind is UpdateKind.DELETE_COLUMN else bytes(8)
    cells.add(batch((kind, b"r", b"f:a", value), intent=2), 0)
    assert cells.cells == {(b"r", b"f:a"): value if settled else READ}


def test_a_cell_is_read_if_its_family_lets_it_expire_before_it_is_looked_at() -> None:
    ttl = {b"f": 60_000}
    for now, settled in ((10_000, True), (70_000, False)):
        cells = changed_since(Dated(), ttl, now)
        cells.add(batch((PUT, b"r", b"f:a", b"1")), 0)
        cells.add(batch((PUT, b"r", b"g:a", b"1"), intent=2), 0)
        found = b"1" if settled else READ
        assert cells.cells == {(b"r", b"f:a"): found, (b"r", b"g:a"): b"1"}


AHEAD = 10_000_000


def dated_put(
    intent: int,
    kind: UpdateKind = UpdateKind.PUT,
    value: bytes | None = b"1",
    *,
    timestamp: int = -1,
    received: float = 1000.0,
) -> UpdateBatch:
    part = RequestPart(intent, "m", Outcome.APPLIED, received, 1)
    column = b"" if kind is UpdateKind.DELETE_ROW else b"f:a"
    return UpdateBatch(
        1, "o", 1, intent, 0, TABLE, (part,), bytes([kind]), (b"r",), (column,), (timestamp,),
        (value,),
    )  # fmt: skip


@pytest.mark.parametrize("earlier", [True, False], ids=["before the cut", "after the cut"])
@pytest.mark.parametrize("kind", [UpdateKind.PUT, UpdateKind.DELETE_COLUMN])
def test_what_a_version_of_the_future_hides_is_read(kind: UpdateKind, earlier: bool) -> None:
    dated = Dated()
    ahead = dated_put(1, value=b"9", timestamp=AHEAD)
    if earlier:
        dated.doubtful(ahead)
    cells = changed_since(dated)
    if not earlier:
        cells.add(ahead, 0)
    cells.add(dated_put(2, kind), 0)
    assert cells.cells[b"r", b"f:a"] is READ


def test_a_put_after_the_time_of_that_version_need_not_be_read() -> None:
    dated = Dated()
    dated.doubtful(dated_put(1, value=b"9", timestamp=AHEAD))
    cells = changed_since(dated)
    cells.add(dated_put(2, received=AHEAD / 1000 + 31), 0)
    assert cells.cells == {(b"r", b"f:a"): b"1"}


def test_what_a_delete_marker_of_the_future_hides_is_read() -> None:
    cells = changed_since(Dated())
    cells.add(dated_put(1, UpdateKind.DELETE_ROW, None, timestamp=AHEAD), 0)
    cells.add(dated_put(2), 0)
    assert cells.cells[b"r", b"f:a"] is READ
