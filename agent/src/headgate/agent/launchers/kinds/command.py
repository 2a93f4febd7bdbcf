"""Programs of the user's own."""

from __future__ import annotations

from typing import Final

from headgate.agent.launchers.job import Job, JobFiles
from headgate.agent.launchers.kinds.backend import Backend
from headgate.agent.launchers.program import Program
from headgate.flows import CommandLauncher


class CommandBackend(Backend[CommandLauncher]):
    """Runs the command as it is written."""

    def work(self, files: JobFiles, job: Job, launcher: CommandLauncher) -> Program:
        """See ``Backend``."""
        return Program(files, job, launcher.command)


BACKEND: Final = CommandBackend()
