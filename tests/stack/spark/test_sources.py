"""The data sources in a real Spark session, over the real HBase and Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from headgate.client import ScanRange, Thrift2Connection
from headgate.events import (
    Outcome,
    RequestPart,
    UpdateBatch,
    UpdateKind,
    encode_update,
    updates_topic,
)

if TYPE_CHECKING:
    from conftest import RunningStack

pytestmark = pytest.mark.stack


@pytest.fixture
def connection(stack: RunningStack) -> Iterator[Thrift2Connection]:
    with Thrift2Connection(*stack.thrift2) as opened:
        yield opened


@pytest.fixture
def split(stack: RunningStack, connection: Thrift2Connection) -> Iterator[str]:
    """A table of three regions with 300 rows: its families are f and g."""
    table = stack.table("sources") + "_split"
    connection.create_table(table, ["f", "g"], splits=[b"r100", b"r200"])
    keys = [b"r%03d" % number for number in range(300)]
    texts = [b"%d.5" % number for number in range(300)]
    connection.put_columns(table, keys, {b"f:a": texts, b"g:t": keys}, timestamp=1000)
    yield table
    # The server has ended a connection that was idle for a minute, as it may be on a busy machine.
    with Thrift2Connection(*stack.thrift2) as another:
        another.delete_table(table)


def frame(
    spark: SparkSession, stack: RunningStack, table: str, schema: str, **options: Any
) -> DataFrame:
    host, port = stack.thrift2
    reader = spark.read.format("headgate").schema(schema)
    return reader.options(host=host, port=port, table=table, family="f", **options).load()


def test_each_region_is_a_partition_and_each_row_is_read_once(
    spark: SparkSession, stack: RunningStack, split: str
) -> None:
    read = frame(spark, stack, split, "row string, a double", page=7)

    assert read.rdd.getNumPartitions() == 3
    assert [(row.row, row.a) for row in read.orderBy("row").collect()] == [
        (f"r{number:03d}", number + 0.5) for number in range(300)
    ]


def test_few_regions_are_split_further(
    spark: SparkSession, stack: RunningStack, split: str
) -> None:
    read = frame(spark, stack, split, "row string, a double", start="r200", partitions=5)

    assert read.rdd.getNumPartitions() > 1
    assert read.count() == 100


def test_a_range_of_rows_leaves_other_regions_alone(
    spark: SparkSession, stack: RunningStack, split: str
) -> None:
    read = frame(spark, stack, split, "row string, a double", start="r150", stop="r160")

    assert read.rdd.getNumPartitions() == 1
    assert read.count() == 10


def test_only_cells_in_the_time_range_are_read(
    spark: SparkSession, stack: RunningStack, connection: Thrift2Connection, split: str
) -> None:
    connection.put(split, [(b"r007", {b"f:a": b"-1"})], timestamp=2000)

    read = frame(spark, stack, split, "row string, a double", since=1500)

    assert [tuple(row) for row in read.collect()] == [("r007", -1.0)]


def test_only_the_columns_of_the_schema_are_read_in_its_order_and_types(
    spark: SparkSession, stack: RunningStack, split: str
) -> None:
    read = frame(
        spark,
        stack,
        split,
        "text string, row binary, `g:t` binary",
        columns='{"text": "f:a"}',
        stop="r001",
    )

    assert [tuple(row) for row in read.collect()] == [("0.5", b"r000", b"r000")]


def test_a_frame_is_read_twice_with_different_filters(
    spark: SparkSession, stack: RunningStack, split: str
) -> None:
    read = frame(spark, stack, split, "row string, a double")

    assert read.where("row < 'r010'").count() == 10
    assert read.count() == 300


def test_written_rows_are_there_and_nulls_delete_cells(
    spark: SparkSession, stack: RunningStack, connection: Thrift2Connection
) -> None:
    table = stack.table("sources_written", ["f", "g"])
    connection.put(table, [(b"r1", {b"f:a": b"7", b"f:b": b"8"})], timestamp=1000)
    host, port = stack.thrift2
    written = spark.createDataFrame(
        [("r1", None, "x"), ("r2", 1.25, None)], "row string, a double, `g:t` string"
    )

    writer = written.write.format("headgate").mode("append")
    writer.options(host=host, port=port, table=table, family="f", timestamp=3000).save()

    assert list(connection.scan(table)) == [
        (b"r1", {b"f:b": b"8", b"g:t": b"x"}),
        (b"r2", {b"f:a": b"1.25"}),
    ]
    assert len(list(connection.cells(table, ScanRange(since=3000, until=3001)))) == 2


def test_updates_are_read_between_two_cuts_without_duplicates(
    spark: SparkSession, stack: RunningStack
) -> None:
    table = stack.table("sources_updates")
    topic = updates_topic(table)
    producer = Producer({"bootstrap.servers": stack.kafka})
    for intent in (0, 1, 2, 1, 3):
        part = RequestPart(intent, "put", Outcome.APPLIED, 1.5, 2)
        batch = UpdateBatch(
            1, "tests", 4, intent, 0, table, (part,), bytes([UpdateKind.PUT] * 2),
            (b"r%d" % intent,) * 2, (b"f:a", b"f:b"), (-1, -1), (b"1", None),
        )  # fmt: skip
        producer.produce(topic, encode_update(batch), partition=0)
    assert producer.flush(60) == 0

    read = (
        spark.read.format("headgate_updates")
        .options(kafka=stack.kafka, table=table)
        .options(since=f'{{"{topic}": [1]}}', cut=f'{{"{topic}": [4]}}')
        .load()
    )

    rows = read.orderBy("intent", "column").collect()
    assert [(r.row, r.column, r.kind, r.value, r.epoch, r.outcome) for r in rows] == [
        (bytearray(b"r1"), "f:a", "put", bytearray(b"1"), 4, "applied"),
        (bytearray(b"r1"), "f:b", "put", None, 4, "applied"),
        (bytearray(b"r2"), "f:a", "put", bytearray(b"1"), 4, "applied"),
        (bytearray(b"r2"), "f:b", "put", None, 4, "applied"),
    ]
