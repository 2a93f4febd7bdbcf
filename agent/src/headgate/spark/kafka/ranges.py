"""Reading a topic's records between two offsets, whatever is in them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from msgspec import Struct

from headgate.spark.kafka.clients import KAFKA_PATIENCE, Troubles, client_properties
from headgate.spark.messages import KafkaAddress

_BATCH: Final = 500
_POLL: Final = 0.2  # seconds; how soon a lack of records is noticed


class RecordsUnavailable(Exception):
    """Kafka did not answer, or does not hold the records any more."""


class OffsetRange(Struct, frozen=True):
    """Records of one partition, from ``start`` to before ``stop``."""

    topic: str
    partition: int
    start: int
    stop: int


class RangeReader:
    """A consumer that reads ranges of records, one after another; for one thread at a time.

    It is worth keeping: the first read of a new one waits for Kafka's metadata. Records of
    transactions are read once these are committed; nothing is subscribed to or committed.

    Args:
        bootstrap: ``host:port`` separated by commas.
        properties: librdkafka's own.
    """

    def __init__(
        self, bootstrap: str, properties: Mapping[str, str | int | float | bool] | None = None
    ) -> None:
        self._bootstrap = bootstrap
        self._troubles = Troubles()
        self._consumer = Consumer(
            {
                "group.id": "headgate-steps",  # required by librdkafka; nothing is committed
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 20,
                **client_properties(
                    KafkaAddress(bootstrap, dict(properties or {})), self._troubles
                ),
                "isolation.level": "read_committed",
            }
        )

    def close(self) -> None:
        """Leave Kafka."""
        self._consumer.close()

    def there(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """Return the ranges without what Kafka has deleted: by its retention, or all at once.

        Raises:
            RecordsUnavailable: Kafka does not answer.
        """
        found = []
        for part in ranges:
            place = TopicPartition(part.topic, part.partition)
            try:
                low, high = self._consumer.get_watermark_offsets(place, timeout=KAFKA_PATIENCE)
            except KafkaException as error:
                said = self._troubles.words(error.args[0], self._consumer)
                raise self._unavailable(part.topic, said) from error
            start, stop = max(part.start, low), min(part.stop, high)
            if start < stop:
                found.append(OffsetRange(part.topic, part.partition, start, stop))
        return found

    def read(
        self, ranges: Sequence[OffsetRange], patience: float = KAFKA_PATIENCE
    ) -> Iterator[Message]:
        """Yield the records of ranges of one topic, in order within each partition.

        Args:
            ranges: of records that are there; one for each partition.
            patience: seconds without a record after which that counts as an error.

        Raises:
            RecordsUnavailable: Kafka does not answer, or has not the records of a range.
        """
        if not ranges:
            return
        stops = {part.partition: part.stop for part in ranges}
        self._consumer.assign(
            [TopicPartition(part.topic, part.partition, part.start) for part in ranges]
        )
        topic = ranges[0].topic
        try:
            last = time.monotonic()
            while stops:
                message = self._consumer.poll(_POLL)
                if message is None:
                    if time.monotonic() - last > patience:
                        said = self._troubles.beside(f"no record for {patience:g} s")
                        raise self._unavailable(topic, said)
                    continue
                last = time.monotonic()
                # Then what is here already: with a timeout, consume would wait for a full batch.
                for found in (message, *self._consumer.consume(_BATCH, 0)):
                    if self._is_wanted(topic, found, stops):
                        yield found
        finally:
            self._consumer.unassign()

    def _is_wanted(self, topic: str, message: Message, stops: dict[int, int]) -> bool:
        partition, offset = message.partition(), message.offset()
        stop = stops.get(partition)
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                raise self._unavailable(topic, error.str())
            # A replica that is behind ends earlier, for a while.
            if stop is not None and offset >= stop:
                del stops[partition]
            return False
        if stop is None:
            return False
        if offset + 1 >= stop:
            del stops[partition]
        return bool(offset < stop)

    def _unavailable(self, topic: str, reason: str) -> RecordsUnavailable:
        return RecordsUnavailable(
            f"records of topic {topic} cannot be read from {self._bootstrap}: {reason}"
        )
