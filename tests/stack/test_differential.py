"""One seeded program, directly and through the observer: same replies, same tables, same events.

Family ``f`` gets explicit, strictly increasing timestamps and is compared whole, versions and
timestamps included. Family ``g`` gets the server's timestamps, which no two runs share: of it the
latest values are compared. No cell of ``g`` is written again after it was deleted, since both could
happen within one millisecond, and then the delete would hide the later put.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import happybase
import Hbase_thrift  # made by happybase when it is imported
import pytest
from msgspec import Struct

from headgate.client import Compare, DeleteKind, RequestRefused, ScanRange, Thrift2Connection
from headgate.events import Outcome, UpdateBatch, UpdateKind, UpdateMessage
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)

pytestmark = pytest.mark.stack

OPERATIONS = 800
MANY = 4000
SEED = 20_260_401
FIRST_STAMP = 1_000_000
VERSIONS = 10_000  # more than any cell gets: all are kept
ROWS = 40
COLUMNS = 5
PUTS = ("one_put", "one_mutate_row", "one_batch", "two_put")
KINDS = 31  # of operations: all of them must occur


class Clients(Struct):
    """Both clients of one table, direct or through the observer."""

    one: happybase.Connection
    two: Thrift2Connection
    table: str

    @property
    def raw(self) -> Any:
        """Thrift1's methods as the server has them."""
        return self.one.client

    @property
    def name(self) -> bytes:
        return self.table.encode()


class Operation(Struct):
    name: str
    call: Callable[[Clients], object]


