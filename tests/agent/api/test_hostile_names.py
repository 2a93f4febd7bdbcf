"""Names that nobody could have: each is answered, and changes nothing of the agent's health."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_agent import MemoryAgent
from simulation import SEALS

from headgate.agent.api.access import Role
from headgate.agent.api.routes import ROUTES
from headgate.agent.state.rows import HBaseConnections, HBaseRows
from headgate.agent.state.sealed import RememberedRevisions
from headgate.agent.state.store import StateStore
from headgate.client import ConnectionFailed, RequestRefused

MOST = 32767  # bytes of a row in HBase


class Server:
    """A Thrift2 server over nothing: as HBase, it meets a row that is too long with a fault."""

    def __init__(self) -> None:
        self.away = False
        self.asked = threading.Semaphore(0)

    def connect(self, _host: str, _port: int, _seconds: float) -> Any:
        return self

    def get(self, _table: str, row: bytes, _families: Any) -> dict[bytes, bytes]:
        self.asked.release()
        if self.away:
            raise ConnectionFailed("nobody is there")
        if not row or len(row) > MOST:
            raise RequestRefused("Internal error processing get", "", may_pass=None)
        return {}


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def agent(server: Server) -> MemoryAgent:
    """An agent whose state table is behind a Thrift2 server."""
    agent = MemoryAgent()
    halting = threading.Event()
    agent._connections = HBaseConnections("h", 1, halting, connect=cast("Any", server.connect))
    agent._rows = cast("Any", HBaseRows(agent._connections, "headgate", SEALS.proof))
    agent.store = StateStore(agent._rows, SEALS, RememberedRevisions())
    return agent


names = st.one_of(
    st.text(min_size=1, max_size=40),
    st.builds(str.__mul__, st.sampled_from("aZ_-"), st.integers(900, 2000)),
    st.builds(str.__mul__, st.sampled_from("aZ_-"), st.integers(MOST - 10, 40_000)),
    st.builds(str.__mul__, st.sampled_from("é%\U0001f600"), st.integers(200, 5000)),
).filter(lambda name: name not in (".", ".."))


@pytest.mark.parametrize("name", ["a" * 33_000, "a" * 32_763, "a" * 2000, "é" * 600])
def test_a_name_that_is_too_long_is_unknown(
    make_api: Callable[..., Any], agent: MemoryAgent, name: str
) -> None:
    api = make_api(agent=agent)
    answer = api.answer("GET", f"/v1/flows/{name}")
    assert answer.status_code == 404
    assert len(answer.content) < 1000
    assert api.answer("GET", "/readyz").status_code == 200


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None
)
@given(name=names, route=st.sampled_from([each for each in ROUTES if "{name}" in each.path]))
def test_no_name_is_taken_for_an_outage(
    make_api: Callable[..., Any], agent: MemoryAgent, name: str, route: Any
) -> None:
    api = make_api(agent=agent)
    path = route.path.replace("{name}", quote(name, safe="")).replace("{wave:int}", "7")
    answer = api.answer(route.method, f"{path}?of=step" if path.endswith("logs") else path)
    assert 400 <= answer.status_code < 500
    assert api.answer("GET", "/readyz").status_code == 200


def test_a_call_whose_client_has_gone_is_ended(
    make_api: Callable[..., Any], agent: MemoryAgent, server: Server, token_of: Any
) -> None:
    api = make_api(agent=agent)
    server.away = True
    before = threading.active_count()

    async def ask_and_leave() -> None:
        left = asyncio.Event()
        sent = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Any:
            if sent:
                return sent.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(_message: Any) -> None:
            pass

        token = f"Bearer {token_of[Role.READ]}".encode()
        scope = {
            "type": "http",
            "method": "GET",
            "scheme": "http",
            "path": "/v1/flows/air",
            "raw_path": b"/v1/flows/air",
            "query_string": b"",
            "headers": [(b"host", b"127.0.0.1:7680"), (b"authorization", token)],
            "client": ("192.0.2.7", 4711),
        }
        asking = asyncio.create_task(api.guard(scope, receive, send))
        await asyncio.to_thread(server.asked.acquire)
        left.set()
        async with asyncio.timeout(5):
            await asking

    asyncio.run(ask_and_leave())
    asked_on = 0
    while server.asked.acquire(timeout=0.5):
        asked_on += 1
        assert asked_on < 5, "it is repeated though nobody waits for it"
    assert agent.trouble() is None
    assert threading.active_count() <= before + 1
