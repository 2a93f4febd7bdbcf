"""Reading a table's topic between two offsets."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from msgspec import Struct

from headgate.events import VERSION, Cut, Gap, UpdateMessage, decode_update, known_from

PATIENCE: Final = 30.0
"""Seconds without any record after which Kafka counts as unreachable: above its own failover."""

_BATCH: Final = 500
_POLL: Final = 0.2  # seconds; how soon a lack of records is noticed


class UpdatesUnavailable(Exception):
    """Kafka did not answer, or does not hold the records any more."""


class OffsetRange(Struct, frozen=True):
    """Records of one partition, from ``start`` to before ``stop``."""

    topic: str
    partition: int
    start: int
    stop: int


class Record(Struct, frozen=True):
    """A message and where it stands."""

    partition: int
    offset: int
    message: UpdateMessage


def ranges_between(topic: str, since: Cut, until: Cut) -> list[OffsetRange]:
    """Return what lies between two cuts in a topic's partitions; empty ones are left out.

    Where records were lost it is what is known of the others; see ``is_broken``.
    """
    found = []
    for partition, position in enumerate(until.offsets.get(topic, ())):
        start, stop = known_from(since.position(topic, partition)), known_from(position)
        if start is not None and stop is not None and start < stop:
            found.append(OffsetRange(topic, partition, start, stop))
    return found


def is_broken(topic: str, since: Cut, until: Cut) -> bool:
    """Return whether some of what lies between two cuts in a topic was deleted before it was read.

    The topic may have been made again meanwhile, so that its offsets began anew.
    """
    if since.has_lost(topic) or until.has_lost(topic):
        return True
    stops = until.offsets.get(topic, ())
    return any(since.position(topic, partition) > stop for partition, stop in enumerate(stops))


class UpdateReader:
    """A consumer that reads ranges of records, one after another; for one thread at a time.

    It is worth keeping: the first read of a new one waits for Kafka's metadata.

    Args:
        bootstrap: ``host:port`` separated by commas.
        properties: librdkafka's own.
    """

    def __init__(
        self, bootstrap: str, properties: Mapping[str, str | int | float | bool] | None = None
    ) -> None:
        self._bootstrap = bootstrap
        self._consumer = Consumer(
            {
                "group.id": "headgate-steps",  # required by librdkafka; nothing is committed
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 20,
                **(properties or {}),
                "bootstrap.servers": bootstrap,
            }
        )

    def close(self) -> None:
        """Leave Kafka."""
        self._consumer.close()

    def there(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """Return the ranges without what Kafka has deleted: by its retention, or all at once.

        Raises:
            UpdatesUnavailable: Kafka does not answer.
        """
        found = []
        for part in ranges:
            place = TopicPartition(part.topic, part.partition)
            try:
                low, high = self._consumer.get_watermark_offsets(place, timeout=PATIENCE)
            except KafkaException as error:
                raise self._unavailable(part.topic, str(error)) from error
            start, stop = max(part.start, low), min(part.stop, high)
            if start < stop:
                found.append(OffsetRange(part.topic, part.partition, start, stop))
        return found

    def read(self, ranges: Sequence[OffsetRange], patience: float = PATIENCE) -> Iterator[Record]:
        """Yield the records of ranges of one topic, in order within each partition.

        One that cannot be read is a gap: nobody knows what it may have said.

        Raises:
            UpdatesUnavailable: Kafka does not answer, or has deleted records of a range.
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
                        raise self._unavailable(topic, f"no record for {patience:g} s")
                    continue
                last = time.monotonic()
                # Then what is here already: with a timeout, consume would wait for a full batch.
                for found in (message, *self._consumer.consume(_BATCH, 0)):
                    record = self._take(topic, found, stops)
                    if record is not None:
                        yield record
        finally:
            self._consumer.unassign()

    def _take(self, topic: str, message: Message, stops: dict[int, int]) -> Record | None:
        partition, offset = message.partition(), message.offset()
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                stops.pop(partition, None)
                return None
            raise self._unavailable(topic, str(error))
        stop = stops.get(partition)
        if stop is None or partition is None or offset is None:
            return None
        if offset + 1 >= stop:
            del stops[partition]
        if offset >= stop:
            return None
        return Record(partition, offset, _content(topic, message))

    def _unavailable(self, topic: str, reason: str) -> UpdatesUnavailable:
        return UpdatesUnavailable(
            f"updates of topic {topic} cannot be read from {self._bootstrap}: {reason}"
        )


def _content(topic: str, message: Message) -> UpdateMessage:
    try:
        return decode_update(message.value())
    except Exception as error:  # noqa: BLE001 no one record may keep a step from running
        reason = f"offset {message.offset()} cannot be read: {type(error).__name__}: {error}"
        return Gap(VERSION, "", 0, 0, topic, 0.0, 0.0, reason)
