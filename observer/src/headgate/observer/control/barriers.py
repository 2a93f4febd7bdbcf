"""Answers to barriers: marks behind everything that was forwarded before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from headgate.events import BarrierRequest
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.publishing.publisher import Publisher
from headgate.observer.recording.recorder import Recorder


class UnderWay(Protocol):
    """A request that was forwarded."""

    waiters: list[Callable[[], None]] | None
    """To be called, after what the recorder has to do, once HBase is known to be done with it."""


class Traffic(Protocol):
    """Where writes pass."""

    def undone(self, table: str) -> Sequence[UnderWay]:
        """Return the requests whose ends prove that earlier writes of a table are done.

        Unwatched writes count too.
        """


def answer_barrier(
    barrier: BarrierRequest, endpoints: Iterable[Traffic], recorder: Recorder, publisher: Publisher
) -> None:
    """Mark every partition of the barrier's tables once their writes under way have ended.

    That includes writes that make no events: a table that has just been watched may have some, and
    whoever scans it after the mark must see what they wrote. A partition keeps its order, so the
    mark is acknowledged only after all that was published before it.
    """
    listening = tuple(endpoints)
    for table in dict.fromkeys(barrier.tables):
        under_way = [each for endpoint in listening for each in endpoint.undone(table)]

        def mark(table: str = table) -> None:
            publisher.mark(table, barrier.id)

        if not under_way:
            recorder.after(mark)
            continue
        countdown = _Countdown(len(under_way), mark)
        for exchange in under_way:
            if exchange.waiters is None:
                exchange.waiters = []
            exchange.waiters.append(countdown.count)


class BarrierResponder:
    """Answers barrier requests; none before ``begin``."""

    def __init__(
        self,
        recorder: Recorder,
        publisher: Publisher,
        metrics: Metrics,
        traffic: Callable[[], Iterable[Traffic]],
    ) -> None:
        """Answer nothing yet; ``traffic`` returns where writes pass now."""
        self._recorder = recorder
        self._publisher = publisher
        self._metrics = metrics
        self._traffic = traffic
        self._begun = False
        self._early: list[BarrierRequest] = []

    def begin(self) -> None:
        """Answer what was asked for earlier too: what is recovered has been published before it."""
        self._begun = True
        for barrier in self._early:
            self.answer(barrier)

    def answer(self, barrier: BarrierRequest) -> None:
        """Answer a barrier when its turn has come."""
        if not self._begun:
            self._early.append(barrier)
            return
        self._metrics.barriers += len(set(barrier.tables))
        answer_barrier(barrier, self._traffic(), self._recorder, self._publisher)


class _Countdown:
    """Calls once it has been counted down."""

    __slots__ = ("_call", "_left")

    def __init__(self, left: int, call: Callable[[], None]) -> None:
        self._left = left
        self._call = call

    def count(self) -> None:
        self._left -= 1
        if not self._left:
            self._call()
