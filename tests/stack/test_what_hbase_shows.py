"""Random lives of rows through the observer: each reader of events knows what HBase shows.

A life is the history of one row: puts, deletes of every kind, increments and appends, with the
server's timestamps and with explicit ones of the past and ahead, with times to live of cells and of
a family, one request right after another, so that many meet within one millisecond. Some requests
never get a reply. A round has 1,000 rows. What a reader does not know it must have announced: then
the cell is read.
"""

from __future__ import annotations

import random
import socket
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Thread

import msgspec
import pyarrow as pa
import pytest
from msgspec import Struct
from tests.seeds import seeds

from headgate.client import (
    ConnectionFailed,
    DeleteKind,
    RequestRefused,
    ScanRange,
    Thrift2Connection,
)
from headgate.client.structs import put_struct
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
    Dated,
    Item,
    UpdateBatch,
    UpdateKind,
    UpdateMessage,
    updates_topic,
)
from headgate.incremental import library
from headgate.incremental.epochs.driver import translate_in_driver
from headgate.incremental.epochs.epoch import finished
from headgate.incremental.state.batches import BatchFile
from headgate.incremental.state.buckets import even_buckets
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.manifest import BucketState
from headgate.incremental.state.names import Writer as Names
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
TEXT = (b"f:a", b"f:b", b"g:a", b"h:a")
COUNTER = b"f:n"
COLUMNS = (*TEXT, COUNTER)
FAR = (1, 30, 1_000, 8_000, 45_000, 400_000, 10**9)
"""Milliseconds between a client's timestamp and the present."""
NEVER = 1e9
MORTAL = b"h"
"""The family whose cells expire."""
TTL = 1  # seconds, of the family
TTLS = (300, 7_200_000)
"""Milliseconds that some cells have of their own: all of a round's lives end between them."""
WRITERS = 4
LOST = 0.003  # of the requests get no reply
VALUES, KEYS = ContainerId("values"), ContainerId("keys")
OPAQUE = Codec(CodecName.OPAQUE)

Key = tuple[bytes, bytes]
Shown = dict[Key, bytes]


class Written(Struct):
    """Counts of the requests that were made to a table."""

    requests: int = 0
    in_f: int = 0
    """Requests that concern family ``f``, or a whole row."""
    lost: int = 0
    """Requests whose outcome nobody knows."""
    mortal: set[Key] = msgspec.field(default_factory=set)
    """Cells that may expire without a word, apart from those of the family."""


class Writer:
    """Lives the lives of some rows through one connection, one request of a row after another."""

    def __init__(self, seed: int, address: tuple[str, int], table: str) -> None:
        self.chance = random.Random(seed)
        self.table = table
        self.written = Written()
        self._address = address
        self.client = Thrift2Connection(*address)

    def live(self, rows: Iterable[bytes]) -> Written:
        for row in rows:
            for _ in range(REQUESTS):
                write = self.chance.choice(WRITES)
                family = self.chance.choice(COLUMNS)[:1]
                try:
                    family = write(self, row)
                except ConnectionFailed:
                    self.written.lost += 1
                    self.client.close()
                    self.client = Thrift2Connection(*self._address)
                    continue
                except RequestRefused:
                    self.written.lost += 1
                    continue
                self.written.requests += 1
                self.written.in_f += family in (b"f", b"")
        self.client.close()
        return self.written

    def stamp(self) -> int | None:
        if self.chance.random() < 0.6:
            return None
        return int(time.time() * 1000) + self.chance.choice((-1, 1)) * self.chance.choice(FAR)

    def put(self, row: bytes) -> bytes:
        column = self.chance.choice(COLUMNS)
        value = b"%d" % self.chance.randrange(10**6)
        if column == COUNTER:
            value = self.chance.randrange(9).to_bytes(8, "big")
        self.client.put(self.table, [(row, {column: value})], timestamp=self.stamp())
        return column[:1]

    def put_mortal(self, row: bytes) -> bytes:
        column = self.chance.choice(COLUMNS)
        value = self.chance.randrange(9).to_bytes(8, "big")
        ttl = self.chance.choice(TTLS).to_bytes(8, "big")
        self.written.mortal.add((row, column))
        made = put_struct(row, {column: value}, self.stamp(), {b"_ttl": ttl})
        self.client._call("putMultiple", self.table.encode(), [made])
        return column[:1]

    def increment(self, row: bytes) -> bytes:
        self.client.increment(self.table, row, COUNTER, 3)
        return b"f"

    def append(self, row: bytes) -> bytes:
        column = self.chance.choice(TEXT)
        self.client.append(self.table, row, {column: b"+"})
        return column[:1]

    def delete(self, row: bytes) -> bytes:
        kind = self.chance.choice(list(DeleteKind))
        column = self.chance.choice(COLUMNS)
        timestamp = self.stamp()
        if kind in (DeleteKind.FAMILY, DeleteKind.FAMILY_VERSION):
            column = column[:1]
        if kind is DeleteKind.FAMILY_VERSION and timestamp is None:
            timestamp = int(time.time() * 1000)
        self.client.delete(self.table, [row], [column], timestamp=timestamp, kind=kind)
        return column[:1]

    def delete_row(self, row: bytes) -> bytes:
        self.client.delete(self.table, [row], timestamp=self.stamp())
        return b""


