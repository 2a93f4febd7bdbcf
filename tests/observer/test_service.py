"""What an observer makes of what its event loop and its control topic tell it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from headgate.events import Container, ContainerId, Gate, Item
from headgate.observer import JournalSettings, KafkaSettings, Listener, ObserverConfig
from headgate.observer.service import Observer

Script = Callable[[Observer], Awaitable[Any]]


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Script], Any]:
    """Run a script beside an observer that has contacted nobody."""
    config = ObserverConfig(
        name="o",
        thrift1=Listener("127.0.0.1:0", "127.0.0.1:1"),
        kafka=KafkaSettings("127.0.0.1:1"),
        journal=JournalSettings(str(tmp_path / "journal")),
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


@pytest.mark.parametrize("leap", [-3600.0, 0.0, 3600.0])
def test_a_gates_lease_lasts_as_long_as_was_said_whatever_this_hosts_clock_says(
    run, monkeypatch, leap: float
) -> None:
    now = wall = time.time()
    passed = time.clock_gettime(time.CLOCK_BOOTTIME)
    monkeypatch.setattr(time, "time", lambda: wall)
    monkeypatch.setattr(time, "clock_gettime", lambda _: passed)
    container = Container(ContainerId("c"), (Item("t"),))
    gate = Gate(2, "flow", "step", "kappa", (container,), now + 10.0, 1)

    async def script(observer: Observer) -> tuple[bool, ...]:
        nonlocal wall, passed
        observer._control_topic.caught_up.set()
        wall += leap
        observer._hearing.hear([(now, gate)])
        closed = [bool(observer._gates.closed)]
        for seconds in (9.0, 2.0):
            wall += seconds
            passed += seconds
            observer._gates.tend()
            closed.append(bool(observer._gates.closed))
        return tuple(closed)

    assert run(script) == (True, True, False)


@pytest.mark.parametrize(("since", "closed"), [(5.0, True), (15.0, False)])
def test_of_a_gate_from_before_the_start_the_host_knows_only_what_its_clock_says(
    run, since: float, closed: bool
) -> None:
    said = time.time() - since
    container = Container(ContainerId("c"), (Item("t"),))
    gate = Gate(2, "flow", "step", "kappa", (container,), said + 10.0, 1)

    async def script(observer: Observer) -> bool:
        observer._hearing.hear([(said, gate)])
        return bool(observer._gates.closed)

    assert run(script) is closed
