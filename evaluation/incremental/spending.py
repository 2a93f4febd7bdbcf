"""What a piece of work costs: processor time beside the clock, of all processes that share it."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import psutil
from msgspec import Struct

Made = TypeVar("Made")


class Spent(Struct, frozen=True):
    """Seconds."""

    processor: float
    wall: float


def by_tree(work: Callable[[], Made]) -> tuple[Made, Spent]:
    """Return what work makes, and what this process and all below it have spent meanwhile.

    The JVM and Spark's Python workers are below it. What a worker spent that ended meanwhile is not
    known to anybody: it ends after a minute without work.
    """
    before, began = _tree_seconds(), time.perf_counter()
    made = work()
    return made, Spent(_tree_seconds() - before, time.perf_counter() - began)


def by_process(work: Callable[[], Made]) -> tuple[Made, Spent]:
    """Return what work makes, and what this process alone has spent, in finer units."""
    before, began = time.process_time(), time.perf_counter()
    made = work()
    return made, Spent(time.process_time() - before, time.perf_counter() - began)


def _tree_seconds() -> float:
    root = psutil.Process()
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        try:
            times = process.cpu_times()
            own = _clock(process.pid) if sys.platform == "linux" else times.user + times.system
            total += own + times.children_user + times.children_system
        except (psutil.NoSuchProcess, OSError):
            continue  # it has ended since it was listed
    return total


def _clock(pid: int) -> float:
    """Return the seconds of a process and of all its threads, in finer units than ``/proc`` has.

    What ``clock_getcpuclockid`` of C makes of a process on Linux, which Python does not offer.
    """
    return time.clock_gettime((~pid << 3) | 2)


def median_of(spent: Sequence[Spent]) -> Spent:
    """Return the medians of both."""
    return Spent(
        statistics.median(each.processor for each in spent),
        statistics.median(each.wall for each in spent),
    )
