"""How actions are run: a file for each kind of launcher, and the table of them.

What the agent does for a kind is in the module of the same name in its own table.
"""

from typing import Final

from headgate.flows.launchers.airflow import AIRFLOW, AirflowLauncher
from headgate.flows.launchers.command import COMMAND, CommandLauncher
from headgate.flows.launchers.connect import CONNECT, ConnectLauncher
from headgate.flows.launchers.kind import LauncherKind, LauncherSettings, StepLauncher
from headgate.flows.launchers.session import SESSION, SessionLauncher
from headgate.flows.launchers.submit import SUBMIT, SubmitLauncher

JobLauncher = ConnectLauncher | SubmitLauncher | CommandLauncher | AirflowLauncher
"""Launchers whose attempts are processes of their own, which outlive an agent."""

Launcher = SessionLauncher | JobLauncher
"""How an action is run."""

KINDS: Final[tuple[LauncherKind[Launcher], ...]] = (SESSION, CONNECT, SUBMIT, COMMAND, AIRFLOW)
"""All kinds, those of one target in the order in which they are offered."""

LAUNCHER_KINDS: Final = tuple(kind.name for kind in KINDS)

__all__ = [
    "KINDS",
    "LAUNCHER_KINDS",
    "AirflowLauncher",
    "CommandLauncher",
    "ConnectLauncher",
    "JobLauncher",
    "Launcher",
    "LauncherKind",
    "LauncherSettings",
    "SessionLauncher",
    "StepLauncher",
    "SubmitLauncher",
]
