"""The API's connections: TLS that follows its files, and the certificate of whoever connects."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterable
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from headgate.agent.api.access.crowd import STALLED_SECONDS, Crowd
from headgate.agent.api.access.guard import CERTIFICATE
from headgate.settings import Credentials

_LOOK: Final = 2.0  # seconds between two looks at files


def follow_files(credentials: Iterable[Credentials], ending: threading.Event) -> None:
    """Load certificates again whenever their files change, until the end."""
    while not ending.wait(_LOOK):
        for each in credentials:
            if each.changed():
                each.reload()


class RenewedContext(ssl.SSLContext):
    """A context that stands for the newest one: each connection begins with what is there then."""

    credentials: Credentials

    @classmethod
    def of(cls, credentials: Credentials) -> RenewedContext:
        """Return the context that stands for that of the credentials."""
        context = cls(ssl.PROTOCOL_TLS_SERVER)
        context.credentials = credentials
        return context

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """Begin a connection, as event loops do it."""
        return self.credentials.context.wrap_bio(*arguments, **options)


class IdentifiedConnection(H11Protocol):
    """A connection that puts the client's certificate into the scope of its requests.

    It belongs to a crowd, in which it gives way to others while it has no request under way.
    """

    def __init__(self, crowd: Crowd, **given: Any) -> None:
        """Serve a client; what is ``given`` is the server's."""
        super().__init__(**given)
        self._crowd = crowd
        self._stalled: asyncio.TimerHandle | None = None

    def drop(self) -> None:
        """Break the connection at once."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take bytes of requests."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._crowd.work(self)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        if not self.transport.is_closing():
            self._crowd.wait(self)
        super().on_response_complete()
        if not self.cycle.response_complete:
            self._crowd.work(self)  # its next request had come before

    def pause_writing(self) -> None:
        """Wait for the client to take bytes, but not for ever."""
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_SECONDS, self.drop)

    def resume_writing(self) -> None:
        """Go on: the client has taken some."""
        super().resume_writing()
        self._go_on()

    def _go_on(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the crowd."""
        self._go_on()
        self._crowd.leave(self)
        super().connection_lost(exc)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note who connects."""
        super().connection_made(transport)
        self._crowd.enter(self)
        certificate = transport.get_extra_info("peercert")
        if not certificate:
            return
        application = self.app

        async def identified(scope: Any, receive: Any, send: Any) -> None:
            await application({**scope, CERTIFICATE: certificate}, receive, send)

        self.app = identified
