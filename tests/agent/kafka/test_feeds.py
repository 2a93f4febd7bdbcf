"""One reading of topics for many: each has every record from its cut on, once and in order."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

from headgate.agent.kafka import feeds as shared
from headgate.agent.kafka.feed import FeedRecord
from headgate.agent.kafka.feeds import Feeds, Place, SharedFeed
from headgate.agent.supervision import Supervision
from headgate.events import VERSION, Cut, Gap, encode_update

GAP = encode_update(Gap(VERSION, "o", 1, 0, "t", 0.0, 1.0, "test"))


class Kafka:
    """Topics, of which the oldest records go, and which may be made again."""

    def __init__(self, topics: dict[str, int]) -> None:
        self.kept: dict[Place, range] = {
            (topic, part): range(0) for topic, count in topics.items() for part in range(count)
        }
        """The offsets of the records that are there."""
        self.counts = dict(topics)

    def publish(self, place: Place, count: int) -> None:
        kept = self.kept[place]
        self.kept[place] = range(kept.start, kept.stop + count)

    def expire(self, place: Place, count: int) -> None:
        kept = self.kept[place]
        self.kept[place] = range(min(kept.start + count, kept.stop), kept.stop)


class Message:
    def __init__(self, place: Place, offset: int, error: KafkaError | None = None) -> None:
        self._place, self._offset, self._error = place, offset, error

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return self._error

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000

    def value(self) -> bytes:
        return GAP


class Consumer:
    """A consumer as librdkafka's behaves whose partitions are assigned by hand."""

    def __init__(self, kafka: Kafka, chance: random.Random) -> None:
        self._kafka = kafka
        self._chance = chance
        self._at: dict[Place, int] = {}
        self._stalled: set[Place] = set()

    def incremental_assign(self, partitions: Sequence[TopicPartition]) -> None:
        for found in partitions:
            place = found.topic, found.partition
            assert place not in self._at, "it is assigned already"
            self._at[place] = found.offset

    def incremental_unassign(self, partitions: Sequence[TopicPartition]) -> None:
        for found in partitions:
            place = found.topic, found.partition
            del self._at[place]
            self._stalled.discard(place)

    def poll(self, _: float) -> Message | None:
        places = list(self._at.keys() - self._stalled)
        self._chance.shuffle(places)
        for place in places:
            kept, at = self._kafka.kept[place], self._at[place]
            if at == OFFSET_BEGINNING:
                at = kept.start
            if not kept.start <= at <= kept.stop:
                self._stalled.add(place)
                return Message(place, 0, KafkaError(KafkaError._AUTO_OFFSET_RESET))
            if at < kept.stop:
                self._at[place] = at + 1
                return Message(place, at)
        return None

    def consume(self, _: int, __: float) -> list[Message]:
        found: list[Message] = []
        for _ in range(self._chance.choice([0, 1, 5, 40])):
            message = self.poll(0)
            if message is None:
                break
            found.append(message)
        return found

    def get_watermark_offsets(self, found: TopicPartition, **_: Any) -> tuple[int, int]:
        kept = self._kafka.kept[found.topic, found.partition]
        return kept.start, kept.stop


class Taker:
    """Takes records, unless it has no room, and checks that each is the one that comes next."""

    def __init__(self, kafka: Kafka, cut: Cut, topics: dict[str, int]) -> None:
        self.kafka = kafka
        self.room = True
        self.calls = 0
        self.next: dict[Place, int | None] = {
            (topic, part): cut.position(topic, part)
            for topic, count in topics.items()
            for part in range(count)
        }
        """The offset of the next record of each partition; None: any, since some were lost."""
        self.lost: list[tuple[Place, int]] = []
        self.grown: list[tuple[str, int]] = []

    def take(self, records: Sequence[FeedRecord]) -> bool:
        self.calls += 1
        if not self.room:
            return False
        for record in records:
            place = record.topic, record.partition
            if record.partitions:
                self.grown.append((record.topic, record.partitions))
                continue
            expected = self.next[place]
            assert expected is None or record.offset == expected, (place, record.offset, expected)
            if record.lost:
                assert expected is not None, "nothing can be lost twice before a record has come"
                assert expected not in self.kafka.kept[place], "it was there to be read"
                self.lost.append((place, expected))
                self.next[place] = None
            else:
                self.next[place] = record.offset + 1
        return True


