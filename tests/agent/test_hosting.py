"""The way into a dataflow's thread."""

from __future__ import annotations

import threading
import time
import types
from typing import cast

import pytest

from headgate.agent.hosting import Hosted
from headgate.agent.runtime import Runtime


def test_a_feed_that_finds_no_room_is_told_so_instead_of_waiting_for_ever() -> None:
    def build(_: Hosted) -> Runtime:
        pytest.fail("its thread was not begun, so nothing may make room")

    hosted = Hosted("flow", 1, build, lambda *_: None)
    taken = 0
    while hosted.deliver([]):
        taken += 1
    assert taken > 0


class Told:
    """A runtime that only hears that the clock was set."""

    idle = True
    definition = types.SimpleNamespace(revision=1)

    def __init__(self) -> None:
        self.moves: list[float] = []
        self.heard = threading.Event()

    def start(self, now: float) -> None:
        """Nothing is to be started."""

    def due(self) -> float:
        return time.time()

    def tick(self, now: float) -> None:
        """Nothing is due."""

    def move_times(self, by: float, now: float) -> None:
        self.moves.append(by)
        self.heard.set()

    def drain(self) -> None:
        """Nothing is under way."""

    def stop(self, now: float, *, save: bool) -> None:
        """Nothing is to be saved."""


def test_a_runtime_hears_that_the_clock_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    leaps = iter([0.0, -3600.0])
    watch = types.SimpleNamespace(leap=lambda: next(leaps, 0.0))
    monkeypatch.setattr("headgate.agent.hosting.ClockWatch", lambda: watch)
    told = Told()
    hosted = Hosted("flow", 1, lambda _: cast(Runtime, told), lambda *_: None)
    hosted.begin()
    assert told.heard.wait(60)
    hosted.stop(0.0)
    hosted.join()
    assert told.moves == [-3600.0]
