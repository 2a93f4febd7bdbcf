"""Increments of random lives of a table, summed by name, are what the table holds in the end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from stored_table import StoredTable

from headgate.engine import Codec, OnUndecodable, WatchedContainer
from headgate.events import (
    REST_OF_ROW,
    Container,
    ContainerId,
    Cut,
    Item,
    Outcome,
    RequestPart,
    UpdateBatch,
    UpdateKind,
    key_bytes,
)
from headgate.spark.changes import ChangedCells
from headgate.spark.changes_reading import ChangesReader
from headgate.spark.column_names import ColumnNames
from headgate.spark.source.undecodable import Decoding, UndecodedValues
from headgate.spark.source.values import ValueType
from headgate.spark.views import ContainerView, view_of

RAW = Decoding(Codec(), ValueType.BINARY, OnUndecodable.NULL)
FAMILIES = (b"a", b"b")
ROWS = (b"r1", b"\xff", b"\\")
COLUMNS = (b"a:n", b"b:n", b"a:\xff", b"b:\xfe")
ITEMS = st.sampled_from(
    [
        Item("t"),
        Item("t", b"a"),
        Item("t", b"b"),
        Item("t", b"a", b"n"),
        Item("t", b"b", b"n"),
        Item("t", b"b", None, b"r", None),
    ]
)
rows = st.sampled_from(ROWS)
OPERATIONS = st.one_of(
    st.tuples(st.just(UpdateKind.PUT), rows, st.sampled_from(COLUMNS)),
    st.tuples(st.just(UpdateKind.DELETE_COLUMN), rows, st.sampled_from(COLUMNS)),
    st.tuples(st.just(UpdateKind.DELETE_FAMILY), rows, st.sampled_from([b"a:", b"b:"])),
    st.tuples(st.just(UpdateKind.DELETE_ROW), rows, st.just(b"")),
)
INCREMENTS = st.lists(st.lists(OPERATIONS, min_size=1, max_size=4), min_size=1, max_size=6)


@given(st.lists(ITEMS, min_size=1, max_size=3), INCREMENTS)
@settings(max_examples=settings().max_examples * 2)
def test_what_increments_come_to_is_what_the_table_holds(items: list[Item], life: Any) -> None:
    view = view_of(WatchedContainer(Container(ContainerId("c"), tuple(items))))
    names = ColumnNames(view, lambda: FAMILIES)
    table = StoredTable("a", "b")
    state: dict[tuple[bytes, str], bytes] = {}
    for number, operations in enumerate(life):
        changed = ChangedCells(view)
        for at, (kind, row, column) in enumerate(operations):
            value = b"%d.%d" % (number, at)
            carry_out(table, kind, row, column, value)
            changed.add(told(kind, row, column, value, at), 0)
        unread = changed.unread()
        changed.settle(
            unread, {row: table.rows["t"][row] for row in unread if row in table.rows["t"]}
        )
        take_in(state, view, names, changed)

        assert state == recount(view, names, table)


def carry_out(table: StoredTable, kind: int, row: bytes, column: bytes, value: bytes) -> None:
    match kind:
        case UpdateKind.PUT:
            table.put_columns("t", [row], {column: [value]})
        case UpdateKind.DELETE_ROW:
            table.delete("t", [row])
        case _:
            table.delete("t", [row], [column.removesuffix(b":")])


def told(kind: UpdateKind, row: bytes, column: bytes, value: bytes, intent: int) -> UpdateBatch:
    part = RequestPart(intent, "m", Outcome.APPLIED, 0.0, 1)
    given = value if kind is UpdateKind.PUT else None
    return UpdateBatch(
        1, "o", 1, intent, 0, "t", (part,), bytes([kind]), (row,), (column,), (-1,), (given,)
    )


def take_in(
    state: dict[tuple[bytes, str], bytes],
    view: ContainerView,
    names: ColumnNames,
    changed: ChangedCells,
) -> None:
    """Take an increment in as ``differences`` does: by row and name."""
    containers: Any = SimpleNamespace(column_names=lambda _: names)
    unused: Any = None
    reader = ChangesReader(unused, containers, unused, unused, Cut(), Cut(), UndecodedValues(), {})
    rows = reader.arrow(view, cast(Any, changed.cells), RAW).to_pylist()
    cells = {(key_bytes(row["row"]), row["column"]): row["value"] for row in rows}
    for row in {row for row, column in cells if column == REST_OF_ROW.decode()}:
        for cell in [cell for cell in state if cell[0] == row and cell not in cells]:
            del state[cell]
    for cell, value in cells.items():
        if isinstance(value, bytes):
            state[cell] = value
        else:
            state.pop(cell, None)


def recount(
    view: ContainerView, names: ColumnNames, table: StoredTable
) -> dict[tuple[bytes, str], bytes]:
    return {
        (row, names.name(column)): value
        for row, cells in table.rows["t"].items()
        for column, value in cells.items()
        if view.has(row, column)
    }
