"""Feeds of topics: each record from a cut on is taken once, whatever happens to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import structlog
from confluent_kafka import KafkaException, Message, TopicCollection
from confluent_kafka.admin import AdminClient
from msgspec import Struct

from headgate.agent.supervision import describe
from headgate.events import MalformedEvent, UpdateMessage, decode_update

log = structlog.get_logger("headgate.agent.broker")

BATCHES_WAITING = 32
"""Hand-overs that nobody has taken yet: beyond these a feed waits, and Kafka keeps the rest."""
_ANSWER = 2.0  # seconds to wait for an answer about topics; it is asked for again


class FeedRecord(Struct, frozen=True):
    """One Kafka record of a watched table; ``message`` is None where it could not be decoded.

    With ``lost`` it stands for all records that Kafka does not have any more from ``offset`` on.
    With ``partitions`` it is no record: the topic has so many partitions now, more than are read.
    """

    topic: str
    partition: int
    offset: int
    message: UpdateMessage | None
    published: float
    """Kafka's timestamp: Unix seconds."""
    lost: bool = False
    reason: str = ""
    """Why it could not be decoded."""
    partitions: int = 0


class Feed(Protocol):
    """A stream of records from a cut on, delivered until it is closed."""

    def lag(self) -> dict[tuple[str, int], int]:
        """Return how many records lie before the end, by topic and partition."""

    def close(self) -> None:
        """Stop; nothing is delivered after the return."""


Deliver = Callable[[Sequence[FeedRecord]], bool]
"""Takes records, without waiting; returns whether it did. Records that it refuses come again."""


def record_of(message: Message) -> FeedRecord:
    """Return the record of a message that is no error, decoded where it can be."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    published = message.timestamp()[1] / 1000
    try:
        content = decode_update(message.value())
    except Exception as problem:  # noqa: BLE001 whatever it is, the next record can be read
        reason = describe(problem)
        if message.value() is None:
            reason = "it has no value, and nothing of headgate writes that"
        elif isinstance(problem, MalformedEvent):
            reason = str(problem)
        log.warning("record set aside", topic=topic, offset=offset, problem=reason)
        return FeedRecord(topic, partition, offset, None, published, reason=reason)
    return FeedRecord(topic, partition, offset, content, published)


def partition_counts(admin: AdminClient, topics: Collection[str]) -> dict[str, int]:
    """Return how many partitions each of some topics has, without those that nobody knows."""
    if not topics:
        return {}
    asked = admin.describe_topics(TopicCollection(list(topics)), request_timeout=_ANSWER)
    found: dict[str, int] = {}
    for topic, answer in asked.items():
        try:
            found[topic] = len(answer.result().partitions)
        except KafkaException as error:
            log.info("partitions not known", topic=topic, problem=str(error))
    return found
