"""Blocking calls of the loop that a program's threads share with its observer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest

from headgate.observer.embedded.shared_loop import SharedLoop


class Refusing(ThreadPoolExecutor):
    """An executor as it is while a program ends."""

    def submit(self, *_: object, **__: object) -> object:  # type: ignore[override]
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")


@pytest.fixture
def loop() -> Iterator[SharedLoop]:
    made = SharedLoop()
    with made.lock:
        yield made
        made.close()


@pytest.mark.parametrize("executor", [None, Refusing(1)], ids=["the loop's", "another"])
def test_a_call_runs_in_a_thread_that_was_started_with_the_loop(
    loop: SharedLoop, executor: Executor | None
) -> None:
    names = {thread.name for thread in threading.enumerate()}
    call = loop.run_in_executor(executor, threading.current_thread)
    assert loop.run_until_complete(call).name in names


def test_a_call_for_an_executor_waits_for_no_call_that_names_none(loop: SharedLoop) -> None:
    go_on = threading.Event()
    waiting = [loop.run_in_executor(None, go_on.wait) for _ in range(9)]
    with Refusing(1) as disk:
        assert loop.run_until_complete(loop.run_in_executor(disk, lambda: "synced")) == "synced"
    go_on.set()
    for call in waiting:
        loop.run_until_complete(call)
