"""Clocks of single processes: moved while they run, and the monotonic one never."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from soaking.clocks import CURE, Clock, ClocksMissing, find_library

TELL = """
import sys, time
for _ in sys.stdin:
    print(time.time(), time.monotonic(), flush=True)
"""
HOUR = 3600.0


def test_where_the_library_is_missing_the_words_say_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ClocksMissing, match="--without-clocks") as raised:
        find_library(tmp_path)
    assert str(raised.value) == CURE


def test_the_library_is_found_below_any_architecture(tmp_path: Path) -> None:
    file = tmp_path / "lib" / "some-linux" / "faketime" / "libfaketimeMT.so.1"
    file.parent.mkdir(parents=True)
    file.touch()
    assert find_library(tmp_path) == file


def test_without_a_library_a_process_keeps_the_machines_clock(tmp_path: Path) -> None:
    assert Clock(tmp_path / "clock", None).environment() == {}


def test_a_wall_clock_leaps_in_a_running_process_and_the_monotonic_one_does_not(
    tmp_path: Path,
) -> None:
    try:
        library = find_library()
    except ClocksMissing as error:
        pytest.skip(str(error))
    clock = Clock(tmp_path / "clock", library)
    with subprocess.Popen(
        [sys.executable, "-c", TELL],
        env={**os.environ, **clock.environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ahead() -> tuple[float, float]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            wall, monotonic = map(float, process.stdout.readline().split())
            return wall - time.time(), monotonic - time.monotonic()

        def await_ahead(seconds: float) -> None:
            deadline = time.monotonic() + 60
            while abs(ahead()[0] - seconds) > 30:
                assert time.monotonic() < deadline, ahead()
                time.sleep(0.1)
            assert abs(ahead()[1]) < 30

        await_ahead(0.0)
        clock.move(3600)
        await_ahead(HOUR)
        clock.move(-3600)
        await_ahead(-HOUR)
        process.stdin.close()
