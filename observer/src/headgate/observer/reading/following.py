"""Reading the topics of updates as they grow, without a consumer group and beside all others."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import structlog
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from msgspec import Struct

from headgate.events import (
    ControlMessage,
    MalformedEvent,
    ObserverLease,
    UpdateMessage,
    canonical_table,
    decode_control,
    decode_update,
    table_of,
    updates_topic,
)
from headgate.observer.control.state import ControlState
from headgate.observer.control.table_patterns import TablePatterns
from headgate.observer.publishing.kafka import KafkaUnavailable, client_settings

_log = structlog.get_logger("headgate.observer.reading.following")

_CALL_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 1.0  # how often topics that came into being are looked for
_POLL_SECONDS: Final = 0.1
_BATCH: Final = 500
_WILD: Final = frozenset("*?[")  # no table's name has one of these

NOW: Final = OFFSET_END
"""Where to begin: with what comes next."""
BEGINNING: Final = OFFSET_BEGINNING
"""Where to begin: with the oldest that Kafka still has."""


class FromTable(Struct, frozen=True):
    """A message of a table's topic."""

    table: str
    message: UpdateMessage
    written: float
    """When it was given to Kafka: Unix seconds."""
    partition: int
    offset: int


class FromControl(Struct, frozen=True):
    """A message of the control topic that came after the follower began."""

    message: ControlMessage
    written: float


class UnreadableRecord(Struct, frozen=True):
    """A record that is no message of headgate's."""

    topic: str
    partition: int
    offset: int
    reason: str


Followed = FromTable | FromControl | UnreadableRecord


