"""A worker on the real stack, its steps and tables, and a topic that stands for an observer's."""

from __future__ import annotations

import itertools
import queue
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from headgate.client import Thrift2Connection
from headgate.engine import WatchedContainer
from headgate.events import (
    Container,
    ContainerId,
    Cut,
    Item,
    Outcome,
    RequestPart,
    UpdateBatch,
    UpdateKind,
    encode_update,
    updates_topic,
)
from headgate.spark import (
    LEDGER_FAMILY,
    SessionWorker,
    StartSession,
    StepEnded,
    StepRequest,
    StepStarted,
    Thrift2Address,
    WorkerReply,
)

if TYPE_CHECKING:
    from conftest import RunningStack


WAIT = 120.0  # seconds; a Spark start on two busy cores takes tens of them
STEPS = """
import os, time
from pyspark.sql import functions as sql

def total(run):
    frame = run.read("input").withColumn("sum", sql.coalesce("a", sql.lit(0.0)) + sql.col("b"))
    run.write(frame.select("row", "sum"), "output")

def total_by_tasks(run):
    run._driver_rows = 1
    run._driver_bytes = 1
    frame = run.read("input")
    assert frame.rdd.getNumPartitions() > 1
    run.write(frame.select("row", sql.col("b").alias("sum")), "output")

def udf_of_the_module(run):
    double = sql.udf(twice, "double")
    run.write(run.read("input").select("row", double("b").alias("sum")), "output")

def twice(value):
    return 2 * value

def changed(run):
    frame = run.changes("input").select("row", sql.concat("column", sql.lit("!")).alias("sum"))
    for row in run.changes("input").orderBy("row", "column").collect():
        print(row.row, row.column, row.value, row.deleted)

def copy(run):
    if "by_tasks" in run.parameters:
        run._driver_rows = 1
        run._driver_bytes = 1
    frame = run.read("input").select("row", sql.col("a").alias("sum"))
    run.write(frame, "output")

def family(run):
    frame = run.read("output")
    print(frame.columns, frame.count())

def changed_by_tasks(run):
    run._driver_rows = 1
    assert run.changes("input").rdd.getNumPartitions() > 1
    changed(run)

def nothing(run):
    print("printed by", run.id, run.parameters["word"])

def stubborn(run):
    raise RuntimeError("this step\\nnever works")

def slow(run):
    open(run.parameters["started"], "w").close()
    run.spark.range(2).mapInPandas(sleepy, "id long").count()

def sleepy(frames):
    time.sleep(60)
    yield from frames

def overtaken(run):
    from headgate.client import Thrift2Connection
    from headgate.spark import RunKey, RunLedger
    request = run._request
    with Thrift2Connection(request.hbase.host, request.hbase.port) as connection:
        ledger = RunLedger(connection, request.ledger)
        ledger.claim(request.key, run.attempt + 1, request.token + 1, "another worker")

def meet(run):
    mine, other = run.parameters["mine"], run.parameters["other"]
    open(mine, "w").close()
    for _ in range(600):
        if os.path.exists(other):
            return
        time.sleep(0.05)
    raise TimeoutError("the other step did not run at the same time")
"""

NOTHING = Cut()


class Bench:
    """A worker, its tables, and a topic that stands for an observer's."""

    def __init__(self, stack: RunningStack, directory: Path) -> None:
        self.stack = stack
        self.directory = directory
        (directory / "steps_of_tests.py").write_text(STEPS)
        self.ledger = stack.table("spark_ledger", [LEDGER_FAMILY])
        self.replies: queue.Queue[WorkerReply | int] = queue.Queue()
        self.worker = SessionWorker(
            StartSession({"spark.master": "local[2]"}),
            directory,
            on_reply=self.replies.put,
            on_exit=self.replies.put,
        )
        self._numbers = itertools.count(1)

    def connect(self) -> Thrift2Connection:
        return Thrift2Connection(*self.stack.thrift2)

    def request(
        self,
        function: str,
        containers: tuple[WatchedContainer, ...] = (),
        *,
        cut: Cut = NOTHING,
        since: Cut = NOTHING,
        **parameters: str,
    ) -> StepRequest:
        number = next(self._numbers)
        return StepRequest(
            dataflow="flow",
            action=function,
            run=f"run-{number}",
            attempt=1,
            token=number * 10,
            entry=f"steps_of_tests:{function}",
            hbase=Thrift2Address(*self.stack.thrift2),
            kafka=self.stack.kafka,
            python_path=(str(self.directory),),
            parameters=dict(parameters),
            containers=containers,
            cut=cut,
            since=since,
            ledger=self.ledger,
        )

    def carry_out(self, *requests: StepRequest) -> list[StepEnded]:
        for request in requests:
            self.worker.submit(request)
        ended: list[StepEnded] = []
        while len(ended) < len(requests):
            reply = self.replies.get(timeout=WAIT)
            assert isinstance(reply, StepStarted | StepEnded), reply
            if isinstance(reply, StepEnded):
                ended.append(reply)
        return ended


def container(name: str, table: str, *columns: str) -> WatchedContainer:
    items = []
    for column in columns:
        family, _, qualifier = column.encode().partition(b":")
        items.append(Item(table, family, qualifier or None))
    return WatchedContainer(Container(ContainerId(name), tuple(items)))


def pair(tables: tuple[str, str]) -> tuple[WatchedContainer, ...]:
    source, target = tables
    return (
        container("input", source, "f:a", "f:b"),
        container("output", target, "f:sum"),
    )


def rows(bench: Bench, table: str) -> dict[bytes, bytes]:
    with bench.connect() as connection:
        return {row: cells[b"f:sum"] for row, cells in connection.scan(table)}


def publish(bench: Bench, table: str, *batches: UpdateBatch) -> Cut:
    """Publish as an observer would and return the cut after the last message."""
    producer = Producer({"bootstrap.servers": bench.stack.kafka})
    ends: list[int] = []
    for batch in batches:
        producer.produce(
            updates_topic(table),
            encode_update(batch),
            partition=0,
            on_delivery=lambda _, message: ends.append(message.offset() + 1),
        )
    assert producer.flush(WAIT) == 0
    return Cut({updates_topic(table): (max(ends),)})


def update(
    table: str,
    intent: int,
    cells: list[tuple[UpdateKind, bytes, bytes, bytes | None]],
    outcome: Outcome = Outcome.APPLIED,
) -> UpdateBatch:
    part = RequestPart(intent, "test", outcome, 1.0, len(cells))
    kinds, keys, columns, values = zip(*cells, strict=True)
    return UpdateBatch(
        1, "tests", 1, intent, 0, table, (part,), bytes(kinds), keys, columns,
        tuple(-1 for _ in cells), values,
    )  # fmt: skip


def wait_until(holds: Callable[[], bool], seconds: float = WAIT) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)
