"""Topics of a Kafka that asks who reads and writes: by what the agent's properties say."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from secure_kafka import MANNERS, PASSWORD, SecureKafka, of_sasl

from headgate.incremental import UnsentIncrement
from headgate.incremental.topics.cursors import Extent
from headgate.incremental.topics.encoding import OutgoingMessage
from headgate.incremental.topics.kafka import KafkaTopics
from headgate.incremental.topics.sending import SentPosition
from headgate.spark import KafkaAddress, OffsetRange, RecordsUnavailable

pytestmark = [pytest.mark.stack, pytest.mark.soak]

MESSAGE = OutgoingMessage(b"k", b'{"n": 1}')


@pytest.fixture
def topic(secure_kafka: SecureKafka) -> str:
    name = f"topic-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": secure_kafka.plain})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    return name


@pytest.mark.parametrize("manner", MANNERS)
def test_what_is_sent_to_a_kafka_that_asks_who_it_is_can_be_read(
    secure_kafka: SecureKafka, authority: Any, topic: str, manner: str
) -> None:
    address, properties = secure_kafka.known(manner, authority)
    topics = KafkaTopics(KafkaAddress(address, properties))

    assert topics.sent(topic, topic) is None
    with topics.session(topic, topic) as session:
        session.send([MESSAGE], [{"headgate.row": b"0"}], SentPosition(1, 1, 1))

    assert topics.sent(topic, topic) == SentPosition(1, 1, 1)
    assert topics.extent(topic).partitions == {0: Extent(0, 2)}  # with the transaction's end
    [read] = topics.messages([OffsetRange(topic, 0, 0, 2)])
    assert (read.key, read.value) == (MESSAGE.key, MESSAGE.value)


def test_one_that_refuses_them_is_told_and_no_secret_with_it(
    secure_kafka: SecureKafka, authority: Any, topic: str
) -> None:
    wrong = f"no {PASSWORD}"
    properties = of_sasl("SCRAM-SHA-512", authority, password=wrong)
    topics = KafkaTopics(KafkaAddress(secure_kafka.sasl, properties))

    said = []
    with pytest.raises(RecordsUnavailable) as unread:
        topics.extent(topic)
    said.append(str(unread.value))
    with pytest.raises(RecordsUnavailable) as unread:
        topics.sent(topic, topic)
    said.append(str(unread.value))
    with pytest.raises(RecordsUnavailable) as unread:
        list(topics.messages([OffsetRange(topic, 0, 0, 1)]))
    said.append(str(unread.value))
    with pytest.raises(UnsentIncrement) as unsent, topics.session(topic, topic):
        pass
    said.append(str(unsent.value))
    assert all("invalid credentials" in each for each in said), said
    assert not any(wrong in each for each in said)
