#!/usr/bin/env bash
# Kafka 4.3.1 with confluent-kafka 2.16.1, measured 2026-11-28.
#
# A consumer reads a topic to its end. Then the topic is deleted and made again under the same name, and more messages than
# before are written to it.
# Expected: an error (auto.offset.reset is "error"), or the new topic from its beginning. Seen: where the consumer has not
# asked the broker in between, no error; it goes on at its old offset, and the first messages of the new topic are never
# returned to it. Topics have ids since Kafka 2.8, but the consumer does not compare them. Where it has asked in between,
# it gets the error, or the new topic from its beginning. On a busy machine several tries may be needed.
. "$(dirname "$0")/servers/kafka.sh"

"$PYTHON" - <<'PY'
import os
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TRIES = 20
kafka = {"bootstrap.servers": os.environ["KAFKA"]}
admin = AdminClient(kafka)


def create(topic):
    deadline = time.monotonic() + 60
    while True:
        try:
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
            return
        except KafkaException:  # the old topic is still on its way out
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def write(topic, generation, count):
    for number in range(count):
        producer.produce(topic, f"{generation} {number}".encode())
    assert producer.flush(60) == 0


def read(consumer, until):
    values, errors, deadline = [], [], time.monotonic() + 20
    while time.monotonic() < deadline and not errors and until not in values:
        message = consumer.poll(0.5)
        if message is not None and message.error():
            errors.append(message.error().name())
        elif message is not None:
            values.append(message.value().decode())
    return values, errors


def tried(topic):
    """Return what a consumer reads of a topic before and after it is made again, and its errors."""
    create(topic)
    write(topic, "old", 3)
    consumer = Consumer({**kafka, "group.id": topic, "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    before, _ = read(consumer, "old 2")
    admin.delete_topics([topic])[topic].result(60)
    create(topic)
    write(topic, "new", 6)
    after, errors = read(consumer, "new 5")
    consumer.close()
    return before, after, errors


producer = Producer(kafka)
for number in range(TRIES):
    before, after, errors = tried(f"t{number}")
    print(f"before: {before}; after: {after}; errors: {errors}")
    if before == ["old 0", "old 1", "old 2"] and after == ["new 3", "new 4", "new 5"] and not errors:
        raise SystemExit(0)
raise SystemExit(1)
PY
