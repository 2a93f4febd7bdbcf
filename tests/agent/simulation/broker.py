"""Kafka as an agent of a script sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from headgate.agent.kafka.feed import Deliver, FeedRecord
from headgate.events import ControlMessage, Cut, updates_topic

if TYPE_CHECKING:
    from simulation.world import World


class ScriptedBroker:
    """A world's topics, and the one feed of one agent from them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._positions: dict[tuple[str, int], int] = {}
        self._deliver: Deliver | None = None

    def step(self) -> bool:
        """Deliver some messages together, if there is one to deliver."""
        if self._deliver is None:
            return False
        records: list[FeedRecord] = []
        most = self._world.together()
        for (topic, partition), position in self._positions.items():
            messages = self._world.topic(topic)[partition][position:][: most - len(records)]
            for offset, message in enumerate(messages, position):
                records.append(FeedRecord(topic, partition, offset, message, self._world.now))
            self._positions[topic, partition] = position + len(messages)
        if records:
            self._deliver(records)
        return bool(records)

    def topics(self, tables: Iterable[str]) -> dict[str, int]:
        """See ``Broker``."""
        return {
            updates_topic(table): len(self._world.topic(updates_topic(table))) for table in tables
        }

    def retention(self, topics: Iterable[str]) -> dict[str, float]:
        """See ``Broker``."""
        return dict.fromkeys(topics, self._world.retention)

    def ends(self, topics: Mapping[str, int]) -> Cut:
        """See ``Broker``."""
        return Cut({t: tuple(len(messages) for messages in self._world.topic(t)) for t in topics})

    def control(self, message: ControlMessage) -> None:
        """See ``Broker``."""
        self._world.point()
        self._world.control.append(message)

    def decision(self, dataflow: str, value: bytes, done: Callable[[], None]) -> None:
        """See ``Broker``."""
        del dataflow
        if not self._world.decisions_wait:
            self._world.decisions.append(value)
            done()

    def feed(self, topics: Mapping[str, int], cut: Cut, deliver: Deliver) -> ScriptedBroker:
        """See ``Broker``."""
        self._positions = {
            (topic, partition): cut.position(topic, partition)
            for topic, count in topics.items()
            for partition in range(count)
        }
        self._deliver = deliver
        return self

    def lag(self) -> dict[tuple[str, int], int]:
        """See ``Feed``."""
        return {
            (topic, partition): len(self._world.topic(topic)[partition]) - position
            for (topic, partition), position in self._positions.items()
        }

    def close(self) -> None:
        """See ``Feed``."""
        self._deliver = None
