"""Topics are made while somebody waits for them, each by one task."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headgate.observer.config import JournalSettings, KafkaSettings, Listener, ObserverConfig
from headgate.observer.publishing import update_topics
from headgate.observer.publishing.kafka import KafkaUnavailable
from headgate.observer.publishing.update_topics import UpdateTopics

CONFIG = ObserverConfig(
    name="o",
    kafka=KafkaSettings("127.0.0.1:1"),
    journal=JournalSettings("journal"),
    thrift1=Listener("127.0.0.1:0", "127.0.0.1:1"),
)


class Brokers:
    """They refuse until they are there."""

    def __init__(self) -> None:
        self.there = False
        self.asked: list[str] = []

    def ensure(self, topic: str, **_settings: Any) -> int:
        self.asked.append(topic)
        if not self.there:
            raise KafkaUnavailable("down")
        return 1


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_topics, "_RETRY_SECONDS", 0.0)


async def until(condition) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


def test_a_topic_that_is_asked_for_again_has_one_task(bench) -> None:
    async def script() -> None:
        brokers: Any = Brokers()
        topics = UpdateTopics(CONFIG, topics=brokers, learn=lambda _: None)
        bench.publisher.prepare("t", values=True)
        for _ in range(5):
            topics.ensure(bench.publisher, "t", "topic-of-t")
        assert len(asyncio.all_tasks()) == 2
        await until(lambda: len(brokers.asked) >= 3)
        brokers.there = True
        await until(lambda: bench.publisher.is_ready("t"))
        await until(lambda: not topics._tasks)
        topics.ensure(bench.publisher, "t", "topic-of-t")
        asked = len(brokers.asked)
        await until(lambda: len(brokers.asked) > asked)

    asyncio.run(script())


def test_a_topic_that_nobody_waits_for_any_more_is_not_made(bench) -> None:
    async def script() -> None:
        brokers: Any = Brokers()
        topics = UpdateTopics(CONFIG, topics=brokers, learn=lambda _: None)
        bench.publisher.prepare("t", values=True)
        topics.ensure(bench.publisher, "t", "topic-of-t")
        await until(lambda: bool(brokers.asked))
        bench.publisher.forget("t")
        await until(lambda: len(asyncio.all_tasks()) == 1)

    asyncio.run(script())


def test_partitions_that_a_topic_is_given_are_noticed_and_what_was_written_stays(
    bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update_topics, "_LOOK_SECONDS", 0.0)

    class Growing:
        def __init__(self) -> None:
            self.looks = 0
            self.topics: dict[str, int] = {}

        def partitions(self) -> dict[str, int]:
            self.looks += 1
            if self.looks == 2:
                raise KafkaUnavailable("down")
            return self.topics

    async def script() -> None:
        brokers: Any = Growing()
        publisher = bench.publisher
        learned: list[int | None] = []

        def learn(asked: str) -> None:
            assert asked == topic
            learned.append(publisher.tables.partitions("t"))
            if len(learned) == 1:
                raise KafkaUnavailable("down")

        topics = UpdateTopics(CONFIG, topics=brokers, learn=learn)
        following = asyncio.create_task(topics.follow(publisher))
        await asyncio.sleep(0)
        publisher.prepare("t", values=True)
        publisher.topic_ready("t", 2)
        (topic,) = publisher.tables.topics()
        brokers.topics = {topic: 2, "other": 9}
        await until(lambda: brokers.looks > 3)
        assert publisher.tables.partitions("t") == 2
        brokers.topics = {topic: 5}
        await until(lambda: publisher.tables.partitions("t") == 5)
        # The producer knew of them before anything was spread over them.
        assert learned == [2, 2]
        following.cancel()

    asyncio.run(script())
