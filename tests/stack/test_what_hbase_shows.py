"""Random lives of rows through the observer: each reader of events knows what HBase shows.

A life is the history of one row: puts, deletes of every kind, increments and appends, with the
server's timestamps and with explicit ones of the past and ahead, one request right after another,
so that many meet within one millisecond. A round has 1,000 rows. What a reader does not know it
must have announced: then the cell is read.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import Struct
from tests.seeds import seeds

from headgate.client import DeleteKind, ScanRange, Thrift2Connection
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
    Engine,
    Metric,
    RecordArrived,
    ScanContainer,
    SequenceBound,
    SequenceUnit,
    Tick,
    ValueBound,
    WatchedContainer,
)
from headgate.events import (
    Container,
    ContainerId,
    Item,
    UpdateBatch,
    UpdateKind,
    UpdateMessage,
    updates_topic,
)
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)
from headgate.replay.tables import UNKNOWN, RecordedTables
from headgate.spark.changes import READ, ChangedCells
from headgate.spark.views import view_of

pytestmark = pytest.mark.stack

ROWS = 1000
REQUESTS = 5  # of a life
TEXT = (b"f:a", b"f:b", b"g:a")
COUNTER = b"f:n"
COLUMNS = (*TEXT, COUNTER)
FAR = (1, 30, 1_000, 8_000, 45_000, 400_000, 10**9)
"""Milliseconds between a client's timestamp and the present."""
NEVER = 1e9
VALUES, KEYS = ContainerId("values"), ContainerId("keys")
OPAQUE = Codec(CodecName.OPAQUE)

Key = tuple[bytes, bytes]
Shown = dict[Key, bytes]


class Written(Struct):
    """Counts of the requests that were made to a table."""

    requests: int = 0
    in_f: int = 0
    """Requests that concern family ``f``, or a whole row."""


def live(chance: random.Random, client: Thrift2Connection, table: str, written: Written) -> None:
    """Live the lives of all rows, one request of a row after another."""
    for number in range(ROWS):
        row = b"r%04d" % number
        for _ in range(REQUESTS):
            written.requests += 1
            written.in_f += chance.choice(WRITES)(chance, client, table, row) != b"g"


def stamp(chance: random.Random) -> int | None:
    if chance.random() < 0.6:
        return None
    return int(time.time() * 1000) + chance.choice((-1, 1)) * chance.choice(FAR)


def put(chance: random.Random, client: Thrift2Connection, table: str, row: bytes) -> bytes:
    column = chance.choice(COLUMNS)
    value = b"%d" % chance.randrange(10**6)
    if column == COUNTER:
        value = chance.randrange(9).to_bytes(8, "big")
    client.put(table, [(row, {column: value})], timestamp=stamp(chance))
    return column[:1]


def increment(_: random.Random, client: Thrift2Connection, table: str, row: bytes) -> bytes:
    client.increment(table, row, COUNTER, 3)
    return b"f"


def append(chance: random.Random, client: Thrift2Connection, table: str, row: bytes) -> bytes:
    column = chance.choice(TEXT)
    client.append(table, row, {column: b"+"})
    return column[:1]


def delete(chance: random.Random, client: Thrift2Connection, table: str, row: bytes) -> bytes:
    kind = chance.choice(list(DeleteKind))
    column = chance.choice(COLUMNS)
    timestamp = stamp(chance)
    if kind in (DeleteKind.FAMILY, DeleteKind.FAMILY_VERSION):
        column = column[:1]
    if kind is DeleteKind.FAMILY_VERSION and timestamp is None:
        timestamp = int(time.time() * 1000)
    client.delete(table, [row], [column], timestamp=timestamp, kind=kind)
    return column[:1]


def delete_row(chance: random.Random, client: Thrift2Connection, table: str, row: bytes) -> bytes:
    client.delete(table, [row], timestamp=stamp(chance))
    return b""


WRITES: tuple[Callable[[random.Random, Thrift2Connection, str, bytes], bytes], ...] = (
    put, put, put, put, increment, append, delete, delete_row
)  # fmt: skip


