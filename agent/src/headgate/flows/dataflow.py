"""A dataflow as its file describes it: what the engine decides on, and how actions are launched."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct

from headgate.engine import DataflowSpec
from headgate.flows.modes import Mode
from headgate.flows.problems import Problem


class WaveEnd(StrEnum):
    """What ends a wave of input."""

    MARK = "mark"
    """Somebody says so: ``headgate flow mark``."""
    EVERY = "every"
    """A period passes."""
    QUIET = "quiet"
    """No input came for a while."""


class Waves(Struct, frozen=True):
    """How waves end; ``seconds`` is the period or the quiet time, None for marks."""

    end: WaveEnd = WaveEnd.MARK
    seconds: float | None = None


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


Launcher = SessionLauncher
"""How an action is run: one struct for each kind, under a key of its own in the file."""


class OozieOrigin(Struct, frozen=True):
    """The workflow that a dataflow was imported from, and the branches taken in its decisions."""

    workflow: str
    """The XML text, without what Headgate adds to workflows."""
    decisions: dict[str, str] = {}


class Dataflow(Struct, frozen=True):
    """A dataflow file that is in order.

    ``launchers`` has one entry per action that is a step. ``spark`` holds the session's settings.
    ``profile`` names the profile whose bounds are in ``spec``, and ``profiles`` all that there are.
    """

    spec: DataflowSpec
    waves: Waves
    launchers: dict[str, Launcher]
    spark: dict[str, str]
    source: str
    file: str
    profile: str | None = None
    profiles: tuple[str, ...] = ()
    descriptions: dict[str, str] = {}
    """Texts for people: by action, and under the empty name the dataflow's own."""
    oozie: OozieOrigin | None = None
    mode: Mode = Mode.NORMAL
    warnings: tuple[Problem, ...] = ()

    @property
    def name(self) -> str:
        """The dataflow's name."""
        return self.spec.name
