"""Kafka as one agent of a hostile world sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from simulation.broker import ScriptedBroker

from headgate.agent.kafka.feed import FeedRecord, record_of
from headgate.events import ControlMessage, Cut

if TYPE_CHECKING:
    from agents.world import HostileWorld

LOOK = 10.0  # seconds between two looks for more partitions


class Damaged(Struct, frozen=True):
    """A record that nothing of headgate wrote; None: it has no value."""

    value: bytes | None


class _Message:
    """A message of Kafka as its client shows it."""

    def __init__(self, place: tuple[str, int, int], value: bytes | None, now: float) -> None:
        self._place = place
        self._value = value
        self._now = now

    def error(self) -> None:
        """Return nothing: it is no error."""

    def topic(self) -> str:
        """Return the topic."""
        return self._place[0]

    def partition(self) -> int:
        """Return the partition."""
        return self._place[1]

    def offset(self) -> int:
        """Return the offset."""
        return self._place[2]

    def timestamp(self) -> tuple[int, int]:
        """Return when it was published, in milliseconds."""
        return 1, int(self._now * 1000)

    def value(self) -> bytes | None:
        """Return the value."""
        return self._value


class HostileBroker(ScriptedBroker):
    """Kafka as one agent sees it: away at times, with records that are damaged or gone."""

    def __init__(self, world: HostileWorld) -> None:
        super().__init__(world)
        self.world = world
        self.unsent: list[Callable[[], None]] = []
        """What its producer holds."""
        self._looked = world.lived

    def step(self) -> bool:
        """Deliver some records together, and what the producer holds."""
        if self.world.kafka_away:
            return False
        moved = self.flush()
        if self._deliver is None:
            return moved
        records = [*self._growth(), *self._records()]
        if records:
            self._deliver(records)
        return moved or bool(records)

    def flush(self) -> bool:
        """Have Kafka take what the producer holds; tell whether there was anything."""
        unsent, self.unsent = self.unsent, []
        for send in unsent:
            send()
        return bool(unsent)

    def _growth(self) -> Iterator[FeedRecord]:
        if self.world.lived < self._looked + LOOK:
            return
        self._looked = self.world.lived
        for topic in dict.fromkeys(topic for topic, _ in self._positions):
            known = sum(1 for name, _ in self._positions if name == topic)
            count = len(self.world.topic(topic))
            if count > known:
                yield FeedRecord(topic, 0, 0, None, self.world.now, partitions=count)

    def _records(self) -> Iterator[FeedRecord]:
        most = self.world.together()
        for (topic, partition), position in self._positions.items():
            log = self.world.topic(topic)[partition]
            kept = self.world.telling.kept_from(topic, partition)
            if position < kept:
                yield FeedRecord(topic, partition, position, None, self.world.now, lost=True)
                position = kept
            found = log[position : position + most]
            most -= len(found)
            for offset, message in enumerate(found, position):
                yield self._record((topic, partition, offset), message)
            self._positions[topic, partition] = position + len(found)

    def _record(self, place: tuple[str, int, int], message: Any) -> FeedRecord:
        if isinstance(message, Damaged):
            raw: Any = _Message(place, message.value, self.world.now)
            return record_of(raw)
        return FeedRecord(*place, message, self.world.now)

    def topics(self, tables: Iterable[str]) -> dict[str, int]:
        """See ``Broker``."""
        self.world.reach_kafka()
        return super().topics(tables)

    def retention(self, topics: Iterable[str]) -> dict[str, float]:
        """See ``Broker``."""
        self.world.reach_kafka()
        return super().retention(topics)

    def ends(self, topics: Mapping[str, int]) -> Cut:
        """See ``Broker``."""
        self.world.reach_kafka()
        return super().ends(topics)

    def control(self, message: ControlMessage) -> None:
        """See ``Broker``."""
        self.world.point()
        self.unsent.append(partial(self.world.control.append, message))
        if not self.world.kafka_away:
            self.flush()

    def decision(self, dataflow: str, value: bytes, done: Callable[[], None]) -> None:
        """See ``Broker``; it waits in the producer for a moment."""

        def send() -> None:
            self.world.decisions.append(value)
            done()

        self.unsent.append(send)
