"""What a long life leaves behind: rounds of names that come and go must not add up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from contradiction import require
from hostile_store import Cell, Fate

from engine import dataflows as flows
from engine.life import EngineLife
from headgate.engine import (
    ActionRole,
    Array,
    Index,
    MemoryIndex,
    ReconciliationDue,
    RunRequested,
    blank,
)
from headgate.events import UpdateKind

NAMES = 1500  # in a round: above what a grid finds worth tidying
EPOCHS = 200  # of each observer in a round
_ROOM = 5_000  # bytes, or keys, by which rounds may differ: small grids are not tidied


class CountedIndex(MemoryIndex):
    """An index that knows whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def close(self) -> None:
        """See ``Index``."""
        super().close()
        self.closed = True


class CountedStorage:
    """Counts what an engine keeps in its storage."""

    def __init__(self) -> None:
        self._indices: list[CountedIndex] = []

    def index(self) -> Index:
        """See ``Storage``."""
        self._indices.append(CountedIndex())
        return self._indices[-1]

    def array(self, size: int, dtype: Any) -> Array:
        """See ``Storage``."""
        return blank(size, dtype)

    @property
    def keys(self) -> int:
        """How many keys there are that were not given back."""
        return sum(len(index) for index in self._indices if not index.closed)


def grow_old(life: EngineLife, rounds: int = 5) -> None:
    """Live through rounds that are alike, and look at what each leaves."""
    storage = CountedStorage()
    life.mend()
    life.begin_anew(storage)
    left = [_round(life, number, storage) for number in range(rounds)]
    for what, sizes in zip(
        ("bytes of snapshot", "keys in the storage"), zip(*left, strict=True), strict=True
    ):
        words = f"{what} after rounds that leave nothing: {sizes}"
        # The first has what was there before, too.
        require(holds=sizes[-1] <= sizes[1] * 1.2 + _ROOM, words=words)


def _round(life: EngineLife, number: int, storage: CountedStorage) -> tuple[int, int]:
    chance, store = life.chance, life.store
    for _ in range(EPOCHS):
        store.mark(flows.TABLES)
        for observer in list(store.observers):
            store.restart(observer)
    cells = [_cell(number, n, wide=number % 2 == 1) for n in range(NAMES)]
    for part in _parts(cells, 250):
        store.write(chance.choice(flows.INPUTS), part, Fate.TOLD)
    life.delivery.deliver_all()
    for _ in range(2):
        life.edit()
        life.settle()
    for table in flows.INPUTS:
        deletes = [Cell(*key, UpdateKind.DELETE_COLUMN) for key in store.tables.get(table, {})]
        for part in _parts(deletes, 300):
            store.write(table, part, Fate.TOLD)
    life.settle()
    # What is in doubt is read once more, so that nothing has to be remembered of it.
    life.handle(ReconciliationDue(store.now))
    life.settle()
    for action in life.spec.actions:
        if action.role is ActionRole.STEP:
            life.handle(RunRequested(store.now, action.name))
    life.end()
    return len(life.engine.snapshot()), storage.keys


def _cell(number: int, n: int, *, wide: bool) -> Cell:
    name = b"%d-%d-" % (number, n) + b"x" * 60
    row, column = (b"one", b"f:" + name) if wide else (name, b"f:a")
    return Cell(row, column, UpdateKind.PUT, b"1")


def _parts(cells: Sequence[Cell], size: int) -> Iterable[Sequence[Cell]]:
    return (cells[start : start + size] for start in range(0, len(cells), size))
