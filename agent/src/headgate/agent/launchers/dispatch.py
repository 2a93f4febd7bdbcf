"""All launchers of one dataflow behind one face."""

from __future__ import annotations

import os
import socket
import uuid
from pathlib import Path

from headgate.agent.configuration import Launchers, Workers
from headgate.agent.launchers.job import Job
from headgate.agent.launchers.kinds import backend_of
from headgate.agent.launchers.launcher import JobsLauncher
from headgate.agent.launchers.warm.sessions import WarmSession
from headgate.flows import Launcher, SessionLauncher
from headgate.spark import StartSession, StepRequest


class FlowLaunchers:
    """Hands each attempt to the launcher that its action names.

    Args:
        session: for steps in the warm session.
        jobs: for processes of their own.
        workers: where they run.
        defaults: what the agent's configuration says of them.
    """

    def __init__(
        self,
        session: WarmSession,
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
        if isinstance(by, SessionLauncher):
            self._session.start(request)
            return
        holder = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex}"
        job = Job(request, by, directory, self._workers.python, holder)
        self._jobs.start(backend_of(by).complete(job, by, self._defaults))

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
