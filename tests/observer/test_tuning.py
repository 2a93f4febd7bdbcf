"""The kernel is told how the serving thread is to run, unless somebody else has told it."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from headgate.observer import Scheduling
from headgate.observer.tuning import schedule

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="scheduling is Linux's")


def policies(before: int, *wanted: Scheduling) -> list[int]:
    """Return the policies of a thread of its own that begins with one, after each change."""

    def change() -> list[int]:
        os.sched_setscheduler(0, before, os.sched_param(0))
        found = []
        for each in wanted:
            schedule(each)
            found.append(os.sched_getscheduler(0))
        return found

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(change).result()


def test_the_thread_gets_the_policy_and_can_change_it() -> None:
    wanted = (Scheduling.BATCH, Scheduling.NORMAL, Scheduling.BATCH)
    expected = [os.SCHED_BATCH, os.SCHED_OTHER, os.SCHED_BATCH]
    assert policies(os.SCHED_OTHER, *wanted) == expected


@pytest.mark.parametrize("scheduling", Scheduling)
def test_another_policy_is_the_operators_and_stays(scheduling: Scheduling) -> None:
    assert policies(os.SCHED_IDLE, scheduling) == [os.SCHED_IDLE]


def test_other_threads_keep_theirs() -> None:
    before = os.sched_getscheduler(0)
    assert policies(os.SCHED_OTHER, Scheduling.BATCH) == [os.SCHED_BATCH]
    assert os.sched_getscheduler(0) == before
