"""Where a feed reads on when Kafka has deleted what it should read."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

from headgate.agent.kafka import feed as feeds
from headgate.agent.kafka.feed import FeedRecord, KafkaFeed
from headgate.agent.supervision import Supervision
from headgate.events import Cut


class Deleted:
    """A message that says that the offset asked for is not there."""

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return 0

    def error(self) -> KafkaError:
        return KafkaError(KafkaError._AUTO_OFFSET_RESET)


class Emptied:
    """A consumer of two partitions whose records are gone."""

    def __init__(self, _: object) -> None:
        self.assigned: list[TopicPartition] = []

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = partitions

    def poll(self, _: float) -> Deleted | None:
        for found in self.assigned:
            if found.offset >= 0:
                return Deleted(found.partition)
        return None

    def consume(self, *_: float) -> list[Deleted]:
        return []

    def get_watermark_offsets(self, _: TopicPartition, *, cached: bool) -> tuple[int, int]:
        assert cached
        return 9, 9

    def close(self) -> None:
        pass


def test_each_partition_that_lost_records_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    consumers: list[Emptied] = []

    def make(settings: object) -> Emptied:
        consumers.append(Emptied(settings))
        return consumers[0]

    monkeypatch.setattr(feeds, "Consumer", make)
    records: list[FeedRecord] = []

    def take(found: Iterable[FeedRecord]) -> bool:
        records.extend(found)
        return True

    feed = KafkaFeed({}, {"t": 2}, Cut({"t": (3, 4)}), take, Supervision(lambda _: None))
    while len(feed.lag()) < 2 or any(p.offset != OFFSET_BEGINNING for p in consumers[0].assigned):
        if len(records) > 4:
            break
    feed.close()
    assert [(r.partition, r.offset, r.lost) for r in records] == [(0, 3, True), (1, 4, True)]
    assert feed.lag() == {("t", 0): 0, ("t", 1): 0}
