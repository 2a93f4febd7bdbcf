"""A process for each job, which claims its run, has it carried out, and commits it.

It belongs to no agent. An agent that ends leaves it at work, and the next one on the host finds it
by its directory. It ends by itself when the run is claimed by another attempt.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from headgate.agent.launchers.job import Job, JobFiles
from headgate.agent.launchers.kinds import Work, backend_of
from headgate.client import ClientError, ConnectionFailed, Thrift2Connection
from headgate.flows import RunIdentity
from headgate.spark import (
    Claimed,
    Ending,
    LostClaim,
    NamedResults,
    RunLedger,
    StepEnded,
    code_in,
    file_digests,
    run_identity,
)

T = TypeVar("T")

_LOOK: Final = 0.05
"""Seconds between the first looks whether the work has ended; the pause grows with its age."""

_LONGEST_LOOK: Final = 1.0
_CLAIM_LOOK: Final = 5.0
"""Seconds between two looks whether the claim still holds."""

_PATIENCE: Final = 600.0
"""Seconds in which HBase must answer a claim or a commit: work of hours is not thrown away because
an observer restarts."""

_PAUSE: Final = 1.0  # seconds between two tries


class Stopped(Exception):
    """The agent asked for the end."""


class JobRunner:
    """Carries out one job.

    Args:
        files: the job's.
        job: its description.
        make_work: makes what is to be done, once the run is claimed.
    """

    def __init__(self, files: JobFiles, job: Job, make_work: Callable[[], Work]) -> None:
        self._files = files
        self._job = job
        self._make_work = make_work
        self._begun = time.monotonic()
        self._stopped = False
        self._identity = RunIdentity()

    def stop(self) -> None:
        """Have the job end soon; safe in a signal handler."""
        self._stopped = True

    def run(self) -> None:
        """Do everything and note how it ended."""
        try:
            ended = self._carried_out()
        except LostClaim as error:
            ended = self._end(Ending.LOST_CLAIM, str(error))
        except Stopped:
            ended = self._end(Ending.CANCELLED, "it was stopped")
        except ConnectionFailed as error:
            ended = self._end(Ending.UNCERTAIN, str(error), traceback.format_exc())
        # Whatever it is, the agent learns it.
        except Exception as error:  # noqa: BLE001
            reason = str(error) or type(error).__name__
            ended = self._end(Ending.FAILED, reason, traceback.format_exc())
        self._files.end(ended)

    def _carried_out(self) -> StepEnded:
        request = self._job.request
        claim = self._patiently(
            lambda connection: self._ledger(connection).claim(
                request.key, request.attempt, request.token, self._job.holder
            )
        )
        self._files.note_claim()
        code = code_in(request.entry, request.python_path)
        self._identity = run_identity(request, code, file_digests(request.depends))
        work = self._make_work()
        try:
            work.start()
            failure = self._await(work, claim)
        finally:
            work.stop()
        if failure:
            return self._end(Ending.FAILED, failure, self._tail())
        # What has ended names nothing more: read again, it is the same.
        result = self._patiently(self._named)
        self._patiently(
            lambda connection: self._ledger(connection).commit(request.key, claim, result)
        )
        self._publish(result)
        return msgspec.structs.replace(self._end(Ending.COMMITTED), result=result)

    def _publish(self, result: str) -> None:
        """Have what a stage puts out be seen by others; its next run does it where this fails."""
        stage = self._job.request.stage
        if stage is None or not stage.sinks:
            return
        # Most jobs are none of it.
        from headgate.incremental import StateError, UnsentIncrement, publish_committed

        try:
            publish_committed(stage, result, self._job.request.kafka_address)
        except (StateError, OSError, UnsentIncrement):
            with self._files.log.open("a", encoding="utf-8") as log:
                print("The run is committed, and not published yet:", file=log)
                traceback.print_exc(file=log)

    def _await(self, work: Work, claim: Claimed) -> str:
        looked = time.monotonic()
        for pause in _pauses():
            failure = work.outcome()
            if failure is not None:
                return failure
            if self._stopped:
                raise Stopped
            if time.monotonic() - looked > _CLAIM_LOOK:
                self._check(claim)
                looked = time.monotonic()
            time.sleep(pause)
        raise AssertionError("unreachable: pauses have no end")

    def _check(self, claim: Claimed) -> None:
        request = self._job.request
        try:
            state = self._ask(lambda connection: self._ledger(connection).state(request.key))
        except ClientError:
            return  # nobody can say now; the commit decides
        if state != claim:
            raise LostClaim(request.key, request.attempt, request.token, state)

    def _ledger(self, connection: Thrift2Connection) -> RunLedger:
        request = self._job.request
        return RunLedger(connection, request.ledger, request.ledger_proof)

    def _named(self, connection: Thrift2Connection) -> str:
        request = self._job.request
        return NamedResults(connection, request.ledger).named(request.key, request.token)

    def _ask(self, question: Callable[[Thrift2Connection], T]) -> T:
        hbase = self._job.request.hbase
        with Thrift2Connection(hbase.host, hbase.port) as connection:
            return question(connection)

    def _patiently(self, question: Callable[[Thrift2Connection], T]) -> T:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._ask(question)
            except ConnectionFailed:
                # Claims and commits may be repeated: one that took place is found to have.
                if self._stopped or time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)

    def _tail(self) -> str:
        with self._files.log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = log.read().decode(errors="backslashreplace").splitlines()
        return "\n".join(lines[-_TAIL:])

    def _end(self, ending: Ending, reason: str = "", detail: str = "") -> StepEnded:
        return StepEnded(
            run=self._job.request.run,
            attempt=self._job.request.attempt,
            ending=ending,
            seconds=time.monotonic() - self._begun,
            reason=reason,
            detail=detail,
            log=str(self._files.log),
            code=self._files.code_hash(),
            identity=self._identity,
        )


_TAIL: Final = 40
"""Lines of the log that are shown with a failure."""
_TAIL_BYTES: Final = 1 << 16
"""Bytes of its end in which they must lie: a job may have printed more than fits into memory."""


def _pauses() -> Iterator[float]:
    pause = _LOOK
    while True:
        yield pause
        pause = min(_LONGEST_LOOK, pause * 1.1)


def run_job(directory: Path, descriptor: int) -> None:
    """Run the job in a directory, in this process.

    Args:
        directory: the job's.
        descriptor: of the lock on the job, taken by who started this process.
    """
    files = JobFiles(directory)
    job = files.job()
    if job is None:
        message = f"{directory} holds no job; it is written before its runner is started"
        raise ValueError(message)
    files.note_runner(descriptor)
    runner = JobRunner(files, job, lambda: backend_of(job.launcher).work(files, job, job.launcher))
    signal.signal(signal.SIGTERM, lambda *_: runner.stop())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    runner.run()
