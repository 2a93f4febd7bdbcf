"""A dataflow's warm session: one worker process, replaced whenever it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from headgate.agent.launchers.warm.pools import Occupant, Seat, SessionPools
from headgate.agent.launchers.warm.resting import Rest, lead_of
from headgate.agent.launchers.warm.spares import SpareSessions
from headgate.agent.ports import AttemptDisplaced, Report, WorkerLost, WorkerState
from headgate.agent.supervision import Supervision, ThreadKind, describe
from headgate.spark import (
    SessionWorker,
    StartSession,
    StepEnded,
    StepRequest,
    WorkerFailed,
    WorkerGone,
    WorkerReady,
    WorkerReply,
    step_log,
)

log = structlog.get_logger("headgate.agent.worker")

_FIRST_PAUSE = 0.2  # seconds before a worker that ended is replaced
_STOP = 3.0  # seconds for Spark to remove its files before it is ended by force
_LONGEST_PAUSE = 30.0  # seconds between attempts to start one that does not come up


_NEVER = Rest(0.0)
_NONE = WorkerState(ready=False, words="none: nothing is launched")


class WarmSession:
    """Keeps a worker warm and hands it one attempt at a time.

    A thread of its own starts workers, because a start takes seconds; a session that never has a
    worker has none. What workers say is passed on as it arrives. A worker that does not come up
    fails the attempt that waits for it, so that the failure is counted, shown and in the end
    quarantined like any other.

    Args:
        start: the session's configuration; None for no worker, until ``use`` says another.
        directory: where the worker runs and logs.
        python: its interpreter.
        patience: seconds until its session must be warm.
        report: called with what happens, from any thread.
        supervision: owns its thread.
        spares: sessions that are warm already, one of which is taken if it fits.
        rest: when a worker that does nothing ends; it starts again for a run, or ahead of one that
            is foreseen.
        pools: sessions that dataflows share, of which it takes a seat in one that is asked for.
        clock: returns seconds, monotonic.
    """

    def __init__(
        self,
        start: StartSession | None,
        directory: Path,
        python: str,
        patience: float,
        report: Callable[[Report], None],
        supervision: Supervision,
        spares: SpareSessions | None = None,
        rest: Rest = _NEVER,
        pools: SessionPools | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start = start
        self._last = start
        """The newest configuration of a worker."""
        self._directory = directory
        self._python = python
        self._patience = patience
        self._report = report
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._worker: SessionWorker | Seat | None = None
        self._ready = False
        self._ended = False
        self._unfit: WorkerFailed | None = None
        self._reason = ""
        self._request: StepRequest | None = None
        self._sent = False
        self._closing = False
        self._stopping = threading.Event()
        self._outdated = False
        self._rest = rest
        self._pools = pools
        self._displaced = ""
        """Why the attempt with the worker was lost, if that was no fault of its own."""
        self._clock = clock
        self._due: float | None = None
        self._lead = lead_of(0.0)
        self._took = 0.0
        """Seconds that the session took to start, whoever had it started."""
        self._idle_since = 0.0
        """When the worker was warm, or its last attempt ended."""
        self._resting = False
        self._supervision = supervision
        self._spares = spares
        self._name = f"session-{directory.name}"
        self._thread: threading.Thread | None = None
        if start is None:
            report(_NONE)
        else:
            with self._lock:
                self._begin()

    def _begin(self) -> None:
        """Have a thread keep a worker warm, the lock held; it lasts until the end."""
        if self._thread is None and not self._closing:
            self._thread = self._supervision.thread(
                ThreadKind.SESSION, self._name, self._keep, self._stopping
            )
            self._thread.start()

    def start(self, request: StepRequest) -> None:
        """See ``Launcher``."""
        with self._lock:
            self._request = request
            self._sent = False
            self._changed.notify_all()

    def use(self, start: StartSession | None) -> None:
        """See ``Launcher``."""
        with self._lock:
            self._start = start
            self._outdated = True
            if start is not None:
                self._last = start
                self._begin()
            self._changed.notify_all()

    def expect(self, seconds: float | None) -> None:
        """See ``Launcher``."""
        with self._lock:
            self._due = None if seconds is None else self._clock() + seconds
            self._changed.notify_all()

    def cancel(self, run: str, attempt: int, reason: str) -> None:
        """See ``Launcher``."""
        with self._lock:
            request = self._request
            if request is None or (request.run, request.attempt) != (run, attempt):
                return  # it has just ended; what is under way may be another's
            worker = self._worker
            if worker is None:
                self._request = None
            else:
                self._reason = reason
            self._changed.notify_all()
        if worker is not None:
            worker.kill()
        else:
            # The next worker's first attempt it must not be.
            self._report(WorkerLost(run, attempt, reason))

    def log(self, action: str, run: str, attempt: int) -> Path | None:
        """Return the file with what an attempt printed; None where there is none."""
        path = step_log(self._directory, action, run, attempt)
        return path if path.exists() else None

    def close(self) -> None:
        """See ``Launcher``."""
        with self._lock:
            self._closing = True
            self._stopping.set()
            self._request = None
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _keep(self) -> None:
        try:
            self._keep_warm()
        except BaseException as error:
            # Nothing may look as if it went on: the worker ends, and its attempt is reported lost.
            with self._lock:
                worker, self._worker = self._worker, None
            if worker is not None:
                worker.kill()
            self._give_up(f"the session's thread failed: {describe(error)}", "")
            raise

    def _keep_warm(self) -> None:
        pause = _FIRST_PAUSE
        while not self._closing:
            with self._lock:
                # An attempt is made under the configuration under which it was begun.
                waits = self._start is None and self._request is not None
                start = self._last if waits else self._start
                self._outdated = waits
            if start is None:
                self._wait_for_use()
                continue
            self._report(WorkerState(ready=False, words="starting its Spark session"))
            warm = self._run_one(start)
            if self._resting:
                self._wait_for_need()
            if self._closing:
                return
            pause = _FIRST_PAUSE if warm else min(_LONGEST_PAUSE, pause * 2)
            with self._lock:
                self._changed.wait_for(lambda: self._closing, pause)

    def _wait_for_use(self) -> None:
        self._report(_NONE)
        with self._lock:
            self._changed.wait_for(lambda: self._closing or self._start is not None)

    def _wait_for_need(self) -> None:
        """Wait until a run wants a worker, or is foreseen to want one soon."""
        with self._lock:
            ended = self._clock()
            while self._request is None and not (self._closing or self._outdated):
                at = self._rest.starts(ended, self._due, self._lead)
                if not self._wait_until(at):
                    return

    def _wait_until(self, at: float | None) -> bool:
        """Wait, the lock held, for any change; return whether the moment ``at`` is to come yet."""
        left = None if at is None else at - self._clock()
        if left is not None and left <= 0:
            return False
        self._changed.wait(left)
        return True

    def _wait_for_work(self) -> bool:
        """Wait, the lock held, until there is something to do; False if the worker is to rest."""
        while not (
            self._ended
            or self._closing
            or self._reason
            or (self._outdated and self._request is None)
            or (self._request is not None and not self._sent)
        ):
            at = None
            if self._request is None:
                at = self._rest.ends(self._idle_since, self._due, self._lead)
            if not self._wait_until(at):
                return False
        return True

    def _run_one(self, start: StartSession) -> bool:
        """Run one worker to its end; return whether its session was ever warm."""
        with self._lock:
            self._ready = self._ended = False
            self._unfit = None
            self._resting = False
            self._reason = self._displaced = ""
        begun = self._clock()
        spare: SessionWorker | None = None
        worker: SessionWorker | Seat
        try:
            if start.pool and self._pools is not None:
                worker = self._pools.sit(start, self._as_occupant())
            else:
                spare = self._spare(start)
                worker = spare or SessionWorker(
                    start,
                    self._directory,
                    on_reply=self._reply,
                    on_exit=self._exit,
                    python=self._python,
                )
        except (OSError, WorkerGone) as error:
            self._give_up(f"the worker could not be started with {self._python}: {error}", "")
            return False
        with self._lock:
            self._worker = worker
            self._changed.wait_for(
                lambda: self._ready or self._ended or self._closing, self._patience
            )
            warm = self._ready
            self._idle_since = self._clock()
            if warm and spare is None:
                self._lead = lead_of(max(self._idle_since - begun, self._took))
            if not warm and not self._ended and not self._closing:
                self._reason = f"its Spark session was not warm after {self._patience:g} s"
        if not warm:
            worker.kill()
        if spare is not None and not warm and not self._closing:
            # Its attempt has lost nothing but a moment: a session of its own is started.
            with self._lock:
                self._changed.wait_for(lambda: self._ended)
                self._worker = None
            log.warning("a spare session did not fit", unfit=self._unfit, reason=self._reason)
            self._spares = None
            return True
        while True:
            with self._lock:
                if not self._wait_for_work():
                    self._resting = True
                    self._reason = (
                        f"none: ended after {self._rest.idle:g} s without a run, "
                        "started again for the next one"
                    )
                    break
                request = self._request
                if self._outdated and request is None:
                    self._reason = "its configuration changed"
                    break
                if self._ended or self._closing or self._reason or request is None:
                    break
                self._sent = True
            try:
                worker.submit(request)
            except WorkerGone:
                log.info("worker ended before it was given work", run=request.run)
                break
        worker.stop(_STOP)
        with self._lock:
            self._changed.wait_for(lambda: self._ended)
            self._worker = None
        reason = self._reason or f"the worker process ended; its log is {worker.log}"
        detail = ""
        if self._unfit is not None:
            reason, detail = self._unfit.reason, self._unfit.detail
        # A worker that ended with nothing to do is no failure of any attempt that comes later.
        if self._displaced:
            self._hand_back(self._displaced)
        elif self._sent or not warm:
            self._give_up(reason, detail)
        else:
            self._report(WorkerState(ready=False, words=reason))
        return warm

    def _spare(self, start: StartSession) -> SessionWorker | None:
        if self._spares is None:
            return None
        return self._spares.take(start, self._directory, on_reply=self._reply, on_exit=self._exit)

    def _as_occupant(self) -> Occupant:
        return Occupant(
            self._directory.name, self._directory, self._reply, self._exit, self._displace
        )

    def _displace(self, reason: str) -> None:
        with self._lock:
            self._displaced = reason

    def _hand_back(self, reason: str) -> None:
        """Report that the attempt, if there is one, is to be made again: it did not fail."""
        self._report(WorkerState(ready=False, words=reason))
        with self._lock:
            request, self._request = self._request, None
        if request is not None and not self._closing:
            self._report(AttemptDisplaced(request.run, request.attempt, reason))

    def _give_up(self, reason: str, detail: str) -> None:
        self._report(WorkerState(ready=False, words=reason))
        with self._lock:
            request, self._request = self._request, None
        if request is not None and not self._closing:
            self._report(WorkerLost(request.run, request.attempt, reason, detail))

    def _reply(self, reply: WorkerReply) -> None:
        try:
            self._take(reply)
        except BaseException as error:
            self._supervision.failed(ThreadKind.SESSION, self._name, error)
            with self._lock:
                self._reason = f"an answer of the worker could not be taken: {describe(error)}"
            raise

    def _take(self, reply: WorkerReply) -> None:
        match reply:
            case WorkerReady():
                self._report(
                    WorkerState(
                        ready=True,
                        words=f"warm, Spark {reply.spark}, process {reply.pid}",
                        pid=reply.pid,
                    )
                )
                with self._lock:
                    self._ready = True
                    self._took = reply.seconds
                    self._changed.notify_all()
            case WorkerFailed():
                with self._lock:
                    self._unfit = reply
            case StepEnded():
                with self._lock:
                    request = self._request
                    if request is None or (request.run, request.attempt) != (
                        reply.run,
                        reply.attempt,
                    ):
                        return
                    self._request = None
                    self._sent = False
                    self._idle_since = self._clock()
                    self._changed.notify_all()
                self._report(reply)
            case _:
                self._report(reply)

    def _exit(self, status: int) -> None:
        log.info("worker ended", status=status, directory=str(self._directory))
        with self._lock:
            self._ended = True
            self._changed.notify_all()
