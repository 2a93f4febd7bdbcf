"""The connection to HBase that belongs to a session, from its making to its end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvloop

from headgate.observer.config import HealthChecks
from headgate.observer.upstreams.dialing import Dialer
from headgate.observer.upstreams.pinning import PinnedConnection
from headgate.observer.upstreams.pool import UpstreamPool


class Session:
    """A session that notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.on_made: Callable[[], object] = lambda: None

    def upstream_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.heard.append("made")
        self.on_made()

    def upstream_settled(self, transport: asyncio.Transport) -> None:
        self.heard.append("settled")

    def upstream_dropped(self) -> None:
        self.heard.append("dropped")

    def upstream_lost(self, error: Exception | None) -> None:
        self.heard.append("lost")

    def reply_received(self, data: bytes) -> None:
        self.heard.append("reply")

    def waits_for_reply(self) -> bool:
        return False


@pytest.fixture
def server() -> Iterator[str]:
    """An address that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()
        yield f"{host}:{port}"


LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_connection_that_is_made_as_its_time_ends_is_no_connection(
    server: str, loop: str
) -> None:
    """The loop that observers run in closes it, and tells nobody."""
    pool = UpstreamPool("thrift1", (server,), HealthChecks())
    session: Any = Session()

    async def dial() -> None:
        dialer = Dialer(asyncio.get_running_loop(), pool, 5.0)
        dialling = asyncio.current_task()
        assert dialling is not None
        session.on_made = dialling.cancel
        await dialer.connect(lambda upstream: PinnedConnection(session, pool, upstream, None))

    async def late() -> None:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(dial())
        for _ in range(3):
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(late())
    assert session.heard == ["made", "settled", "dropped"]
    (upstream,) = pool.configured
    assert len(upstream.pinned) == 0


@pytest.mark.parametrize("loop", LOOPS)
def test_a_connection_ends_once(server: str, loop: str) -> None:
    pool = UpstreamPool("thrift1", (server,), HealthChecks())
    session: Any = Session()

    async def run() -> None:
        dialer = Dialer(asyncio.get_running_loop(), pool, 5.0)
        await dialer.connect(lambda upstream: PinnedConnection(session, pool, upstream, None))
        (upstream,) = pool.configured
        assert len(upstream.pinned) == 1
        session.transport.abort()
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(upstream.pinned) == 0

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(run())
    assert session.heard == ["made", "settled", "lost"]
