"""Facts of Kafka that one would guess otherwise: lines of docs/reference/hbase-semantics.md."""

from __future__ import annotations

import time
import uuid
import zlib
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = pytest.mark.stack

HOURS = 2 * 3_600_000
SECONDS = 60


@pytest.fixture
def topic(stack: Any):
    admin = AdminClient({"bootstrap.servers": stack.kafka})
    name = f"facts-{uuid.uuid4().hex[:12]}"
    for made in admin.create_topics([NewTopic(name, 4, 1)]).values():
        made.result(SECONDS)
    yield name
    for gone in admin.delete_topics([name]).values():
        gone.result(SECONDS)


def test_one_timestamp_hours_ahead_has_its_whole_batch_refused(stack, topic):
    producer = Producer({"bootstrap.servers": stack.kafka, "linger.ms": 500, "log_level": 0})
    errors: list[KafkaError | None] = []
    now = int(time.time() * 1000)
    for stamp in (now, now + HOURS, now):
        producer.produce(
            topic, b"v", partition=0, timestamp=stamp, callback=lambda e, _m: errors.append(e)
        )
    assert producer.flush(SECONDS) == 0
    codes = [None if error is None else error.code() for error in errors]
    assert KafkaError.INVALID_TIMESTAMP in codes
    assert None not in codes, "what was good in the batch was not taken either"


def test_asking_for_a_topic_that_is_missing_may_create_it(stack):
    name = f"facts-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": stack.kafka})
    admin.list_topics(name, timeout=SECONDS)
    deadline = time.monotonic() + SECONDS
    while name not in admin.list_topics(timeout=SECONDS).topics:
        assert time.monotonic() < deadline, "the topic was not created"
    for gone in admin.delete_topics([name]).values():
        gone.result(SECONDS)


def test_the_clients_default_partitioner_is_crc32(stack, topic):
    producer = Producer({"bootstrap.servers": stack.kafka, "log_level": 0})
    found: dict[bytes, int] = {}
    keys = [b"row%d" % number for number in range(20)]
    for key in keys:
        producer.produce(
            topic,
            b"v",
            key,
            callback=lambda _e, message: found.update({message.key(): message.partition()}),
        )
    assert producer.flush(SECONDS) == 0
    assert found == {key: zlib.crc32(key) % 4 for key in keys}
