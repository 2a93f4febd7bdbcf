"""Ordered timers: who must be looked at, and when (paper: ordered by time of expiration)."""

from __future__ import annotations

import heapq


class Timers:
    """The next time of each action. One that has lost its meaning costs one needless look."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._next: dict[str, float] = {}

    @property
    def next(self) -> float | None:
        """The earliest time, in Unix seconds."""
        return self._heap[0][0] if self._heap else None

    def wake(self, action: str, time: float) -> None:
        """Have ``due`` return the action at this time, or at an earlier one that was set."""
        known = self._next.get(action)
        if known is None or time < known:
            self._next[action] = time
            heapq.heappush(self._heap, (time, action))

    def due(self, now: float) -> set[str]:
        """Return the actions whose time has come. Their later times must be set again."""
        actions = set()
        while self._heap and self._heap[0][0] <= now:
            time, action = heapq.heappop(self._heap)
            if self._next.get(action) == time:
                del self._next[action]
                actions.add(action)
        return actions

    def move(self, by: float) -> None:
        """Have every time come so many seconds later, one that has lost its meaning too."""
        self._heap = [(time + by, action) for time, action in self._heap]
        heapq.heapify(self._heap)
        self._next = {action: time + by for action, time in self._next.items()}
