"""Tables as their events tell them, against cells looked at one by one."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from headgate.engine import Codec, CodecName, WatchedContainer
from headgate.events import (
    VERSION,
    Container,
    ContainerId,
    Item,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
    partition_of,
)
from headgate.replay.recording import NotRecorded
from headgate.replay.tables import UNKNOWN, ContainerExtent, RecordedTables

Held = dict[tuple[bytes, bytes], bytes]
Update = tuple[UpdateKind, bytes, bytes, bytes | None]

ROWS = (b"a", b"b", b"d")
COLUMNS = (b"f:x", b"f:y", b"ff:x", b"g:x")
EVERYTHING = Container(ContainerId("all"), (Item("t"),))


def batch(*requests: tuple[Update, ...]) -> UpdateBatch:
    updates = [update for request in requests for update in request]
    parts = tuple(
        RequestPart(number, "mutateRows", Outcome.APPLIED, 1.0, len(request))
        for number, request in enumerate(requests)
    )
    kinds, rows, columns, values = zip(*updates, strict=True)
    stamps = (-1,) * len(updates)
    return UpdateBatch(
        VERSION, "o", 1, 0, 0, "t", parts, bytes(kinds), rows, columns, stamps, values
    )


def drawn(chance: random.Random) -> Update:
    kind, row, column = chance.choice(list(UpdateKind)), chance.choice(ROWS), chance.choice(COLUMNS)
    match kind:
        case UpdateKind.DELETE_ROW:
            return kind, row, b"", None
        case UpdateKind.DELETE_FAMILY | UpdateKind.DELETE_FAMILY_VERSION:
            return kind, row, column.partition(b":")[0] + b":", None
        case UpdateKind.DELETE_CELL | UpdateKind.DELETE_COLUMN:
            return kind, row, column, None
    return kind, row, column, chance.choice([b"1", b"2", None])


def done(held: Held, update: Update) -> Iterator[tuple[bytes, bytes, bytes | None, bytes | None]]:
    """Do one update to all that is held; yield row, column, value before and after."""
    kind, row, column, value = update
    puts = {UpdateKind.PUT, UpdateKind.INCREMENT, UpdateKind.APPEND}
    deltas = {UpdateKind.INCREMENT_DELTA, UpdateKind.APPEND_DELTA}
    if kind in puts or kind in deltas:
        after = UNKNOWN if value is None or kind in deltas else value
        yield row, column, held.get((row, column)), after
        held[row, column] = after
        return
    if kind in (UpdateKind.DELETE_CELL, UpdateKind.DELETE_COLUMN):
        yield row, column, held.pop((row, column), None), None
        return
    for place in sorted(held):
        if place[0] == row and place[1].startswith(column):
            yield *place, held.pop(place), None


@pytest.mark.parametrize("seed", range(30))
def test_each_update_does_what_its_kind_says(seed: int) -> None:
    chance = random.Random(seed)
    tables, held = RecordedTables(), Held()
    for _ in range(30):
        requests = [tuple(drawn(chance) for _ in range(chance.randint(1, 3))) for _ in range(2)]
        expected = [
            (number, ("t", row, column), before, after)
            for number, request in enumerate(requests)
            for update in request
            for row, column, before, after in done(held, update)
        ]
        found = tables.apply(batch(*requests))
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        cells = dict(tables.cells(EVERYTHING, "t"))
        assert cells == {("t", *place): value for place, value in held.items()}
        for place, value in held.items():
            assert tables.value(("t", *place)) is value or tables.value(("t", *place)) == value
    assert tables.value(("t", b"a", b"no:such")) is None
    assert tables.value(("other", b"a", b"f:x")) is None


@pytest.mark.parametrize("family", ["", "f"])
def test_a_change_of_a_table_takes_its_partitions_cells(family: str) -> None:
    tables = RecordedTables()
    puts = tuple((UpdateKind.PUT, row, column, b"1") for row in ROWS for column in COLUMNS)
    tables.apply(batch(puts))
    change = TableChange(
        VERSION, "o", 1, 0, 0, "t", TableChangeKind.FAMILY_DROPPED, Outcome.APPLIED, 1.0, family
    )
    gone = tables.change(change, partition_of(b"a", 2), 2)
    expected = [
        (0, ("t", row, column), b"1", None)
        for row in ROWS
        for column in COLUMNS
        if partition_of(row, 2) == partition_of(b"a", 2)
        and column.startswith(f"{family}:".encode() if family else b"")
    ]
    assert sorted(gone) == expected
    assert {partition_of(row, 2) for row in ROWS} == {0, 1}
    left = {cell for cell, _ in tables.cells(EVERYTHING, "t")}
    assert len(left) == len(ROWS) * len(COLUMNS) - len(expected)
    assert left.isdisjoint(cell for _, cell, _, _ in expected)
    elsewhere = TableChange(
        VERSION, "o", 1, 0, 0, "u", TableChangeKind.DROPPED, Outcome.APPLIED, 1.0
    )
    assert tables.change(elsewhere, 0, 1) == []


PARTS = Container(
    ContainerId("parts"),
    (
        Item("t", b"f", b"x", b"b", b"d"),
        Item("t", b"f", b"x", b"x", b"z"),
        Item("t", b"g"),
        Item("u", b"f", b"y"),
    ),
)
INSIDE = [("t", b"b", b"f:x"), ("t", b"c", b"f:x"), ("t", b"y", b"f:x"), ("t", b"a", b"g:x")]
OUTSIDE = [("t", b"a", b"f:x"), ("t", b"d", b"f:x"), ("t", b"b", b"f:y"), ("u", b"b", b"f:x")]


def extent(name: CodecName) -> ContainerExtent:
    return ContainerExtent(WatchedContainer(PARTS, codec=Codec(name)))


def test_a_container_has_the_cells_of_its_parts() -> None:
    found = extent(CodecName.OPAQUE)
    for _ in range(2):  # what is known of a column is kept
        assert [found.has(cell) for cell in INSIDE] == [True] * len(INSIDE)
        assert [found.has(cell) for cell in OUTSIDE] == [False] * len(OUTSIDE)
    tables = RecordedTables()
    tables.apply(
        batch(tuple((UpdateKind.PUT, r, c, b"1") for t, r, c in INSIDE + OUTSIDE if t == "t"))
    )
    assert sorted(c for c, _ in tables.cells(PARTS, "t")) == sorted(INSIDE)
    assert list(tables.cells(PARTS, "u")) == []


def test_values_are_numbers_and_no_cell_is_nought() -> None:
    cell, text = INSIDE[0], extent(CodecName.UTF8)
    assert text.numeric
    assert text.number(cell, b"2.5") == 2.5
    assert text.number(cell, None) == 0.0
    assert text.number(cell, b"nan") == 0.0
    assert text.number(cell, b"no number") == 0.0
    with pytest.raises(NotRecorded, match="column 'f:x'"):
        text.number(cell, UNKNOWN)
    opaque = extent(CodecName.OPAQUE)
    assert not opaque.numeric
    assert opaque.number(cell, b"2.5") == opaque.number(cell, UNKNOWN) == 0.0
