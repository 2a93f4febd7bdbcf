"""The HBase data source against a bare happybase scan of the same table.

100,000 rows of 5 columns, read in turns on one machine: happybase in one process, the data source
as two tasks of a local Spark session, every column decoded to a double. Prints both speeds and
their ratio, round by round.

    python tests/bench/datasource.py [--rows N] [--rounds N]

Uses the stack whose addresses are in the JSON file that HEADGATE_TEST_STACK names, or starts one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import happybase
from pyspark.sql import SparkSession

from headgate.client import Thrift2Connection
from headgate.local import Lifetime, LocalStack
from headgate.spark.worker.worker import session_of

COLUMNS = 5
HAPPYBASE_BATCHES = (1_000, 5_000)
"""Rows a request: happybase's default, and what the data source asks for."""


@contextmanager
def addresses() -> Iterator[tuple[tuple[str, int], tuple[str, int]]]:
    """Give the addresses of Thrift1 and Thrift2."""
    named = os.environ.get("HEADGATE_TEST_STACK")
    if named:
        written = json.loads(Path(named).read_text())
        yield address(written["thrift1"]), address(written["thrift2"])
        return
    with tempfile.TemporaryDirectory() as directory:
        stack = LocalStack(Path(directory), "bench", lifetime=Lifetime.WITH_CALLER)
        try:
            found = stack.up()
            yield found.thrift1, found.thrift2
        finally:
            stack.down()


def address(written: str | int) -> tuple[str, int]:
    """Return host and port of ``host:port`` or of a port on this machine."""
    host, _, port = str(written).rpartition(":")
    return host or "127.0.0.1", int(port)


def fill(connection: Thrift2Connection, table: str, rows: int) -> None:
    """Put the rows to read."""
    connection.create_table(table, ["f"])
    keys = [b"r%07d" % number for number in range(rows)]
    columns = {
        b"f:c%d" % column: [b"%.6f" % (number * 0.37 + column) for number in range(rows)]
        for column in range(COLUMNS)
    }
    connection.put_columns(table, keys, columns)


def seconds(action: Callable[[], object]) -> float:
    """Return how long the action took."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def read_by_happybase(thrift1: tuple[str, int], table: str, batch: int, rows: int) -> None:
    """Scan the whole table as happybase hands it out."""
    host, port = thrift1
    connection = happybase.Connection(host, port)
    try:
        found = sum(1 for _ in connection.table(table).scan(batch_size=batch))
    finally:
        connection.close()
    if found != rows:
        message = f"happybase read {found} rows, not {rows}"
        raise RuntimeError(message)


def read_by_source(spark: SparkSession, thrift2: tuple[str, int], table: str) -> None:
    """Read every column of the table into Spark."""
    host, port = thrift2
    fields = ", ".join(f"c{column} double" for column in range(COLUMNS))
    reader = spark.read.format("headgate").schema(f"row string, {fields}")
    frame = reader.options(host=host, port=port, table=table, family="f", partitions=2).load()
    frame.write.format("noop").mode("overwrite").save()


def main() -> None:
    """Compare, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with addresses() as (thrift1, thrift2):
        table = f"bench_source_{uuid.uuid4().hex[:8]}"
        with Thrift2Connection(*thrift2) as connection:
            fill(connection, table, given.rows)
        spark = session_of({"spark.master": "local[2]"})
        try:
            cold = seconds(lambda: read_by_source(spark, thrift2, table))
            for batch in HAPPYBASE_BATCHES:
                read_by_happybase(thrift1, table, batch, given.rows)
            print(
                f"{given.rows} rows x {COLUMNS} columns, {os.cpu_count()} CPUs, "
                f"load {os.getloadavg()[0]:.1f}; the source's first read took {cold:.2f} s"
            )
            compare(spark, thrift1, thrift2, table, given.rows, given.rounds)
        finally:
            spark.stop()
            with Thrift2Connection(*thrift2) as connection:
                connection.delete_table(table)


def compare(
    spark: SparkSession,
    thrift1: tuple[str, int],
    thrift2: tuple[str, int],
    table: str,
    rows: int,
    rounds: int,
) -> None:
    """Read in turns and print each round's ratio and their median."""
    ratios = []
    for turn in range(1, rounds + 1):
        bare = {
            batch: seconds(partial(read_by_happybase, thrift1, table, batch, rows))
            for batch in HAPPYBASE_BATCHES
        }
        source = seconds(lambda: read_by_source(spark, thrift2, table))
        ratios.append(min(bare.values()) / source)
        shown = ", ".join(f"happybase ({b}) {rows / s:,.0f} rows/s" for b, s in bare.items())
        print(f"round {turn}: {shown}; source {rows / source:,.0f} rows/s; ratio {ratios[-1]:.2f}")
    print(f"median ratio, source to the faster happybase scan: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
