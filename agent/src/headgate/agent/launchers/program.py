"""Programs that carry out attempts: their environment, their start and their end."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import psutil

from headgate.agent.configuration import environment_of_steps
from headgate.agent.launchers.job import Job, JobFiles
from headgate.events import encode_origin_text
from headgate.settings import java_home_for_spark, write_address

JOB_VARIABLE: Final = "HEADGATE_JOB"
"""The job's directory, in the environment of everything that belongs to it."""

_GRACE: Final = 5.0
"""Seconds a program has to end by itself after SIGTERM."""


class Program:
    """A program, and what it started, in the process group of the job's runner.

    Args:
        files: the job's.
        job: its description.
        command: the words of its command line.
        variables: what its environment has beside that of each job.
    """

    def __init__(
        self,
        files: JobFiles,
        job: Job,
        command: tuple[str, ...],
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.command = command
        self.environment = {**environment(files, job), **variables}
        self._files = files
        self._directory = job.directory
        self._name = Path(command[0]).name
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """See ``Work``."""
        with self._files.log.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._directory,
                    env=self.environment,
                )
            except OSError as error:
                message = f"{self.command[0]} could not be started in {self._directory}: {error}"
                raise CannotStart(message) from error

    def outcome(self) -> str | None:
        """See ``Work``."""
        assert self._process is not None  # noqa: S101 - started before
        status = self._process.poll()
        if status is None:
            return None
        if status < 0:
            return f"{self._name} was ended by {signal.Signals(-status).name}"
        return f"{self._name} ended with status {status}" if status else ""

    def stop(self) -> None:
        """See ``Work``."""
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
    inherited = environment_of_steps()
    home = java_home_for_spark(inherited)
    return {
        **inherited,
        **({} if home is None else {"JAVA_HOME": home}),
        JOB_VARIABLE: str(files.directory),
        "HEADGATE_RUN": str(files.request),
        "HEADGATE_DATAFLOW": request.dataflow,
        "HEADGATE_ACTION": request.action,
        "HEADGATE_RUN_ID": request.run,
        "HEADGATE_ATTEMPT": str(request.attempt),
        "HEADGATE_THRIFT2": write_address(request.hbase.host, request.hbase.port),
        "HEADGATE_ORIGIN": encode_origin_text(request.origin),
        "HEADGATE_CLIENT_ORIGIN_DATAFLOW": request.dataflow,
        "HEADGATE_CLIENT_ORIGIN_ACTION": request.action,
    }
