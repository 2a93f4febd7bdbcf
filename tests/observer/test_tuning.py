"""The kernel is told how the serving thread is to run, unless somebody else has told it."""

from __future__ import annotations

import errno
import gc
import os
import resource
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from structlog.testing import capture_logs

from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    LimitSettings,
    ObserverConfig,
    Scheduling,
)
from headgate.observer.tuning import Turns, is_compiled, served_connections, tune_process
from headgate.wire import Cursor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="scheduling is Linux's")


def policies(before: int, *steps: Callable[[], None]) -> list[int]:
    """Return the policies of a thread of its own that begins with one, after each step."""

    def change() -> list[int]:
        os.sched_setscheduler(0, before, os.sched_param(0))
        found = []
        for step in steps:
            step()
            found.append(os.sched_getscheduler(0))
        return found

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(change).result()


def test_the_thread_gets_the_policy_and_can_change_it() -> None:
    turns = Turns(Scheduling.BATCH)
    wanted = (Scheduling.NORMAL, Scheduling.BATCH)
    changes = [lambda to=to: turns.reconfigure(to) for to in wanted]
    expected = [os.SCHED_BATCH, os.SCHED_OTHER, os.SCHED_BATCH]
    assert policies(os.SCHED_OTHER, turns.begin, *changes) == expected


@pytest.mark.parametrize("scheduling", Scheduling)
def test_another_policy_is_the_operators_and_stays(scheduling: Scheduling) -> None:
    turns = Turns(scheduling)
    loaded = [turns.begin, lambda: turns.tend(1.0, 8.0)]
    assert policies(os.SCHED_IDLE, *loaded) == [os.SCHED_IDLE] * 2


def test_other_threads_keep_theirs() -> None:
    before = os.sched_getscheduler(0)
    assert policies(os.SCHED_OTHER, Turns(Scheduling.BATCH).begin) == [os.SCHED_BATCH]
    assert os.sched_getscheduler(0) == before


def test_a_thread_is_left_alone_until_it_begins() -> None:
    turns = Turns(Scheduling.BATCH)
    steps = [lambda: turns.reconfigure(Scheduling.AUTO), lambda: turns.tend(1.0, 8.0)]
    assert policies(os.SCHED_OTHER, *steps) == [os.SCHED_OTHER] * 2


def load(scheduling: Scheduling, *under_way: float) -> list[int]:
    """Return the policy at the start, and after each tenth of a second with so many requests."""
    turns = Turns(scheduling)
    turns.tend(100.0, 3.0)
    waited = 3.0
    steps = [turns.begin]
    for at, count in enumerate(under_way, 1):
        waited += count / 10
        steps.append(lambda now=100 + at / 10, sum_=waited: turns.tend(now, sum_))  # type: ignore[misc]
    return policies(os.SCHED_OTHER, *steps)


def test_a_batch_is_made_while_several_requests_are_under_way() -> None:
    found = load(Scheduling.AUTO, 0.8, 7.0, 60.0, 2.0, 0.7)
    one, many = os.SCHED_OTHER, os.SCHED_BATCH
    assert found == [one, one, many, many, many, one]


def test_between_few_and_several_nothing_changes() -> None:
    assert load(Scheduling.AUTO, 2.0, 2.0) == [os.SCHED_OTHER] * 3


def test_without_requests_the_last_ones_count() -> None:
    many = os.SCHED_BATCH
    assert load(Scheduling.AUTO, 5.0, 0.0, 0.0)[1:] == [many] * 3


@pytest.mark.parametrize("scheduling", [Scheduling.BATCH, Scheduling.NORMAL])
def test_load_changes_nothing_where_the_operator_chose(scheduling: Scheduling) -> None:
    assert len(set(load(scheduling, 0.5, 9.0, 0.5))) == 1


def test_a_kernel_that_refuses_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    turns = Turns(Scheduling.AUTO)
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_OTHER)
    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with capture_logs() as lines:
        turns.begin()
        for now in range(1, 10):
            turns.tend(float(now), now * (9.0 if now % 2 else 0.5))
        assert [line["event"] for line in lines] == ["the kernel keeps its scheduling"]
        turns.reconfigure(Scheduling.BATCH)
    assert len(lines) == 2


@pytest.fixture
def open_files(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """How many files the process may have open."""

    def limit(most: int) -> None:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (most, most))
        monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
        monkeypatch.setattr(gc, "freeze", lambda: None)
        monkeypatch.setattr(gc, "set_threshold", lambda *_: None)

    return limit


def tuned(connections: int | None) -> list[str]:
    """Return what is logged where so many connections, or the default of them, are configured."""
    limits = LimitSettings() if connections is None else LimitSettings(connections=connections)
    config = ObserverConfig(
        name="o",
        kafka=KafkaSettings("127.0.0.1:1"),
        journal=JournalSettings("journal"),
        limits=limits,
    )
    with capture_logs() as lines:
        tune_process(config)
    return [line["event"] for line in lines]


@pytest.mark.parametrize("most", [1024, 20_000, 1_000_000, resource.RLIM_INFINITY])
def test_a_host_with_few_open_files_is_no_warning_where_nobody_asked_for_more(
    open_files: Callable[[int], None], most: int
) -> None:
    open_files(most)
    assert tuned(None) == []


def test_connections_that_were_asked_for_and_cannot_be_had_are_a_warning(
    open_files: Callable[[int], None],
) -> None:
    open_files(20_000)
    assert tuned(9_950) == []
    (said,) = tuned(9_951)
    assert said.startswith("limits.connections cannot be reached")


@pytest.mark.parametrize(
    ("most", "wanted", "served"),
    [
        (20_000, 10_000, 9_950),
        (1_000_000, 10_000, 10_000),
        (resource.RLIM_INFINITY, 10_000, 10_000),
        (64, 10_000, 1),
        (1024, 0, 0),
    ],
)
def test_as_many_connections_are_served_as_there_are_files_for(
    open_files: Callable[[int], None], most: int, wanted: int, served: int
) -> None:
    open_files(most)
    assert served_connections(wanted) == served


@pytest.mark.parametrize(
    ("file", "compiled"),
    [("wire/cursor.py", False), ("wire/cursor.cpython-311-x86_64-linux-gnu.so", True)],
)
def test_what_runs_is_told_by_the_file_that_it_came_from(
    monkeypatch: pytest.MonkeyPatch, file: str, compiled: bool
) -> None:
    monkeypatch.setattr(sys.modules[Cursor.__module__], "__file__", f"/opt/headgate/{file}")
    assert is_compiled() is compiled
