"""Launchers of jobs: attempts that are processes of their own, and outlive the agent."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.agent.launchers.dispatch import FlowLaunchers
    from headgate.agent.launchers.launcher import JobsLauncher
    from headgate.agent.launchers.local_jobs import LocalJobs

__all__ = ["FlowLaunchers", "JobsLauncher", "LocalJobs"]

_LATE = {
    "FlowLaunchers": "dispatch",
    "JobsLauncher": "launcher",
    "LocalJobs": "local_jobs",
}
"""Names by the module that they come from, which is loaded when one is first asked for."""


def __getattr__(name: str) -> Any:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
