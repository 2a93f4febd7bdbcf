"""What the topics of updates hold, and what is done to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from headgate.events import Outcome, UpdateBatch, UpdateKind, decode_update, updates_topic

_SECONDS = 60.0
MOST_PARTITIONS = 12


@dataclass(frozen=True)
class Told:
    """One cell of an event.

    Attributes:
        partition: of the table's topic.
        offset: of its message.
        row: of the table.
        value: that was written; None where the event does not have it.
        applied: whether the server said so.
        deleted: whether the cell was deleted.
    """

    partition: int
    offset: int
    row: bytes
    value: bytes | None
    applied: bool
    deleted: bool


_PUTS = (UpdateKind.PUT, UpdateKind.INCREMENT, UpdateKind.APPEND)


def read(kafka: str, table: str, column: bytes = b"f:v") -> Iterator[Told]:
    """Yield what a table's topic tells of a column, and of what is deleted whole, in its order."""
    topic = updates_topic(table)
    with closing(Consumer({"bootstrap.servers": kafka, "group.id": "soak"})) as consumer:
        for partition in consumer.list_topics(topic, _SECONDS).topics[topic].partitions:
            place = TopicPartition(topic, partition)
            low, high = consumer.get_watermark_offsets(place, _SECONDS)
            consumer.assign([TopicPartition(topic, partition, low)])
            position = low
            while position < high:
                for record in consumer.consume(500, 0.5):
                    position = record.offset() + 1
                    if record.value() is None:
                        continue  # a tombstone
                    message = decode_update(record.value())
                    if isinstance(message, UpdateBatch):
                        yield from _told(partition, record.offset(), message, column)


def _told(partition: int, offset: int, batch: UpdateBatch, column: bytes) -> Iterator[Told]:
    at = 0
    for part in batch.requests:
        for cell in range(at, at + part.cells):
            put = UpdateKind(batch.kinds[cell]) in _PUTS
            if put and batch.columns[cell] != column:
                continue
            value = batch.values[cell] if put else None
            applied = part.outcome is Outcome.APPLIED
            yield Told(partition, offset, batch.rows[cell], value, applied, not put)
        at += part.cells


def size(kafka: str, table: str) -> int:
    """Return how many messages a table's topic has."""
    topic = updates_topic(table)
    with closing(Consumer({"bootstrap.servers": kafka, "group.id": "soak"})) as consumer:
        partitions = consumer.list_topics(topic, _SECONDS).topics[topic].partitions
        marks = [
            consumer.get_watermark_offsets(TopicPartition(topic, each), _SECONDS)
            for each in partitions
        ]
    return sum(high - low for low, high in marks)


def add_partition(kafka: str, table: str) -> str:
    """Give a table's topic one partition more, up to a limit; return what came of it."""
    topic = updates_topic(table)
    admin = AdminClient({"bootstrap.servers": kafka})
    count = len(admin.list_topics(topic, _SECONDS).topics[topic].partitions)
    if count >= MOST_PARTITIONS:
        return f"it has {count} already"
    (future,) = admin.create_partitions([NewPartitions(topic, count + 1)]).values()
    future.result(_SECONDS)
    return f"{count + 1} partitions"


def put_tombstone(kafka: str, table: str, number: int) -> str:
    """Put a record without a value into a table's topic; return where it went."""
    topic = updates_topic(table)
    producer = Producer({"bootstrap.servers": kafka})
    partitions = producer.list_topics(topic, _SECONDS).topics[topic].partitions
    partition = number % len(partitions)
    producer.produce(topic, None, b"tombstone", partition=partition)
    if producer.flush(_SECONDS):
        return "Kafka did not take it"
    return f"partition {partition}"


_REPLICAS = "min.insync.replicas"


def poison(kafka: str, table: str) -> str:
    """Have Kafka refuse all messages of a table's topic; return by what."""
    _set_replicas(kafka, table, AlterConfigOpType.SET, "2")
    return f"{_REPLICAS} is 2 where there is one broker"


def cure(kafka: str, table: str) -> None:
    """Have Kafka take messages of a table's topic again."""
    _set_replicas(kafka, table, AlterConfigOpType.DELETE, None)


def _set_replicas(kafka: str, table: str, change: AlterConfigOpType, value: str | None) -> None:
    entry = ConfigEntry(_REPLICAS, value, incremental_operation=change)
    topic = ConfigResource(ResourceType.TOPIC, updates_topic(table), incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka})
    (future,) = admin.incremental_alter_configs([topic]).values()
    future.result(_SECONDS)
