"""Ordered timers: who must be looked at, and when (paper: ordered by time of expiration)."""

from __future__ import annotations

import heapq


class Timers:
    """Wake-up times of actions. A time that has lost its meaning costs one needless look."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._known: set[tuple[float, str]] = set()

    @property
    def next(self) -> float | None:
        """The earliest time, in Unix seconds."""
        return self._heap[0][0] if self._heap else None

    def wake(self, action: str, time: float) -> None:
        """Have the action returned by ``due`` from this time on."""
        entry = (time, action)
        if entry not in self._known:
            self._known.add(entry)
            heapq.heappush(self._heap, entry)

    def due(self, now: float) -> set[str]:
        """Remove and return the actions whose time has come."""
        actions = set()
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            self._known.discard(entry)
            actions.add(entry[1])
        return actions