class Follower:
    """Follows the topics of tables, those that come into being later too, and the control topic."""

    def __init__(
        self,
        bootstrap: str,
        properties: Mapping[str, Any],
        *,
        control_topic: str,
        tables: frozenset[str],
        dataflow: str | None,
        begin: int,
    ) -> None:
        """Contact the brokers and read the control topic, if there is one, to its present end.

        Args:
            bootstrap: brokers.
            properties: librdkafka's own settings.
            control_topic: where watch lists are said.
            tables: which tables to follow, by name or by pattern; none: all that are watched.
            dataflow: only the tables that this dataflow watches; None: those of all.
            begin: ``NOW``, ``BEGINNING`` or a time in Unix milliseconds. Topics that come into
                being later are read from their beginning.

        Raises:
            KafkaUnavailable: the brokers do not answer.
        """
        self._bootstrap = bootstrap
        self._control_topic = control_topic
        self._patterns = TablePatterns(t for t in tables if not _WILD.isdisjoint(t))
        self._named = {canonical_table(table) for table in tables if _WILD.isdisjoint(table)}
        self._by_pattern = len(self._named) < len(tables)
        self._dataflow = dataflow
        self._begin = begin
        self._control = ControlState()
        self._last_error: KafkaError | None = None
        self._all_down = False
        self._consumer = Consumer(
            {
                **client_settings(bootstrap, properties),
                "group.id": "headgate-tail-reads-without-a-group",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "error_cb": self._note_error,
            }
        )
        self._leases: dict[tuple[str, int], tuple[ObserverLease, float]] = {}
        self._positions: dict[tuple[str, int], int] = {}
        self._tables: dict[str, str] = {}
        self._heard_from = 0
        self._looked_at = 0.0
        self._caught_up = False
        try:
            self._reach()
            self._find_control()
            self._look()
        except KafkaException as error:
            self._consumer.close()
            reason = (self._last_error or error.args[0]).str()
            raise KafkaUnavailable(f"Kafka at {bootstrap}: {reason}") from error
        self._caught_up = True

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that are wanted, whether they have topics yet or not."""
        if self._by_pattern:
            known = {*self._control.watched, *self._tables.values()}
            return tuple(sorted(self._named.union(filter(self._patterns.match, known))))
        if self._named:
            return tuple(sorted(self._named))
        return tuple(
            sorted(
                {
                    watch.table
                    for each in self._control.watch_lists
                    if self._dataflow in (None, each.dataflow)
                    for watch in each.watches
                }
            )
        )

    @property
    def watched(self) -> tuple[str, ...]:
        """The tables that dataflows watch."""
        return tuple(sorted(self._control.watched))

    @property
    def by_dataflow(self) -> dict[str, tuple[str, ...]]:
        """The tables that each dataflow watches."""
        return {
            each.dataflow: tuple(watch.table for watch in each.watches)
            for each in self._control.watch_lists
        }

    @property
    def leases(self) -> tuple[tuple[ObserverLease, float], ...]:
        """The last lease of each observer's epochs, and when it was said (Unix seconds)."""
        return tuple(self._leases.values())

    @property
    def missing(self) -> tuple[str, ...]:
        """The tables among them that have no topic yet."""
        return tuple(each for each in self.tables if updates_topic(each) not in self._tables)

    @property
    def unwatched(self) -> tuple[str, ...]:
        """The tables among them that no dataflow watches."""
        return tuple(each for each in self.tables if each not in self._control.watched)

    def close(self) -> None:
        """Leave Kafka."""
        self._consumer.close()

    def follow(self) -> Iterator[Followed | None]:
        """Yield what comes, for ever; None each time that nothing came for a moment."""
        while True:
            if time.monotonic() - self._looked_at > _LOOK_SECONDS:
                try:
                    self._look()
                except KafkaException as error:
                    _log.warning("waiting for Kafka", reason=error.args[0].str())
            records = self._consumer.consume(_BATCH, _POLL_SECONDS) if self._positions else []
            if not self._positions:
                time.sleep(_POLL_SECONDS)
            for record in records:
                found = self._take(record)
                if found is not None:
                    yield found
            if not records:
                yield None

    # -- topics

    def _reach(self) -> None:
        """Return once the brokers answer; fail as soon as none of them can be reached."""
        deadline = time.monotonic() + _CALL_SECONDS
        while True:
            try:
                self._consumer.list_topics(timeout=_LOOK_SECONDS)
            except KafkaException:
                self._consumer.poll(0)  # calls ``error_cb`` for what its threads have met
                if self._all_down or time.monotonic() > deadline:
                    raise
            else:
                return

    def _find_control(self) -> None:
        """Read the control topic to its end, if it is there."""
        place = TopicPartition(self._control_topic, 0)
        if not self._partitions(self._control_topic):
            return
        start, end = self._consumer.get_watermark_offsets(place, timeout=_CALL_SECONDS)
        self._heard_from = end
        self._positions[self._control_topic, 0] = start
        self._assign()
        deadline = time.monotonic() + _CALL_SECONDS
        while self._positions[self._control_topic, 0] < end:
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
            for record in self._consumer.consume(_BATCH, _POLL_SECONDS):
                self._take(record)
            # Compaction may have removed the last records before the end.
            known = self._consumer.position([place])[0].offset
            here = self._positions[self._control_topic, 0]
            self._positions[self._control_topic, 0] = max(here, known)

    def _look(self) -> None:
        """Begin to read topics that were not there the last time."""
        if (self._control_topic, 0) not in self._positions and self._caught_up:
            self._find_control()
        self._looked_at = time.monotonic()
        missing = self.missing
        if not missing and not self._by_pattern:
            return
        there = self._consumer.list_topics(timeout=_CALL_SECONDS).topics
        if self._by_pattern:
            others = filter(None, map(table_of, there.keys() - self._tables.keys()))
            missing = (*missing, *(t for t in others if self._patterns.match(t)))
        new = []
        for table in dict.fromkeys(missing):
            topic = updates_topic(table)
            found = there.get(topic)
            if found is not None and found.error is None and found.partitions:
                self._tables[topic] = table
                new += [TopicPartition(topic, number) for number in found.partitions]
        if not new:
            return
        for place in self._starts(new):
            self._positions[place.topic, place.partition] = place.offset
        self._assign()

    def _starts(self, places: list[TopicPartition]) -> list[TopicPartition]:
        if self._caught_up or self._begin == BEGINNING:
            for place in places:
                place.offset = OFFSET_BEGINNING
            return places
        for place in places:
            place.offset = self._begin
        found: list[TopicPartition] = self._consumer.offsets_for_times(
            places, timeout=_CALL_SECONDS
        )
        return found

    def _partitions(self, topic: str) -> int:
        # Not by name: brokers may make a topic that is asked for.
        found = self._consumer.list_topics(timeout=_CALL_SECONDS).topics.get(topic)
        return 0 if found is None or found.error is not None else len(found.partitions)

    def _assign(self) -> None:
        self._consumer.assign(
            [TopicPartition(*place, offset) for place, offset in self._positions.items()]
        )

    # -- records

    def _take(self, record: Message) -> Followed | None:
        error = record.error()
        if error is not None:
            _log.warning("kafka", reason=error.str())
            return None
        topic, partition, offset = record.topic() or "", record.partition(), record.offset() or 0
        self._positions[topic, partition or 0] = offset + 1
        value = record.value()
        if value is None:
            return None
        kind, milliseconds = record.timestamp()
        written = time.time() if kind == TIMESTAMP_NOT_AVAILABLE else milliseconds / 1000
        try:
            if topic == self._control_topic:
                message = decode_control(value)
                self._control.apply(message, "")
                if isinstance(message, ObserverLease) and not message.part:
                    self._leases[message.observer, message.epoch] = message, written
                return FromControl(message, written) if offset >= self._heard_from else None
            table = self._tables[topic]
            return FromTable(table, decode_update(value), written, partition or 0, offset)
        except MalformedEvent as malformed:
            return UnreadableRecord(topic, partition or 0, offset, str(malformed))

    def _note_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self._all_down = True
        else:
            self._last_error = error
