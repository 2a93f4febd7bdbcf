"""The real Kafka, as stages use it beside the updates of containers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from headgate.incremental.stages.errors import StageError
from headgate.incremental.topics.cursors import Extent, TopicExtent
from headgate.incremental.topics.decoding import TopicMessage
from headgate.incremental.topics.sending import SentPosition, TopicSinks
from headgate.incremental.topics.transactions import KafkaSession, sent_position
from headgate.spark import (
    KAFKA_PATIENCE,
    KafkaAddress,
    OffsetRange,
    RangeReader,
    RecordsUnavailable,
    Troubles,
    client_properties,
    silent_logger,
)

_PASSING: Final = {
    KafkaError.LEADER_NOT_AVAILABLE: KAFKA_PATIENCE,
    KafkaError.NOT_LEADER_FOR_PARTITION: KAFKA_PATIENCE,
    KafkaError.OFFSET_NOT_AVAILABLE: KAFKA_PATIENCE,
    KafkaError.FENCED_LEADER_EPOCH: KAFKA_PATIENCE,
    KafkaError.UNKNOWN_LEADER_EPOCH: KAFKA_PATIENCE,
    KafkaError.UNKNOWN_TOPIC_OR_PART: 5.0,
}
"""Errors while a partition gets another leader, or not every broker knows of a new topic yet, with
the seconds for which they are waited out."""
_PAUSE: Final = 0.1  # seconds between two tries
_LARGEST: Final = 1_000_000
"""Bytes of a message, where no property says it: librdkafka's default."""


class TopicSource(Protocol):
    """Where topics are read."""

    def extent(self, topic: str) -> TopicExtent:
        """Return what a topic has now: of transactions that are over."""

    def messages(self, ranges: Sequence[OffsetRange]) -> Iterator[TopicMessage]:
        """Yield the messages of ranges of one topic, those of each partition in order."""


class Topics(TopicSource, TopicSinks, Protocol):
    """Where topics are read and written."""


class KafkaTopics:
    """Topics of a Kafka, as they are read and written.

    Args:
        address: which one, with what it takes to be let in.
    """

    def __init__(self, address: KafkaAddress) -> None:
        self._address = address

    @property
    def largest(self) -> int:
        """See ``TopicSinks``."""
        return int(self._address.properties.get("message.max.bytes", _LARGEST))

    def sent(self, identity: str, topic: str) -> SentPosition | None:
        """See ``TopicSinks``.

        Raises:
            RecordsUnavailable: Kafka does not answer.
        """
        return sent_position(self._address, identity, topic)

    def session(self, identity: str, topic: str) -> KafkaSession:
        """See ``TopicSinks``."""
        return KafkaSession(self._address, identity, topic)

    def extent(self, topic: str) -> TopicExtent:
        """See ``TopicSource``.

        Raises:
            RecordsUnavailable: Kafka does not answer.
            StageError: there is no such topic.
        """
        troubles = Troubles()
        admin = AdminClient(client_properties(self._address, troubles), logger=silent_logger())
        begun = time.monotonic()
        while True:
            try:
                return _extent(admin, topic)
            except KafkaException as error:
                if time.monotonic() - begun > _PASSING.get(error.args[0].code(), 0.0):
                    raise self._refused(topic, error.args[0], troubles, admin) from error
            time.sleep(_PAUSE)

    def _refused(
        self, topic: str, error: KafkaError, troubles: Troubles, admin: AdminClient
    ) -> Exception:
        where = f"topic {topic} at {self._address.bootstrap}"
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return StageError(f"there is no {where}: create it, or correct its name in `topics`")
        return RecordsUnavailable(f"{where} cannot be read: {troubles.words(error, admin)}")

    def messages(self, ranges: Sequence[OffsetRange]) -> Iterator[TopicMessage]:
        """See ``TopicSource``.

        Raises:
            RecordsUnavailable: Kafka does not answer, or has not the records of a range.
        """
        reader = RangeReader(self._address.bootstrap, self._address.properties)
        try:
            for message in reader.read(ranges):
                yield TopicMessage(
                    message.partition(),
                    message.offset(),
                    message.timestamp()[1],
                    message.key(),
                    message.value(),
                )
        finally:
            reader.close()


def _extent(admin: AdminClient, topic: str) -> TopicExtent:
    [asked] = admin.describe_topics(
        TopicCollection([topic]), request_timeout=KAFKA_PATIENCE
    ).values()
    told = asked.result()
    places = [TopicPartition(topic, each.id) for each in told.partitions]
    starts = _offsets(admin, places, OffsetSpec.earliest())
    stops = _offsets(admin, places, OffsetSpec.latest())
    partitions = {number: Extent(starts[number], stops[number]) for number in sorted(stops)}
    return TopicExtent(topic, str(told.topic_id), partitions)


def _offsets(
    admin: AdminClient, places: Sequence[TopicPartition], which: OffsetSpec
) -> dict[int, int]:
    """Return an offset of each partition."""
    asked = admin.list_offsets(
        dict.fromkeys(places, which),
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=KAFKA_PATIENCE,
    )
    return {place.partition: int(found.result().offset) for place, found in asked.items()}
