"""How long after its reply a write is read from Kafka."""

from __future__ import annotations

import threading
import time
import uuid

import happybase
from confluent_kafka import Consumer, TopicPartition

from headgate.events import UpdateBatch, decode_update, updates_topic
from measuring.load import Address
from measuring.thrift_requests import VALUE

_PACED = 1000  # writes whose events are timed


def event_delays(stack: dict[str, str], table: str, address: Address) -> list[float]:
    """Return how long after its reply each of many writes was read from Kafka, in seconds."""
    consumer = Consumer(
        {"bootstrap.servers": stack["kafka"], "group.id": uuid.uuid4().hex, "fetch.wait.max.ms": 5}
    )
    topic = updates_topic(table)
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    places = [TopicPartition(topic, number) for number in partitions]
    for place in places:
        place.offset = consumer.get_watermark_offsets(place, timeout=10)[1]
    consumer.assign(places)
    arrived: dict[bytes, float] = {}

    def read() -> None:
        deadline = time.monotonic() + 60
        while len(arrived) < _PACED and time.monotonic() < deadline:
            record = consumer.poll(1)
            now = time.perf_counter()
            if record is None or record.error() is not None:
                continue
            batch = decode_update(record.value() or b"")
            if isinstance(batch, UpdateBatch):
                arrived.update((row, now) for row in batch.rows if row.startswith(b"paced"))

    reader = threading.Thread(target=read)
    reader.start()
    replied: dict[bytes, float] = {}
    connection = happybase.Connection(*address)
    cells = connection.table(table)
    for number in range(_PACED):
        row = b"paced%06d" % number
        cells.put(row, {b"f:v": VALUE})
        replied[row] = time.perf_counter()
        time.sleep(0.002)
    reader.join()
    consumer.close()
    connection.close()
    return sorted(arrived[row] - at for row, at in replied.items() if row in arrived)
