"""An event loop in a thread of its own, whose work other threads may do a part of.

The loop holds its lock whenever it runs anything, and lets go of it only while it waits. Another
thread that holds the lock may therefore call whatever belongs to the loop, as if it were a callback
of the loop: it costs no change of threads.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import selectors
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

_PATIENCE_SECONDS: Final = 0.003
"""How long what another thread asks for may wait, so that writes in a row share a waking."""
_WORKERS: Final = 2  # a topic that is being made must not keep other calls waiting

_Jobs = queue.SimpleQueue[Callable[[], None] | None]


class _Selector(selectors.DefaultSelector):
    """Waits without the lock."""

    def __init__(self, lock: threading.RLock) -> None:
        super().__init__()
        self._lock: Any = lock
        self.until = 0.0
        """Until when the loop waits, by the monotonic clock; 0 while it works."""

    def select(self, timeout: float | None = None) -> Any:
        self.until = float("inf") if timeout is None else time.monotonic() + timeout
        self._lock.release()
        try:
            return super().select(timeout)
        finally:
            self._lock.acquire()
            self.until = 0.0


class SharedLoop(asyncio.SelectorEventLoop):
    """An event loop that may be used by whoever holds ``lock``.

    Blocking calls run in threads that were started with the loop: while a program ends, no new
    ones can be. Calls for an executor of somebody's own share one more thread.
    """

    def __init__(self) -> None:
        """Make a loop; run it in a thread that holds ``lock``."""
        self.lock = threading.RLock()
        self._waiting = _Selector(self.lock)
        self._thread = threading.get_ident()
        self._jobs: _Jobs = queue.SimpleQueue()
        self._own_jobs: _Jobs = queue.SimpleQueue()
        super().__init__(self._waiting)
        # Debugging would refuse calls of other threads.
        self.set_debug(False)
        self._queues = (self._own_jobs, *[self._jobs] * _WORKERS)
        for number, jobs in enumerate(self._queues):
            threading.Thread(
                target=_work, args=(jobs,), name=f"headgate-blocking-{number}", daemon=True
            ).start()

    def run_forever(self) -> None:
        """Run until stopped; the caller holds ``lock``."""
        self._thread = threading.get_ident()
        super().run_forever()

    def close(self) -> None:
        """End the loop and its threads."""
        if not self.is_closed():
            for jobs in self._queues:
                jobs.put(None)
        super().close()

    def call_soon(
        self,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Run a call in the loop's next round; the caller holds ``lock``."""
        handle = super().call_soon(callback, *args, context=context)
        self._wake(time.monotonic())
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a call at a time; the caller holds ``lock``."""
        handle = super().call_at(when, callback, *args, context=context)
        self._wake(when)
        return handle

    def _wake(self, when: float) -> None:
        if threading.get_ident() != self._thread and self._waiting.until > when + _PATIENCE_SECONDS:
            # Once is enough for all that is asked for before the loop runs.
            self._waiting.until = 0.0
            self._write_to_self()  # type: ignore[attr-defined]

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Result], *args: Any
    ) -> asyncio.Future[Result]:
        """Run a blocking call in one of the loop's threads.

        Calls that name an executor have a thread apart from those that name none. The executor
        itself is not used: it would start threads, which an ending program refuses.
        """
        job: Future[Result] = Future()

        def work() -> None:
            if not job.set_running_or_notify_cancel():
                return
            try:
                job.set_result(func(*args))
            except BaseException as error:  # noqa: BLE001 - it is for whoever waits
                job.set_exception(error)

        (self._jobs if executor is None else self._own_jobs).put(work)
        return asyncio.wrap_future(job, loop=self)


def _work(jobs: _Jobs) -> None:
    while (job := jobs.get()) is not None:
        job()
