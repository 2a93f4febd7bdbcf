"""Tables whose events are published: what of each is not in its lanes yet, and what they lack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from headgate.events import updates_topic
from headgate.observer.publishing.deliveries import Lane, Sizes
from headgate.observer.publishing.packing import Item, Packing, Puts
from headgate.observer.publishing.stuck import Waiting


class Table:
    """A table, and what ended on it that is not yet in its lanes."""

    __slots__ = (
        "asked",
        "items",
        "lanes",
        "name",
        "packing",
        "puts",
        "refusal",
        "sizes",
        "topic",
        "values",
        "waiting_bytes",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.topic = updates_topic(name)
        self.items: list[Item] = []
        self.puts = Puts()
        """Puts that ended after the last of the items."""
        self.lanes: list[Lane] | None = None
        self.asked = False
        """True once the table's topic was asked for."""
        self.refusal = ""
        """Why the topic is not there, as Kafka said; empty if it said nothing."""
        self.waiting_bytes = 0
        """Memory of the items that wait for the topic, about."""
        self.sizes = Sizes()
        self.values = True
        self.packing: Packing | None = None
        """Unfinished packing of items that were taken from ``items``; None if there is none."""


@final
class KnownTables:
    """All tables of a publisher, by name."""

    def __init__(self) -> None:
        """Know of none."""
        self.by_name: dict[str, Table] = {}

    @property
    def are_packed(self) -> bool:
        """True if everything that was added is in messages."""
        return not any(
            table.items or table.puts.drafts or table.packing is not None
            for table in self.by_name.values()
        )

    def is_delivered(self, name: str) -> bool:
        """Return whether everything that was added to a table is acknowledged."""
        table = self.by_name.get(name)
        if table is None:
            return True
        if table.items or table.puts.drafts or table.packing is not None:
            return False
        return not any(lane.sent or lane.queue for lane in table.lanes or ())

    def undelivered(self, name: str) -> int:
        """Return how many messages of a table Kafka has not acknowledged."""
        table = self.by_name.get(name)
        lanes = (table.lanes or ()) if table is not None else ()
        return sum(len(lane.sent) + len(lane.queue) for lane in lanes)

    def acknowledged(self, name: str) -> int:
        """Return how many messages of a table Kafka has acknowledged."""
        table = self.by_name.get(name)
        lanes = (table.lanes or ()) if table is not None else ()
        return sum(lane.acknowledged for lane in lanes)

    def refusal(self, name: str) -> str:
        """Return why Kafka does not take a table's events, as it said; empty if it said nothing."""
        table = self.by_name.get(name)
        if table is None:
            return ""
        return next((lane.refusal for lane in table.lanes or () if lane.refusal), table.refusal)

    def waiting(self) -> Iterator[Waiting]:
        """Yield what Kafka has not acknowledged, by partition."""
        for table in self.by_name.values():
            if table.lanes is None:
                if table.items:
                    reason = table.refusal
                    if not table.asked:
                        reason = "nobody knows yet whether it is watched"
                    yield Waiting(table.name, -1, 0, table.waiting_bytes, reason)
                continue
            for lane in table.lanes:
                if lane.waiting_bytes:
                    count = lane.acknowledged
                    size = lane.waiting_bytes
                    yield Waiting(table.name, lane.partition, count, size, lane.refusal)

    def sequences(self) -> dict[str, tuple[int, ...]]:
        """Return the next publish sequence of each partition, by topic."""
        return {
            table.topic: tuple(lane.sequence for lane in table.lanes)
            for table in self.by_name.values()
            if table.lanes is not None
        }

    def topics(self) -> dict[str, tuple[str, int]]:
        """Return the topics that are there with their tables and the partitions that are known."""
        return {
            table.topic: (table.name, len(table.lanes))
            for table in self.by_name.values()
            if table.lanes is not None
        }

    def waiting_topics(self) -> dict[str, str]:
        """Return the tables whose topic was asked for and is not there yet, and why not."""
        return {
            each.name: each.refusal
            for each in self.by_name.values()
            if each.lanes is None and each.asked
        }

    def awaits(self, name: str) -> bool:
        """Return whether a table is known, and so its topic is needed once it was asked for."""
        return name in self.by_name

    def partitions(self, name: str) -> int:
        """Return how many partitions of a table's topic are known; 0 while it is not there."""
        table = self.by_name.get(name)
        return 0 if table is None or table.lanes is None else len(table.lanes)
