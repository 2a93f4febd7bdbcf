"""The connection to HBase's Thrift server that belongs to one session."""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from headgate.observer.upstreams.dialing import Dialed
from headgate.observer.upstreams.formats import UpstreamFormats
from headgate.observer.upstreams.pool import Upstream, UpstreamPool
from headgate.observer.upstreams.translation import Speaker, TranslatingTransport


class PinnedSession(Speaker, Protocol):
    """The session that a connection is pinned to, as the connection sees it."""

    def upstream_made(self, transport: asyncio.Transport) -> None:
        """Take the connection, or what stands for it."""

    def upstream_settled(self, transport: asyncio.Transport) -> None:
        """Take the connection itself."""

    def upstream_dropped(self) -> None:
        """Have no connection yet, whatever it has taken."""

    def waits_for_reply(self) -> bool:
        """Return whether a request is under way of whose reply nothing has come."""

    def waits_since(self) -> float | None:
        """Return when the oldest request under way was forwarded, or last got bytes of a reply."""

    def abort(self) -> None:
        """Break both connections."""


class PinnedConnection(Dialed):
    """Passes replies to the session, through a translation until both sides are known to agree."""

    def __init__(
        self,
        session: PinnedSession,
        pool: UpstreamPool,
        upstream: Upstream,
        formats: UpstreamFormats | None,
    ) -> None:
        """Belong to a session; the pool counts the connection."""
        self._session = session
        self._pool = pool
        self._upstream = upstream
        self._ended = False
        self._over = False
        self._transport: asyncio.Transport | None = None
        self._translation: TranslatingTransport | None = None
        self.data_received = session.reply_received  # type: ignore[method-assign]
        if formats is not None:
            self._translation = TranslatingTransport(session, formats, upstream, self._settle)
            self.data_received = self._translation.reply_received  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection."""
        self._pool.opened(self._upstream, self)
        self._transport = cast("asyncio.Transport", transport)
        if self._translation is not None:
            self._translation.made(self._transport)
            self._session.upstream_made(self._translation)
        else:
            self._session.upstream_made(self._transport)
            self._session.upstream_settled(self._transport)

    def _settle(self) -> None:
        """Go on without a translation."""
        transport = self._transport
        assert transport is not None  # noqa: S101 - replies have come over it
        self._translation = None
        self.data_received = self._session.reply_received  # type: ignore[method-assign]
        transport.set_protocol(self)
        self._session.upstream_settled(transport)

    def eof_received(self) -> None:
        """Let the connection close: the server has ended it."""
        self._ended = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the session."""
        if self._over:
            return
        self._over = True
        self._pool.closed(self._upstream, self)
        if (self._ended or exc is not None) and self._session.waits_for_reply():
            self._pool.broken(self._upstream)
        if self._translation is not None:
            self._translation.lost(exc)
        else:
            self._session.upstream_lost(exc)

    def dropped(self) -> None:
        """Leave the session without it: nothing has been sent yet."""
        if self._transport is not None and not self._over:
            self._over = True
            self._pool.closed(self._upstream, self)
            self._session.upstream_dropped()

    def waits_since(self) -> float | None:
        """Return when the oldest request under way was forwarded, or last got bytes of a reply."""
        return self._session.waits_since()

    def cut(self) -> None:
        """Break it: what is under way ends as unknown."""
        self._session.abort()

    def pause_writing(self) -> None:
        """Notify the session."""
        self._session.upstream_full()

    def resume_writing(self) -> None:
        """Notify the session."""
        self._session.upstream_drained()
