"""What the agent does for a kind of launcher whose attempts are processes of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, Generic, Protocol, TypeVar

from headgate.agent.configuration import Launchers
from headgate.agent.launchers.job import Job, JobFiles
from headgate.flows import LauncherSettings

DRIVER: Final = "headgate.spark.driver"
"""The module that runs a step in a process of its own."""

L = TypeVar("L", bound=LauncherSettings)


class NotConfigured(Exception):
    """The launcher lacks an address that neither the dataflow nor the agent gives."""


class Work(Protocol):
    """What an attempt consists in."""

    def start(self) -> None:
        """Begin the work, or find it where it was begun before."""

    def outcome(self) -> str | None:
        """Return None while the work is under way, then why it failed, empty where it did not."""

    def stop(self) -> None:
        """End the work; nothing of it is left when this returns, as far as that can be known."""


class Backend(ABC, Generic[L]):
    """Carries out jobs of one kind of launcher."""

    remote = False
    """Whether the work goes on elsewhere, whatever becomes of the process that waits for it."""

    def complete(self, job: Job, launcher: L, defaults: Launchers) -> Job:
        """Return the job with the agent's own settings where the dataflow says nothing.

        Args:
            job: as the dataflow has it.
            launcher: the job's.
            defaults: the agent's configuration of launchers.
        """
        del launcher, defaults
        return job

    @abstractmethod
    def work(self, files: JobFiles, job: Job, launcher: L) -> Work:
        """Return what is to be done for a complete job, whose files it may add to.

        Raises:
            NotConfigured: an address is missing.
        """


def run_name(job: Job) -> str:
    """Return what a job's application is called where people see it."""
    request = job.request
    return f"headgate {request.dataflow} {request.action} {request.run}-{request.attempt}"
