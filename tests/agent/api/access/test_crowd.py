"""Connections that are only held do not keep others from the API."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, cast

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from headgate.agent.api.access import Crowd, CrowdLimits, IdentifiedConnection

MOST = 12


class Held:
    """A connection as the crowd sees it."""

    def __init__(self, dropped: list[Held]) -> None:
        self._dropped = dropped

    def drop(self) -> None:
        self._dropped.append(self)


STEPS = st.sampled_from(["enter", "enter", "enter", "work", "wait", "leave"])


@given(st.lists(st.tuples(STEPS, st.integers(0, 30)), min_size=10))
def test_only_those_without_a_request_give_way_and_the_longest_first(
    steps: list[tuple[str, int]],
) -> None:
    async def script() -> None:
        crowd = Crowd(CrowdLimits(4, 1000.0))
        dropped: list[Held] = []
        waiting: list[Held] = []
        working: list[Held] = []
        for step, at in steps:
            there = [*waiting, *working]
            if step == "enter":
                new = Held(dropped)
                crowd.enter(new)
                waiting.append(new)
                if len(there) == 4:
                    gave_way = waiting.pop(0)
                    assert dropped == [gave_way]
                    dropped.clear()
            elif there:
                one = there[at % len(there)]
                getattr(crowd, step)(one)
                for group in (waiting, working):
                    if one in group:
                        group.remove(one)
                if step != "leave":
                    (working if step == "work" else waiting).append(one)
            assert dropped == []
            assert len(crowd) == len(waiting) + len(working) <= 4
        for each in [*waiting, *working]:
            crowd.leave(each)

    asyncio.run(script())


@asynccontextmanager
async def served(crowd: Crowd, application: Callable[..., Any]) -> AsyncIterator[tuple[str, int]]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        cast("Any", application),
        http=cast("Any", partial(IdentifiedConnection, crowd)),
        ws="none",
        log_config=None,
        lifespan="off",
        timeout_graceful_shutdown=0,
    )
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup([listener])
    try:
        yield listener.getsockname()[:2]
    finally:
        await server.shutdown([listener])


async def answer(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
    )
    await send({"type": "http.response.body", "body": b"ok"})


async def ask(address: tuple[str, int]) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"GET /livez HTTP/1.1\r\nhost: h\r\n\r\n")
    async with asyncio.timeout(10):
        found = await reader.readuntil(b"ok")
    writer.close()
    return found


LAZY = {
    "silent": b"",
    "half a head": b"GET /livez HTTP/1.1\r\nhost",
    "one answer, then silent": b"GET /livez HTTP/1.1\r\nhost: h\r\n\r\n",
    "one answer, then half a head": b"GET /livez HTTP/1.1\r\nhost: h\r\n\r\nGET /li",
}


@pytest.mark.parametrize("sent", LAZY.values(), ids=LAZY)
def test_probes_are_answered_beside_any_number_of_lazy_connections(sent: bytes) -> None:
    async def script() -> None:
        crowd = Crowd(CrowdLimits(MOST, 1000.0))
        async with served(crowd, answer) as address:
            lazy = []
            for at in range(4 * MOST):
                lazy.append(await asyncio.open_connection(*address))
                lazy[-1][1].write(sent)
                if at % MOST == 0:
                    assert await ask(address)
                assert len(crowd) <= MOST
            assert await ask(address)
            for _, writer in lazy:
                writer.close()

    asyncio.run(script())


def test_the_head_of_a_request_has_its_time() -> None:
    async def script() -> None:
        crowd = Crowd(CrowdLimits(MOST, 0.05))
        async with served(crowd, answer) as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"GET /livez")
            async with asyncio.timeout(10):
                with suppress(ConnectionError):
                    assert await reader.read() == b""
            assert len(crowd) == 0
            writer.close()

    asyncio.run(script())


def test_a_request_under_way_gives_way_to_nobody_and_takes_its_time() -> None:
    go_on = asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/slow":
            await go_on.wait()
        await answer(scope, receive, send)

    async def script() -> None:
        crowd = Crowd(CrowdLimits(MOST, 0.05))
        async with served(crowd, slow) as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"GET /slow HTTP/1.1\r\nhost: h\r\n\r\n")
            lazy = [await asyncio.open_connection(*address) for _ in range(3 * MOST)]
            while crowd.dropped < 2 * MOST:
                await asyncio.sleep(0.01)
            go_on.set()
            async with asyncio.timeout(10):
                assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
            for _, each in [*lazy, (reader, writer)]:
                each.close()

    asyncio.run(script())
