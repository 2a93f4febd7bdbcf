"""What clients and strangers write beside an engine, and what comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostile_store import Cell, Fate

from engine import dataflows as flows
from engine.edges import extreme, usual
from headgate.events import Origin, UpdateKind

if TYPE_CHECKING:
    from engine.life import EngineLife


FATES: dict[Fate, tuple[float, ...]] = {
    Fate.TOLD: (10.0,),
    Fate.LATE: (0.0, 3.0),
    Fate.LOST: (0.0, 0.0, 1.0),
    Fate.UNKNOWN: (0.0, 0.0, 1.0),
    Fate.REFUSED: (0.0, 0.0, 1.0),
    Fate.PASSED: (0.0, 0.0, 0.5),
}


class Writing:
    """Whoever writes into the tables of a dataflow.

    Args:
        life: of the engine.
        fates: how likely each fate of a write is, beside the others.
        wild: how likely a value lies at the edges of its type.
        orderly: whether each write that counts is told at once.
    """

    def __init__(
        self, life: EngineLife, fates: dict[Fate, float], wild: float, *, orderly: bool
    ) -> None:
        self._life = life
        self._chance = life.chance
        self._store = life.store
        self._fates = fates
        self._wild = wild
        self._orderly = orderly
        self._floods = 0
        self.own_rows: dict[str, set[bytes]] = {}
        """Rows by table that the dataflow or its feeders have written."""

    def _origin(self) -> Origin | None:
        kinds = [None, None, Origin("", "", "", 0, "collector"), Origin("other", "x", "r", 1)]
        if self._life.spec.feeders is not None:
            kinds += [Origin("", "", "", 0, "collector")] * 4
        return self._chance.choice(kinds)

    def value(self) -> bytes:
        """Return a value as the dataflow reads them, or one at the edges of its type."""
        codec = self._life.spec.containers[0].codec.name
        wild = self._chance.random() < self._wild
        return (extreme if wild else usual)(codec, self._chance)

    def _cell(self) -> Cell:
        row, column = self._chance.choice(flows.ROWS), self._chance.choice(flows.COLUMNS)
        kind = self._chance.random()
        if kind < 0.85:
            return Cell(row, column, UpdateKind.PUT, self.value())
        if kind < 0.94:
            return Cell(row, column, UpdateKind.DELETE_COLUMN)
        if kind < 0.97:
            return Cell(row, self._chance.choice(flows.FAMILIES), UpdateKind.DELETE_FAMILY)
        return Cell(row, b"", UpdateKind.DELETE_ROW)

    def write_cells(self, table: str, cells: list[Cell], origin: Origin | None) -> None:
        """Have somebody write cells; what becomes of it is drawn."""
        fates = list(self._fates)
        fate = self._chance.choices(fates, [self._fates[fate] for fate in fates])[0]
        counts = self._life.spec.feeders is None or self._is_own(origin)
        if self._orderly and counts:
            fate = Fate.TOLD
        # A stranger's write counts nothing, whatever came of it, if only it was told.
        if fate not in (Fate.TOLD, Fate.LATE) and (counts or fate in (Fate.LOST, Fate.PASSED)):
            self._life.certain = False
        if self._is_own(origin):
            self.own_rows.setdefault(table, set()).update(cell.row for cell in cells)
        self._write_as(table, cells, fate, origin)

    def _write_as(
        self, table: str, cells: list[Cell], fate: Fate, origin: Origin | None = None
    ) -> None:
        self._store.write(table, cells, fate, origin)
        self._life.certain &= not self._store.disordered

    def write(self) -> None:
        """Some cells are written, or rows and families deleted."""
        for _ in range(self._chance.randint(1, 4)):
            cells = [self._cell() for _ in range(self._chance.choice((1, 1, 2, 9)))]
            unique = {(cell.row, cell.column): cell for cell in cells}
            wide = any(
                cell.kind not in (UpdateKind.PUT, UpdateKind.DELETE_COLUMN) for cell in cells
            )
            chosen = cells[:1] if wide else list(unique.values())
            if chosen:
                self.write_cells(self._chance.choice(flows.INPUTS), chosen, self._origin())

    @staticmethod
    def _is_own(origin: Origin | None) -> bool:
        return origin is not None and (origin.dataflow == flows.NAME or origin.name == "collector")

    def trickle(self) -> None:
        """Rows are written one by one, and each is looked at."""
        table = self._chance.choice(flows.INPUTS)
        for number in self._chance.sample(range(100), self._chance.randint(5, 60)):
            row = b"r%02d" % number
            column = b"f:a"
            cell = Cell(row, column, UpdateKind.PUT, self.value())
            self._write_as(table, [cell], Fate.TOLD)
            self._life.delivery.deliver_all()
            self._life.check_launched()

    def flood(self) -> None:
        """A client invents names, and takes them all back."""
        self._floods += 1
        table = self._chance.choice(flows.INPUTS)
        wide = self._chance.random() < 0.5
        for start in range(0, 1500, 250):
            cells = []
            for n in range(start, start + 250):
                name = b"%d-%d-" % (self._floods, n) + b"x" * 60
                row, column = (b"one", b"f:" + name) if wide else (name, b"f:a")
                cells.append(Cell(row, column, UpdateKind.PUT, self.value()))
            self._write_as(table, cells, Fate.TOLD)
        self._life.delivery.deliver_all()
        known = self._store.tables[table]
        gone = [key for key in known if b"x" * 60 in key[0] + key[1]]
        deletes = [Cell(row, column, UpdateKind.DELETE_COLUMN) for row, column in gone]
        for start in range(0, len(deletes), 300):
            self._write_as(table, deletes[start : start + 300], Fate.TOLD)
        self._life.delivery.deliver_all()

    def publish_late(self) -> None:
        """An observer tells of what it had held back, or tells of something twice."""
        observer = self._chance.choice(self._store.observers)
        self._store.flush(observer, self._chance.randint(1, 3))
        if self._chance.random() < 0.3:
            self._store.repeat(self._chance.choice(flows.TABLES))
