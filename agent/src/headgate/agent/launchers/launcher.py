"""Carries attempts to jobs and sessions, and what happens to them back to the runtime."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import structlog
from msgspec import Struct, structs

from headgate.agent.launchers.job import Job, JobKey
from headgate.agent.launchers.local_jobs import LOOK, Gone, JobState, Over, Underway
from headgate.agent.ports import Report, WorkerLost
from headgate.agent.supervision import Supervision, ThreadKind, describe
from headgate.spark import Ending, StepStarted

log = structlog.get_logger("headgate.agent.jobs")

_GRACE: Final = 15.0
"""Seconds a job may take to end when it is cancelled, before its processes are killed."""
_LOOKS: Final = 5
"""Looks at a job that may fail in a row before it is ended: a full disk may have room again."""


class Jobs(Protocol):
    """Starts jobs and returns their states; each is known by its run and attempt."""

    def launch(self, job: Job) -> None:
        """Start a job. One that was started before, by whomever, is left as it is."""

    def find(self, run: str, before: int) -> Job | None:
        """Return the newest attempt of a run below a number that can go on."""

    def poll(self, key: JobKey) -> JobState:
        """Return the state of a job."""

    def cancel(self, key: JobKey) -> None:
        """Have a job end soon."""

    def kill(self, key: JobKey) -> None:
        """End a job at once, and for good."""

    def log(self, key: JobKey) -> Path | None:
        """Return the file with all that a job printed; None where there is none."""

    def leaving(self) -> bool:
        """Return whether there is still something to collect of jobs that have ended."""


class _Followed(Struct):
    """A job that is looked after, and the attempt it is reported as.

    The numbers differ where an agent after a restart goes on with what the one before had begun.
    """

    key: JobKey
    attempt: int
    started: bool = False
    stopped: str = ""
    kill_at: float | None = None
    failures: int = 0
    """Looks at it that failed, in a row."""


class JobsLauncher:
    """Looks after the jobs of one dataflow, on a thread that lasts while there are any.

    Args:
        jobs: starts them and returns their states.
        report: called with what happens, from any thread.
        supervision: owns its thread.
        name: the dataflow.
    """

    def __init__(
        self, jobs: Jobs, report: Callable[[Report], None], supervision: Supervision, name: str
    ) -> None:
        self._jobs = jobs
        self._report = report
        self._changed = threading.Condition()
        self._followed: dict[JobKey, _Followed] = {}
        self._closing = False
        self._stopping = threading.Event()
        self._supervision = supervision
        self._name = f"jobs-{name}"
        self._thread: threading.Thread | None = None

    def start(self, job: Job) -> None:
        """Begin an attempt; does not wait for anything but the start of a process."""
        try:
            self._jobs.launch(job)
        except OSError as error:
            reason = f"its runner could not be started: {error}"
            self._report(WorkerLost(job.key.run, job.key.attempt, reason))
            return
        self._look_after(_Followed(job.key, job.key.attempt))

    def recover(self, run: str, attempt: int) -> bool:
        """Go on with an earlier attempt of the run, under another number; return whether one is."""
        job = self._jobs.find(run, attempt)
        if job is None:
            return False
        self._jobs.launch(job)
        log.info("goes on with a job", run=run, attempt=job.key.attempt, now=attempt)
        self._look_after(_Followed(job.key, attempt))
        return True

    def cancel(self, run: str, attempt: int, reason: str) -> bool:
        """Have an attempt end, for a reason; return whether it is one of these."""
        with self._changed:
            for followed in self._followed.values():
                if (followed.key.run, followed.attempt) == (run, attempt):
                    followed.stopped = reason
                    return True
        return False

    def log(self, run: str, attempt: int) -> Path | None:
        """Return the log of an attempt, or of the one that it went on with; None if unknown."""
        for number in range(attempt, 0, -1):
            found = self._jobs.log(JobKey(run, number))
            if found is not None:
                return found
        return None

    def cancel_all(self, reason: str) -> None:
        """End all jobs and wait until they have."""
        with self._changed:
            followed = list(self._followed.values())
            for one in followed:
                one.stopped = reason
        deadline = time.monotonic() + _GRACE
        while time.monotonic() < deadline:
            with self._changed:
                if not self._followed:
                    return
                self._changed.wait(LOOK)
        for one in followed:
            self._jobs.kill(one.key)

    def close(self) -> None:
        """Look after nothing any more; jobs go on, and the next agent finds them."""
        with self._changed:
            self._closing = True
            self._stopping.set()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _begin(self) -> None:
        """Have a thread look after jobs, the lock held."""
        if self._thread is None:
            self._thread = self._supervision.thread(
                ThreadKind.JOBS, self._name, self._follow, self._stopping
            )
            self._thread.start()

    def _look_after(self, followed: _Followed) -> None:
        with self._changed:
            self._followed[followed.key] = followed
            self._begin()
            self._changed.notify_all()

    def _follow(self) -> None:
        while True:
            leaving = self._jobs.leaving()
            with self._changed:
                if self._closing:
                    return
                if not self._followed and not leaving:
                    self._thread = None
                    return
                followed = list(self._followed.values())
            for one in followed:
                try:
                    self._look(one)
                    one.failures = 0
                except Exception as error:  # noqa: BLE001 the other jobs are looked after all the same
                    self._fail(one, error)
            with self._changed:
                self._changed.wait_for(lambda: self._closing, LOOK)

    def _look(self, one: _Followed) -> None:
        run = one.key.run
        if one.stopped:
            self._end(one)
        match self._jobs.poll(one.key):
            case Underway(claimed=claimed):
                if claimed and not one.started:
                    one.started = True
                    self._report(StepStarted(run, one.attempt))
                return
            case Over(ended=ended, claimed=claimed):
                if claimed and not one.started:
                    self._report(StepStarted(run, one.attempt))
                if one.stopped and ended.ending is Ending.CANCELLED:
                    self._report(WorkerLost(run, one.attempt, one.stopped, ended.detail))
                else:
                    self._report(structs.replace(ended, attempt=one.attempt))
            case Gone(reason=reason):
                self._report(WorkerLost(run, one.attempt, one.stopped or reason))
        self._forget(one)

    def _forget(self, one: _Followed) -> None:
        with self._changed:
            self._followed.pop(one.key, None)
            self._changed.notify_all()

    def _fail(self, one: _Followed, error: Exception) -> None:
        """Look again soon at a job that could not be looked at; give it up in the end."""
        self._supervision.failed(ThreadKind.JOBS, self._name, error)
        one.failures += 1
        if one.failures < _LOOKS:
            return
        self._forget(one)
        reason = f"its job could not be looked after: {describe(error)}"
        self._report(WorkerLost(one.key.run, one.attempt, reason))
        self._jobs.kill(one.key)

    def _end(self, one: _Followed) -> None:
        if one.kill_at is None:
            one.kill_at = time.monotonic() + _GRACE
        if time.monotonic() > one.kill_at:
            self._jobs.kill(one.key)
        else:
            self._jobs.cancel(one.key)
