"""Changes have of each cell what HBase shows, or say that it has to be read."""

import random

import pytest
from tests.hostile_lives import TABLE, Life
from tests.seeds import seeds

from headgate.engine import WatchedContainer
from headgate.events import (
    Container,
    ContainerId,
    Dated,
    Item,
    Outcome,
    RequestPart,
    UpdateBatch,
    UpdateKind,
)
from headgate.spark.changes import READ, ChangedCells
from headgate.spark.views import view_of

COLUMNS = (b"f:a", b"f:b", b"g:a")
ITEMS = tuple(Item(TABLE, *column.split(b":")) for column in COLUMNS)


def changed(dated: Dated) -> ChangedCells:
    view = view_of(WatchedContainer(Container(ContainerId("c"), ITEMS)))
    return ChangedCells(view, dated.state())


@pytest.mark.parametrize("seed", seeds(150, 20_000))
def test_changes_between_two_cuts_are_what_hbase_shows(seed: int) -> None:
    chance = random.Random(seed)
    life = Life(chance, columns=COLUMNS)
    dated = Dated()
    for _ in range(chance.randrange(8)):
        for batch in life.go_on():
            dated.doubtful(batch)
    before = life.table.shown()
    cells = changed(dated)
    for _ in range(chance.randrange(1, 8)):
        for batch in life.go_on():
            cells.add(batch, 0)
        shown = life.table.shown()
        for key, latest in cells.cells.items():
            assert latest is READ or latest == shown.get(key), key
        moved = {key for key in shown.keys() | before.keys() if shown.get(key) != before.get(key)}
        assert moved <= cells.cells.keys()


AHEAD = 10_000_000


def told(
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
    ahead = told(1, value=b"9", timestamp=AHEAD)
    if earlier:
        dated.doubtful(ahead)
    cells = changed(dated)
    if not earlier:
        cells.add(ahead, 0)
    cells.add(told(2, kind), 0)
    assert cells.cells[b"r", b"f:a"] is READ


def test_a_put_after_the_time_of_that_version_need_not_be_read() -> None:
    dated = Dated()
    dated.doubtful(told(1, value=b"9", timestamp=AHEAD))
    cells = changed(dated)
    cells.add(told(2, received=AHEAD / 1000 + 31), 0)
    assert cells.cells == {(b"r", b"f:a"): b"1"}


def test_what_a_delete_marker_of_the_future_hides_is_read() -> None:
    cells = changed(Dated())
    cells.add(told(1, UpdateKind.DELETE_ROW, None, timestamp=AHEAD), 0)
    cells.add(told(2), 0)
    assert cells.cells[b"r", b"f:a"] is READ
