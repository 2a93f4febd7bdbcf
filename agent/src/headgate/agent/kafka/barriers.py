"""Barriers under way: whose marks have been consumed, and whose are missing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar

from headgate.agent.kafka.broker import Broker
from headgate.agent.kafka.observers import ObserverTable
from headgate.agent.parts import Part
from headgate.events import (
    VERSION,
    BarrierMark,
    BarrierRequest,
    ControlMessage,
    updates_topic,
)

Continuation = TypeVar("Continuation")


class Barrier(Generic[Continuation]):
    """One request for marks in every partition of some topics, and what it is for."""

    def __init__(
        self,
        name: str,
        tables: Mapping[str, int],
        continuation: Continuation,
        prelude: ControlMessage | None,
        started: float,
    ) -> None:
        """Start without marks.

        Args:
            name: the request's id.
            tables: what it asks about: the number of partitions of each table's topic.
            continuation: what to do when it has passed.
            prelude: what observers must have obeyed when they mark; published before the request.
            started: Unix time in seconds.
        """
        self.name = name
        self.tables = tuple(tables)
        self.continuation = continuation
        self.prelude = prelude
        self.started = started
        self.asked = started
        self._counts = {updates_topic(table): count for table, count in tables.items()}
        self._marks: dict[str, dict[tuple[str, int], int]] = {}
        self._written: dict[tuple[str, str], int] = {}
        """By observer and topic: over how many partitions it spreads what it writes."""

    def narrow(self, tables: Collection[str]) -> None:
        """Ask for marks in the topics of these tables only: those of others are not read."""
        self.tables = tuple(table for table in self.tables if table in tables)
        topics = {updates_topic(table) for table in self.tables}
        self._counts = {t: count for t, count in self._counts.items() if t in topics}

    def mark(self, topic: str, partition: int, mark: BarrierMark) -> None:
        """Note a consumed mark; one of an older epoch never replaces one of a newer."""
        places = self._marks.setdefault(mark.observer, {})
        place = (topic, partition)
        places[place] = max(mark.epoch, places.get(place, mark.epoch))
        writer = (mark.observer, topic)
        self._written[writer] = max(mark.partitions, self._written.get(writer, 0))

    def missing(self, required: Mapping[str, int]) -> dict[str, int]:
        """Return how many partitions lack the mark of each required observer; empty if none."""
        missing = {}
        for observer, epoch in required.items():
            marks = self._marks.get(observer, {})
            absent = sum(
                1
                for topic, count in self._counts.items()
                for part in range(self._written.get((observer, topic)) or count)
                if marks.get((topic, part), -1) < epoch
            )
            if absent:
                missing[observer] = absent
        return missing

    def passed(self, required: Mapping[str, int]) -> bool:
        """Return whether at least one observer is required and each has marked every partition."""
        return bool(required) and not self.missing(required)


class Barriers(Part, Generic[Continuation]):
    """All barriers of one dataflow: asked for, asked for again, and passed.

    Args:
        broker: takes the requests.
        observers: whose marks are needed.
        requester: names who asks.
        epoch: of the dataflow's ownership: part of the ids, which never repeat.
        repeat: seconds after which one that has not passed is asked for again.
        passed: called with a barrier's continuation, when it was asked for, and the time.
    """

    def __init__(
        self,
        broker: Broker,
        observers: ObserverTable,
        *,
        requester: str,
        epoch: int,
        repeat: float,
        passed: Callable[[Continuation, float, float], None],
    ) -> None:
        self._due: float | None = None
        self._broker = broker
        self._observers = observers
        self._requester = requester
        self._epoch = epoch
        self._repeat = repeat
        self._passed = passed
        self._number = 0
        self._waiting: dict[str, Barrier[Continuation]] = {}

    def continuations(self) -> list[Continuation]:
        """Return what the barriers under way are for."""
        return [barrier.continuation for barrier in self._waiting.values()]

    def ask(
        self,
        continuation: Continuation,
        tables: Mapping[str, int],
        now: float,
        prelude: ControlMessage | None = None,
    ) -> None:
        """Ask for a barrier in the topics of tables, whose numbers of partitions are given.

        Without tables nothing that is watched can be affected, and it passes at once.
        """
        self._number += 1
        name = f"{self._requester}/{self._epoch}/{self._number}"
        barrier = Barrier(name, tables, continuation, prelude, now)
        self._waiting[name] = barrier
        self._publish(barrier, now)
        if not tables:
            self._pass(barrier, now)

    def drop(self, kind: type[Continuation]) -> None:
        """Give up what is asked for this kind of continuation: nobody needs it any more."""
        self._waiting = {
            name: barrier
            for name, barrier in self._waiting.items()
            if not isinstance(barrier.continuation, kind)
        }

    def narrow(self, tables: Collection[str], now: float) -> None:
        """Go on with these tables only: nothing is read of others any more."""
        for barrier in list(self._waiting.values()):
            had = barrier.tables
            barrier.narrow(tables)
            if had and not barrier.tables:
                self._pass(barrier, now)

    def mark(self, topic: str, partition: int, mark: BarrierMark) -> None:
        """Note a consumed mark; those of other barriers are not meant."""
        barrier = self._waiting.get(mark.id)
        if barrier is not None:
            barrier.mark(topic, partition, mark)

    def check(self, now: float) -> None:
        """Let those pass that have all their marks."""
        required = self._observers.required(now)
        for barrier in list(self._waiting.values()):
            if barrier.passed(required):
                self._pass(barrier, now)

    def due(self) -> list[float]:
        """Return when barriers are to be asked for again, in Unix seconds."""
        return [] if self._due is None else [self._due]

    def tick(self, now: float) -> None:
        """Ask again for those that wait for long: an observer may have started meanwhile."""
        if self._due is None or now < self._due:
            return
        self.check(now)
        self._due = now + self._repeat if self._waiting else None
        for barrier in self._waiting.values():
            if now >= barrier.asked + self._repeat:
                self._publish(barrier, now)

    def move_times(self, by: float) -> None:
        """Have everything that is remembered happen so many seconds later."""
        if self._due is not None:
            self._due += by
        for barrier in self._waiting.values():
            barrier.started += by
            barrier.asked += by

    def words(self, now: float) -> str:
        """Say what the barrier that waits for longest misses; empty while none waits for long."""
        slow = [b for b in self._waiting.values() if now > b.started + self._repeat]
        if not slow:
            return ""
        required = self._observers.required(now)
        if not required:
            return (
                "no observer is live, so nothing that is written is seen; start one with "
                "`headgate observer --config observer.toml`"
            )
        lost = self._observers.lost(now)
        return "waiting for " + ", ".join(
            f"observer {name} ({parts} partitions"
            + ("; its lease has ended: restart it)" if name in lost else ")")
            for name, parts in slow[0].missing(required).items()
        )

    def _publish(self, barrier: Barrier[Continuation], now: float) -> None:
        if barrier.prelude is not None:
            self._broker.control(barrier.prelude)
        if barrier.tables:
            self._broker.control(
                BarrierRequest(VERSION, barrier.name, barrier.tables, self._requester)
            )
        barrier.asked = now
        if self._due is None:
            self._due = now + self._repeat

    def _pass(self, barrier: Barrier[Continuation], now: float) -> None:
        del self._waiting[barrier.name]
        self._passed(barrier.continuation, barrier.started, now)
