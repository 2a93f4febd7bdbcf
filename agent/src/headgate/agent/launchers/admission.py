"""Places for attempts on one agent: a limit over all its dataflows, and who goes first."""

from __future__ import annotations

import threading
from collections.abc import Callable

from msgspec import Struct


class _Waiting(Struct, frozen=True):
    priority: int
    arrival: int
    wake: Callable[[], None]

    @property
    def rank(self) -> tuple[int, int]:
        """The lower goes first."""
        return -self.priority, self.arrival


class Admission:
    """Gives places to dataflows: the highest priority first, then whoever has waited longest.

    Calls come from any thread. A dataflow that got no place is woken when it is its turn, and asks
    again then.

    Args:
        places: how many attempts may be under way at a time.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: dict[str, _Waiting] = {}
        self._arrivals = 0
        self._lock = threading.Lock()

    def take(self, dataflow: str, priority: int, wake: Callable[[], None]) -> bool:
        """Take a place; without one the dataflow waits, and ``wake`` is called later."""
        with self._lock:
            known = self._waiting.get(dataflow)
            if known is None or known.priority != priority:
                self._arrivals += 1
                known = _Waiting(priority, self._arrivals, wake)
            if self._free > 0 and all(
                known.rank <= other.rank
                for name, other in self._waiting.items()
                if name != dataflow
            ):
                self._free -= 1
                self._waiting.pop(dataflow, None)
                return True
            self._waiting[dataflow] = known
            return False

    def take_anyway(self) -> None:
        """Take a place for an attempt that is under way already, even where none is free."""
        with self._lock:
            self._free -= 1

    def give(self) -> None:
        """Give a place back."""
        with self._lock:
            self._free += 1
        self._wake_next()

    def leave(self, dataflow: str) -> None:
        """Wait no longer."""
        with self._lock:
            left = self._waiting.pop(dataflow, None)
        if left is not None:
            self._wake_next()

    def _wake_next(self) -> None:
        with self._lock:
            if self._free <= 0 or not self._waiting:
                return
            first = min(self._waiting.values(), key=lambda one: one.rank)
        first.wake()
