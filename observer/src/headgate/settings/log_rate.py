"""Log lines that strangers cause: enough of them to see what happens, never a flood."""

from __future__ import annotations

from collections.abc import Callable


class LogRate:
    """Lets so many lines through in each period and counts the others."""

    def __init__(
        self, clock: Callable[[], float], *, lines: int = 20, seconds: float = 10.0
    ) -> None:
        """Allow ``lines`` in every ``seconds``; ``clock`` is any time in seconds."""
        self._clock = clock
        self._lines = lines
        self._seconds = seconds
        self._since = clock()
        self._written = 0
        self._left_out = 0

    def admit(self) -> int | None:
        """Return how many lines were left out before this one; None: leave it out too."""
        now = self._clock()
        if now - self._since >= self._seconds:
            self._since, self._written = now, 0
        if self._written >= self._lines:
            self._left_out += 1
            return None
        self._written += 1
        left_out, self._left_out = self._left_out, 0
        return left_out
