"""Reading a table's topic between two offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import Message
from msgspec import Struct

from headgate.events import VERSION, Cut, Gap, UpdateMessage, decode_update, known_from
from headgate.spark.kafka.clients import KAFKA_PATIENCE
from headgate.spark.kafka.ranges import OffsetRange, RangeReader


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
    """A consumer that reads ranges of updates, one after another; for one thread at a time.

    Args:
        bootstrap: ``host:port`` separated by commas.
        properties: librdkafka's own.
    """

    def __init__(
        self, bootstrap: str, properties: Mapping[str, str | int | float | bool] | None = None
    ) -> None:
        self._reader = RangeReader(bootstrap, properties)

    def close(self) -> None:
        """Leave Kafka."""
        self._reader.close()

    def there(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """Return the ranges without what Kafka has deleted: by its retention, or all at once.

        Raises:
            RecordsUnavailable: Kafka does not answer.
        """
        return self._reader.there(ranges)

    def read(
        self, ranges: Sequence[OffsetRange], patience: float = KAFKA_PATIENCE
    ) -> Iterator[Record]:
        """Yield the records of ranges of one topic, in order within each partition.

        One that cannot be read is a gap: nobody knows what it may have said.

        Raises:
            RecordsUnavailable: Kafka does not answer, or has deleted records of a range.
        """
        topic = ranges[0].topic if ranges else ""
        for message in self._reader.read(ranges, patience):
            yield Record(message.partition(), message.offset(), _content(topic, message))


def _content(topic: str, message: Message) -> UpdateMessage:
    try:
        return decode_update(message.value())
    except Exception as error:  # noqa: BLE001 no one record may keep a step from running
        reason = f"offset {message.offset()} cannot be read: {type(error).__name__}: {error}"
        return Gap(VERSION, "", 0, 0, topic, 0.0, 0.0, reason)
