"""One reading of topics for all dataflows and scans of an agent.

A topic is read once, whoever wants its records, by two readers. The *front* is where the newest
records are read, by all who have taken what came before. Who has not, after a restart or because it
was slow, is served by the *rear* until it is so near to the front that it can go on there. So a
message is decoded once for all, and nobody waits for others to catch up.

Who has no room is not served at all until it has taken what it refused.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import structlog
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from headgate.agent.kafka.feed import Deliver, FeedRecord, record_of
from headgate.agent.supervision import Supervision, ThreadKind
from headgate.events import Cut

log = structlog.get_logger("headgate.agent.broker")

POLL = 0.1
"""Seconds a thread may take to notice that it shall stop."""
FETCH_WAIT = "100"
"""Milliseconds until a fetch without data returns, hence until a new one starts."""
_BATCH = 1000  # messages handed on together, so that one checkpoint or barrier sees few hand-overs
_GROWTH = 10.0  # seconds between two looks whether a topic has more partitions now
_METADATA = 2.0  # seconds to wait for the answer to that; it is asked again
_NEAR = 1000  # records that the front reads once more, so that somebody can go on there
_AHEAD = 10_000  # records for which somebody new waits rather than that the front leaves others
_IDLE = 10.0  # seconds after which a reader that nobody needs gives its connection back

_ANYTHING = range(2**63)

Place = tuple[str, int]
"""A topic and a partition."""


class SharedFeed:
    """The records of some topics, for one who takes them. Guarded by the lock of ``Feeds``."""

    def __init__(self, feeds: Feeds, topics: Mapping[str, int], cut: Cut, deliver: Deliver) -> None:
        self._feeds = feeds
        self._deliver = deliver
        self.topics = dict(topics)
        """How many partitions of each are read, or are known to be there."""
        self.positions = {
            (topic, part): cut.position(topic, part)
            for topic, count in topics.items()
            for part in range(count)
        }
        """The offset at which each partition is read on: behind what was taken."""
        self.refused: list[FeedRecord] = []
        """Records that it had no room for; while there are any, it is served nothing else."""
        self.closed = False

    def lag(self) -> dict[Place, int]:
        """See ``Feed``; the end is the one that the last fetch reported."""
        return self._feeds.lag(self)

    def close(self) -> None:
        """See ``Feed``."""
        self._feeds.leave(self)

    def take(self, records: list[FeedRecord]) -> bool:
        """Deliver records; return whether there was room for them."""
        if not self._deliver(records):
            self.refused = records
            return False
        self.refused = []
        for record in records:
            # Kept until a record has come, so that the next partition's loss does not undo it.
            at = OFFSET_BEGINNING if record.lost else record.offset + 1
            self.positions[record.topic, record.partition] = at
        return True

    def notify_growth(self, topic: str, count: int) -> None:
        """Deliver how many partitions a topic has, where that is more than is known."""
        grown = FeedRecord(topic, 0, 0, None, time.time(), partitions=count)
        if count > self.topics[topic] and self._deliver([grown]):
            self.topics[topic] = count


class _Partition:
    """A partition that is read: where it is read on, and for whom."""

    __slots__ = ("listeners", "position")

    def __init__(self, position: int) -> None:
        self.position = position
        self.listeners: set[SharedFeed] = set()

    def offers(self, place: Place, records: list[FeedRecord]) -> Iterable[Offer]:
        """Yield for each listener the records that it has not taken yet."""
        for feed in self.listeners:
            at = feed.positions[place]
            if at <= records[0].offset:
                yield feed, records
            elif at <= records[-1].offset:
                yield feed, [record for record in records if record.offset >= at]

    def misses(self, place: Place, first: int) -> list[SharedFeed]:
        """Return the listeners that missed records if the first one that is there is this."""
        if self.position >= 0:
            return []  # what lies behind the position was there
        return [feed for feed in self.listeners if 0 <= feed.positions[place] < first]

    def first(self, place: Place, oldest: int = OFFSET_BEGINNING) -> int:
        """Return where the listener is that is farthest behind, none before the oldest record."""
        return max(oldest, min(feed.positions[place] for feed in self.listeners))


Offer = tuple[SharedFeed, list[FeedRecord]]


class _Reader:
    """A consumer on a thread of its own, while anybody listens."""

    def __init__(self, name: str, feeds: Feeds) -> None:
        self._feeds = feeds
        self.partitions: dict[Place, _Partition] = {}
        self.moved: set[Place] = set()
        """Partitions that are to be read on elsewhere than the consumer is."""
        self._gone: set[Place] = set()
        """Partitions of which Kafka does not, or may not, have what was to be read."""
        self.joining: deque[tuple[Place, SharedFeed]] = deque()
        self.needed = threading.Event()
        self._assigned: set[Place] = set()
        self._consumer: Consumer | None = None
        self.thread = feeds.supervision.thread(
            ThreadKind.FEED, f"feed-{name}", self._work, feeds.stopping
        )

    # -- guarded by the lock

    def join(self, place: Place, feed: SharedFeed) -> None:
        """Serve somebody from a partition soon."""
        self.joining.append((place, feed))
        self.needed.set()

    def serve(self, place: Place, feed: SharedFeed, position: int) -> None:
        """Serve somebody from now on, and read the partition on at a position."""
        partition = self.partitions.get(place)
        if partition is None:
            partition = self.partitions[place] = _Partition(position)
            self.moved.add(place)
        elif partition.position != position:
            self._move(place, partition, position)
        partition.listeners.add(feed)

    def _move(self, place: Place, partition: _Partition, position: int) -> None:
        partition.position = position
        self.moved.add(place)
        if position < 0 and any(feed.positions[place] >= 0 for feed in partition.listeners):
            # What they miss would show with the next record only, which may come in a week.
            self._gone.add(place)

    def leave(self, place: Place, feed: SharedFeed) -> None:
        """Serve somebody no more from a partition."""
        partition = self.partitions.get(place)
        if partition is not None:
            partition.listeners.discard(feed)

    def end(self, place: Place) -> tuple[int, int] | None:
        """Return the first offset and the end of a partition, as the last fetch reported them."""
        if self._consumer is None or place not in self._assigned:
            return None
        try:
            found = self._consumer.get_watermark_offsets(TopicPartition(*place), cached=True)
        except KafkaException as error:
            log.warning("lag not known", topic=place[0], partition=place[1], problem=str(error))
            return None
        return found if found is not None and found[1] >= 0 else None

    # -- on its thread

    def _work(self) -> None:
        while not self._feeds.stopping.is_set():
            self.needed.wait()
            if not self._feeds.stopping.is_set():
                self._read()

    def _read(self) -> None:
        consumer = Consumer(self._feeds.settings)
        try:
            self.begin(consumer)
            idle_since = time.monotonic()
            while not self._feeds.stopping.is_set():
                if self.step(consumer):
                    idle_since = time.monotonic()
                elif time.monotonic() > idle_since + _IDLE and self._rest():
                    return
        finally:
            with self._feeds.lock:
                self._consumer = None
            consumer.close()

    def begin(self, consumer: Consumer) -> None:
        """Read with a new consumer what is listened to."""
        with self._feeds.lock:
            self._consumer, self._assigned = consumer, set()
            for place, partition in self.partitions.items():
                if partition.listeners:  # of which a failure may have left some behind others
                    self._move(place, partition, partition.first(place))

    def step(self, consumer: Consumer) -> bool:
        """Deliver what the consumer has now, or has soon; return whether anybody needs it."""
        self._admit(consumer)
        for place in tuple(self._gone):
            self._lose(consumer, place)
        needed = self._follow(consumer)
        first = consumer.poll(POLL)
        if first is not None:
            self._take([first, *consumer.consume(_BATCH, 0)])
        return self._feeds.see_to_others(self) or needed

    def _rest(self) -> bool:
        """Return whether nobody has come meanwhile, so that the consumer can go."""
        with self._feeds.lock:
            if self.joining or self._feeds.is_waited_for(self):
                return False
            self.needed.clear()
            return True

    def _admit(self, consumer: Consumer) -> None:
        """Serve those who join, who may have missed something that nobody has looked for."""
        for _ in range(len(self.joining)):
            place, feed = self.joining[0]
            kept = self._kept(consumer, place) if self._is_beyond(place, feed) else _ANYTHING
            with self._feeds.lock:
                if kept is None:
                    self.joining.append((place, feed))
                elif not feed.closed and not feed.refused:
                    self._feeds.compare(place, feed, kept)
                    if not feed.refused:
                        self._feeds.admit(self, place, feed)
                self.joining.popleft()  # the last of all: a failure must not forget it

    def _is_beyond(self, place: Place, feed: SharedFeed) -> bool:
        """Return whether somebody took what is not read yet, as of a topic that is made again."""
        partition = self.partitions.get(place)
        return partition is not None and feed.positions[place] > partition.position

    def _kept(self, consumer: Consumer, place: Place) -> range | None:
        """Return the offsets at which a partition can be read on; None where nobody answers."""
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(*place), timeout=_METADATA)
        except KafkaException as error:
            log.info("offsets not known", topic=place[0], partition=place[1], problem=str(error))
            return None
        return range(low, high + 1)

    def _follow(self, consumer: Consumer) -> bool:
        """Have the consumer read what is listened to; return whether anything is."""
        with self._feeds.lock:
            for place in [p for p, found in self.partitions.items() if not found.listeners]:
                del self.partitions[place]
            gone = {p for p in self._assigned if p not in self.partitions or p in self.moved}
            new = self.partitions.keys() - (self._assigned - gone)
            starts = [TopicPartition(*p, self.partitions[p].position) for p in new]
            self._assigned = set(self.partitions)
            self.moved.clear()
        if gone:
            consumer.incremental_unassign([TopicPartition(*place) for place in gone])
        if starts:
            consumer.incremental_assign(starts)
        return bool(self._assigned)

    def _take(self, messages: Sequence[Message]) -> None:
        found: dict[Place, list[FeedRecord]] = {}
        for message in messages:
            place = message.topic(), message.partition()
            error = message.error()
            if error is None:
                found.setdefault(place, []).append(record_of(message))
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 its public name
                self._gone.add(place)
            else:
                log.warning("update topic", topic=place[0], partition=place[1], problem=str(error))
        if found:
            with self._feeds.lock:
                self._deliver(found)

    def _deliver(self, found: Mapping[Place, list[FeedRecord]]) -> None:
        offers: dict[SharedFeed, list[FeedRecord]] = {}
        read = [
            (place, self.partitions[place], records)
            for place, records in found.items()
            if place in self.partitions
        ]
        for place, partition, records in read:
            for feed in partition.misses(place, records[0].offset):
                self._feeds.lose(place, feed)
            for feed, fresh in partition.offers(place, records):
                offers.setdefault(feed, []).extend(fresh)
        for feed, fresh in offers.items():
            if not feed.take(fresh):
                self._feeds.park(feed)
        for _, partition, records in read:
            partition.position = records[-1].offset + 1
        self._feeds.delivered(self, found)

    def _lose(self, consumer: Consumer, place: Place) -> None:
        """Go on with the oldest record that Kafka has, and let those know who missed some."""
        kept = self._kept(consumer, place)
        if kept is None:
            return
        with self._feeds.lock:
            self._gone.discard(place)
            partition = self.partitions.get(place)
            if partition is None:
                return
            for feed in tuple(partition.listeners):
                self._feeds.compare(place, feed, kept)
            if partition.listeners:
                self._move(place, partition, partition.first(place, kept.start))


class Feeds:
    """The feeds of an agent.

    Args:
        common: settings of librdkafka that all clients of the agent have.
        supervision: owner of the two threads, which start with the first feed.
        count: returns how many partitions each of some topics has, where that is known.
    """

    def __init__(
        self,
        common: Mapping[str, Any],
        supervision: Supervision,
        count: Callable[[Collection[str]], Mapping[str, int]],
    ) -> None:
        self.settings = {
            **common,
            "group.id": "headgate-feed",  # never committed to: the cut in HBase is what counts
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": FETCH_WAIT,
            "queued.max.messages.kbytes": 16384,
        }
        self.supervision = supervision
        self._count = count
        self.stopping = threading.Event()
        self.lock = threading.RLock()
        self.front = _Reader("front", self)
        self.rear = _Reader("rear", self)
        self._readers = (self.front, self.rear)
        self._open: set[SharedFeed] = set()
        self._parked: set[SharedFeed] = set()
        """Those that had no room."""
        self._grown = time.monotonic()
        self._begun = False

    def feed(self, topics: Mapping[str, int], cut: Cut, deliver: Deliver) -> SharedFeed:
        """Deliver every record from the cut on, each partition in its order."""
        feed = SharedFeed(self, topics, cut, deliver)
        with self.lock:
            if not self._begun:
                self._begun = True
                for reader in self._readers:
                    reader.thread.start()
            self._open.add(feed)
            for place in feed.positions:
                self.front.join(place, feed)
        return feed

    def leave(self, feed: SharedFeed) -> None:
        """Deliver nothing any more."""
        with self.lock:
            feed.closed = True
            self._open.discard(feed)
            self._parked.discard(feed)
            self._leave_readers(feed)

    def lag(self, feed: SharedFeed) -> dict[Place, int]:
        """Return how many records lie before the end, where that is known."""
        found: dict[Place, int] = {}
        with self.lock:
            for place, position in feed.positions.items():
                end = self.front.end(place) or self.rear.end(place)
                if end is not None:
                    found[place] = max(0, end[1] - max(position, end[0]))
        return found

    def close(self) -> None:
        """End the threads."""
        self.stopping.set()
        for reader in self._readers:
            reader.needed.set()
            if reader.thread.is_alive():
                reader.thread.join()

    # -- for the readers, on their threads

    def admit(self, reader: _Reader, place: Place, feed: SharedFeed) -> None:
        """Serve somebody who joins a reader, or have the other one do so; the lock is held."""
        for other in self._readers:
            other.leave(place, feed)  # never by both: one would deliver what lies behind a gap
        partition, at = reader.partitions.get(place), feed.positions[place]
        if partition is None or not partition.listeners:
            reader.serve(place, feed, at)
        elif partition.position < 0:
            reader.serve(place, feed, partition.position)  # from the beginning, wherever that is
        elif reader is self.rear or -_NEAR <= at - partition.position <= _AHEAD:
            reader.serve(place, feed, min(at, partition.position))
        elif at < partition.position:
            self.rear.join(place, feed)
        else:
            for behind in partition.listeners:
                self.rear.join(place, behind)
            partition.listeners.clear()
            reader.serve(place, feed, at)

    def delivered(self, reader: _Reader, places: Iterable[Place]) -> None:
        """Have the front serve those who have come near to it; the lock is held."""
        if reader is not self.rear:
            return
        for place in places:
            partition, front = reader.partitions.get(place), self.front.partitions.get(place)
            if partition is None:
                continue
            for feed in tuple(partition.listeners):
                if front is None or feed.positions[place] >= front.position - _NEAR:
                    partition.listeners.discard(feed)
                    self.front.join(place, feed)

    def compare(self, place: Place, feed: SharedFeed, kept: range) -> None:
        """Let somebody know who cannot read on where it is; the lock is held."""
        if feed.positions[place] >= 0 and feed.positions[place] not in kept:
            self.lose(place, feed)

    def lose(self, place: Place, feed: SharedFeed) -> None:
        """Let somebody know that records are gone that it has not taken; the lock is held."""
        log.error(
            "updates are gone from Kafka before they were read: by its retention, or with their "
            "topic; reading on from the oldest",
            topic=place[0],
            partition=place[1],
            cure="raise the topic's retention.ms above the longest time between two runs",
        )
        lost = FeedRecord(*place, feed.positions[place], None, time.time(), lost=True)
        if not feed.take([lost]):
            self.park(feed)

    def park(self, feed: SharedFeed) -> None:
        """Serve somebody nothing until there is room; the lock is held."""
        self._parked.add(feed)
        self.front.needed.set()
        self._leave_readers(feed)

    def _leave_readers(self, feed: SharedFeed) -> None:
        for reader in self._readers:
            for place in feed.positions:
                reader.leave(place, feed)

    def see_to_others(self, reader: _Reader) -> bool:
        """Offer again what was refused, and look now and then for more partitions: the front's job.

        Returns whether anybody is left who has no room.
        """
        if reader is not self.front:
            return False
        with self.lock:
            for feed in [feed for feed in self._parked if feed.take(feed.refused)]:
                self._parked.discard(feed)
                for place in feed.positions:
                    self.front.join(place, feed)
        if time.monotonic() >= self._grown + _GROWTH:
            self._look_for_partitions()
        return bool(self._parked)

    def is_waited_for(self, reader: _Reader) -> bool:
        """Return whether somebody has no room, whom the front looks after; the lock is held."""
        return reader is self.front and bool(self._parked)

    def _look_for_partitions(self) -> None:
        """Let those know who read a topic that has more partitions than they know."""
        self._grown = time.monotonic()
        with self.lock:
            topics = {topic for feed in self._open for topic in feed.topics}
        counts = self._count(topics)
        with self.lock:
            for feed in self._open:
                for topic in tuple(feed.topics):
                    feed.notify_growth(topic, counts.get(topic, 0))
