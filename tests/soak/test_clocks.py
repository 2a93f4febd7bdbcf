"""Clocks of single processes: moved while they run, and the monotonic one never."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from soaking.clocks import Clock, ClocksMissing, Faketime, find_library

# It sleeps and polls as agents do: with a clock that has leapt neither may fail or take longer.
TELL = """
import sys, time
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "clocks", "log_level": 0})
consumer.subscribe(["nothing"])
for _ in sys.stdin:
    time.sleep(0.05)
    consumer.poll(0.05)
    print(time.time(), time.monotonic(), flush=True)
"""
HOUR = 3600.0
SLACK = 30.0
"""Seconds: a machine may be busy."""


def test_where_the_library_is_missing_the_words_say_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ClocksMissing, match=r"package.* faketime .*--without-clocks"):
        find_library(tmp_path)


def test_the_library_is_found_below_any_architecture(tmp_path: Path) -> None:
    file = tmp_path / "lib" / "some-linux" / "faketime" / "libfaketimeMT.so.1"
    file.parent.mkdir(parents=True)
    file.touch()
    assert find_library(tmp_path) == file


def test_without_a_library_a_process_keeps_the_machines_clock(tmp_path: Path) -> None:
    assert Clock(tmp_path / "clock", None).environment() == {}


@pytest.fixture
def faketime(tmp_path: Path) -> Faketime:
    try:
        return Faketime(tmp_path)
    except ClocksMissing as error:
        pytest.skip(str(error))


class Told:
    """A process that tells its clocks, and how long it waits, each time it is asked."""

    def __init__(self, clock: Clock) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", TELL],
            env={**os.environ, **clock.environment()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Told:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def clocks(self) -> tuple[float, float]:
        """Return by how much its wall clock and its monotonic one are ahead of ours."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        wall, monotonic = map(float, self._process.stdout.readline().split())
        return wall - time.time(), monotonic - time.monotonic()

    def await_ahead(self, seconds: float) -> None:
        """Wait until its wall clock is ahead by so much; the other must not be."""
        deadline = time.monotonic() + 60
        while abs(self.clocks()[0] - seconds) > SLACK:
            assert time.monotonic() < deadline, self.clocks()
        assert abs(self.clocks()[1]) < SLACK


@pytest.mark.timeout(120)
def test_a_wall_clock_leaps_in_a_running_process_and_neither_the_other_nor_waits_do(
    tmp_path: Path, faketime: Faketime
) -> None:
    clock = Clock(tmp_path / "clock", faketime)
    with Told(clock) as told:
        told.await_ahead(0.0)
        clock.move(3600)
        told.await_ahead(HOUR)
        clock.move(-3600)
        told.await_ahead(-HOUR)
