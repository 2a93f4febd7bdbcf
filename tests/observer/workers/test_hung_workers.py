"""A worker that hangs instead of dying is ended, so that another takes its place."""

from __future__ import annotations

import asyncio
import signal
from typing import Any, cast

import pytest

from headgate.observer.admin import ObserverHealth
from headgate.observer.config import JournalSettings, KafkaSettings, Listener, ObserverConfig
from headgate.observer.workers import supervisor
from headgate.observer.workers.channel import StatusRequest, WorkerStatus
from headgate.observer.workers.supervisor import WorkerSlot

START = 60.0


class Worker:
    """A worker process and its end of the channel, which may be stopped."""

    def __init__(self, slot: WorkerSlot) -> None:
        self.slot = slot
        self.stopped = False
        self.returncode: int | None = None
        self.pid = 7
        self.signals: list[int] = []

    def send_signal(self, number: int) -> None:
        self.signals.append(number)
        self.returncode = -number

    def send(self, message: Any) -> None:
        if isinstance(message, StatusRequest) and not self.stopped:
            health = ObserverHealth(serving=True, state="serving")
            said.append(WorkerStatus(message.number, b"", health, {}))

    async def receive(self, _decoder: Any) -> Any:
        while not said:
            if self.returncode is not None:
                return None
            await asyncio.sleep(0.001)
        return said.pop()

    def close(self) -> None:
        pass


said: list[WorkerStatus] = []


@pytest.mark.parametrize(
    ("stopped", "spoke", "silent", "ended"),
    [
        (False, True, 100.0, False),
        (True, True, 14.0, False),
        (True, True, 16.0, True),
        (True, False, START + 14.0, False),
        (True, False, START + 16.0, True),
    ],
)
def test_a_worker_that_does_not_answer_is_ended(
    monkeypatch: pytest.MonkeyPatch, stopped: bool, spoke: bool, silent: float, ended: bool
) -> None:
    monkeypatch.setattr(supervisor, "_ANSWER_SECONDS", 0.05)
    config = ObserverConfig(
        name="o",
        kafka=KafkaSettings("k:1"),
        journal=JournalSettings("j"),
        thrift1=Listener("127.0.0.1:0", "127.0.0.1:1"),
        start_seconds=START,
    )

    async def script() -> None:
        said.clear()
        slot = WorkerSlot(1, config)
        worker = Worker(slot)
        worker.stopped = stopped
        slot.process = cast("Any", worker)
        slot.channel = cast("Any", worker)
        slot.ready.set()
        slot._speaks = spoke
        slot._heard_at = asyncio.get_running_loop().time() - silent
        listening = asyncio.create_task(slot.listen())
        await slot.end_if_hung(15.0)
        assert worker.signals == ([signal.SIGKILL] if ended else [])
        worker.returncode = 0
        await listening
        assert not slot.ready.is_set()

    asyncio.run(script())
