"""The admin address: ``/metrics`` for Prometheus, ``/healthz`` for whoever restarts services.

``/upstreams`` shows operators which Thrift servers are well and who is connected to them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import msgspec
from msgspec import Struct

from headgate.observer.upstreams.pool import UpstreamView

Value = TypeVar("Value")
Upstreams = Mapping[str, tuple[UpstreamView, ...]]

_CLIENT_GONE = (
    TimeoutError,
    ConnectionError,
    asyncio.IncompleteReadError,
    asyncio.LimitOverrunError,
)
_REQUEST_SECONDS = 10.0
_MOST_WAITING = 50
"""Connections that may wait for their request: the descriptors that listeners leave to the observer
itself are about twice as many."""
_BACKLOG = 1024
"""Connections that the kernel holds until they are accepted: with fewer, a probe among strangers
who connect again and again waits for the kernel's next try, a second and more."""
_MOST_MADE = 10
"""Times in a second that metrics are made: it takes the serving loop some 20 ms."""
_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class ObserverHealth(Struct, frozen=True):
    """Whether the observer serves, and if not, or not fully, why."""

    serving: bool
    state: str
    reasons: tuple[str, ...] = ()


class AdminServer:
    """A small HTTP/1.1 server: one request for each connection."""

    def __init__(
        self,
        metrics: Callable[[], bytes | Awaitable[bytes]],
        health: Callable[[], ObserverHealth | Awaitable[ObserverHealth]],
        upstreams: Callable[[], Upstreams | Awaitable[Upstreams]],
    ) -> None:
        """Serve what the functions return, or make, when asked; upstreams by listener."""
        self._metrics = metrics
        self._health = health
        self._upstreams = upstreams
        self._server: asyncio.Server | None = None
        self._waiting: dict[asyncio.Task[object], None] = {}
        """Tasks that serve connections whose request has not come, the oldest first."""
        self._second = 0
        self._made = 0
        """Times that metrics were made in that second of the loop's clock."""
        self._last = b""

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; return the address that was taken.

        Raises:
            OSError: the address cannot be used.
        """
        self._server = await asyncio.start_server(self._serve, host, port, backlog=_BACKLOG)
        address = self._server.sockets[0].getsockname()
        return address[0], address[1]

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - the server has made one
        if len(self._waiting) >= _MOST_WAITING:
            # Whoever means it sends its request at once.
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.cancel()
        self._waiting[task] = None
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                self._waiting.pop(task, None)
                status, kind, body = await self._answer(head)
                writer.write(
                    f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                )
                writer.write(body)
                await writer.drain()
        except _CLIENT_GONE:
            # Whoever asked is gone or sent no HTTP request.
            pass
        except asyncio.CancelledError:
            # Another needs its place, or the server ends.
            writer.transport.abort()
        finally:
            self._waiting.pop(task, None)
            writer.close()

    async def _answer(self, head: bytes) -> tuple[int, str, bytes]:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method != b"GET":
            return 405, "text/plain", b"only GET\n"
        if path == b"/metrics":
            return 200, "text/plain; version=0.0.4; charset=utf-8", await self._recent_metrics()
        if path == b"/healthz":
            health = await _made(self._health())
            body = msgspec.json.encode(health) + b"\n"
            return (200 if health.serving else 503), "application/json", body
        if path == b"/upstreams":
            upstreams = await _made(self._upstreams())
            return 200, "application/json", msgspec.json.encode(upstreams) + b"\n"
        return 404, "text/plain", b"there are /metrics, /healthz and /upstreams\n"

    async def _recent_metrics(self) -> bytes:
        """Return the metrics: the last ones again where many ask in one second."""
        second = int(asyncio.get_running_loop().time())
        if second != self._second:
            self._second, self._made = second, 0
        self._made += 1
        if self._made <= _MOST_MADE or not self._last:
            self._last = await _made(self._metrics())
        return self._last


async def _made(value: Value | Awaitable[Value]) -> Value:
    return await value if inspect.isawaitable(value) else value