class Readings:
    """Feeds whose readers take their steps when they are told to."""

    def __init__(self, kafka: Kafka, chance: random.Random) -> None:
        self.kafka, self.chance = kafka, chance
        self.feeds = Feeds({}, Supervision(lambda _: None), lambda _: kafka.counts)
        self.feeds._begun = True  # no thread is started
        self.takers: dict[SharedFeed, Taker] = {}
        self.consumers = {
            reader: Consumer(kafka, chance) for reader in (self.feeds.front, self.feeds.rear)
        }
        for reader, consumer in self.consumers.items():
            reader.begin(consumer)

    def open(self, topics: dict[str, int], cut: Cut) -> Taker:
        taker = Taker(self.kafka, cut, topics)
        self.takers[self.feeds.feed(topics, cut, taker.take)] = taker
        return taker

    def step(self) -> None:
        reader = self.chance.choice(list(self.consumers))
        reader.step(self.consumers[reader])

    def replace(self) -> None:
        """Have a reader begin again, as after a failure."""
        reader = self.chance.choice(list(self.consumers))
        self.consumers[reader] = Consumer(self.kafka, self.chance)
        reader.begin(self.consumers[reader])

    def settle(self) -> None:
        for taker in self.takers.values():
            taker.room = True
        for _ in range(30_000):
            self.step()
            if all(map(self.is_done, self.takers.values())):
                return
        pytest.fail(f"records are missing: {[t.next for t in self.takers.values()]}")

    def is_done(self, taker: Taker) -> bool:
        return all(
            self.kafka.kept[place].stop == at or (at is None and not self.kafka.kept[place])
            for place, at in taker.next.items()
        )


TOPICS = {"a": 1, "b": 3}


def a_cut(kafka: Kafka, chance: random.Random) -> Cut:
    """Return a cut somewhere in what was published: mostly near its end."""

    def at(place: Place) -> int:
        stop = kafka.kept[place].stop
        return max(0, stop - chance.choice([0, 0, 1, 7, stop]))

    return Cut({t: tuple(at((t, part)) for part in range(n)) for t, n in TOPICS.items()})


@pytest.mark.parametrize("seed", range(60))
def test_everybody_has_each_record_once_and_in_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(shared, "_NEAR", chance.choice([0, 3, 1000]))
    monkeypatch.setattr(shared, "_AHEAD", chance.choice([0, 5, 10_000]))
    kafka = Kafka(TOPICS)
    readings = Readings(kafka, chance)
    for _ in range(300):
        what = chance.random()
        if what < 0.4:
            kafka.publish(chance.choice(list(kafka.kept)), chance.choice([1, 3, 50]))
        elif what < 0.8:
            readings.step()
        elif what < 0.85:
            wanted = chance.choice([TOPICS, {"a": 1}, {"b": 3}])
            readings.open(dict(wanted), a_cut(kafka, chance))
        elif what < 0.93 and readings.takers:
            taker = chance.choice(list(readings.takers.values()))
            taker.room = not taker.room
        elif what < 0.95 and readings.takers:
            feed = chance.choice(list(readings.takers))
            feed.close()
            calls, taker = readings.takers[feed].calls, readings.takers.pop(feed)
            readings.step()
            assert taker.calls == calls, "nothing is delivered after the end"
        elif what < 0.97:
            readings.replace()
        elif what < 0.99:
            kafka.expire(chance.choice(list(kafka.kept)), chance.choice([1, 20, 10**6]))
    readings.settle()


