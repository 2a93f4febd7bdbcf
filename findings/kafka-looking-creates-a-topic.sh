#!/usr/bin/env bash
# Kafka 4.3.1 with confluent-kafka 2.16.1, measured 2026-11-28.
#
# AdminClient.list_topics(name) asks for one topic's metadata, for example to see whether it exists.
# Seen: asked for a topic that does not exist, the broker (auto.create.topics.enable is on by default) makes it. A
# consumer that asks the same question does not make it: allow.auto.create.topics is off in consumers only.
. "$(dirname "$0")/servers/kafka.sh"

"$PYTHON" - <<'PY'
import os
import time

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

kafka = {"bootstrap.servers": os.environ["KAFKA"]}
admin = AdminClient(kafka)
consumer = Consumer({**kafka, "group.id": "g"})
consumer.list_topics("by-a-consumer", timeout=30)
admin.list_topics("by-an-admin", timeout=30)
deadline = time.monotonic() + 30
while "by-an-admin" not in (topics := admin.list_topics(timeout=30).topics) and time.monotonic() < deadline:
    time.sleep(0.2)
made = sorted(name for name in topics if name.startswith("by-"))
print(f"topics that exist now: {made}")
raise SystemExit(made != ["by-an-admin"])
PY
