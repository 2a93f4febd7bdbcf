"""A listener with TLS on a real socket, and clients of it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import structlog
import uvloop

from headgate.hbase import Dialect
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.security.tls import TlsServer, listening_sockets
from headgate.settings import Credentials

T = TypeVar("T")


class Echo(asyncio.Protocol):
    """What stands behind the handshake."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]


class Listener:
    """A listener with TLS, its metrics and its log."""

    def __init__(self, server: TlsServer, metrics: Metrics, log: list[Any]) -> None:
        self.port: int = server.sockets[0].getsockname()[1]
        self.metrics = metrics
        self.log = log

    async def failed(self, reason: str) -> dict[str, Any]:
        """Wait for a failed handshake to be counted; return its line in the log."""
        while ("thrift1", reason) not in self.metrics.tls_failures:
            await asyncio.sleep(0.005)
        assert self.metrics.tls_failures == {("thrift1", reason): 1}
        (line,) = [each for each in self.log if each["event"] == "TLS handshake failed"]
        assert line["reason"] == reason
        assert line["client"].startswith("127.0.0.1:")
        return line

    async def call(self, context: ssl.SSLContext, data: bytes = b"hello") -> bytes:
        """Return what comes back; nothing, where the connection ended."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
        writer.write(data)
        answer = await reader.read(100)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return answer


@contextlib.asynccontextmanager
async def listening(
    credentials: Credentials,
    *,
    seconds: float = 10.0,
    admits: Callable[[str], bool] = lambda _host: True,
) -> AsyncIterator[Listener]:
    loop = asyncio.get_running_loop()
    metrics = Metrics()
    with structlog.testing.capture_logs() as log:
        server = TlsServer(
            await listening_sockets(loop, "127.0.0.1", 0, 10),
            loop=loop,
            dialect=Dialect.THRIFT1,
            credentials=credentials,
            handshake_seconds=seconds,
            protocol=Echo,
            admits=admits,
            metrics=metrics,
        )
        try:
            yield Listener(server, metrics, log)
        finally:
            server.close()


def run(scenario: Awaitable[T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(20):
            return await scenario

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(bounded())


def client(authority: Any, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.certificate)
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return context
