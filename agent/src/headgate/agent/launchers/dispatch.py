"""All launchers of one dataflow behind one face."""

from __future__ import annotations

import os
import socket
import uuid
from pathlib import Path
from typing import Final, assert_never
from urllib.parse import urlsplit

from msgspec import structs

from headgate.agent.configuration import Airflow, Launchers, Workers
from headgate.agent.launchers.job import Job
from headgate.agent.launchers.launcher import JobsLauncher
from headgate.agent.launchers.warm.sessions import SessionLauncher
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

_PORTS: Final = {"http": 80, "https": 443}


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
        """See ``ports.Launcher``."""
        if isinstance(by, SessionAction):
            self._session.start(request)
            return
        launcher, airflow = _credited(complete(by, self._defaults), self._defaults.airflow)
        self._jobs.start(
            Job(
                request,
                launcher,
                directory,
                self._workers.python,
                holder=f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex}",
                user=airflow.user,
                password=airflow.password,
                submit_program=self._defaults.submit.program,
            )
        )

    def recover(self, run: str, attempt: int) -> bool:
        """See ``ports.Launcher``."""
        return self._jobs.recover(run, attempt)

    def cancel(self, run: str, attempt: int, reason: str) -> None:
        """See ``ports.Launcher``."""
        if not self._jobs.cancel(run, attempt, reason):
            self._session.cancel(run, attempt, reason)

    def cancel_all(self, reason: str) -> None:
        """See ``ports.Launcher``."""
        self._jobs.cancel_all(reason)

    def use(self, start: StartSession | None) -> None:
        """See ``ports.Launcher``."""
        self._session.use(start)

    def expect(self, seconds: float | None) -> None:
        """See ``ports.Launcher``."""
        self._session.expect(seconds)

    def log(self, action: str, run: str, attempt: int) -> Path | None:
        """See ``ports.Launcher``."""
        return self._jobs.log(run, attempt) or self._session.log(action, run, attempt)

    def close(self) -> None:
        """See ``ports.Launcher``."""
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


def _credited(launcher: JobLauncher, airflow: Airflow) -> tuple[JobLauncher, Airflow]:
    """Return a launcher and who asks there: the configured user at the configured URL alone."""
    if isinstance(launcher, AirflowLauncher) and _origin(launcher.url) == _origin(airflow.url):
        # As it was configured: what it looks like to others who read URLs does not matter then.
        return structs.replace(launcher, url=airflow.url), airflow
    return launcher, Airflow()


def _origin(url: str) -> tuple[str, str, int | None, str]:
    """Return what of a URL decides who reads what is sent there."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return url, "", None, ""
    return parts.scheme, parts.hostname or "", port, parts.path.rstrip("/")
