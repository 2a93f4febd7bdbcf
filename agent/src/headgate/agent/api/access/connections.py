"""The API's connections: TLS that follows its files, and the certificate of whoever connects."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterable
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

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
    """A connection that puts the client's certificate into the scope of its requests."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note who connects."""
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert")
        if not certificate:
            return
        application = self.app

        async def identified(scope: Any, receive: Any, send: Any) -> None:
            await application({**scope, CERTIFICATE: certificate}, receive, send)

        self.app = identified
