#!/usr/bin/env bash
# Kafka 4.3.1 with confluent-kafka 2.16.1, measured 2026-11-28.
#
# The methods of AdminClient return futures. One would expect that such a future keeps what it needs.
# Seen: the client does not live on in its future. Where nobody else keeps the client, as in a single expression, it is
# destroyed at once, and the future fails with _DESTROY although the broker is well. Sometimes the request was carried
# out all the same.
. "$(dirname "$0")/servers/kafka.sh"

"$PYTHON" - <<'PY'
import os

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

kafka = {"bootstrap.servers": os.environ["KAFKA"]}


def outcome(future):
    try:
        future.result(30)
    except KafkaException as error:
        return error.args[0].name()
    return "made"


kept = AdminClient(kafka)
(first,) = kept.create_topics([NewTopic("first", 1)]).values()
(second,) = AdminClient(kafka).create_topics([NewTopic("second", 1)]).values()
found = outcome(first), outcome(second)
print(f"the client is kept: {found[0]}; it is not: {found[1]}")
raise SystemExit(found != ("made", "_DESTROY"))
PY
