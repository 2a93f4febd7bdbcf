"""A dataflow as its file describes it: the list of all sections, and their values.

A new section of the file is a module in ``sections``, its line in ``SECTIONS``, and a field of
``Dataflow`` if others than the engine need its value.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from headgate.engine import (
    DataflowSpec,
    FilesSpec,
    OnUndecodable,
    TopicSpec,
    UserMetric,
    WatchedContainer,
)
from headgate.events import KeyForm
from headgate.flows.grammar.kinds import RecordOf
from headgate.flows.grammar.problems import Problem
from headgate.flows.launchers import Launcher
from headgate.flows.sections.actions.actions import ACTIONS
from headgate.flows.sections.actions.declared import DeclaredAction
from headgate.flows.sections.adjustment import ADJUSTMENT
from headgate.flows.sections.containers.files import FILES
from headgate.flows.sections.containers.tables import CONTAINERS, DeclaredContainer
from headgate.flows.sections.containers.topics import TOPICS
from headgate.flows.sections.learned import LEARNED
from headgate.flows.sections.modes import FEEDERS, MODE, SCANS, Mode, ScanSpec
from headgate.flows.sections.naming import DESCRIPTION, NAME
from headgate.flows.sections.origin import OOZIE, OozieOrigin
from headgate.flows.sections.profiles import PROFILES
from headgate.flows.sections.running import (
    CONCURRENCY,
    PRIORITY,
    PYTHON_PATH,
    SPARK,
    SPARK_POOL,
    STATE,
)
from headgate.flows.sections.section import Section
from headgate.flows.sections.significance import SIGNIFICANCE
from headgate.flows.sections.waves import WAVES, WaveSpec
from headgate.learning import user_metrics as learned_metrics

SECTIONS: Final[tuple[Section[Any], ...]] = (
    NAME,
    DESCRIPTION,
    WAVES,
    MODE,
    SCANS,
    FEEDERS,
    CONTAINERS,
    FILES,
    TOPICS,
    ACTIONS,
    PROFILES,
    ADJUSTMENT,
    CONCURRENCY,
    PRIORITY,
    SIGNIFICANCE,
    LEARNED,
    SPARK,
    SPARK_POOL,
    STATE,
    OOZIE,
    PYTHON_PATH,
)
"""All keys of a dataflow file, in the order in which they are read and explained."""

GRAMMAR: Final = RecordOf("a dataflow", {section.name: section.key for section in SECTIONS})
"""The grammar of the whole file, the one source of both the checks and the JSON Schema."""


class Dataflow(Struct, frozen=True, kw_only=True):
    """A dataflow file that is in order."""

    spec: DataflowSpec
    """What the engine decides on."""
    source: str
    """The file's text."""
    file: str
    """The file's name in messages."""
    profile: str | None = None
    """The profile whose bounds are in ``spec``."""
    warnings: tuple[Problem, ...] = ()

    # The values of sections, by name.
    description: str
    """A text for people."""
    waves: WaveSpec
    mode: Mode
    scans: ScanSpec
    """Scans in mode ``OBSERVER``."""
    containers: dict[str, DeclaredContainer]
    """Containers in tables, by name."""
    files: dict[str, FilesSpec]
    """Directories that stages read or write, by name, their places as written. In ``spec`` they are
    containers without tables."""
    topics: dict[str, TopicSpec]
    """Topics that stages read or write, by name; in ``spec`` they are containers without tables."""
    actions: dict[str, DeclaredAction]
    """All actions, by name."""
    profiles: tuple[str, ...]
    """Names of all profiles."""
    concurrency: int
    """Attempts that may be under way at a time."""
    priority: int
    """Rank among dataflows of one agent: the higher goes first."""
    spark: dict[str, str]
    """Settings of the Spark session."""
    spark_pool: str
    """The pool whose session its steps share with others; empty where they have their own."""
    state: str
    """Where its stages keep their files, as written: a directory or a URI; empty where the agent
    has a place for them."""
    oozie: OozieOrigin | None
    """The workflow that it was imported from."""
    python_path: tuple[str, ...]
    """Where modules of steps and metrics are looked for, from the dataflow file's directory on."""

    @property
    def name(self) -> str:
        """The dataflow's name."""
        return self.spec.name

    @property
    def launchers(self) -> dict[str, Launcher]:
        """How each action is run that is a step or a stage."""
        return {
            name: one.launcher for name, one in self.actions.items() if one.launcher is not None
        }

    def launcher_of(self, action: str) -> Launcher | None:
        """Return how an action is run; None where it is not there, or fed from outside."""
        declared = self.actions.get(action)
        return None if declared is None else declared.launcher

    @property
    def on_undecodable(self) -> dict[str, OnUndecodable]:
        """What a step sees of values that the codec cannot read, by container that says it."""
        declared = self.containers.items()
        return {
            name: one.on_undecodable for name, one in declared if one.on_undecodable is not None
        }

    @property
    def keys(self) -> dict[str, KeyForm]:
        """Form in which a step sees rows and qualifiers, by container that says it."""
        declared = self.containers.items()
        return {name: one.keys for name, one in declared if one.keys is not None}

    @property
    def in_tables(self) -> tuple[WatchedContainer, ...]:
        """The containers that steps may ask for: those that are in tables."""
        outside = self.outside
        return tuple(one for one in self.spec.containers if one.id not in outside)

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
