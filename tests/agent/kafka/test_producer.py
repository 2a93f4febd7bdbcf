"""Messages for Kafka: none is lost because there is no room, or because a producer has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from headgate.agent.configuration import KafkaOptions
from headgate.agent.errors import Unreachable
from headgate.agent.kafka import broker as brokers
from headgate.agent.kafka.broker import KafkaBroker
from headgate.agent.kafka.observers import ObserverTable
from headgate.agent.supervision import Supervision


class Producer:
    """A producer with a script of what happens to each message."""

    def __init__(self, errors: list[BaseException]) -> None:
        self._errors = errors
        self.produced: list[bytes] = []
        self.polled: list[float] = []
        self.looked_up: list[str] = []

    def list_topics(self, topic: str, seconds: float) -> None:
        self.looked_up.append(topic)

    def produce(self, topic: str, value: bytes, key: bytes, partition: int, done: Any) -> None:
        if self._errors:
            raise self._errors.pop(0)
        self.produced.append(value)

    def poll(self, seconds: float) -> None:
        self.polled.append(seconds)


class BrokerHarness:
    """A broker, and the topics of what it could not deliver."""

    def __init__(self) -> None:
        self.undelivered: list[str] = []
        self.broker = KafkaBroker(
            KafkaOptions("127.0.0.1:1"),
            ObserverTable(0.0),
            Supervision(lambda _: None),
            self.undelivered.append,
        )


@pytest.fixture
def make_harness(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., tuple[BrokerHarness, list[Producer]]]:
    def make(*scripts: list[BaseException]) -> tuple[BrokerHarness, list[Producer]]:
        left = list(scripts)
        made: list[Producer] = []

        def producer(_: object) -> Producer:
            made.append(Producer(left.pop(0)))
            return made[-1]

        monkeypatch.setattr(brokers, "Producer", producer)
        return BrokerHarness(), made

    return make


def failure(code: int, *, fatal: bool = False) -> KafkaException:
    return KafkaException(KafkaError(code, "said", fatal))


def test_a_full_queue_is_waited_for(
    make_harness: Callable[..., tuple[BrokerHarness, list[Producer]]],
) -> None:
    harness, (producer,) = make_harness([BufferError("full"), BufferError("full")])
    harness.broker.decision("flow", b"d", lambda: None)
    assert producer.produced == [b"d"]
    assert [seconds > 0 for seconds in producer.polled] == [True, True, False]


def test_a_full_queue_is_not_waited_for_when_the_agent_ends(
    make_harness: Callable[..., tuple[BrokerHarness, list[Producer]]],
) -> None:
    harness, _ = make_harness([BufferError("full")])
    harness.broker.halt()
    with pytest.raises(Unreachable, match="takes no messages"):
        harness.broker.decision("flow", b"d", lambda: None)


def test_a_message_that_kafka_never_takes_is_counted_and_ends_nothing(
    make_harness: Callable[..., tuple[BrokerHarness, list[Producer]]],
) -> None:
    harness, (producer,) = make_harness([failure(KafkaError.MSG_SIZE_TOO_LARGE)])
    harness.broker.decision("flow", b"too large", lambda: None)
    harness.broker.decision("flow", b"d", lambda: None)
    assert producer.produced == [b"d"]
    assert harness.undelivered == ["headgate.decisions"]


def test_a_producer_that_has_ended_for_good_is_replaced(
    make_harness: Callable[..., tuple[BrokerHarness, list[Producer]]],
) -> None:
    harness, made = make_harness([failure(KafkaError._FATAL, fatal=True)], [])
    harness.broker.decision("flow", b"d", lambda: None)
    assert [one.produced for one in made] == [[], [b"d"]]
    assert harness.undelivered == []


def unknown_partition() -> KafkaException:
    return failure(KafkaError._UNKNOWN_PARTITION)


def test_a_message_for_a_partition_that_was_added_is_delivered_once_its_topic_was_looked_up(
    make_harness: Callable[..., tuple[BrokerHarness, list[Producer]]],
) -> None:
    harness, (producer,) = make_harness([unknown_partition()])
    harness.broker.decision("flow", b"d", lambda: None)
    assert producer.looked_up == ["headgate.decisions"]
    assert producer.produced == [b"d"]
    assert harness.undelivered == []


def test_a_partition_that_is_not_there_is_looked_up_once(
    make_harness: Callable[..., tuple[BrokerHarness, list[Producer]]],
) -> None:
    harness, (producer,) = make_harness([unknown_partition(), unknown_partition()])
    harness.broker.decision("flow", b"d", lambda: None)
    assert len(producer.looked_up) == 1
    assert harness.undelivered == ["headgate.decisions"]
