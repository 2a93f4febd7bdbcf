"""The agent's end of jobs: starts their runners, finds them again, and leaves no second one."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import psutil
from msgspec import Struct

from headgate.agent.launchers.job import Job, JobFiles, JobKey
from headgate.agent.launchers.kinds import backend_of
from headgate.agent.launchers.program import JOB_VARIABLE
from headgate.spark import Ending, StepEnded

LOOK: Final = 0.1
"""Seconds between two looks at jobs under way."""


class Underway(Struct, frozen=True):
    """The job has a runner; ``claimed`` once its run is its own."""

    claimed: bool


class Over(Struct, frozen=True):
    """The job has ended; ``claimed`` if its run was its own."""

    ended: StepEnded
    claimed: bool


class Gone(Struct, frozen=True):
    """The job's runner was killed, and nothing of it is left; the ledger knows of a commit."""

    reason: str


JobState = Underway | Over | Gone


class LocalJobs:
    """The jobs of one dataflow on this host, each with a process that runs it.

    Args:
        directory: where each job gets a directory of its own.
        kept: how many of them are kept when they have ended.
    """

    def __init__(self, directory: Path, kept: int) -> None:
        self._directory = directory
        self._kept = kept
        self._children: list[subprocess.Popen[bytes]] = []

    def launch(self, job: Job) -> None:
        """Start a job. One that was started before, by whomever, is left as it is.

        Raises:
            OSError: its directory can't be made, or its runner not be started.
        """
        files = self.files(job.key)
        if files.job() is None:
            self._prune()
            files.create(job)
        if files.ended() is None:
            self._start_runner(files)

    def _start_runner(self, files: JobFiles) -> None:
        lock = files.lock()
        if lock is None:
            return
        try:
            with files.log.open("ab") as log:
                self._children.append(
                    subprocess.Popen(
                        [
                            sys.executable,
                            "-m",
                            "headgate.agent.launchers",
                            str(files.directory),
                            "--lock",
                            str(lock),
                        ],
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        pass_fds=(lock,),
                        # It outlives this process, and what it starts can be ended with it.
                        start_new_session=True,
                    )
                )
        finally:
            os.close(lock)

    def find(self, run: str, before: int) -> Job | None:
        """Return the newest attempt of a run below a number that can go on; None if there is none.

        What is left of others is ended.
        """
        for key in sorted(self._keys(run), reverse=True):
            if key.attempt >= before:
                continue
            files = self.files(key)
            job = files.job()
            if job is None or files.ended() is not None:
                continue
            if files.locked or backend_of(job.launcher).remote:
                return job
            self._kill(files)
        return None

    def poll(self, key: JobKey) -> JobState:
        """Return the state of a job."""
        self._reap()
        files = self.files(key)
        locked = files.locked  # before the end is looked for: it is noted before the lock is free
        ended = files.ended()
        if ended is not None:
            return Over(ended, files.claimed)
        if locked:
            return Underway(files.claimed)
        self._kill(files)
        return Gone(f"the process that ran it ended; its log is {files.log}")

    def cancel(self, key: JobKey) -> None:
        """Have a job end soon; how it ended is seen by ``poll``."""
        files = self.files(key)
        runner = files.runner()
        if files.locked and runner is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(runner, signal.SIGTERM)

    def kill(self, key: JobKey) -> None:
        """End a job's processes at once, and for good."""
        files = self.files(key)
        self._kill(files)
        if files.ended() is None:
            ended = StepEnded(key.run, key.attempt, Ending.CANCELLED, 0.0, reason="it was killed")
            files.end(ended)

    def log(self, key: JobKey) -> Path | None:
        """Return the file with all that a job printed; None where there is none."""
        log = self.files(key).log
        return log if log.exists() else None

    def leaving(self) -> bool:
        """Return whether runners that were started here have not been seen to end."""
        self._reap()
        return bool(self._children)

    def files(self, key: JobKey) -> JobFiles:
        """Return the files of a job, which need not be there."""
        return JobFiles(self._directory / f"{quote(key.run, safe='')}-{key.attempt}")

    def _keys(self, run: str = "") -> Iterator[JobKey]:
        for path in self._directory.glob("*-*"):
            name, _, attempt = path.name.rpartition("-")
            if attempt.isdigit() and run in ("", unquote(name)):
                yield JobKey(unquote(name), int(attempt))

    def _kill(self, files: JobFiles) -> None:
        """End what is left of a job: its processes are those that carry its name."""
        group = files.runner()
        if group is None:
            return
        mark = str(files.directory)
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if os.getpgid(process.pid) != group:
                    continue
                # A number may have been given to others since; the name was not.
                if process.environ().get(JOB_VARIABLE) == mark or mark in process.cmdline():
                    process.kill()
        self._reap()

    def _reap(self) -> None:
        self._children = [child for child in self._children if child.poll() is None]

    def _prune(self) -> None:
        """Delete the oldest jobs that have ended."""
        ended = sorted(
            (files.directory.stat().st_mtime, files.directory)
            for files in map(self.files, self._keys())
            if files.ended() is not None
        )
        for _, directory in ended[: -self._kept]:
            shutil.rmtree(directory, ignore_errors=True)
