"""All launchers of one dataflow behind one face."""

from __future__ import annotations

import os
import socket
import uuid
from pathlib import Path
from typing import assert_never

from msgspec import structs

from headgate.agent.configuration import Launchers, Workers
from headgate.agent.launchers.job import Job
from headgate.agent.launchers.launcher import JobsLauncher
from headgate.agent.sessions import SessionLauncher
from headgate.flows import (
    AirflowLauncher,
    CommandLauncher,
    ConnectLauncher,
    JobLauncher,
    Launcher,
    SubmitLauncher,
)
from headgate.flows import SessionLauncher as SessionAction
from headgate.spark import StartSession, StepRequest


class FlowLaunchers:
    """Hands each attempt to the launcher that its action names.

    Args:
        session: the warm session's.
        jobs: that of processes of their own.
        workers: where they run.
        defaults: what the agent's configuration says of them.
    """

    def __init__(
        self,
        session: SessionLauncher,
        jobs: JobsLauncher,
        workers: Workers,
        defaults: Launchers,
    ) -> None:
        self._session = session
        self._jobs = jobs
        self._workers = workers
        self._defaults = defaults

    def start(self, request: StepRequest, by: Launcher, directory: str) -> None:
        """See ``seams.Launcher``."""
        if isinstance(by, SessionAction):
            self._session.start(request)
            return
        airflow = self._defaults.airflow
        self._jobs.start(
            Job(
                request,
                complete(by, self._defaults),
                directory,
                self._workers.python,
                holder=f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex}",
                user=airflow.user,
                password=airflow.password,
                submit_program=self._defaults.submit.program,
            )
        )

    def recover(self, run: str, attempt: int) -> bool:
        """See ``seams.Launcher``."""
        return self._jobs.recover(run, attempt)

    def cancel(self, run: str, attempt: int, reason: str) -> None:
        """See ``seams.Launcher``."""
        if not self._jobs.cancel(run, attempt, reason):
            self._session.kill(reason)

    def cancel_all(self, reason: str) -> None:
        """See ``seams.Launcher``."""
        self._jobs.cancel_all(reason)

    def use(self, start: StartSession | None) -> None:
        """See ``seams.Launcher``."""
        self._session.use(start)

    def log(self, action: str, run: str, attempt: int) -> Path | None:
        """See ``seams.Launcher``."""
        return self._jobs.log(run, attempt) or self._session.log(action, run, attempt)

    def close(self) -> None:
        """See ``seams.Launcher``."""
        self._session.close()
        self._jobs.close()


def complete(launcher: JobLauncher, defaults: Launchers) -> JobLauncher:
    """Return the launcher with the agent's own words where the dataflow says nothing."""
    match launcher:
        case CommandLauncher():
            return launcher
        case ConnectLauncher():
            return structs.replace(launcher, remote=launcher.remote or defaults.connect.remote)
        case AirflowLauncher():
            return structs.replace(launcher, url=launcher.url or defaults.airflow.url)
        case SubmitLauncher():
            submit = defaults.submit
            return structs.replace(
                launcher,
                master=launcher.master or submit.master,
                deploy_mode=launcher.deploy_mode or submit.deploy_mode,
                conf={**submit.conf, **launcher.conf},
            )
        case _:
            assert_never(launcher)
