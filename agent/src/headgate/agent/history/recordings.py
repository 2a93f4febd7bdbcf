"""What Kafka still has of a dataflow's past, for replays."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import structlog
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from headgate.agent.configuration import KafkaOptions
from headgate.agent.errors import Unreachable
from headgate.events import (
    DECISIONS_TOPIC,
    decode_update,
    updates_topic,
)
from headgate.replay import (
    NothingRecorded,
    RecordedUpdate,
    Recording,
    RetentionPassed,
    read_recording,
)

log = structlog.get_logger("headgate.agent.recordings")

_ANSWER = 10.0  # seconds for a broker's answer about topics
_PATIENCE = 30.0  # seconds without any record before the end of a partition
_BATCH = 500
_HELD = 2000
"""Records of one partition that wait until those of another have come; then it is paused."""


class Recordings:
    """Reads Kafka; nothing is committed or written."""

    def __init__(self, kafka: KafkaOptions) -> None:
        self._kafka = kafka

    def open(self, dataflow: str) -> Recording:
        """Return what is known of a dataflow's past.

        Raises:
            NothingRecorded: there is no dataflow of that name.
            RetentionPassed: the beginning was deleted.
            Unreachable: Kafka does not answer.
        """
        return read_recording(dataflow, self._lines(dataflow))

    def _lines(self, dataflow: str) -> Iterator[bytes]:
        with History(self._kafka, (DECISIONS_TOPIC,)) as history:
            for partition in range(history.partitions[DECISIONS_TOPIC]):
                # One that an agent did not know to be delivered was published again by the next.
                seen: set[bytes] = set()
                while (message := history.message(DECISIONS_TOPIC, partition)) is not None:
                    value = message.value()
                    if message.key() != dataflow.encode() or value is None:
                        continue
                    digest = hashlib.blake2b(value, digest_size=16).digest()
                    if digest not in seen:
                        seen.add(digest)
                        yield value

    def updates(self, recording: Recording, tables: Iterable[str]) -> History:
        """Return the updates of tables, from the first that Kafka has.

        Raises:
            RetentionPassed: some that the recording needs were deleted.
            Unreachable: Kafka does not answer.
        """
        history = History(self._kafka, tuple(map(updates_topic, tables)))
        for (topic, partition), low in history.first.items():
            needed = recording.start.position(topic, partition)
            if low > needed:
                history.close()
                raise RetentionPassed(
                    f"Kafka has deleted {low - needed} records of topic {topic}, partition "
                    f"{partition}, that came after {recording.dataflow!r} was submitted; raise the "
                    "topic's retention.ms, then remove and submit the dataflow to record anew"
                )
        return history


class History:
    """Topics from their first record to the end that they have now; a context manager."""

    def __init__(self, kafka: KafkaOptions, topics: tuple[str, ...]) -> None:
        self._bootstrap = kafka.bootstrap
        self._consumer = Consumer(
            {
                **kafka.properties,
                "bootstrap.servers": kafka.bootstrap,
                "group.id": "headgate-replay",  # never committed to
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "queued.max.messages.kbytes": 16384,
                "log_level": 0,
            }
        )
        self.partitions: dict[str, int] = {}
        self.first: dict[tuple[str, int], int] = {}
        """The oldest offset that Kafka has, by topic and partition."""
        self._ends: dict[tuple[str, int], int] = {}
        self._held: dict[tuple[str, int], deque[Message]] = {}
        self._over: set[tuple[str, int]] = set()
        self._paused: set[tuple[str, int]] = set()
        try:
            with self._asking():
                self._assign(topics)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return the history itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()

    def _assign(self, topics: tuple[str, ...]) -> None:
        known: dict[str, Any] = self._consumer.list_topics(timeout=_ANSWER).topics
        for topic in topics:
            if topic not in known:
                raise NothingRecorded(
                    f"Kafka at {self._bootstrap} has no topic {topic}: nothing was recorded there; "
                    "is this the Kafka of the agent, and was the dataflow submitted?"
                )
            self.partitions[topic] = len(known[topic].partitions)
        for topic, count in self.partitions.items():
            for partition in range(count):
                place = (topic, partition)
                low, high = self._consumer.get_watermark_offsets(TopicPartition(*place), _ANSWER)
                self.first[place], self._ends[place] = low, high
                self._held[place] = deque()
                if low >= high:
                    self._over.add(place)
        self._consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in self._ends])

    def fetch(self, topic: str, partition: int) -> RecordedUpdate | None:
        """Return a partition's next record, None at its end: see ``replay.Fetch``."""
        message = self.message(topic, partition)
        if message is None:
            return None
        try:
            content = decode_update(message.value())
        except Exception as error:  # noqa: BLE001 the next record can be read
            log.warning(
                "record set aside", topic=topic, offset=message.offset(), problem=str(error)
            )
            content = None
        moment = message.timestamp()[1] / 1000
        return RecordedUpdate(topic, partition, message.offset(), moment, content)

    def message(self, topic: str, partition: int) -> Message | None:
        """Return a partition's next record, None at its end.

        Raises:
            Unreachable: Kafka does not answer.
        """
        place = (topic, partition)
        deadline = time.monotonic() + _PATIENCE
        with self._asking():
            while not self._held[place] and place not in self._over:
                if place in self._paused:
                    self._consumer.resume([TopicPartition(*place)])
                    self._paused.discard(place)
                for message in self._consumer.consume(_BATCH, 0.2):
                    self._hold(message)
                    deadline = time.monotonic() + _PATIENCE
                if time.monotonic() > deadline:
                    raise Unreachable(
                        f"Kafka at {self._bootstrap} sends no more of {topic}, partition "
                        f"{partition}; is every broker of the cluster up?"
                    )
        return self._held[place].popleft() if self._held[place] else None

    def _hold(self, message: Message) -> None:
        error = message.error()
        place = (message.topic(), message.partition())
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 its public name
                self._over.add(place)
            elif not error.retriable():
                raise KafkaException(error)
            return
        if message.offset() < self._ends[place]:
            self._held[place].append(message)
        if message.offset() + 1 >= self._ends[place]:
            self._over.add(place)
        if len(self._held[place]) >= _HELD and place not in self._paused:
            self._consumer.pause([TopicPartition(*place)])
            self._paused.add(place)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise Unreachable(
                f"Kafka at {self._bootstrap} does not answer ({error.args[0].str()}); start it, or "
                "name its servers with --kafka"
            ) from error