class EngineReader:
    """An engine that has watched the table from its creation."""

    def __init__(self, table: str) -> None:
        watched = (
            WatchedContainer(Container(VALUES, (Item(table),)), OPAQUE, Count.CELLS),
            WatchedContainer(Container(KEYS, (Item(table, b"f"),))),
        )
        bounds = (
            Bound("v", VALUES, value=ValueBound(Metric.CHANGED, NEVER)),
            Bound("k", KEYS, sequence=SequenceBound(NEVER, SequenceUnit.PERCENT)),
        )
        actions = (
            ActionSpec("in", ActionRole.INPUT, writes=(VALUES,)),
            ActionSpec("step", after=("in",), bounds=bounds),
        )
        self.table = table
        self.now = time.time()
        self.engine = Engine(DataflowSpec("flow", watched, actions))
        for scan in self.engine.handle(Tick(self.now)):
            if isinstance(scan, ScanContainer):
                self.engine.handle(ContainerScanned(self.now, scan.container, table, [], []))

    def take(self, messages: list[list[UpdateMessage]]) -> None:
        topic = updates_topic(self.table)
        for partition, log in enumerate(messages):
            records = [
                RecordArrived(self.now, topic, partition, offset, message, len(messages))
                for offset, message in enumerate(log)
            ]
            while records:
                taken, _ = self.engine.arrive(records)
                del records[:taken]

    def wrong(self, shown: Shown) -> list[Key]:
        """Return cells that it has otherwise than they are, and has not announced."""
        found = []
        for cells in self.engine.cells.values():
            known = cells.columns.contents()
            for key in {key for key in (*shown, *known) if cells.matcher.has(*key)}:
                value = shown.get(key)
                expected = 1.0 if value is not None and cells.columns.values is None else value
                if key not in cells.reads.unsettled and known.get(key) != expected:
                    found.append(key)
        return found

    def read(self, shown: Shown) -> int:
        """Read all that it has announced; return how many cells these are."""
        total = 0
        for (container, table), cells in self.engine.cells.items():
            keys = cells.reads.ask()
            total += len(keys)
            rows, columns = [key[0] for key in keys], [key[1] for key in keys]
            values = [shown.get(key) for key in keys]
            self.engine.handle(CellsRead(self.now, container, table, rows, columns, values))
        return total


def history(messages: list[list[UpdateMessage]], row: bytes) -> list[tuple[object, ...]]:
    """Return for people what was published of a row."""
    return [
        (part.received, UpdateKind(batch.kinds[at]).name, batch.columns[at], batch.timestamps[at],
         batch.values[at], part.ambiguous)
        for log in messages
        for batch in log
        if isinstance(batch, UpdateBatch)
        for at, part in enumerate(p for p in batch.requests for _ in range(p.cells))
        if batch.rows[at] == row
    ]  # fmt: skip


@contextmanager
def observed(stack, subscriber, directory: Path) -> Iterator[ObserverProcess]:
    config = ObserverConfig(
        name="shown",
        thrift2=Listener("127.0.0.1:0", str(stack.thrift2)),
        kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic, partitions=4),
        journal=JournalSettings(str(directory / "journal")),
    )
    with ObserverProcess(config, directory) as observer:
        yield observer


@pytest.mark.parametrize("seed", seeds(2, 200))
def test_every_reader_knows_what_hbase_shows_or_announces_that_it_does_not(
    stack, subscriber, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    table = stack.table("shown", ("f", "g"))
    written = Written()
    with (
        observed(stack, subscriber, tmp_path) as observer,
        Thrift2Connection(*observer.thrift2) as client,
    ):
        subscriber.watch(table)
        live(chance, client, table, written)
        messages = subscriber.read(table, subscriber.barrier(table))
    with Thrift2Connection(*stack.thrift2) as direct:
        found = direct.cells(table, ScanRange())
        shown = {(cell.row, cell.column): cell.value for cell in found}

    reader = EngineReader(table)
    reader.take(messages)
    assert reader.wrong(shown) == []
    announced = reader.read(shown)
    assert reader.wrong(shown) == []
    keys = reader.engine.cells[KEYS, table]
    assert keys.elements == len({row for row, column in shown if column.startswith(b"f:")})
    (pending,) = keys.watchers.pendings
    assert pending.updates == written.in_f

    items = tuple(Item(table, *column.split(b":")) for column in COLUMNS)
    changed = ChangedCells(view_of(WatchedContainer(Container(VALUES, items))))
    tables = RecordedTables()
    for partition, log in enumerate(messages):
        for message in log:
            changed.add(message, partition)
            if isinstance(message, UpdateBatch):
                tables.apply(message)
    assert not changed.everything
    cells = changed.cells
    for key, latest in cells.items():
        assert latest is READ or latest == shown.get(key), key
    assert shown.keys() <= cells.keys()
    for row in {row for row, _ in cells}:
        for column in COLUMNS:
            cell = (table, row, column)
            value = tables.value(cell)
            if cell not in tables.guessed and value is not UNKNOWN:
                assert value == shown.get((row, column)), (cell, history(messages, row))
    # Lives are hostile: much is to be read, but far from all.
    assert 0 < announced < 2 * len(COLUMNS) * ROWS * 0.7
