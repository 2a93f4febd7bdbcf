"""The launcher ``session``: a step in the dataflow's warm Spark session."""

from __future__ import annotations

from headgate.flows.grammar.tree import text_of
from headgate.flows.launchers.kind import LauncherKind, LaunchSection, StepLauncher
from headgate.flows.launchers.stage import STAGE
from headgate.flows.launchers.step import STEP


class SessionLauncher(StepLauncher, frozen=True, tag="session"):
    """Runs a Python function in a warm Spark session."""


def _read(section: LaunchSection) -> SessionLauncher:
    return SessionLauncher(text_of(section.target), section.python_path, section.parameters)


SESSION = LauncherKind("session", (STEP, STAGE), _read, by_name=True)
