"""The topics of updates: made when needed, again when gone, and followed as they grow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import structlog

from headgate.observer.config import ObserverConfig
from headgate.observer.publishing.kafka import KafkaUnavailable, Topics
from headgate.observer.publishing.publisher import Publisher

_log = structlog.get_logger("headgate.observer.publishing.update_topics")

_RETRY_SECONDS = 2.0
_LOOK_SECONDS = 10.0
"""After which topics are looked at: until then observers may spread a row over partitions unlike
each other, and what two of them write to it is in no order."""


class UpdateTopics:
    """Makes topics for a publisher, and notifies it when they are there."""

    def __init__(
        self, config: ObserverConfig, *, topics: Topics, learn: Callable[[str], None]
    ) -> None:
        """Make no topic yet; ``learn`` has the producer look up a topic's partitions, blocking."""
        self._partitions = config.kafka.partitions
        self._topics = topics
        self._learn = learn
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """By topic: one, however often a topic is asked for."""

    def reconfigure(self, config: ObserverConfig) -> None:
        """Give topics that are made from now on another number of partitions."""
        self._partitions = config.kafka.partitions

    def ensure(self, publisher: Publisher, table: str, topic: str) -> None:
        """Make a table's topic if it is not there, and notify the publisher.

        However long that takes, but no longer than the publisher waits for it.
        """
        if topic not in self._tasks:
            task = self._loop.create_task(self._make(publisher, table, topic))
            self._tasks[topic] = task
            task.add_done_callback(lambda _: self._tasks.pop(topic))

    async def follow(self, publisher: Publisher) -> None:
        """Notify the publisher of partitions that its topics are given, as long as it works."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if not publisher.tables.topics():
                continue
            try:
                await self._look(publisher)
            except KafkaUnavailable as error:
                _log.warning("topics could not be looked at", reason=str(error))

    async def _look(self, publisher: Publisher) -> None:
        there = await self._loop.run_in_executor(None, self._topics.partitions)
        for topic, (table, known) in publisher.tables.topics().items():
            count = there.get(topic, 0)
            if count > known:
                # The producer first: what it does not know it refuses.
                await self._loop.run_in_executor(None, self._learn, topic)
                _log.info("a topic has more partitions", topic=topic, partitions=count)
                publisher.topic_ready(table, count)

    async def _make(self, publisher: Publisher, table: str, topic: str) -> None:
        while publisher.tables.awaits(table):
            # A topic that was deleted must not come back with fewer partitions than have messages.
            known = publisher.tables.partitions(table)
            ensure = partial(
                self._topics.ensure,
                topic,
                partitions=max(self._partitions, known),
                settings={},
                at_least=max(1, known),
            )
            try:
                count = await self._loop.run_in_executor(None, ensure)
            except KafkaUnavailable as error:
                _log.warning(
                    "a topic could not be made", table=table, topic=topic, reason=str(error)
                )
                publisher.topic_refused(table, str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                publisher.topic_ready(table, count)
                return
