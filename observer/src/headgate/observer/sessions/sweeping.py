"""Clients that only hold a connection: found by one sweep over all, not by a timer for each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from enum import Enum, auto
from typing import Final, Protocol

import structlog

from headgate.observer.config import LimitSettings
from headgate.observer.monitoring.metrics import Metrics

_log = structlog.get_logger("headgate.observer.sessions.sweeping")

_ROUND_SECONDS: Final = 1.0  # between two looks at one session
_SILENT_SECONDS: Final = 60.0  # after which HBase's own server closes a connection without requests
_AT_A_TIME: Final = 500  # sessions, for the loop has others to serve


class Stage(Enum):
    """What a session waits for."""

    SILENT = auto()
    """The first request: HBase has no connection yet that it could close."""
    IDLE = auto()
    """A request."""
    REQUEST = auto()
    """The rest of a request."""
    SERVER = auto()
    """HBase, or the observer itself."""
    REPLIES = auto()
    """That the client takes what is to be sent."""


class Swept(Protocol):
    """A session as the sweep sees it."""

    def stage(self) -> Stage:
        """Return at which stage it is."""

    def progress(self) -> object:
        """Return what is different after every request that was taken or answered."""

    def unsent(self) -> int:
        """Return how many bytes of replies the client has not taken."""

    def stay_awake(self) -> None:
        """Keep the connection to HBase from being closed as idle, where the client needs it."""

    def expire(self, reason: str, *, at_once: bool) -> None:
        """Close the connection: once what is under way is answered, or at once."""


class Sweeper:
    """Applies ``idle_seconds`` and ``request_seconds`` to the sessions of a listener."""

    def __init__(
        self, sessions: Callable[[], Collection[Swept]], limits: LimitSettings, metrics: Metrics
    ) -> None:
        """Sweep what ``sessions`` returns, again and again."""
        self._sessions = sessions
        self.limits = limits
        self._metrics = metrics
        self._round: Iterator[Swept] = iter(())
        self._began = float("-inf")
        self._since: dict[Swept, tuple[float, Stage, object]] = {}
        self._next: dict[Swept, tuple[float, Stage, object]] = {}
        self._refused = 0
        self._unsent = 0
        """Bytes of replies that clients had not taken, in the round so far."""

    def sweep(self, now: float) -> None:
        """Look at the next sessions, if it is time; ``now`` is any clock's, in seconds."""
        for _ in range(_AT_A_TIME):
            session = next(self._round, None)
            if session is None:
                if now - self._began < _ROUND_SECONDS:
                    return
                self._begin(now)
                return
            self._look_at(session, now)

    def _begin(self, now: float) -> None:
        self._began = now
        if self._unsent > self.limits.waiting_bytes:
            self._make_room(now)
        self._unsent = 0
        self._since, self._next = self._next, {}
        limits = self.limits
        self._round = iter(tuple(self._sessions()))
        refused = self._metrics.refusals.get("connections", 0)
        if refused != self._refused:
            _log.warning(
                "clients were refused: as many are served as limits.connections and the limit of "
                "open files (ulimit -n) allow",
                limit=limits.connections,
                clients=refused - self._refused,
            )
            self._refused = refused

    def _make_room(self, now: float) -> None:
        """Close connections of clients that have taken no reply for longest."""
        lazy = [
            (since, number, session)
            for number, (session, (since, stage, _)) in enumerate(self._next.items())
            if stage is Stage.REPLIES
        ]
        for since, _, session in sorted(lazy):
            if self._unsent <= self.limits.waiting_bytes:
                return
            size = session.unsent()
            if not size:
                continue
            self._unsent -= size
            self._metrics.count_refusal("memory")
            reason = (
                f"the client took no bytes for {now - since:.0f} s, and the memory for replies is "
                "used up (limits.waiting_bytes)"
            )
            session.expire(reason, at_once=True)

    def _look_at(self, session: Swept, now: float) -> None:
        self._unsent += session.unsent()
        stage = session.stage()
        if stage is Stage.SERVER:
            return
        progress = session.progress()
        known = self._since.get(session)
        if known is None or known[1] is not stage or known[2] != progress:
            known = now, stage, progress
        self._next[session] = known
        if stage is Stage.SILENT:
            limit = self.limits.idle_seconds or _SILENT_SECONDS
        elif stage is Stage.IDLE:
            limit = self.limits.idle_seconds
        else:
            limit = self.limits.request_seconds
        waited = now - known[0]
        if not limit or waited < limit:
            if stage is Stage.IDLE:
                session.stay_awake()
            return
        if stage is Stage.SILENT:
            self._metrics.count_refusal("idle")
            session.expire(f"no request at all for {waited:.0f} s", at_once=False)
        elif stage is Stage.IDLE:
            self._metrics.count_refusal("idle")
            session.expire(f"no request for {waited:.0f} s (limits.idle_seconds)", at_once=False)
        elif stage is Stage.REQUEST:
            self._metrics.count_refusal("slow")
            reason = f"a request was not whole after {waited:.0f} s (limits.request_seconds)"
            session.expire(reason, at_once=False)
        else:
            reason = f"the client took no bytes for {waited:.0f} s (limits.request_seconds)"
            session.expire(reason, at_once=True)