class Program:
    """Makes operations; all randomness is in here, so both runs do the same."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.stamp = FIRST_STAMP
        self.fresh = 0
        self.once: list[tuple[bytes, bytes]] = []
        """Cells of ``g`` that were written once, by row and column."""

    def row(self) -> bytes:
        return b"row%03d" % self.rng.randrange(ROWS)

    def rows(self) -> list[bytes]:
        return sorted({self.row() for _ in range(self.rng.randint(1, 8))})

    def column(self) -> bytes:
        return b"f:c%d" % self.rng.randrange(COLUMNS)

    def value(self) -> bytes:
        return self.rng.randbytes(self.rng.randrange(0, 24))

    def small(self) -> bytes:
        return b"%d" % self.rng.randrange(3)

    def columns(self) -> dict[bytes, bytes]:
        return {self.column(): self.value() for _ in range(self.rng.randint(1, 3))}

    def next_stamp(self) -> int:
        self.stamp += 1
        return self.stamp

    def make(self, count: int) -> list[Operation]:
        kinds = [name for name in sorted(dir(self)) if name.startswith(("one_", "two_"))]
        operations = []
        for number in range(count):
            # Half of them every kind in turn, the others puts, so that much is left to compare.
            kind = kinds[number // 2 % len(kinds)] if number % 2 else self.rng.choice(PUTS)
            operations.append(Operation(kind, getattr(self, kind)()))
        return operations

    # -- Thrift1, explicit timestamps

    def one_put(self):
        row, data, stamp = self.row(), self.columns(), self.next_stamp()
        return lambda c: c.one.table(c.table).put(row, data, timestamp=stamp)

    def one_mutate_row(self):
        row, stamp = self.row(), self.next_stamp()
        mutations = [Hbase_thrift.Mutation(column=k, value=v) for k, v in self.columns().items()]
        return lambda c: c.raw.mutateRowTs(c.name, row, mutations, stamp, {})

    def one_batch(self):
        stamp = self.next_stamp()
        puts = [(row, self.columns()) for row in self.rows()]
        gone = (self.row(), [self.column()])

        def call(c: Clients) -> None:
            with c.one.table(c.table).batch(timestamp=stamp) as batch:
                for row, data in puts:
                    batch.put(row, data)
                if all(row != gone[0] for row, _ in puts):
                    batch.delete(*gone)

        return call

    def one_put_and_delete_in_one_row(self):
        row, stamp = self.row(), self.next_stamp()
        put = Hbase_thrift.Mutation(column=b"f:c0", value=self.value())
        gone = Hbase_thrift.Mutation(isDelete=True, column=b"f:c1")
        return lambda c: c.raw.mutateRowTs(c.name, row, [put, gone], stamp, {})

    def one_delete_row(self):
        row, stamp = self.row(), self.next_stamp()
        return lambda c: c.raw.deleteAllRowTs(c.name, row, stamp, {})

    def one_delete_column(self):
        row, column, stamp = self.row(), self.column(), self.next_stamp()
        return lambda c: c.raw.deleteAllTs(c.name, row, column, stamp, {})

    # -- Thrift1, the server's timestamps

    def one_counter(self):
        row, amount = self.row(), self.rng.randint(-5, 9)
        return lambda c: c.one.table(c.table).counter_inc(row, b"g:counter", amount)

    def one_increment(self):
        row, amount = self.row(), self.rng.randint(1, 9)
        return lambda c: c.raw.increment(
            Hbase_thrift.TIncrement(table=c.name, row=row, column=b"g:queued", ammount=amount)
        )

    def one_append(self):
        row, value = self.row(), self.small()
        return lambda c: [
            cell.value
            for cell in c.raw.append(
                Hbase_thrift.TAppend(
                    table=c.name, row=row, columns=[b"g:text", b"g:more"], values=[value, b"."]
                )
            )
        ]

    def one_check_and_put(self):
        row, expected, value = self.row(), self.small(), self.small()
        mutation = Hbase_thrift.Mutation(column=b"g:check", value=value)
        return lambda c: c.raw.checkAndPut(c.name, row, b"g:check", expected, mutation, {})

    def one_put_once(self):
        row, column = self.row(), b"g:once%d" % self.fresh
        self.fresh += 1
        self.once.append((row, column))
        data = {column: self.value()}
        return lambda c: c.one.table(c.table).put(row, data)

    def one_delete_once(self):
        if not self.once:
            return self.one_put_once()
        row, column = self.once.pop(self.rng.randrange(len(self.once)))
        return lambda c: c.one.table(c.table).delete(row, columns=[column])

    # -- Thrift1, reads and mistakes

    def one_get_row(self):
        row = self.row()
        return lambda c: c.one.table(c.table).row(row, columns=[b"f"], include_timestamp=True)

    def one_get_rows(self):
        rows = self.rows()
        return lambda c: c.one.table(c.table).rows(rows, columns=[b"f"], include_timestamp=True)

    def one_versions(self):
        row, column = self.row(), self.column()
        return lambda c: c.one.table(c.table).cells(row, column, include_timestamp=True)

    def one_scan(self):
        start = self.row()
        return lambda c: list(
            c.one.table(c.table).scan(row_start=start, columns=[b"f"], limit=7, batch_size=3)
        )

    def one_unknown_family(self):
        row, value = self.row(), self.value()
        return lambda c: c.one.table(c.table).put(row, {b"nofamily:a": value})

    def one_unknown_table(self):
        row = self.row()
        return lambda c: c.one.table("differential_no_such_table").row(row)

    # -- Thrift2, explicit timestamps

    def two_put(self):
        rows, stamp = [(row, self.columns()) for row in self.rows()], self.next_stamp()
        return lambda c: c.two.put(c.table, rows, timestamp=stamp)

    def two_delete_columns(self):
        rows, columns, stamp = self.rows(), [self.column()], self.next_stamp()
        return lambda c: c.two.delete(c.table, rows, columns, timestamp=stamp)

    def two_delete_family(self):
        rows, stamp = [self.row()], self.next_stamp()
        kind = self.rng.choice([DeleteKind.FAMILY, DeleteKind.ALL_VERSIONS])
        return lambda c: c.two.delete(c.table, rows, [b"f"], timestamp=stamp, kind=kind)

    def two_delete_one_version(self):
        rows, columns = [self.row()], [self.column()]
        stamp = self.rng.randint(FIRST_STAMP, self.stamp)
        return lambda c: c.two.delete(
            c.table, rows, columns, timestamp=stamp, kind=DeleteKind.NEWEST_VERSION
        )

    # -- Thrift2, the server's timestamps

    def two_increment(self):
        row, amount = self.row(), self.rng.randint(-3, 7)
        return lambda c: c.two.increment(c.table, row, b"g:counter", amount)

    def two_append(self):
        row, value = self.row(), self.small()
        return lambda c: c.two.append(c.table, row, {b"g:text": value})

    def two_check_and_put(self):
        row, value = self.row(), self.small()
        expected = self.rng.choice([None, b"0", b"1", b"2"])
        return lambda c: c.two.check_and_put(
            c.table, row, b"g:check", expected, {b"g:check": value, b"g:seen": value}
        )

    def two_check_and_delete(self):
        if not self.once:
            return self.one_put_once()
        row, column = self.once.pop(self.rng.randrange(len(self.once)))
        return lambda c: c.two.check_and_delete(c.table, row, column, None, [column])

    def two_check_and_mutate(self):
        row, value, expected = self.row(), self.small(), self.small()
        return lambda c: c.two.check_and_mutate(
            c.table, row, b"g:check", Compare.EQUAL, expected, {b"g:check": value}
        )

    def two_mutate(self):
        row, data = self.row(), {b"g:mutated": self.value()}
        gone = []
        mine = [cell for cell in self.once if cell[0] == row]
        if mine:
            self.once.remove(mine[0])
            gone = [mine[0][1]]
        return lambda c: c.two.mutate(c.table, row, data, gone)

    # -- Thrift2, reads and mistakes

    def two_get(self):
        row = self.row()
        return lambda c: c.two.get(c.table, row)

    def two_scan(self):
        extent = ScanRange(start=self.row(), columns=(b"f",), versions=3)
        return lambda c: list(c.two.cells(c.table, extent))

    def two_unknown_family(self):
        rows = [(self.row(), {b"nofamily:a": b"1"})]
        return lambda c: c.two.put(c.table, rows)


def outcome(operation: Operation, clients: Clients) -> object:
    """Return the reply, or the exception's kind and the class of the server's own error."""
    try:
        return operation.call(clients)
    except (Hbase_thrift.IOError, Hbase_thrift.IllegalArgument) as error:
        text = error.message
        text = text.decode() if isinstance(text, bytes) else text
        return type(error).__name__, text.partition(":")[0]
    except RequestRefused as error:
        return type(error).__name__, error.detail.partition(":")[0]


def versions(client: Thrift2Connection, table: str) -> list[object]:
    """Return every version of every cell of ``f``."""
    extent = ScanRange(columns=(b"f",), versions=VERSIONS)
    return [
        tuple(getattr(c, n) for n in ("row", "column", "timestamp", "value"))
        for c in client.cells(table, extent)
    ]


def latest(client: Thrift2Connection, table: str) -> dict[bytes, dict[bytes, bytes]]:
    return dict(client.scan(table))


DELTAS = (UpdateKind.INCREMENT_DELTA, UpdateKind.APPEND_DELTA)


class Replay:
    """Rebuilds a table from events, reading only those elements that an event says must be read."""

    def __init__(self, into: Thrift2Connection, table: str, source: str) -> None:
        self.into = into
        self.table = table
        self.source = source
        self.clock = FIRST_STAMP * 2
        self.read: set[tuple[bytes, bytes]] = set()
        self.cells = 0

    def take(self, batch: UpdateBatch) -> None:
        at = 0
        for part in batch.requests:
            for position in range(at, at + part.cells):
                sure = part.outcome is Outcome.APPLIED and position - at not in part.ambiguous
                if part.outcome is Outcome.APPLIED:
                    self.apply(batch, position)
                if not sure or UpdateKind(batch.kinds[position]) in DELTAS:
                    self.read.add((batch.rows[position], batch.columns[position]))
            at += part.cells

    def apply(self, batch: UpdateBatch, at: int) -> None:
        self.cells += 1
        self.clock += 1
        kind = UpdateKind(batch.kinds[at])
        row, column, value = batch.rows[at], batch.columns[at], batch.values[at]
        stamp = batch.timestamps[at]
        if stamp < 0 or column.startswith(b"g:"):
            stamp = self.clock
        match kind:
            case UpdateKind.PUT | UpdateKind.INCREMENT | UpdateKind.APPEND:
                assert value is not None
                self.into.put(self.table, [(row, {column: value})], timestamp=stamp)
            case UpdateKind.DELETE_CELL:
                self.delete(row, [column], stamp, DeleteKind.NEWEST_VERSION)
            case UpdateKind.DELETE_COLUMN:
                self.delete(row, [column], stamp, DeleteKind.ALL_VERSIONS)
            case UpdateKind.DELETE_FAMILY:
                self.delete(row, [column.removesuffix(b":")], stamp, DeleteKind.FAMILY)
            case UpdateKind.DELETE_ROW:
                self.into.delete(self.table, [row], (), timestamp=stamp)
            case UpdateKind.INCREMENT_DELTA | UpdateKind.APPEND_DELTA:
                pass  # it says that the cell must be read
            case _:
                pytest.fail(f"the program makes no {kind!r}")

    def delete(self, row: bytes, columns: list[bytes], stamp: int, kind: DeleteKind) -> None:
        self.into.delete(self.table, [row], columns, timestamp=stamp, kind=kind)

    def settle(self) -> None:
        """Read the elements that must be read, and no others."""
        for row, column in sorted(self.read):
            there = self.into.get(self.source, row).get(column)
            here = self.into.get(self.table, row).get(column)
            self.clock += 1
            if there is None and here is not None:
                self.delete(row, [column], self.clock, DeleteKind.ALL_VERSIONS)
            elif there is not None and there != here:
                self.into.put(self.table, [(row, {column: there})], timestamp=self.clock)


@pytest.mark.parametrize("count", [OPERATIONS, pytest.param(MANY, marks=pytest.mark.soak)])
def test_a_program_does_the_same_through_the_observer(
    stack, subscriber, tmp_path: Path, count: int
) -> None:
    direct, proxied, rebuilt = (
        stack.table("differential", ("f", "g"), versions=VERSIONS) for _ in range(3)
    )
    config = ObserverConfig(
        name="differential",
        thrift1=Listener("127.0.0.1:0", str(stack.thrift1)),
        thrift2=Listener("127.0.0.1:0", str(stack.thrift2)),
        kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic, partitions=4),
        journal=JournalSettings(str(tmp_path / "journal")),
    )
    operations = Program(SEED).make(count)
    assert len({operation.name for operation in operations}) == KINDS
    with (
        ObserverProcess(config, tmp_path) as observer,
        Thrift2Connection(*stack.thrift2) as two,
        Thrift2Connection(*observer.thrift2) as proxied_two,
    ):
        subscriber.watch(proxied)
        host, port = observer.thrift1
        clients = (
            Clients(stack.happybase(), two, direct),
            Clients(happybase.Connection(host, port, timeout=60_000), proxied_two, proxied),
        )
        for number, operation in enumerate(operations):
            expected, found = (outcome(operation, each) for each in clients)
            assert found == expected, f"operation {number}: {operation.name}"
        messages = subscriber.read(proxied, subscriber.barrier(proxied))

        assert versions(two, proxied) == versions(two, direct)
        assert len(versions(two, direct)) > count / 4
        assert latest(two, proxied) == latest(two, direct)
        replay = Replay(two, rebuilt, proxied)
        rebuild(messages, replay)
        assert replay.cells > count / 2
        assert latest(two, rebuilt) == latest(two, proxied)


def rebuild(messages: list[list[UpdateMessage]], replay: Replay) -> None:
    for partition in messages:
        for message in partition:
            if isinstance(message, UpdateBatch):
                replay.take(message)
    replay.settle()