WRITES: tuple[Callable[[Writer, bytes], bytes], ...] = (
    Writer.put, Writer.put, Writer.put, Writer.put, Writer.put_mortal, Writer.increment,
    Writer.append, Writer.delete, Writer.delete_row,
)  # fmt: skip


def live(seed: int, address: tuple[str, int], table: str) -> Written:
    """Live the lives of all rows, by several writers at a time."""
    rows = [b"r%04d" % number for number in range(ROWS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        writers = [Writer(seed * WRITERS + part, address, table) for part in range(WRITERS)]
        done = pool.map(lambda at: writers[at].live(rows[at::WRITERS]), range(WRITERS))
        found = list(done)
    return Written(
        sum(one.requests for one in found),
        sum(one.in_f for one in found),
        sum(one.lost for one in found),
        set().union(*(one.mortal for one in found)),
    )


class LosingLink:
    """Relays connections to a server, and breaks some of them at a request, done or not."""

    def __init__(self, server: tuple[str, int], seed: int) -> None:
        self._server = server
        self._chance = random.Random(seed)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address: str = f"127.0.0.1:{self._listening.getsockname()[1]}"
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            Thread(target=self._relay, args=(client, server, True), daemon=True).start()
            Thread(target=self._relay, args=(server, client, False), daemon=True).start()

    def _relay(self, source: socket.socket, target: socket.socket, requests: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                lost = requests and self._chance.random() < LOST
                if not lost or self._chance.random() < 0.5:
                    target.sendall(data)
                if lost:
                    break
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class StageReader:
    """A stage ``differences`` that reads a container with these columns."""

    def __init__(self, folder: Path) -> None:
        self.spec = library.differences("c", keys="binary").spec
        self.store = FileStore.at(folder)
        self.buckets = tuple(BucketState(bucket) for bucket in even_buckets(0))
        self.runs = 0
        self.sums: Counter[tuple[bytes, bytes, bytes]] = Counter()

    def take(self, changed: ChangedCells, shown: Shown) -> None:
        rows: dict[bytes, dict[bytes, bytes]] = {}
        for (row, column), value in shown.items():
            rows.setdefault(row, {})[column] = value
        unread = changed.unread()
        changed.settle(unread, {row: rows[row] for row in unread if row in rows})
        came = [
            {"row": row, "column": column, "value": value, "deleted": value is None}
            for (row, column), value in changed.cells.items()
        ]
        self.runs += 1
        writer = Names(self.spec.name, f"r{self.runs}", 1, "holder")
        outcomes = translate_in_driver(
            self.spec, self.store, writer, self.buckets,
            {"c": pa.Table.from_pylist(came, CHANGED)}, frozenset(), {},
        )  # fmt: skip
        done = finished(self.spec, self.store, writer, self.buckets, outcomes)
        self.buckets = done.buckets
        for refs in done.outputs.values():
            for ref in refs:
                for batch in BatchFile(self.store, ref, self.spec.name).batches():
                    for made in batch.to_pylist():
                        cell = made["row"], made["column"], made["value"]
                        self.sums[cell] += made["weight"]

    def state(self) -> Shown:
        assert set(self.sums.values()) <= {0, 1}
        return {(r, c): value for (r, c, value), weight in self.sums.items() if weight}


CHANGED = pa.schema(
    {"row": pa.binary(), "column": pa.binary(), "value": pa.binary(), "deleted": pa.bool_()}
)


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
                found = ContainerScanned(
                    self.now, scan.container, table, [], [], ttls={MORTAL: 1000 * TTL}
                )
                self.engine.handle(found)

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
        self.engine.handle(Tick(time.time()))

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
def observed(stack, subscriber, directory: Path, seed: int) -> Iterator[ObserverProcess]:
    link = LosingLink(tuple(stack.thrift2), seed)
    config = ObserverConfig(
        name="shown",
        thrift2=Listener("127.0.0.1:0", link.address),
        kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic, partitions=4),
        journal=JournalSettings(str(directory / "journal")),
    )
    with closing(link), ObserverProcess(config, directory) as observer:
        yield observer


@pytest.fixture
def table(stack) -> Iterator[str]:
    """A table of which one family lets its cells expire.

    It is dropped at the end: a hundred of them fill the heap of the local HBase.
    """
    name = f"shown_{uuid.uuid4().hex[:12]}"
    families: dict[str, dict[str, int]] = {family: {"max_versions": 3} for family in "fg"}
    families[MORTAL.decode()] = {"max_versions": 3, "time_to_live": TTL}
    with closing(stack.happybase()) as connection:
        connection.create_table(name, families)
    yield name
    with closing(stack.happybase()) as connection:
        connection.delete_table(name, disable=True)


def shown_at_last(stack, table: str) -> Shown:
    """Return what HBase shows once all has expired that will within the hour."""
    with Thrift2Connection(*stack.thrift2) as direct:
        past = time.time() + max(TTL, TTLS[0] / 1000) + 1
        while True:
            found = {(c.row, c.column): c.value for c in direct.cells(table, ScanRange())}
            if time.time() > past:
                return found


@pytest.mark.parametrize("seed", seeds(2, 200))
def test_every_reader_knows_what_hbase_shows_or_announces_that_it_does_not(
    stack, subscriber, table: str, tmp_path: Path, seed: int
) -> None:
    with observed(stack, subscriber, tmp_path, seed) as observer:
        subscriber.watch(table)
        written = live(seed, observer.thrift2, table)
        messages = subscriber.read(table, subscriber.barrier(table))
    shown = shown_at_last(stack, table)
    # What is dated ahead may outlive the round though its family expires.
    never = {key for key in shown if key[1].startswith(MORTAL)}

    reader = EngineReader(table)
    reader.take(messages)
    assert reader.wrong(shown) == []
    announced = reader.read(shown)
    assert reader.wrong(shown) == []
    keys = reader.engine.cells[KEYS, table]
    assert keys.elements == len({row for row, column in shown if column.startswith(b"f:")})
    (pending,) = keys.watchers.pendings
    assert written.in_f <= pending.updates <= written.in_f + written.lost

    items = tuple(Item(table, *column.split(b":")) for column in COLUMNS)
    view = view_of(WatchedContainer(Container(VALUES, items)))
    ttls, now = {MORTAL: 1000 * TTL}, 1000 * time.time()
    whole = ChangedCells(view, ttls=ttls, now=now)
    stage, dated = StageReader(tmp_path / "stage"), Dated()
    tables = RecordedTables()
    for half in (0, 1):
        changed = ChangedCells(view, dated.state(), ttls=ttls, now=now)
        for partition, log in enumerate(messages):
            middle = len(log) // 2
            for message in log[middle:] if half else log[:middle]:
                whole.add(message, partition)
                changed.add(message, partition)
                if isinstance(message, UpdateBatch):
                    tables.apply(message)
                    dated.doubtful(message)
        assert not changed.everything
        stage.take(changed, shown)
    cells = whole.cells
    for key, latest in cells.items():
        assert latest is READ or latest == shown.get(key), (key, history(messages, key[0]))
    assert shown.keys() <= cells.keys()
    # No event says that a cell has expired since the cut between the halves.
    silent = written.mortal | {key for key in cells if key[1].startswith(MORTAL)}
    state = stage.state()
    for key in {*state, *shown} - silent:
        assert state.get(key) == shown.get(key), (key, history(messages, key[0]))
    for row in {row for row, _ in cells}:
        for column in COLUMNS:
            cell = (table, row, column)
            value = tables.value(cell)
            if cell not in tables.guessed and value is not UNKNOWN and column[:1] != MORTAL:
                assert value == shown.get((row, column)), (cell, history(messages, row))
    assert len(never) < ROWS
    # Lives are hostile: much is to be read, but far from all.
    assert 0 < announced < 2 * len(COLUMNS) * ROWS * 0.7
