"""The way into a hosted dataflow, and its turns."""

from __future__ import annotations

import threading
import time
import types
from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from headgate.agent.dataflow.runtime import Runtime
from headgate.agent.kafka.feed import BATCHES_WAITING, FeedRecord
from headgate.agent.ownership.dataflow_pool import DataflowPool
from headgate.agent.ownership.hosted_dataflow import HostedDataflow
from headgate.agent.supervision import Supervision


@pytest.fixture
def pool() -> Iterator[DataflowPool]:
    made = DataflowPool(2, Supervision(lambda _: None))
    yield made
    made.close()


def test_a_feed_that_finds_no_room_is_told_so_instead_of_waiting(pool: DataflowPool) -> None:
    def build(_: HostedDataflow) -> Runtime:
        pytest.fail("it was not begun, so nothing may make room")

    hosted = HostedDataflow("flow", 1, pool, build, lambda *_: None)
    taken = 0
    while hosted.deliver([]):
        taken += 1
    assert taken > 0


class ListeningRuntime:
    """A runtime that only hears that the clock was set, and of records."""

    idle = True
    definition = types.SimpleNamespace(revision=1)

    def __init__(self) -> None:
        self.moves: list[float] = []
        self.heard = threading.Event()
        self.consumed: list[list[int]] = []
        """The offsets of what was to be consumed together."""

    def start(self, now: float) -> None:
        """Nothing is to be started."""

    def due(self) -> float:
        return time.time()

    def tick(self, now: float) -> None:
        """Nothing is due."""

    def move_times(self, by: float, now: float) -> None:
        self.moves.append(by)
        self.heard.set()

    def consume(self, records: Sequence[FeedRecord], now: float) -> None:
        self.consumed.append([record.offset for record in records])

    def drain(self) -> None:
        """Nothing is under way."""

    def stop(self, now: float, *, save: bool) -> None:
        """Nothing is to be saved."""


def test_a_runtime_hears_that_the_clock_was_set(
    pool: DataflowPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaps = iter([0.0, -3600.0])
    watch = types.SimpleNamespace(leap=lambda: next(leaps, 0.0))
    monkeypatch.setattr("headgate.agent.ownership.hosted_dataflow.ClockWatch", lambda: watch)
    runtime = ListeningRuntime()
    hosted = HostedDataflow("flow", 1, pool, lambda _: cast(Runtime, runtime), lambda *_: None)
    hosted.begin()
    assert runtime.heard.wait(60)
    hosted.stop(0.0)
    hosted.join()
    assert runtime.moves == [-3600.0]


def test_what_came_while_it_was_busy_is_consumed_together_up_to_a_limit(
    pool: DataflowPool,
) -> None:
    runtime = ListeningRuntime()
    hosted = HostedDataflow("flow", 1, pool, lambda _: cast(Runtime, runtime), lambda *_: None)
    busy, free = threading.Event(), threading.Event()

    def wait(_: float) -> None:
        busy.set()
        assert free.wait(60)

    hosted.post(wait)
    hosted.begin()
    batches = [[0], list(range(1, 400)), list(range(400, 1200)), [1200], [1201, 1202]]
    for offsets in batches:
        records = [FeedRecord("topic", 0, offset, None, 0.0) for offset in offsets]
        assert hosted.deliver(records)
    free.set()
    hosted.call(lambda *_: None).result(60)
    assert [(part[0], part[-1]) for part in runtime.consumed] == [(0, 1199), (1200, 1202)]
    assert [offset for part in runtime.consumed for offset in part] == list(range(1203))
    busy.clear()
    free.clear()
    hosted.post(wait)
    assert busy.wait(60)
    room = sum(hosted.deliver([]) for _ in range(BATCHES_WAITING + 1))
    free.set()
    hosted.stop(0.0)
    hosted.join()
    assert room == BATCHES_WAITING
