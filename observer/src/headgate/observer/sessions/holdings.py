"""Memory that is kept for clients, summed over all connections.

Each connection also has limits of its own.
"""

from __future__ import annotations

from typing import Final, Protocol, final

import structlog

from headgate.observer.monitoring.metrics import Metrics

_log = structlog.get_logger("headgate.observer.sessions.holdings")

LARGE: Final = 64 * 1024
"""Bytes from which on a connection is counted: with less of them it holds as much in any case."""
COUNTED: Final = 4 * 1024
"""Bytes of a forwarded request from which on it is counted until HBase has answered it."""
UNANSWERED: Final = (
    "headgate: the observer's memory for requests that HBase has not answered is used up "
    "(limits.waiting_bytes); nothing was written, try again"
)
FULL: Final = (
    "the observer's memory for requests that are not whole, or that wait, is used up "
    "(limits.waiting_bytes); nothing was written, try again"
)


class Holder(Protocol):
    """A connection for which bytes are kept."""

    def let_go(self, reason: str) -> None:
        """Answer the request that is kept with the reason, and keep nothing more of it."""


@final
class Holdings:
    """Bytes of requests that are not whole, or wait; who holds some for longest makes room."""

    def __init__(self, metrics: Metrics, limit_bytes: int) -> None:
        """Keep so many bytes for all connections of the process."""
        self._metrics = metrics
        self.limit = limit_bytes
        self.total = 0
        self.unanswered = 0
        """Bytes of requests that were forwarded, and that HBase has not begun to answer."""
        self._sizes: dict[Holder, int] = {}
        """Those who have held bytes for longest come first."""

    def has_room(self, size: int, of_connection: int) -> bool:
        """Return whether a request may be forwarded.

        ``of_connection`` is how many bytes of the same connection are unanswered. As much as the
        limit may be, beside what waits; a connection with little of it may go on in any case.
        """
        if size < COUNTED or of_connection + size < LARGE or not self.unanswered:
            return True
        return self.unanswered + size <= self.limit

    def note(self, holder: Holder, size: int) -> None:
        """Note how many bytes are kept for a connection now; others may have to go for it."""
        known = self._sizes.get(holder, 0)
        if size < LARGE:
            if known:
                del self._sizes[holder]
                self.total -= known
            return
        self._sizes[holder] = size
        self.total += size - known
        while self.total > self.limit:
            oldest = next(iter(self._sizes))
            self.total -= self._sizes.pop(oldest)
            self._metrics.count_refusal("memory")
            _log.warning(
                "a request makes room for others: limits.waiting_bytes is reached",
                limit=self.limit,
            )
            oldest.let_go(FULL)
