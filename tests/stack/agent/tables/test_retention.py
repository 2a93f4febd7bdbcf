"""What Kafka itself says of the retention of topics, and does to it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headgate.agent.configuration import KafkaOptions
from headgate.agent.kafka.broker import KafkaBroker
from headgate.agent.kafka.observers import ObserverTable
from headgate.agent.kafka.retention import Retention
from headgate.agent.supervision import Supervision
from headgate.events import updates_topic

pytestmark = pytest.mark.stack

DAY = 86_400.0


@pytest.fixture
def broker(stack: Any) -> Iterator[KafkaBroker]:
    made = KafkaBroker(
        KafkaOptions(stack.kafka), ObserverTable(30.0), Supervision(lambda _: None), lambda _: None
    )
    yield made
    made.stop()


def test_a_topic_is_kept_longer_and_gets_back_what_it_had(
    broker: KafkaBroker, eventually: Callable[[Callable[[], Any]], Any]
) -> None:
    table = f"kept-{uuid.uuid4().hex[:8]}"
    topic = updates_topic(table)
    broker.topics([table])
    before = Retention(7 * DAY, inherited=True)
    absent = "headgate.updates.absent"
    found = eventually(lambda: broker.retentions([topic, absent]))
    assert found == {topic: before, absent: None}
    broker.retain(topic, Retention(14 * DAY))
    eventually(lambda: broker.retentions([topic]) == {topic: Retention(14 * DAY)})
    assert broker.retention([topic]) == {topic: 14 * DAY}
    broker.retain(topic, before)
    eventually(lambda: broker.retentions([topic]) == {topic: before})
