"""A dataflow as its file describes it: what the engine decides on, and how actions are launched."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from headgate.engine import (
    DataflowSpec,
    FilesSpec,
    OnChange,
    OnUndecodable,
    TopicSpec,
    UserMetric,
)
from headgate.events import KeyForm
from headgate.flows.grammar.problems import Problem
from headgate.flows.launchers import Launcher
from headgate.flows.sections.modes import Mode, ScanSpec
from headgate.learning import user_metrics as learned_metrics

DEFAULT_CONCURRENCY = 4
"""Attempts of a dataflow under way at a time: independent branches go on beside a long one."""


class WaveEnd(StrEnum):
    """What ends a wave of input."""

    MARK = "mark"
    """Somebody says so: ``headgate flow mark``."""
    EVERY = "every"
    """A period passes."""
    QUIET = "quiet"
    """No input came for a while."""


class WaveSpec(Struct, frozen=True):
    """How waves end; ``seconds`` is the period or the quiet time, None for marks."""

    end: WaveEnd = WaveEnd.MARK
    seconds: float | None = None


class OozieOrigin(Struct, frozen=True):
    """The workflow that a dataflow was imported from, and the branches taken in its decisions."""

    workflow: str
    """The XML text, without what Headgate adds to workflows."""
    decisions: dict[str, str] = {}


class Dataflow(Struct, frozen=True):
    """A dataflow file that is in order.

    ``launchers`` has one entry per action that is a step. ``spark`` holds the session's settings.
    ``concurrency`` is how many attempts may be under way at a time, ``priority`` is that over other
    dataflows of one agent: the higher goes first.
    ``profile`` names the profile whose bounds are in ``spec``, and ``profiles`` all that there are.
    """

    spec: DataflowSpec
    waves: WaveSpec
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
    scans: ScanSpec = ScanSpec()
    """Of mode ``OBSERVER``."""
    warnings: tuple[Problem, ...] = ()
    concurrency: int = DEFAULT_CONCURRENCY
    priority: int = 0
    on_undecodable: dict[str, OnUndecodable] = {}
    """By container: what a step sees of values that the codec cannot read, where it is said."""
    python_path: tuple[str, ...] = (".",)
    """Where modules of steps and metrics are looked for, from the dataflow file's directory on."""
    spark_pool: str = ""
    """The pool whose session its steps share with others; empty where they have their own."""
    state: str = ""
    """Where its stages keep their files, as written: a directory or a URI; empty where the agent
    has a place for them."""
    depends: dict[str, tuple[str, ...]] = {}
    """Files that an action's code reads, by action; paths as written, relative to the dataflow
    file's directory."""
    on_change: dict[str, OnChange] = {}
    """By stage, what becomes of a state that another version wrote."""
    files: dict[str, FilesSpec] = {}
    """Directories that stages read or write, by name, their places as written. In ``spec`` they are
    containers without tables."""
    topics: dict[str, TopicSpec] = {}
    """Topics that stages read or write, by name; in ``spec`` they are the same."""
    keys: dict[str, KeyForm] = {}
    """Form in which a step sees rows and qualifiers, text or bytes, by container, where it is
    stated."""

    @property
    def name(self) -> str:
        """The dataflow's name."""
        return self.spec.name

    @property
    def outside(self) -> frozenset[str]:
        """The names of files and topics, which are no containers in tables."""
        return frozenset(self.files) | frozenset(self.topics)

    @property
    def user_metrics(self) -> tuple[str, ...]:
        """The users' metrics of its bounds and of what it learns, each once."""
        values = (bound.value for action in self.spec.actions for bound in action.bounds)
        bounded = (value.metric for value in values if value is not None)
        metrics = (*bounded, *learned_metrics(self.spec))
        return tuple(dict.fromkeys(m.entry for m in metrics if isinstance(m, UserMetric)))

    @property
    def user_runnables(self) -> tuple[str, ...]:
        """The runnables in Python of its stages, each once."""
        stages = (action.stage for action in self.spec.actions)
        rules = (stage.runnable for stage in stages if stage is not None)
        entries = (rule.setting for rule in rules if rule.kind == "python")
        return tuple(dict.fromkeys(entry for entry in entries if isinstance(entry, str)))
