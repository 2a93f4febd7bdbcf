"""Barriers under way: whose marks have been consumed, and whose are missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from headgate.events import BarrierMark, ControlMessage

Purpose = TypeVar("Purpose")


class Barrier(Generic[Purpose]):
    """One request for marks in every partition of some topics, and what it is for."""

    def __init__(
        self,
        name: str,
        tables: tuple[str, ...],
        topics: Mapping[str, int],
        purpose: Purpose,
        prelude: ControlMessage | None,
        started: float,
    ) -> None:
        """Start without marks.

        Args:
            name: the request's id.
            tables: what it asks about.
            topics: number of partitions of each table's topic.
            purpose: what to do when it has passed.
            prelude: what observers must have obeyed when they mark; published before the request.
            started: Unix time in seconds.
        """
        self.name = name
        self.tables = tables
        self.purpose = purpose
        self.prelude = prelude
        self.started = started
        self.asked = started
        self._places = {(topic, part) for topic, count in topics.items() for part in range(count)}
        self._marks: dict[str, dict[tuple[str, int], int]] = {}

    def mark(self, topic: str, partition: int, mark: BarrierMark) -> None:
        """Note a consumed mark; one of an older epoch never replaces one of a newer."""
        places = self._marks.setdefault(mark.observer, {})
        place = (topic, partition)
        places[place] = max(mark.epoch, places.get(place, mark.epoch))

    def missing(self, required: Mapping[str, int]) -> dict[str, int]:
        """Return how many partitions lack the mark of each required observer; empty if none."""
        missing = {}
        for observer, epoch in required.items():
            marks = self._marks.get(observer, {})
            absent = sum(1 for place in self._places if marks.get(place, -1) < epoch)
            if absent:
                missing[observer] = absent
        return missing

    def passed(self, required: Mapping[str, int]) -> bool:
        """Tell whether at least one observer is required and each has marked every partition."""
        return bool(required) and not self.missing(required)
