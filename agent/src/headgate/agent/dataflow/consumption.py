"""Consumption of a dataflow's topics: records reach the engine, damaged ones are set aside."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import structlog

from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.dataflow.continuations import Continuation, RowsMoved
from headgate.agent.dataflow.state import FlowState, RuntimePort
from headgate.agent.dataflow.waves import Waves
from headgate.agent.kafka.barriers import Barriers
from headgate.agent.kafka.feed import Feed, FeedRecord
from headgate.agent.parts import Part
from headgate.agent.ports import BadRecord
from headgate.agent.state.saved_state import FlowProgress
from headgate.engine import PartitionReset, ReconciliationDue, RecordArrived, TopicsOpened
from headgate.events import (
    GONE,
    MORE_PARTITIONS,
    VERSION,
    BarrierMark,
    Cut,
    Gap,
    TableChange,
    UpdateBatch,
    updates_topic,
)

log = structlog.get_logger("headgate.agent.flow")

_BAD_RECORDS = 20  # kept for people to look at; the metric counts them all


class Consumption(Part):
    """Reads the topics of a dataflow's tables, each partition in its order."""

    def __init__(
        self,
        state: FlowState,
        port: RuntimePort,
        context: RuntimeContext,
        barriers: Barriers[Continuation],
        waves: Waves,
        progress: FlowProgress,
    ) -> None:
        self._state = state
        self._port = port
        self._context = context
        self._barriers = barriers
        self._waves = waves
        self._feed: Feed | None = None
        self.retention: Mapping[str, float] = {}
        """Seconds for which Kafka keeps the topics' records."""
        self.cells = progress.consumed
        """Cells of all updates consumed so far."""
        self.set_aside = progress.set_aside
        """Records that were left out."""
        self.bad_records = progress.bad_records
        """The newest of them, the newest first."""
        self._moved = progress.moved
        """Tables whose rows are in other partitions than they were, and are to be read again."""

    def saved(self) -> dict[str, object]:
        """Return fields of ``FlowProgress``."""
        return {
            "consumed": self.cells,
            "set_aside": self.set_aside,
            "bad_records": self.bad_records,
            "moved": self._moved,
        }

    # -- topics

    def subscribe(self, now: float) -> None:
        """Read the topics of the dataflow, those that are new to it from where they end now."""
        self.stop()
        state, broker = self._state, self._context.broker
        state.topics = broker.topics(state.tables)
        self.retention = broker.retention(state.topics)
        start = {t: at for t, at in state.start.offsets.items() if t in state.topics}
        new = {topic: count for topic, count in state.topics.items() if topic not in start}
        start |= broker.ends(new).offsets
        state.start = Cut(start)
        self._port.handle(TopicsOpened(now, state.position))
        self._feed = broker.feed(state.topics, state.position, self._context.deliver)

    def stop(self) -> None:
        """Stop reading."""
        if self._feed is not None:
            self._feed.close()

    def lag(self) -> dict[tuple[str, int], int]:
        """Return how many records are still to be read, by topic and partition."""
        return self._feed.lag() if self._feed else {}

    def _grow(self, found: Mapping[str, int]) -> set[str]:
        """Read partitions too that topics have been given, from their first record on.

        Returns the topics that have more.
        """
        topics = self._state.topics
        more = {topic: count for topic, count in found.items() if count > topics[topic]}
        if more:
            log.info("topics have more partitions", dataflow=self._state.name, partitions=more)
            topics |= more
            self.stop()
            position = self._state.position
            self._feed = self._context.broker.feed(topics, position, self._context.deliver)
        return set(more)

    def resume_moves(self, now: float) -> None:
        """Have tables read again that were to be when the agent before this ended."""
        moved, self._moved = self._moved, ()
        self._move({updates_topic(table) for table in moved}, now)

    def _move(self, topics: Collection[str], now: float) -> None:
        """Have tables read again, whose rows are in other partitions than they were.

        Updates of a row may lie in two partitions, and nobody knows their order until those in the
        former one are consumed: only then can a scan outrank them.
        """
        tables = {table for table in self._state.tables if updates_topic(table) in topics}
        new = tuple(sorted(tables - set(self._moved)))
        if new:
            self._moved = (*self._moved, *new)
            self._state.dirty = True
            self._port.ask(RowsMoved(new), new, now)

    def rows_moved(self, moved: RowsMoved, now: float) -> None:
        """Have tables read again: what lay in the former partitions of their rows was consumed."""
        self._moved = tuple(table for table in self._moved if table not in moved.tables)
        self._port.handle(ReconciliationDue(now, moved.tables))

    # -- records

    def consume(self, records: Sequence[FeedRecord], now: float) -> None:
        """Take records of the update topics, each partition in its order."""
        marked = False
        grown: dict[str, int] = {}
        moved: set[str] = set()
        arrived: list[RecordArrived] = []
        suspects, topics = self._context.suspects, self._state.topics
        for record in records:
            if record.topic not in topics:
                continue  # read before the dataflow changed to one without the table
            if record.partitions:
                grown[record.topic] = record.partitions
                continue
            if record.lost:
                self._take(arrived, now)
                self._begin_again(record, now)
                continue
            place = (record.topic, record.partition, record.offset)
            message = record.message
            reason = record.reason if message is None else suspects.reason(place)
            if message is None or reason is not None:
                self._take(arrived, now)
                self._leave_out(record, reason or "", now)
                continue
            if isinstance(message, BarrierMark):
                self._barriers.mark(record.topic, record.partition, message)
                grown[record.topic] = max(message.partitions, grown.get(record.topic, 0))
                if message.id == MORE_PARTITIONS:
                    moved.add(record.topic)
                marked = True
            elif isinstance(message, UpdateBatch):
                self._context.metrics.cells.inc(len(message.rows))
                self._context.metrics.delay.observe(max(0.0, now - record.published))
            alone = suspects.alone(place)
            if alone:
                self._take(arrived, now)
            arrived.append(RecordArrived(now, *place, message, topics[record.topic]))
            if alone:
                self._take(arrived, now)
                suspects.cleared(place)
        self._take(arrived, now)
        self._move(moved | self._grow(grown), now)
        if marked:
            self._barriers.check(now)

    def _take(self, arrived: list[RecordArrived], now: float) -> None:
        """Have the engine take records; those that it took are not in the list any more."""
        self._port.arrive(arrived, self._noted(now), now)

    def _noted(self, now: float) -> Callable[[RecordArrived], None]:
        """Return what notes each record that the engine has taken."""

        def note(record: RecordArrived) -> None:
            if isinstance(record.message, UpdateBatch):
                self.cells += len(record.message.rows)
                self._waves.note_updates(record.message, now)
            elif isinstance(record.message, TableChange):
                self._waves.note_change(record.message, now)

        return note

    def _begin_again(self, record: FeedRecord, now: float) -> None:
        """Have the engine look for what was deleted, and go on with what comes, at any offset."""
        self._state.start = self._state.start.moved(record.topic, record.partition, GONE)
        self._port.handle(PartitionReset(now, record.topic, record.partition))
        self._state.dirty = True

    def _leave_out(self, record: FeedRecord, reason: str, now: float) -> None:
        """Set a record aside, and have the engine look for what it may have said."""
        self._context.metrics.records_set_aside.labels(record.topic).inc()
        bad = BadRecord(record.topic, record.partition, record.offset, reason)
        where = {"topic": bad.topic, "partition": bad.partition, "offset": bad.offset}
        log.error("record set aside", dataflow=self._state.name, **where, reason=reason)
        self.set_aside += 1
        self.bad_records = (bad, *self.bad_records)[:_BAD_RECORDS]
        words = f"a record was set aside: {reason}"
        for table in self._state.tables:
            if updates_topic(table) == record.topic:
                gap = Gap(VERSION, "", 0, 0, table, now, now, words)
                place = (record.topic, record.partition, record.offset)
                self._port.handle(RecordArrived(now, *place, gap))
        self._state.dirty = True
