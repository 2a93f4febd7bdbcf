"""Deletes and then puts at full speed: every write that HBase hides is announced as ambiguous.

Region servers count milliseconds. A write that follows the answer to a delete of its row within
one gets the timestamp of the delete's marker, and is never seen, though HBase answers that it was
applied. A listener with ``order.strict`` lets no write be hidden.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import happybase
import Hbase_thrift  # made by happybase when it is imported
import pytest
from msgspec import Struct

from headgate.client import Thrift2Connection
from headgate.events import UpdateBatch, UpdateKind, UpdateMessage
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
    OrderSettings,
)

pytestmark = pytest.mark.stack

PAIRS = 1500
MANY = 100_000
ROUNDS = 2
"""Most rounds of pairs until HBase has hidden a write. On a busy machine requests follow more
slowly, so that HBase hides fewer."""
COLUMN = b"f:q"
DELETES = (
    UpdateKind.DELETE_CELL,
    UpdateKind.DELETE_COLUMN,
    UpdateKind.DELETE_FAMILY,
    UpdateKind.DELETE_FAMILY_VERSION,
    UpdateKind.DELETE_ROW,
)
PUT = [Hbase_thrift.Mutation(column=COLUMN, value=b"new")]
GONE = [Hbase_thrift.Mutation(isDelete=True, column=COLUMN)]

Change = Callable[["Writer", bytes], object]

FIRST: list[Change] = [
    lambda w, row: w.one.deleteAllRow(w.name, row, {}),
    lambda w, row: w.one.deleteAll(w.name, row, COLUMN, {}),
    lambda w, row: w.one.deleteAll(w.name, row, b"f", {}),
    lambda w, row: w.one.mutateRow(w.name, row, GONE, {}),
    lambda w, row: w.two.delete(w.table, [row], ()),
    lambda w, row: w.two.delete(w.table, [row], [COLUMN]),
]
"""Deletes of a row's cell, of every kind whose marker hides what comes later."""

THEN: list[Change] = [
    lambda w, row: w.one.mutateRow(w.name, row, PUT, {}),
    lambda w, row: w.one.mutateRows(w.name, [Hbase_thrift.BatchMutation(row, PUT)], {}),
    lambda w, row: w.one.atomicIncrement(w.name, row, b"f:n", 1),
    lambda w, row: w.one.append(
        Hbase_thrift.TAppend(table=w.name, row=row, columns=[COLUMN], values=[b"new"])
    ),
    lambda w, row: w.two.put(w.table, [(row, {COLUMN: b"new"})]),
    lambda w, row: w.two.check_and_put(w.table, row, b"f:c", None, {COLUMN: b"new"}),
]
"""Every way to give the cell a value again."""


class Writer(Struct):
    """Clients of both listeners, and the table they write to."""

    one: Any
    two: Thrift2Connection
    table: str

    @property
    def name(self) -> bytes:
        return self.table.encode()


def pair_of(number: int) -> tuple[Change, Change]:
    """Return a delete and a write: by turns the fastest pair there is, and every other one."""
    if number % 2:
        return FIRST[0], THEN[0]
    which = number // 2
    return FIRST[which % len(FIRST)], THEN[which // len(FIRST) % len(THEN)]


def replace_rows(
    observer: ObserverProcess, table: str, numbers: Iterator[int], most: int, writers: int
) -> None:
    """Delete rows and write them again at once until the numbers end."""
    failed: list[BaseException] = []

    def work() -> None:
        host, port = observer.thrift1
        connection = happybase.Connection(host, port, timeout=60_000)
        try:
            with Thrift2Connection(*observer.thrift2) as two:
                writer = Writer(connection.client, two, table)
                while (number := next(numbers)) < most:
                    row = b"%07d" % number
                    for change in pair_of(number):
                        change(writer, row)
        except BaseException as error:  # raised again in the test's own thread
            failed.append(error)
            raise
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def announced(messages: list[list[UpdateMessage]]) -> tuple[set[bytes], set[bytes]]:
    """Return the rows that were written, and those of which the last write must be read."""
    written: dict[bytes, bool] = {}
    for message in itertools.chain.from_iterable(messages):
        if not isinstance(message, UpdateBatch):
            continue
        at = 0
        for part in message.requests:
            for position in range(part.cells):
                if message.kinds[at + position] not in DELETES:
                    written[message.rows[at + position]] = position in part.ambiguous
            at += part.cells
    return set(written), {row for row, unsure in written.items() if unsure}


@pytest.mark.parametrize("pairs", [PAIRS, pytest.param(MANY, marks=pytest.mark.soak)])
@pytest.mark.parametrize("strict", [False, True], ids=["as they come", "order.strict"])
def test_every_write_that_a_delete_hides_is_announced_and_none_is_with_order_strict(
    stack, subscriber, tmp_path: Path, strict: bool, pairs: int
) -> None:
    table = stack.table("behind_deletes")
    order = OrderSettings(strict=strict)
    config = ObserverConfig(
        name="order",
        thrift1=Listener("127.0.0.1:0", str(stack.thrift1), order=order),
        thrift2=Listener("127.0.0.1:0", str(stack.thrift2), order=order),
        kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic),
        journal=JournalSettings(str(tmp_path / "journal")),
    )
    written: set[bytes] = set()
    unsure: set[bytes] = set()
    lost: set[bytes] = set()
    everything: set[bytes] = set()
    with ObserverProcess(config, tmp_path) as observer:
        subscriber.watch(table)
        for first in range(0, ROUNDS * pairs, pairs):
            # One writer is the fastest from an answer to the next request; held ones need several.
            replace_rows(observer, table, itertools.count(first), first + pairs, 4 if strict else 1)
            messages = subscriber.read(table, subscriber.barrier(table), seconds=300.0)
            # HBase closes connections that were idle for a minute: not one for all rounds.
            with Thrift2Connection(*stack.thrift2) as direct:
                there = {row for row, _ in direct.scan(table)}
            everything = {b"%07d" % number for number in range(first + pairs)}
            written, unsure = announced(messages)
            lost = everything - there
            print(f"{len(everything)} pairs: {len(lost)} lost, {len(unsure)} ambiguous")
            assert written == everything
            assert lost - unsure == set()
            if strict or lost:
                break

    if strict:
        assert (lost, unsure) == (set(), set())
    elif not lost:
        pytest.skip(f"on this busy machine HBase has hidden none of {len(everything)} writes")
