"""A step that computes in Python and has no Spark jobs ends when its run is cancelled."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headgate.spark import StepRequest, Thrift2Address
from headgate.spark.run import Run, RunCancelled
from headgate.spark.worker.worker import Space, StepAttempt

WAIT = 30.0  # seconds until something that must happen counts as missing
RUN = cast("Run", SimpleNamespace())


def attempt() -> StepAttempt:
    request = StepRequest("flow", "a", "run", 1, 1, "m:work", Thrift2Address("h", 1), "k:1")
    return StepAttempt(request, cast("Space", SimpleNamespace()))


def test_a_step_that_computes_is_interrupted() -> None:
    one = attempt()
    begun, raised = threading.Event(), threading.Event()

    def endless(_: Any) -> None:
        begun.set()
        count = 0
        while True:
            count += 1

    def call() -> None:
        try:
            one.call(endless, RUN)
        except RunCancelled:
            raised.set()

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    assert begun.wait(WAIT)
    one.cancelled.set()
    one.interrupt()
    assert raised.wait(WAIT)
    thread.join(WAIT)


def test_code_that_goes_on_after_every_exception_is_interrupted() -> None:
    """As the gateway to Spark does, which sends a command anew, and its jobs without their tag."""
    one = attempt()
    begun, ended = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def retrying(_: Any) -> None:
        while True:
            try:
                begun.set()
                while True:
                    pass
            except Exception:  # noqa: BLE001 -- what is tested
                continue

    def call() -> None:
        try:
            one.call(retrying, RUN)
        except BaseException as error:  # noqa: BLE001
            raised.append(error)
        ended.set()

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    assert begun.wait(WAIT)
    one.cancelled.set()
    one.interrupt()
    assert ended.wait(WAIT)
    assert isinstance(raised[0], RunCancelled)


def test_before_and_after_its_step_nothing_is_interrupted() -> None:
    one = attempt()
    one.interrupt()
    called: list[Run] = []
    one.call(called.append, RUN)
    one.interrupt()
    assert sum(range(1000)) == 499_500  # enough lines for a late exception to be raised
    assert called == [RUN]


def test_a_step_that_swallows_its_interrupt_does_not_commit() -> None:
    one = attempt()
    with pytest.raises(RunCancelled, match="cancelled before its commit"):
        one.call(lambda _: one.cancelled.set(), RUN)
