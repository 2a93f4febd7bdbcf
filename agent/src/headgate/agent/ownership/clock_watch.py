"""Noticing that somebody has set the clock: what is due must not wait for it, nor come early."""

from __future__ import annotations

import time
from collections.abc import Callable

_LEAP = 1.0
"""Seconds by which a clock must have left the even passing of time: less is drift, and slewing."""


class ClockWatch:
    """Compares the clock with one that passes evenly.

    Args:
        clock: Unix time in seconds.
        even: seconds from any moment on; nobody can set it.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        even: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._even = even
        self._distance = clock() - even()

    def leap(self) -> float:
        """Return by how many seconds the clock was set since the last leap; 0 for no leap."""
        distance = self._clock() - self._even()
        by = distance - self._distance
        if abs(by) < _LEAP:
            return 0.0
        self._distance = distance
        return by
