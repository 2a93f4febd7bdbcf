"""Requests that wait hold no thread: whatever waits, the others are answered."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import anyio.to_thread
import pytest

from headgate.agent.api.access import Role
from headgate.agent.ownership.dataflow_pool import DataflowPool
from headgate.agent.ownership.flow_rows import FlowRow
from headgate.agent.ownership.hosted_dataflow import HostedDataflow
from headgate.agent.ownership.service import Agent
from headgate.agent.supervision import Supervision

_WAITING = 60
"""More than there are threads for requests (40)."""


class Busy:
    """A dataflow whose thread answers nobody."""

    name = "air"
    alive = True

    def __init__(self) -> None:
        self.called = 0

    def call(self, _: Any) -> Future[Any]:
        self.called += 1
        return Future()


def row_of(name: str) -> FlowRow:
    return FlowRow(name, 1, 0.0, "", "", 0.0, 0, here=False, state="waiting", words="no observer")


_LONG = 60.0
"""Seconds: a thread that has done its work may still wait for a core to say so."""


async def answered_beside(
    api: Any, token: str, waiting: list[asyncio.Task[Any]], most: int
) -> None:
    """Ask for all that must be answered while others wait and come to hold so few threads."""
    await asyncio.sleep(0)
    async with asyncio.timeout(_LONG):
        for path in ("/healthz", "/livez", "/readyz", "/metrics", "/v1/flows"):
            answer = await api.ask("GET", path, token=token)
            assert answer.status_code == 200, path
        while anyio.to_thread.current_default_thread_limiter().borrowed_tokens > most:
            await asyncio.sleep(0.001)
    assert not any(task.done() for task in waiting)


def test_submits_that_wait_for_observers_silence_nothing(
    api: Any, token_of: Mapping[Role, str]
) -> None:
    """Sixty of them took all threads, and with them probes, metrics and the list."""
    defined = []

    async def row(name: str) -> FlowRow:
        return row_of(name)

    api.agent.row = row
    api.agent.parse = lambda *_: row_of("air")
    api.agent.check_tables = lambda *_: None
    api.agent.define = lambda *_, **__: defined.append(1)
    api.agent.observers = type("Observers", (), {"live": lambda *_: {"one": 1}})()
    body = b'{"source": "x"}'

    async def ask_all() -> None:
        token = token_of[Role.DEFINE]
        waiting = [
            asyncio.create_task(api.ask("POST", "/v1/flows", token=token, content=body))
            for _ in range(_WAITING)
        ]
        while len(defined) < _WAITING:
            await asyncio.sleep(0.001)
        await answered_beside(api, token, waiting, 1)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(ask_all())


@pytest.mark.parametrize(
    ("method", "path", "content"),
    [
        ("GET", "/v1/flows/air/explain", None),
        ("POST", "/v1/flows/air/pause", None),
        ("POST", "/v1/flows/air/waves", b"{}"),
        ("GET", "/v1/flows/air/waves/3?wait=30", None),
        ("DELETE", "/v1/flows/air", None),
    ],
)
def test_whoever_waits_for_a_busy_dataflow_silences_nothing(
    api: Any, token_of: Mapping[Role, str], method: str, path: str, content: bytes | None
) -> None:
    busy = Busy()
    idle = api.agent
    api.agent.hosted = lambda _: busy

    async def call(flow: Any, work: Any, seconds: float = 10.0) -> Any:
        return await Agent.call(idle, flow, work, seconds)

    async def remove(flow: Any) -> None:
        await call(flow, None)

    async def row(name: str) -> FlowRow:
        return row_of(name)

    api.agent.call, api.agent.remove, api.agent.row = call, remove, row

    async def ask_all() -> None:
        token = token_of[Role.DEFINE]
        waiting = [
            asyncio.create_task(api.ask(method, path, token=token, content=content))
            for _ in range(_WAITING)
        ]
        while busy.called < _WAITING:
            await asyncio.sleep(0.001)
        await answered_beside(api, token, waiting, 0)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(ask_all())


class Runtime:
    """Has one piece of work that takes as long as a test wants."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.definition = SimpleNamespace(revision=1)

    def start(self, _: float) -> None:
        pass

    def due(self) -> float:
        return time.time() + 3600

    def tick(self, _: float) -> None:
        pass

    def stop(self, _: float, *, save: bool) -> None:
        del save

    def move_times(self, *_: float) -> None:
        pass

    def work(self) -> None:
        self.begun.set()
        assert self.go_on.wait(60)


def test_a_dataflow_is_busy_only_while_a_piece_of_work_is_under_way() -> None:
    runtime = Runtime()
    pool = DataflowPool(2, Supervision(lambda _: None))
    flow = HostedDataflow("air", 1, pool, lambda _: runtime, lambda *_: None)  # type: ignore[arg-type, return-value]
    flow.begin()
    assert flow.call(lambda *_: 1).result(60) == 1
    under_way = flow.call(lambda one, _: one.work())  # type: ignore[attr-defined]
    assert runtime.begun.wait(60)
    assert 99 < flow.busy_seconds(time.monotonic() + 100) < 160
    runtime.go_on.set()
    under_way.result(60)
    while flow.busy_seconds(time.monotonic()):
        time.sleep(0.001)
    assert flow.busy_seconds(time.monotonic() + 100) == 0.0
    flow.stop(0.0, save=False)
    flow.join()
    pool.close()
    assert flow.busy_seconds(time.monotonic() + 100) == 0.0
