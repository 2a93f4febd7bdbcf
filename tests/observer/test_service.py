"""What an observer makes of what its event loop tells it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from headgate.observer import Journal, Kafka, Listener, ObserverConfig
from headgate.observer.service import Observer

Script = Callable[[Observer], Awaitable[Any]]


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Script], Any]:
    """Run a script beside an observer that has contacted nobody."""
    config = ObserverConfig(
        name="o",
        thrift1=Listener("127.0.0.1:0", "127.0.0.1:1"),
        kafka=Kafka("127.0.0.1:1"),
        journal=Journal(str(tmp_path / "journal")),
    )

    async def inside(script: Script) -> Any:
        observer = Observer(config)
        try:
            return await script(observer)
        finally:
            observer._journal.close()

    def outside(script: Script) -> Any:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(inside(script))

    return outside


def fail() -> None:
    raise OSError(24, "Too many open files")


async def fail_as_a_task() -> None:
    fail()


def test_a_call_that_an_error_of_the_system_ends_ends_the_observer(run) -> None:
    async def script(observer: Observer) -> None:
        asyncio.get_running_loop().call_soon(fail)
        await asyncio.wait_for(observer._stopping.wait(), 10)
        assert isinstance(observer._failed, OSError)

    run(script)


def test_so_does_a_task_that_nobody_waits_for(run) -> None:
    async def script(observer: Observer) -> None:
        asyncio.get_running_loop().create_task(fail_as_a_task())
        await asyncio.wait_for(observer._stopping.wait(), 10)

    run(script)


def test_an_error_of_a_connection_ends_nothing(run) -> None:
    async def script(observer: Observer) -> bool:
        loop = asyncio.get_running_loop()
        error = ConnectionResetError(104, "Connection reset by peer")
        for context in ({"transport": None}, {"socket": None}, {}):
            loop.call_exception_handler({"message": "m", "exception": error, **context})
        return observer._stopping.is_set()

    assert run(script) is False
