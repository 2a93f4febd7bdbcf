"""Steps on a Spark Connect server, each driven by a process of its own."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from headgate.agent.configuration import Launchers
from headgate.agent.launchers.job import Job, JobFiles
from headgate.agent.launchers.kinds.backend import DRIVER, Backend, NotConfigured, run_name
from headgate.agent.launchers.program import Program
from headgate.flows import ConnectLauncher


class ConnectBackend(Backend[ConnectLauncher]):
    """Runs the driver of a step as a client of the server."""

    def complete(self, job: Job, launcher: ConnectLauncher, defaults: Launchers) -> Job:
        """See ``Backend``."""
        remote = launcher.remote or defaults.connect.remote
        return structs.replace(job, launcher=structs.replace(launcher, remote=remote))

    def work(self, files: JobFiles, job: Job, launcher: ConnectLauncher) -> Program:
        """See ``Backend``."""
        if not launcher.remote:
            message = (
                "no Spark Connect server is named; set launchers.connect.remote in agent.toml, "
                "or `launcher: {connect: {remote: ...}}` in the dataflow"
            )
            raise NotConfigured(message)
        options = ("--remote", launcher.remote, "--name", run_name(job), "--code", str(files.code))
        return Program(files, job, (job.python, "-m", DRIVER, str(files.request), *options))


BACKEND: Final = ConnectBackend()