@pytest.mark.parametrize("seed", range(3))
def test_so_it_is_on_threads_whose_consumers_fail_and_rest(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    kafka = Kafka(TOPICS)
    moved = threading.Condition()

    class Noticed(Taker):
        def take(self, records: Sequence[FeedRecord]) -> bool:
            taken = super().take(records)
            with moved:
                moved.notify_all()
            return taken

    class Failing(Consumer):
        def __init__(self, _: object) -> None:
            super().__init__(kafka, random.Random(seed))

        def poll(self, seconds: float) -> Message | None:
            if seconds and chance.random() < 0.02:
                raise TypeError("injected")
            found = super().poll(0)
            if seconds and found is None:
                with moved:
                    moved.wait(0.01)
            return found

        def close(self) -> None:
            """Nothing is to be closed."""

    monkeypatch.setattr(shared, "Consumer", Failing)
    monkeypatch.setattr(shared, "_NEAR", 5)
    monkeypatch.setattr(shared, "_AHEAD", 5)
    monkeypatch.setattr(shared, "_IDLE", 0.0)
    feeds = Feeds({}, Supervision(lambda _: None, lambda _: 0.001), lambda _: kafka.counts)
    takers: list[Taker] = []
    for _ in range(400):
        what = chance.random()
        if what < 0.5:
            kafka.publish(chance.choice(list(kafka.kept)), chance.choice([1, 3, 50]))
        elif what < 0.6:
            takers.append(Noticed(kafka, cut := a_cut(kafka, chance), TOPICS))
            feeds.feed(TOPICS, cut, takers[-1].take)
        elif what < 0.8 and takers:
            taker = chance.choice(takers)
            taker.room = not taker.room
        else:
            with moved:
                moved.wait(0.001)
    for taker in takers:
        taker.room = True
    ends = {place: kept.stop for place, kept in kafka.kept.items()}
    with moved:
        done = moved.wait_for(lambda: all(taker.next == ends for taker in takers), 60)
    assert done, [taker.next for taker in takers]
    feeds.close()


def test_whoever_has_no_room_holds_up_nobody_and_misses_nothing() -> None:
    chance, kafka = random.Random(1), Kafka({"a": 1})
    readings = Readings(kafka, chance)
    slow, fast = (readings.open({"a": 1}, Cut()) for _ in range(2))
    slow.room = False
    for _ in range(200):
        kafka.publish(("a", 0), 100)
        readings.step()
    while fast.next["a", 0] != 20_000:
        readings.step()
    assert slow.next["a", 0] == 0
    readings.settle()
    assert slow.next["a", 0] == 20_000


def test_whoever_is_far_behind_is_not_waited_for() -> None:
    chance, kafka = random.Random(2), Kafka({"a": 1})
    kafka.publish(("a", 0), 50_000)
    readings = Readings(kafka, chance)
    behind = readings.open({"a": 1}, Cut())
    readings.step()
    new = readings.open({"a": 1}, Cut({"a": (50_000,)}))
    kafka.publish(("a", 0), 1)
    while new.next["a", 0] != 50_001:
        readings.step()
    at = behind.next["a", 0]
    assert at is not None
    assert at < 10_000
    readings.settle()


def test_a_topic_that_is_made_again_is_read_from_its_beginning() -> None:
    chance, kafka = random.Random(3), Kafka({"a": 1})
    kafka.publish(("a", 0), 30)
    readings = Readings(kafka, chance)
    takers = [readings.open({"a": 1}, Cut({"a": (at,)})) for at in (30, 30, 20)]
    readings.settle()
    kafka.kept["a", 0] = range(5)
    takers.append(readings.open({"a": 1}, Cut({"a": (30,)})))
    readings.settle()
    takers.append(readings.open({"a": 1}, Cut({"a": (30,)})))
    readings.settle()
    assert [taker.lost for taker in takers] == [[(("a", 0), 30)]] * 5


def test_a_loss_is_told_before_the_next_record_comes() -> None:
    """A reader once went to the beginning for one who had lost, and asked for nobody else."""
    chance, kafka = random.Random(6), Kafka({"a": 1})
    kafka.publish(("a", 0), 30)
    kafka.expire(("a", 0), 30)
    readings = Readings(kafka, chance)
    readings.open({"a": 1}, Cut({"a": (10,)}))
    readings.settle()
    kafka.publish(("a", 0), 5)
    other = readings.open({"a": 1}, Cut({"a": (32,)}))
    readings.feeds.front._admit(readings.consumers[readings.feeds.front])
    kafka.expire(("a", 0), 5)
    for reader in readings.consumers:
        readings.consumers[reader] = Consumer(kafka, chance)
        reader.begin(readings.consumers[reader])
    readings.settle()
    assert other.lost == [(("a", 0), 32)]


def test_whoever_reads_a_topic_hears_once_that_it_has_more_partitions() -> None:
    chance, kafka = random.Random(4), Kafka({"a": 1, "b": 3})
    readings = Readings(kafka, chance)
    one, other = readings.open({"a": 1}, Cut()), readings.open({"b": 3}, Cut())
    kafka.counts["a"] = 4
    one.room = False
    readings.feeds._look_for_partitions()
    assert not one.grown, "it had no room, and is told again"
    one.room = True
    for _ in range(2):
        readings.feeds._look_for_partitions()
    assert one.grown == [("a", 4)]
    assert not other.grown


def test_the_lag_is_what_lies_between_a_feed_and_the_end() -> None:
    chance, kafka = random.Random(5), Kafka({"a": 1})
    kafka.publish(("a", 0), 10)
    readings = Readings(kafka, chance)
    readings.open({"a": 1}, Cut({"a": (2,)}))
    (feed,) = readings.takers
    assert feed.lag() == {}, "nobody has looked yet"
    readings.settle()
    kafka.publish(("a", 0), 5)
    assert feed.lag() == {("a", 0): 5}
