"""Programs that carry out attempts: their command lines, their environment, their end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Final

import psutil

from headgate.agent.launchers.command_lines import command_line, python_of
from headgate.agent.launchers.job import Job, JobFiles
from headgate.events import encode_origin_text

JOB_VARIABLE: Final = "HEADGATE_JOB"
"""The job's directory, in the environment of everything that belongs to it."""

_GRACE: Final = 5.0
"""Seconds a program has to end by itself when it is told to."""

_AGENTS_OWN: Final = "HEADGATE_AGENT_"
"""How variables begin that configure the agent: there are passwords among them."""


class Program:
    """A program, and what it started, in the attendant's own process group.

    Args:
        files: the job's.
        job: its description.
    """

    def __init__(self, files: JobFiles, job: Job) -> None:
        self._files = files
        self._job = job
        self._name = ""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """See ``attendant.Work``."""
        command = command_line(self._files, self._job)
        self._name = Path(command[0]).name
        with self._files.log.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._job.directory,
                    env=environment(self._files, self._job),
                )
            except OSError as error:
                message = f"{command[0]} could not be started in {self._job.directory}: {error}"
                raise CannotStart(message) from error

    def outcome(self) -> str | None:
        """See ``attendant.Work``."""
        assert self._process is not None  # noqa: S101 - started before
        status = self._process.poll()
        if status is None:
            return None
        if status < 0:
            return f"{self._name} was ended by {signal.Signals(-status).name}"
        return f"{self._name} ended with status {status}" if status else ""

    def stop(self) -> None:
        """See ``attendant.Work``."""
        if self._process is None or self._process.poll() is not None:
            return
        # A program that is ended does not end what it has started.
        family = psutil.Process().children(recursive=True)
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        _, left = psutil.wait_procs(family, _GRACE)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()


class CannotStart(Exception):
    """The program is not there, or may not be run."""


def environment(files: JobFiles, job: Job) -> dict[str, str]:
    """Return the environment of a job's program: its own words about the run, over this one's."""
    request = job.request
    return {
        **{name: told for name, told in os.environ.items() if not name.startswith(_AGENTS_OWN)},
        **python_of(job),
        JOB_VARIABLE: str(files.directory),
        "HEADGATE_RUN": str(files.request),
        "HEADGATE_DATAFLOW": request.dataflow,
        "HEADGATE_ACTION": request.action,
        "HEADGATE_RUN_ID": request.run,
        "HEADGATE_ATTEMPT": str(request.attempt),
        "HEADGATE_THRIFT2": f"{request.hbase.host}:{request.hbase.port}",
        "HEADGATE_ORIGIN": encode_origin_text(request.origin),
        "HEADGATE_CLIENT_ORIGIN_DATAFLOW": request.dataflow,
        "HEADGATE_CLIENT_ORIGIN_ACTION": request.action,
    }
