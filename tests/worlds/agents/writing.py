"""What clients write beside the agents of a dataflow, and what comes of it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hostile_store import Cell, Fate

from agents.dataflows import INPUTS
from agents.kafka import Damaged
from agents.world import HostileWorld
from headgate.events import UpdateKind, updates_topic

if TYPE_CHECKING:
    from agents.life import AgentLife


ROWS = tuple(b"r%02d" % n for n in range(12))
COLUMNS = (b"c:v", b"c:v", b"c:w")
FATES: dict[Fate, tuple[float, ...]] = {
    Fate.TOLD: (10.0,),
    Fate.LATE: (0.0, 2.0),
    Fate.UNKNOWN: (0.0, 0.0, 1.0),
    Fate.REFUSED: (0.0, 0.0, 1.0),
    Fate.PASSED: (0.0, 0.0, 0.5),
    Fate.LOST: (0.0, 0.0, 0.5),
}


def value(chance: random.Random) -> bytes:
    """Return what a client writes: a number most often."""
    kind = chance.random()
    if kind < 0.05:
        return chance.choice((b"", b"\xff\xfe", b"null", b"nan", b'{"v":' * 1200, b"9" * 4000))
    number = chance.randrange(100)
    return b'{"v":%d}' % number if chance.random() < 0.3 else b"%d" % number


def stand(world: HostileWorld, chance: random.Random) -> None:
    """Have rows stand that nobody will tell of."""
    for table in INPUTS:
        for row in chance.sample(ROWS, chance.choice((0, 0, 4, 10))):
            world.telling.apply(table, [Cell(row, b"c:v", UpdateKind.PUT, value(chance))])


class Writing:
    """Whoever writes into the tables that a dataflow is fed from.

    Args:
        life: of the agents.
        fates: how likely each fate of a write is, beside the others.
    """

    def __init__(self, life: AgentLife, fates: dict[Fate, float]) -> None:
        self._life = life
        self._chance = life.chance
        self._world = life.world
        self._fates = fates
        self.repeated = False
        """Whether something was told twice."""

    def write(self) -> None:
        """Some cells are written, a row or cells deleted, or many rows written at once."""
        table = self._chance.choice(INPUTS)
        fates = list(self._fates)
        fate = self._chance.choices(fates, [self._fates[fate] for fate in fates])[0]
        cells: dict[tuple[bytes, bytes], Cell] = {}
        for _ in range(self._chance.choice((1, 1, 2, 6))):
            row, column = self._chance.choice(ROWS), self._chance.choice(COLUMNS)
            kind = self._chance.random()
            if kind < 0.05:
                self.write_to(table, [Cell(row, b"", UpdateKind.DELETE_ROW)], fate)
            elif kind < 0.15:
                cells[row, column] = Cell(row, column, UpdateKind.DELETE_COLUMN)
            else:
                cells[row, column] = Cell(row, column, UpdateKind.PUT, value(self._chance))
        if self._chance.random() < 0.02:
            for number in range(500):
                cells[b"w%03d" % number, b"c:v"] = Cell(
                    b"w%03d" % number, b"c:v", UpdateKind.PUT, value(self._chance)
                )
        if cells:
            self.write_to(table, list(cells.values()), fate)

    def write_to(self, table: str, cells: list[Cell], fate: Fate) -> None:
        """Have somebody write cells, and a wave follow if one must."""
        told = self._world.write_cells(table, cells, fate)
        seen = any(cell.column == b"c:v" and cell.row in ROWS for cell in cells)
        life = self._life
        if told and seen and fate is Fate.TOLD and life.works and table in life.spec.tables():
            life.wave_watch.written()

    def damage(self) -> None:
        """Something comes into a topic that nothing of headgate wrote."""
        table = self._chance.choice(INPUTS)
        logs = self._world.topic(updates_topic(table))
        damaged = self._chance.choice((None, b"", b"junk"))
        self._chance.choice(logs).append(Damaged(damaged))

    def repeat(self) -> None:
        """An observer tells of something twice."""
        if not self._world.kafka_away:
            self.repeated = True
            self._world.telling.repeat(self._chance.choice(INPUTS))

    def delete_records(self) -> None:
        """Kafka deletes what was not read yet, or what was."""
        topic = updates_topic(self._chance.choice(INPUTS))
        logs = self._world.topic(topic)
        partition = self._chance.randrange(len(logs))
        until = self._chance.randint(0, len(logs[partition]))
        self._world.telling.delete_records(topic, partition, until)
