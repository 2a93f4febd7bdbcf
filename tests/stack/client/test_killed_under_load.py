"""Programs with the drop-in that are killed while all their threads write."""

from __future__ import annotations

import random
import signal
import struct
import time
from itertools import islice

import pytest

from headgate.events import Outcome, UpdateBatch

pytestmark = pytest.mark.stack

THREADS = 4

Intent = tuple[str, int, int]
Applied = tuple[bytes, bytes, int, bytes | None]

# Each line says what HBase has acknowledged: a thread, and the number of its request.
PROGRAM = """
import os, sys, threading
from headgate import client as happybase

table_name, name, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
pool = happybase.ConnectionPool(
    threads, host=os.environ["THRIFT1_HOST"], port=int(os.environ["THRIFT1_PORT"]), timeout=30000
)

def write(thread):
    with pool.connection() as connection:
        table = connection.table(table_name)
        number = 0
        while True:
            number += 1
            row = b"%s-%d-%06d" % (name.encode(), thread, number)
            if number % 4 == 0:
                with table.batch(transaction=True) as batch:
                    for each in range(5):
                        batch.put(row + b"-%d" % each, {b"f:a": b"%d" % number})
            elif number % 4 == 1:
                with table.batch(timestamp=number) as batch:
                    batch.put(row, {b"f:a": b"%d" % number})
            elif number % 4 == 2:
                table.counter_inc(b"%s-%d" % (name.encode(), thread), b"f:n")
            else:
                table.put(row, {b"f:a": b"%d" % number, b"f:b": b"b"})
            os.write(1, b"%d %d\\n" % (thread, number))

for thread in range(threads):
    threading.Thread(target=write, args=(thread,)).start()
"""

LAST = """
import os, sys
from headgate import client as happybase
connection = happybase.Connection(os.environ["THRIFT1_HOST"], int(os.environ["THRIFT1_PORT"]))
connection.table(sys.argv[1]).put(b"last", {b"f:a": b"1"})
"""


def rows_of(name: str, thread: int, number: int) -> list[bytes]:
    """Return the rows of a request that puts; none of one that counts."""
    row = f"{name}-{thread}-{number:06d}".encode()
    match number % 4:
        case 0:
            return [row + b"-%d" % each for each in range(5)]
        case 2:
            return []
        case _:
            return [row]


def kill_in_the_middle(process, requests: int) -> list[tuple[int, int]]:
    """Return what was acknowledged to a program that is killed after some of its requests."""
    lines = [process.stdout.readline() for _ in range(requests)]
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    lines += rest.splitlines(keepends=True)
    return [(int(a), int(b)) for a, b in (line.split() for line in lines if line.endswith("\n"))]


@pytest.mark.parametrize(
    ("kills", "requests"),
    [(2, 300), pytest.param(30, 1500, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])],
)
def test_no_acknowledged_write_of_a_killed_program_is_lost_and_none_is_made_up(
    stack, programs, kills: int, requests: int
) -> None:
    rng = random.Random(kills)
    table = stack.table("killed")
    programs.watch(table)
    acknowledged = {}
    for number in range(kills):
        name = f"k{number}"
        process = programs.start(PROGRAM, table, name, str(THREADS))
        acknowledged[name] = kill_in_the_middle(process, rng.randrange(50, requests))
    # The next process publishes what they left.
    deadline = time.monotonic() + 60
    ended = programs.run(LAST, table)
    while list(programs.journal.glob("*/*.segment")):
        assert time.monotonic() < deadline, ended.stderr
        ended = programs.run(LAST, table)

    told, applied = events(programs.batches(table))
    there = cells_in(stack, table)
    written = sum(len(each) for each in acknowledged.values())
    print(f"{kills} kills; {written} requests acknowledged, {len(applied)} cells applied")
    for name, requests_of in acknowledged.items():
        assert {row for each in requests_of for row in rows_of(name, *each)} <= told.keys()
        for thread in range(THREADS):
            counted = sum(t == thread and number % 4 == 2 for t, number in requests_of)
            assert len(told.get(f"{name}-{thread}".encode(), ())) >= counted
    assert {row for row, _ in there} <= told.keys(), "a write took effect without an event"
    for row, column, timestamp, value in applied:
        found, stamp = there[row, column]
        if column == b"f:n":
            assert value is not None
            assert struct.unpack(">q", value) <= struct.unpack(">q", found)
        else:
            assert value == found
            assert timestamp in (-1, stamp)


def events(batches: list[UpdateBatch]) -> tuple[dict[bytes, set[Intent]], set[Applied]]:
    """Return the requests that each row has an event of, and the cells said to be applied."""
    told: dict[bytes, set[Intent]] = {}
    applied: set[Applied] = set()
    for batch in batches:
        cells = zip(batch.rows, batch.columns, batch.timestamps, batch.values, strict=True)
        for part in batch.requests:
            for cell in islice(cells, part.cells):
                intent = (batch.observer, batch.epoch, part.intent)
                told.setdefault(cell[0], set()).add(intent)
                if part.outcome is Outcome.APPLIED:
                    applied.add(cell)
    return told, applied


def cells_in(stack, table: str) -> dict[tuple[bytes, bytes], tuple[bytes, int]]:
    """Return value and timestamp of each cell."""
    connection = stack.happybase()
    try:
        return {
            (row, column): found
            for row, cells in connection.table(table).scan(include_timestamp=True)
            for column, found in cells.items()
        }
    finally:
        connection.close()
