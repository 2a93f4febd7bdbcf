"""A dataflow that this agent runs: its runtime's thread, and the way in from others."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import structlog

from headgate.agent.broker import BATCHES_WAITING, ROOM, Record
from headgate.agent.errors import AgentError, Fenced, Refused
from headgate.agent.runtime import Runtime
from headgate.agent.seams import Report
from headgate.engine import ResourceSample

log = structlog.get_logger("headgate.agent.flow")

T = TypeVar("T")

_DRAIN_LOOK = 0.05  # seconds between two looks whether the last attempt has ended

Build = Callable[["Hosted"], Runtime]


class Hosted:
    """Runs one runtime on a thread of its own; everything else reaches it through ``call``.

    Args:
        name: the dataflow.
        build: makes the runtime on its thread, given this object for its seams to post to.
        ended: called once on the thread after its end, with the error that ended it, if any.
    """

    def __init__(
        self, name: str, build: Build, ended: Callable[[Hosted, Exception | None], None]
    ) -> None:
        self.name = name
        self.error: Exception | None = None
        self._build = build
        self._ended = ended
        self._inbox: queue.SimpleQueue[Callable[[Runtime, float], None] | None] = (
            queue.SimpleQueue()
        )
        self._calls: set[Future[Any]] = set()
        self._room = threading.Semaphore(BATCHES_WAITING)
        self._stopping = False
        self._save = True
        self._drain_until = 0.0
        self._thread = threading.Thread(target=self._run, name=f"flow-{name}", daemon=True)

    def begin(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the runtime still works."""
        return self._thread.is_alive()

    @property
    def saves(self) -> bool:
        """Whether its state is this agent's to save to the last."""
        return self._save

    def post(self, work: Callable[[float], None]) -> None:
        """Have something done on the runtime's thread, with the time; does not wait."""
        self._inbox.put(lambda _, now: work(now))

    def post_report(self, report: Report) -> None:
        """Pass on what the launcher says; does not wait."""
        self._inbox.put(lambda runtime, now: runtime.report(report, now))

    def post_samples(self, samples: tuple[ResourceSample, ...]) -> None:
        """Pass on how busy the machines are; does not wait."""
        self._inbox.put(lambda runtime, now: runtime.sampled(samples, now))

    def deliver(self, records: Sequence[Record]) -> bool:
        """Hand records to the runtime; False if too many are waiting already, after a moment."""
        if not self._room.acquire(timeout=ROOM):
            return False

        def consume(runtime: Runtime, now: float) -> None:
            self._room.release()
            runtime.consume(records, now)

        self._inbox.put(consume)
        return True

    def call(self, work: Callable[[Runtime, float], T]) -> Future[T]:
        """Do something on the runtime's thread and return its result's future."""
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
        self._inbox.put(answer)
        if not self.alive:
            self._answer_all()
        return future

    def stop(self, seconds: float, *, save: bool = True) -> None:
        """End it; an attempt under way has ``seconds`` to end by itself. Does not wait."""
        self._save = save
        self._drain_until = time.time() + seconds
        self._stopping = True
        self._inbox.put(None)

    def join(self) -> None:
        """Wait for the end."""
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        runtime: Runtime | None = None
        try:
            runtime = self._build(self)
            runtime.start(time.time())
            self._loop(runtime)
        except Fenced as error:
            self._save = False
            self.error = error
            log.warning("taken over", dataflow=self.name, reason=str(error))
        except AgentError as error:
            self.error = error
            log.warning("stopped", dataflow=self.name, reason=str(error))
        except Exception as error:
            self.error = error
            log.exception("failed", dataflow=self.name)
        finally:
            self._stopping = True
            self._close(runtime)
            self._answer_all()
            self._ended(self, self.error)

    def _answer_all(self) -> None:
        reason = Refused(
            f"dataflow {self.name} has been stopped here: {self.error or 'handed over'}"
        )
        for future in tuple(self._calls):
            if not future.done():
                future.set_exception(reason)

    def _close(self, runtime: Runtime | None) -> None:
        if runtime is None:
            return
        try:
            runtime.stop(time.time(), save=self._save and self.error is None)
        except AgentError as error:
            self.error = self.error or error
            log.warning("last checkpoint not saved", dataflow=self.name, reason=str(error))

    def _loop(self, runtime: Runtime) -> None:
        while True:
            try:
                work = self._inbox.get(timeout=max(0.0, runtime.due() - time.time()))
            except queue.Empty:
                work = None
            if work is not None:
                work(runtime, time.time())
            runtime.tick(time.time())
            if self._stopping and self._drained(runtime):
                return

    def _drained(self, runtime: Runtime) -> bool:
        if not self._save:
            return True
        runtime.drain()
        now = time.time()
        if runtime.idle or now >= self._drain_until:
            return True
        # Look again soon: the end of an attempt arrives by the inbox, the deadline does not.
        threading.Timer(min(_DRAIN_LOOK, self._drain_until - now), self._nudge).start()
        return False

    def _nudge(self) -> None:
        self._inbox.put(None)
