"""What the agent does for each kind of launcher: the module that has the kind's name.

Each defines ``BACKEND``. They are imported when a job needs them: the process that waits for a
program does not load what speaks to Airflow.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from headgate.agent.launchers.kinds.backend import Backend, NotConfigured, Work
from headgate.flows import JobLauncher


def backend_of(launcher: JobLauncher) -> Backend[Any]:
    """Return what carries out jobs of a launcher's kind."""
    backend = import_module(f"{__name__}.{launcher.kind}").BACKEND
    if not isinstance(backend, Backend):
        message = f"{__name__}.{launcher.kind}.BACKEND is no Backend"
        raise TypeError(message)
    return backend


__all__ = ["Backend", "NotConfigured", "Work", "backend_of"]
