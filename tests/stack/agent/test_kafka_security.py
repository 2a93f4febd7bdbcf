"""An agent with a Kafka that asks who it is, by what its properties say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from secure_kafka import MANNERS, PASSWORD, SecureKafka, of_sasl

from headgate.agent.configuration import KafkaOptions
from headgate.agent.errors import Unreachable
from headgate.agent.kafka.broker import KafkaBroker
from headgate.agent.kafka.observers import ObserverTable
from headgate.agent.supervision import Supervision
from headgate.events import updates_topic

pytestmark = [pytest.mark.stack, pytest.mark.soak]

MACHINES = "headgate.machines"


@pytest.fixture
def made() -> Iterator[Callable[[KafkaOptions], KafkaBroker]]:
    every: list[KafkaBroker] = []

    def make(options: KafkaOptions) -> KafkaBroker:
        table, supervision = ObserverTable(30.0), Supervision(lambda _: None)
        every.append(KafkaBroker(options, table, supervision, lambda _: None))
        return every[-1]

    yield make
    for broker in every:
        broker.stop()


@pytest.mark.parametrize("manner", MANNERS)
def test_one_that_it_knows_is_answered(
    made: Any, secure_kafka: SecureKafka, authority: Any, manner: str
) -> None:
    address, properties = secure_kafka.known(manner, authority)
    broker = made(KafkaOptions(address, properties=properties))
    broker.start(60.0, machines=MACHINES)
    assert broker.topics(["secured"]) == {updates_topic("secured"): 1}


def test_one_that_it_does_not_know_is_told_why(
    made: Any, secure_kafka: SecureKafka, authority: Any
) -> None:
    wrong = f"no {PASSWORD}"
    properties = of_sasl("SCRAM-SHA-512", authority, password=wrong)
    broker = made(KafkaOptions(secure_kafka.sasl, properties=properties))
    with pytest.raises(
        Unreachable, match=r"invalid credentials.*correct kafka\.properties"
    ) as told:
        broker.start(8.0, machines=MACHINES)
    assert wrong not in str(told.value)
