"""A dataflow that this agent runs: the turns of its runtime, and the way in from other threads."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, TypeVar

import structlog

from headgate.agent.dataflow.runtime import Runtime
from headgate.agent.errors import AgentError, Fenced, Refused
from headgate.agent.kafka.feed import BATCHES_WAITING, FeedRecord
from headgate.agent.ownership.clock_watch import ClockWatch
from headgate.agent.ownership.dataflow_pool import DataflowPool, Place
from headgate.agent.ports import Report
from headgate.engine import ResourceSample

log = structlog.get_logger("headgate.agent.flow")

T = TypeVar("T")

_TOGETHER = 1000  # records after which those are seen to that wait for what the first ones launch
_DRAIN_LOOK = 0.05  # seconds between two looks whether the last attempt has ended
_TURN = 0.05  # seconds after which other dataflows have their turns, whatever waits here

Build = Callable[["HostedDataflow"], Runtime]


class HostedDataflow:
    """Runs one runtime in turns; everything else reaches it through ``call``.

    Args:
        name: the dataflow.
        revision: that of the definition with which it begins.
        pool: gives it its turns.
        build: makes the runtime on its first turn, given this object for its seams to post to.
        ended: called once after its end, with whatever ended it, if anything did.
    """

    def __init__(
        self,
        name: str,
        revision: int,
        pool: DataflowPool,
        build: Build,
        ended: Callable[[HostedDataflow, BaseException | None], None],
    ) -> None:
        self.name = name
        self.revision = revision
        """Of the definition that it runs; of the last that it ran, once it has ended."""
        self.error: BaseException | None = None
        self._build = build
        self._ended = ended
        self._inbox: queue.SimpleQueue[Callable[[Runtime, float], None]] = queue.SimpleQueue()
        self._delivered: queue.SimpleQueue[Sequence[FeedRecord]] = queue.SimpleQueue()
        self._calls: set[Future[Any]] = set()
        self._room = threading.Semaphore(BATCHES_WAITING)
        self._stopping = False
        self._begun = False
        self._works = False
        self._over = threading.Event()
        self._save = True
        self._drain_until = 0.0
        self._busy_since: float | None = None
        self._runtime: Runtime | None = None
        self._watch = ClockWatch()
        self._pool = pool
        self._place = Place(self)

    def begin(self) -> None:
        """Have the runtime made, and let it work."""
        self._begun = self._works = True
        self._pool.wake(self._place)

    @property
    def alive(self) -> bool:
        """True from the beginning until the runtime has ended."""
        return self._works

    def busy_seconds(self, now: float) -> float:
        """Return for how long, by the monotonic clock, one piece of work has been under way."""
        since = self._busy_since
        return 0.0 if since is None else now - since

    @property
    def saves(self) -> bool:
        """Whether its state is this agent's to save to the last."""
        return self._save

    def post(self, work: Callable[[float], None]) -> None:
        """Have something done by the runtime on its turn, with the time; does not wait."""
        self._put(lambda _, now: work(now))

    def post_report(self, report: Report) -> None:
        """Pass on what the launcher says; does not wait."""
        self._put(lambda runtime, now: runtime.report(report, now))

    def post_samples(self, samples: tuple[ResourceSample, ...]) -> None:
        """Pass on how busy the machines are; does not wait."""
        self._put(lambda runtime, now: runtime.sampled(samples, now))

    def deliver(self, records: Sequence[FeedRecord]) -> bool:
        """Hand records to the runtime; False if too many are waiting already. Does not wait."""
        if not self._room.acquire(blocking=False):
            return False

        self._delivered.put(records)
        self._put(self._consume)
        return True

    def _consume(self, runtime: Runtime, now: float) -> None:
        """Have what was delivered by now consumed together: a launch costs a checkpoint."""
        records: list[FeedRecord] = []
        with suppress(queue.Empty):
            while len(records) < _TOGETHER:
                records += self._delivered.get_nowait()
                self._room.release()
        if records:
            runtime.consume(records, now)

    def call(self, work: Callable[[Runtime, float], T]) -> Future[T]:
        """Do something on the runtime's turn and return its result's future."""
        future: Future[T] = Future()

        def answer(runtime: Runtime, now: float) -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work(runtime, now))
            except Refused as error:
                future.set_exception(error)
            except Exception as error:
                future.set_exception(error)
                raise

        self._calls.add(future)
        future.add_done_callback(self._calls.discard)
        self._put(answer)
        if not self.alive:
            self._answer_all()
        return future

    def stop(self, seconds: float, *, save: bool = True) -> None:
        """End it; an attempt under way has ``seconds`` to end by itself. Does not wait."""
        self._save = save
        self._drain_until = time.monotonic() + seconds
        self._stopping = True
        self._wake()

    def join(self, seconds: float | None = None) -> None:
        """Wait for the end, for so long at most. Not to be called on a turn of a dataflow."""
        if self._begun:
            self._over.wait(seconds)

    def _put(self, work: Callable[[Runtime, float], None]) -> None:
        self._inbox.put(work)
        self._wake()

    def _wake(self) -> None:
        if self._begun:
            self._pool.wake(self._place)

    def turn(self) -> float | None:
        """See ``dataflow_pool.Member``."""
        try:
            due = self._take_turn()
        except Fenced as error:
            self._save = False
            self.error = error
            log.warning("taken over", dataflow=self.name, reason=str(error))
        except AgentError as error:
            self.error = error
            log.warning("stopped", dataflow=self.name, reason=str(error))
        except BaseException as error:
            self.error = error
            log.exception("failed", dataflow=self.name)
        else:
            if due is not None:
                return due
        self._end()
        return None

    def _end(self) -> None:
        self._busy_since = None
        self._stopping = True
        try:
            self._close()
            self._works = False
            self._answer_all()
            self._ended(self, self.error)
        finally:
            self._over.set()

    def _answer_all(self) -> None:
        reason = Refused(
            f"dataflow {self.name} has been stopped here: {self.error or 'handed over'}"
        )
        for future in tuple(self._calls):
            with suppress(InvalidStateError):  # answered, or given up, at this moment
                future.set_exception(reason)

    def _close(self) -> None:
        runtime, self._runtime = self._runtime, None
        if runtime is None:
            return
        self.revision = runtime.definition.revision
        try:
            runtime.stop(time.time(), save=self._save and self.error is None)
        except AgentError as error:
            self.error = self.error or error
            log.warning("last checkpoint not saved", dataflow=self.name, reason=str(error))
        except BaseException as error:
            self.error = self.error or error
            log.exception("not ended as it should", dataflow=self.name)

    def _take_turn(self) -> float | None:
        """Return when the next turn is due, by the monotonic clock; None where there is none."""
        runtime = self._runtime
        if runtime is None:
            runtime = self._runtime = self._build(self)
            runtime.start(time.time())
        began = time.monotonic()
        while True:
            self._busy_since = time.monotonic()
            if self._work(runtime):
                return None
            now = time.monotonic()
            if self._inbox.empty():
                break
            if now > began + _TURN:
                self._busy_since = None
                return now
        self._busy_since = None
        patience = max(0.0, runtime.due() - time.time())
        if self._stopping:
            # The end of an attempt arrives by the inbox, the deadline does not.
            patience = min(patience, _DRAIN_LOOK)
        return now + patience

    def _work(self, runtime: Runtime) -> bool:
        """Do one thing that waits, and what is due; return whether that was the last."""
        leap = self._watch.leap()
        if leap:
            runtime.move_times(leap, time.time())
        with suppress(queue.Empty):
            self._inbox.get_nowait()(runtime, time.time())
        runtime.tick(time.time())
        return self._stopping and self._drained(runtime)

    def _drained(self, runtime: Runtime) -> bool:
        if not self._save:
            return True
        runtime.drain()
        return runtime.idle or time.monotonic() >= self._drain_until
