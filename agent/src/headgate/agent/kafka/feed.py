"""Reading the topics of tables from a cut on: each record once taken, whatever happens to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import structlog
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from msgspec import Struct

from headgate.agent.supervision import Supervision, ThreadKind, describe
from headgate.events import Cut, MalformedEvent, UpdateMessage, decode_update

log = structlog.get_logger("headgate.agent.broker")

POLL = 0.1
"""Seconds a thread may take to notice that it shall stop."""
FETCH_WAIT = "100"
"""Milliseconds until a fetch without data returns, hence until a new one starts."""
_BATCH = 1000  # messages handed on together, so that one checkpoint or barrier sees few hand-overs
BATCHES_WAITING = 32
"""Hand-overs that nobody has taken yet: beyond these the feed waits, and Kafka keeps the rest."""
ROOM = 0.1
"""Seconds a feed waits for room before it looks whether it is closed."""
_LAG = 1.0  # seconds between two looks at all partitions' ends while records come: there are many
_GROWTH = 10.0  # seconds between two looks whether a topic has more partitions now
_METADATA = 2.0  # seconds to wait for the answer to that; it is asked again


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
"""Takes records; returns whether it did. It may wait a moment for room, and is then asked again."""


class KafkaFeed:
    """A consumer with partitions assigned by hand, read in a thread of its own."""

    def __init__(
        self,
        common: Mapping[str, Any],
        topics: Mapping[str, int],
        cut: Cut,
        deliver: Deliver,
        supervision: Supervision,
    ) -> None:
        self._settings = {
            **common,
            "group.id": "headgate-feed",  # never committed to: the cut in HBase is what counts
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": FETCH_WAIT,
            "queued.max.messages.kbytes": 16384,
        }
        self._topics = dict(topics)
        self._deliver = deliver
        self._stopping = threading.Event()
        self._lag: dict[tuple[str, int], int] = {}
        self._measured = 0.0
        self._grown = time.monotonic()
        self._positions = {
            (topic, part): cut.position(topic, part)
            for topic, count in topics.items()
            for part in range(count)
        }
        """Where each partition is read on: behind what was taken."""
        self._thread = supervision.thread(ThreadKind.FEED, "feed", self._run, self._stopping)
        self._thread.start()

    def lag(self) -> dict[tuple[str, int], int]:
        """See ``Feed``; the end is the one the last fetch reported."""
        return dict(self._lag)

    def close(self) -> None:
        """See ``Feed``."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        consumer = Consumer(self._settings)
        try:
            self._assign(consumer)
            while not self._stopping.is_set():
                first = consumer.poll(POLL)
                if first is None:
                    self._measure(consumer)
                else:
                    self._hand_over(consumer, [first, *consumer.consume(_BATCH, 0)])
                if time.monotonic() >= self._measured + _LAG:
                    self._measure(consumer)
                if time.monotonic() >= self._grown + _GROWTH:
                    self._look_for_partitions(consumer)
        finally:
            consumer.close()

    def _assign(self, consumer: Consumer) -> None:
        consumer.assign([TopicPartition(t, p, at) for (t, p), at in self._positions.items()])

    def _hand_over(self, consumer: Consumer, messages: Sequence[Message]) -> None:
        records = [record for m in messages if (record := self._record(m)) is not None]
        if not self._delivered(records):
            return
        # Only what was taken is behind: else a failure between here and there would lose it.
        for record in records:
            place = (record.topic, record.partition)
            # Kept until a record has come, so that the next partition's loss does not undo it.
            self._positions[place] = OFFSET_BEGINNING if record.lost else record.offset + 1
        if any(map(_is_gone, messages)):
            self._assign(consumer)

    def _delivered(self, records: Sequence[FeedRecord]) -> bool:
        # Whoever closes the feed may be the one that should make room: wait for neither.
        while records and not self._deliver(records):
            if self._stopping.is_set():
                return False
        return True

    def _measure(self, consumer: Consumer) -> None:
        self._measured = time.monotonic()
        for (topic, part), position in self._positions.items():
            try:
                end = consumer.get_watermark_offsets(TopicPartition(topic, part), cached=True)
            except KafkaException as error:
                log.warning("lag not known", topic=topic, partition=part, problem=str(error))
                continue
            if end is not None:
                first = max(position, end[0])
                self._lag[topic, part] = max(0, end[1] - first) if end[1] >= 0 else 0

    def _look_for_partitions(self, consumer: Consumer) -> None:
        """Say which topics have more partitions than are read."""
        self._grown = time.monotonic()
        for topic, known in self._topics.items():
            try:
                found = consumer.list_topics(topic, timeout=_METADATA).topics[topic]
            except KafkaException as error:
                log.info("partitions not known", topic=topic, problem=str(error))
                return
            count = len(found.partitions) if found.error is None else 0
            if count > known and self._delivered(
                [FeedRecord(topic, 0, 0, None, time.time(), partitions=count)]
            ):
                self._topics[topic] = count

    def _record(self, message: Message) -> FeedRecord | None:
        error = message.error()
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if error is not None:
            if not _is_gone(message):
                log.warning("update topic", topic=topic, partition=partition, problem=str(error))
                return None
            lost = self._positions[topic, partition]
            if lost < 0:
                return None
            log.error(
                "updates are gone from Kafka before they were read: by its retention, or with "
                "their topic; reading on from the oldest",
                topic=topic,
                partition=partition,
                cure="raise the topic's retention.ms above the longest time between two runs",
            )
            return FeedRecord(topic, partition, lost, None, time.time(), lost=True)
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


def _is_gone(message: Message) -> bool:
    error = message.error()
    if error is None:
        return False
    return bool(error.code() == KafkaError._AUTO_OFFSET_RESET)  # noqa: SLF001 its public name
