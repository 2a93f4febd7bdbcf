"""How far an engine has read the topics of its dataflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.engine import Launch, PartitionReset, RecordArrived
from headgate.events import Cut

if TYPE_CHECKING:
    from engine.life import EngineLife


class Delivery:
    """What topics hand over to an engine, and from where on they hand it over again."""

    def __init__(self, life: EngineLife) -> None:
        self._life = life
        self._chance = life.chance
        self._store = life.store
        self._read: dict[tuple[str, int], int] = {}

    def begin_at(self, cut: Cut) -> None:
        """Have an agent that takes over read on from its cut."""
        self._read = {
            (topic, partition): cut.position(topic, partition)
            for topic, logs in self._store.topics.items()
            for partition in range(len(logs))
        }

    def deliver(self) -> None:
        """Some records of a partition come; some may come again later."""
        unread = [
            (topic, partition)
            for topic, logs in self._store.topics.items()
            for partition, log in enumerate(logs)
            if self._read.get((topic, partition), 0) < len(log)
        ]
        if unread:
            self._deliver_some(self._chance.choice(unread), self._chance.randint(1, 12))
        if self._chance.random() < 0.1 and self._read:
            place = self._chance.choice(list(self._read))
            self._read[place] = max(0, self._read[place] - self._chance.randint(0, 3))

    def _deliver_some(self, place: tuple[str, int], most: int) -> None:
        (topic, partition), start = place, self._read.get(place, 0)
        logs = self._store.topic(topic)
        messages = logs[partition][start : start + most]
        records = [
            RecordArrived(self._store.now, topic, partition, offset, message, len(logs))
            for offset, message in enumerate(messages, start)
            if message is not None
        ]
        self._read[place] = start + len(messages)
        if self._chance.random() < 0.5:
            for record in records:
                self._life.handle(record)
            return
        while records:
            self._life.step += 1
            taken, told = self._life.engine.arrive(records)
            del records[:taken]
            if any(isinstance(one, Launch) for one in told):
                self._life.save()
            self._life.carry_out(told)

    def deliver_all(self) -> None:
        """Deliver all that topics hold."""
        while True:
            unread = [
                (topic, partition)
                for topic, logs in self._store.topics.items()
                for partition, log in enumerate(logs)
                if self._read.get((topic, partition), 0) < len(log)
            ]
            if not unread:
                return
            self._deliver_some(self._chance.choice(unread), 1 << 20)

    def delete_unread(self) -> None:
        """Kafka deletes what was not read yet."""
        # What is read again was read: that Kafka deletes it is no loss.
        cut = self._life.engine.cut
        read = {
            (topic, partition): max(
                self._read.get((topic, partition), 0), cut.position(topic, partition)
            )
            for topic, logs in self._store.topics.items()
            for partition, log in enumerate(logs)
        }
        unread = [
            (topic, partition)
            for topic, partition in read
            if read[topic, partition] + 1 < len(self._store.topic(topic)[partition])
        ]
        if not unread:
            return
        self._life.certain = False
        topic, partition = self._chance.choice(unread)
        until = read[topic, partition] + 1
        self._read[topic, partition] = until
        self._store.delete_records(topic, partition, until)
        self._life.handle(PartitionReset(self._store.now, topic, partition))
