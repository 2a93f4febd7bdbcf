"""Errors of Kafka: a refusal is never taken for an outage, nor an outage for a refusal."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from headgate.agent.errors import AgentError, KafkaRefused, Unreachable
from headgate.agent.kafka.refusals import asking


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaRefused, "refuses"),
        (KafkaError.POLICY_VIOLATION, KafkaRefused, "refuses"),
        (KafkaError.INVALID_REPLICATION_FACTOR, KafkaRefused, "kafka.replication"),
        (KafkaError._TRANSPORT, Unreachable, "nobody is there"),
        (KafkaError._ALL_BROKERS_DOWN, Unreachable, "nobody is there"),
        (KafkaError._TIMED_OUT, Unreachable, "nobody is there"),
    ],
)
def test_an_error_of_kafka_is_named_for_what_it_is(
    code: int, kind: type[AgentError], words: str
) -> None:
    with pytest.raises(kind, match=words), asking("k:1", lambda _: "nobody is there"):
        raise KafkaException(KafkaError(code))
