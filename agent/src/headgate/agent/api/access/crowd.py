"""The connections of the API together: how many there may be, and which give way to others."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import structlog
from msgspec import Struct

log = structlog.get_logger("headgate.agent.api")

STALLED_SECONDS: Final = 30.0
"""Seconds for which a client may take no bytes of its answer before its connection is dropped."""
_SAID_SECONDS: Final = 60.0  # between two lines of the log about the same


class Member(Protocol):
    """A connection of the API."""

    def drop(self) -> None:
        """Break it at once."""


class CrowdLimits(Struct, frozen=True):
    """How many connections there may be, and how long one may wait.

    Attributes:
        most: connections at a time.
        head_seconds: for the head of a request to arrive whole.
    """

    most: int
    head_seconds: float


class Crowd:
    """All connections of the API.

    Where there are as many as there may be, the one gives way that has waited longest for the head
    of its request: whoever means it sends that at once. So a probe is answered however many
    connections are held by clients that send nothing.
    """

    def __init__(self, limits: CrowdLimits) -> None:
        self.limits = limits
        self._all: set[Member] = set()
        self._waiting: dict[Member, asyncio.TimerHandle] = {}
        """Those without a request under way, the longest first."""
        self._said_at = float("-inf")
        self.dropped = 0
        """How many were broken because they waited too long, or others needed their place."""

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._all)

    def enter(self, member: Member) -> None:
        """Take a connection in; another, or it itself, gives way if there are too many."""
        self._all.add(member)
        if len(self._all) > self.limits.most:
            self._say()
            self._drop(next(iter(self._waiting), member))
        if member in self._all:
            self.wait(member)

    def wait(self, member: Member) -> None:
        """Wait for the head of a connection's next request."""
        self.work(member)
        loop = asyncio.get_running_loop()
        self._waiting[member] = loop.call_later(self.limits.head_seconds, self._drop, member)

    def work(self, member: Member) -> None:
        """Let a connection be: it has a request under way."""
        timer = self._waiting.pop(member, None)
        if timer is not None:
            timer.cancel()

    def leave(self, member: Member) -> None:
        """Forget a connection that is over."""
        self.work(member)
        self._all.discard(member)

    def _drop(self, member: Member) -> None:
        self.dropped += 1
        self.leave(member)
        member.drop()

    def _say(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._said_at >= _SAID_SECONDS:
            self._said_at = now
            log.warning(
                "connections give way: as many are open as access.connections and the limit of "
                "open files (ulimit -n) allow",
                limit=self.limits.most,
            )
