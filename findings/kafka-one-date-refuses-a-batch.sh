#!/usr/bin/env bash
# Kafka 4.3.1 with confluent-kafka 2.16.1, measured 2026-11-28.
#
# A broker takes no message that is dated more than an hour ahead (message.timestamp.after.max.ms, its default since 3.6).
# Expected: that message is refused. Seen: every message of its batch is refused with it, those with a good date
# included, by an error that is not retriable, so the idempotent producer does not send them again either.
. "$(dirname "$0")/servers/kafka.sh"

"$PYTHON" - <<'PY'
import os
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

kafka = {"bootstrap.servers": os.environ["KAFKA"]}
admin = AdminClient(kafka)
admin.create_topics([NewTopic("t", 1, 1)])["t"].result(60)
producer = Producer({**kafka, "enable.idempotence": True, "linger.ms": 500})
now = int(time.time() * 1000)
outcomes = {}


def delivered(error, message):
    outcomes[message.value()] = "written" if error is None else f"{error.name()}, retriable: {error.retriable()}"


for value, date in ((b"good", now), (b"ahead", now + 2 * 3_600_000), (b"also good", now)):
    producer.produce("t", value, timestamp=date, on_delivery=delivered)
producer.flush(60)
for value, outcome in outcomes.items():
    print(f"{value.decode()}: {outcome}")
raise SystemExit(len(outcomes) != 3 or any("INVALID_TIMESTAMP, retriable: False" not in each for each in outcomes.values()))
PY
