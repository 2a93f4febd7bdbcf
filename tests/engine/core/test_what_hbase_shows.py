"""The engine knows what HBase shows of each cell, or knows that it has to be read.

Lives of rows are drawn with everything that clients may do to them, and done to a simulated table
whose clock and outcomes the engine does not know.
"""

import random

from msgspec.structs import replace
from tests.hostile_lives import START, TABLE, Life
from tests.seeds import each_seed
from tests.simulated_hbase import SimulatedTable

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    CellsRead,
    Codec,
    CodecName,
    ContainerScanned,
    Count,
    DataflowSpec,
    EngineTester,
    Metric,
    ScanContainer,
    SequenceBound,
    SequenceUnit,
    Tick,
    ValueBound,
    WatchedContainer,
)
from headgate.events import CLOCKS_APART, Container, ContainerId, Item

VALUES = ContainerId("values")
KEYS = ContainerId("keys")
ONE = ContainerId("one")
OPAQUE = Codec(CodecName.OPAQUE)
NEVER = 1e9

SPEC = DataflowSpec(
    "flow",
    (
        WatchedContainer(Container(VALUES, (Item(TABLE),)), OPAQUE, Count.CELLS),
        WatchedContainer(Container(KEYS, (Item(TABLE, b"f"),))),
        WatchedContainer(Container(ONE, (Item(TABLE, b"f", b"a"),)), OPAQUE),
    ),
    (
        ActionSpec("in", ActionRole.INPUT, writes=(VALUES,)),
        ActionSpec(
            "step",
            after=("in",),
            bounds=(
                Bound("v", VALUES, value=ValueBound(Metric.CHANGED, NEVER)),
                Bound("k", KEYS, sequence=SequenceBound(NEVER, SequenceUnit.PERCENT)),
                Bound("o", ONE, value=ValueBound(Metric.CHANGED, NEVER)),
            ),
        ),
    ),
)


class Watched:
    """An engine beside a table: it hears of what happens from its first scan on."""

    def __init__(self, chance: random.Random, before: int, **life) -> None:
        self.chance = chance
        self.life = Life(chance, thrift2=chance.random() < 0.5, **life)
        for _ in range(before):
            for _ in self.life.go_on():
                pass
        # Of cells that were there before, Thrift does not say which have a time to live.
        for versions in self.life.table.versions.values():
            for version in versions:
                version.ttl = None
        self.tester = EngineTester(SPEC, now=self.life.clock, answering=False, check=lambda _: None)
        self.scans = [i for i in self.tester.instructions if isinstance(i, ScanContainer)]

    def restart(self) -> None:
        """Go on with another engine, whose scans are answered."""
        told = self.tester.restart()
        self.scans = [i for i in told if isinstance(i, ScanContainer)]
        self.scan()

    def scan(self) -> None:
        """Answer scans."""
        table = self.life.table
        for scan in self.scans:
            self._show()
            since = table.now - CLOCKS_APART
            answer = self.tester.answer(scan)
            assert isinstance(answer, ContainerScanned)
            keys = zip(answer.rows, answer.columns, strict=True)
            dated, ttls = table.dated(since), table.ttls
            stamps = [self._timestamp(*key) for key in keys]
            self.tester.handle(replace(answer, dated=dated, ttls=ttls, timestamps=stamps))
        self.scans = []

    def _timestamp(self, row: bytes, column: bytes) -> int:
        newest = self.life.table.newest(row, column)
        return 0 if newest is None else newest.timestamp

    def _show(self) -> None:
        self.tester.now = max(self.tester.now, self.life.clock)
        self.tester.tables[TABLE] = self.life.table.shown()

    def go_on(self) -> None:
        """Have something happen to the table."""
        for batch in self.life.go_on():
            self.tester.now = max(self.tester.now, self.life.clock)
            self.tester.publish(TABLE, batch)

    def read(self) -> None:
        """Read all cells that must be read."""
        self._show()
        shown = self.tester.tables[TABLE]
        for (container, table), cells in self.tester.engine.cells.items():
            keys = cells.reads.ask()
            if keys:
                rows, columns = [k[0] for k in keys], [k[1] for k in keys]
                values = [shown.get(key) for key in keys]
                stamps = [self._timestamp(*key) for key in keys]
                now = self.tester.now
                self.tester.handle(CellsRead(now, container, table, rows, columns, values, stamps))

    def check(self) -> None:
        """Compare what the engine knows with what the table shows."""
        self.tester.handle(Tick(self.tester.now))
        for (container, _), cells in self.tester.engine.cells.items():
            shown = {
                key: value if cells.columns.values is not None else 1.0
                for key, value in self.life.table.shown().items()
                if cells.matcher.has(*key)
            }
            known = cells.columns.contents()
            for key in shown.keys() | known.keys():
                if key not in cells.reads.unsettled:
                    assert known.get(key) == shown.get(key), (container, key)


def live(seed: int, *, before: int, requests: int, **life) -> None:
    chance = random.Random(seed)
    watched = Watched(chance, before, **life)
    scanned_at = chance.choice((0, 0, 3))
    for place in range(requests):
        if place == scanned_at:
            watched.scan()
        watched.go_on()
        if not watched.scans:
            watched.check()
            if chance.random() < 0.1:
                watched.read()
            if chance.random() < 0.1:
                watched.restart()
    watched.check()
    watched.read()
    for cells in watched.tester.engine.cells.values():
        assert not cells.reads.unsettled


@each_seed(120, 20_000)
def test_of_a_life_that_it_hears_whole_the_engine_knows_what_hbase_shows(seed):
    live(seed, before=0, requests=12)


@each_seed(40, 20_000)
def test_so_it_does_of_rows_that_were_there_before(seed):
    live(seed, before=5, requests=12)
    live(seed, before=12, requests=4)  # most deletes are of a time that nobody has heard of


@each_seed(40, 20_000)
def test_so_it_does_where_cells_expire(seed):
    ttls = random.Random(seed).choice(({}, {b"f": 60_000}, {b"f": 9_000, b"g": 400_000}))
    live(seed, before=3, requests=12, table=SimulatedTable(ttls, START), cell_ttls=True)
