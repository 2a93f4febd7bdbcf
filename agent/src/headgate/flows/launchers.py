"""How actions are run: one struct for each kind of launcher."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class SessionLauncher(Struct, frozen=True, tag="session"):
    """Runs a Python function in a warm Spark session.

    ``step`` is ``module:function``; ``python_path`` holds directories for its module, as written,
    relative to the directory of the dataflow file. ``parameters`` holds JSON values.
    """

    step: str
    python_path: tuple[str, ...] = (".",)
    parameters: dict[str, Any] = {}

    @property
    def module(self) -> str:
        """The module that holds the function."""
        return self.step.partition(":")[0]

    @property
    def function(self) -> str:
        """The function's name in the module."""
        return self.step.partition(":")[2]


class ConnectLauncher(Struct, frozen=True, tag="connect"):
    """Runs a Python function in a process of its own, on a Spark Connect server.

    ``remote`` is ``sc://host:port``; the agent's own default where empty. The others are those of
    ``SessionLauncher``.
    """

    step: str
    python_path: tuple[str, ...] = (".",)
    parameters: dict[str, Any] = {}
    remote: str = ""


class SubmitLauncher(Struct, frozen=True, tag="submit"):
    """Runs a Python function as an application of its own, by ``spark-submit``.

    ``master``, ``deploy_mode`` and ``conf`` stand over the agent's own defaults; ``files``,
    ``py_files``, ``archives`` and ``jars`` are paths relative to the dataflow file, or URLs.
    """

    step: str
    python_path: tuple[str, ...] = (".",)
    parameters: dict[str, Any] = {}
    master: str = ""
    deploy_mode: str = ""
    conf: dict[str, str] = {}
    files: tuple[str, ...] = ()
    py_files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()


class CommandLauncher(Struct, frozen=True, tag="command"):
    """Runs a program in the directory of the dataflow file; exit status 0 commits the run."""

    command: tuple[str, ...]
    parameters: dict[str, Any] = {}


class AirflowLauncher(Struct, frozen=True, tag="airflow"):
    """Runs a DAG of an Airflow deployment; ``parameters`` go into its run's configuration.

    ``url`` is the deployment's address; the agent's own default where empty.
    """

    dag: str
    url: str = ""
    parameters: dict[str, Any] = {}


StepLauncher = SessionLauncher | ConnectLauncher | SubmitLauncher
"""Launchers of Python functions that take the run."""

JobLauncher = ConnectLauncher | SubmitLauncher | CommandLauncher | AirflowLauncher
"""Launchers whose attempts are processes of their own, which outlive an agent."""

Launcher = SessionLauncher | JobLauncher
"""How an action is run."""
