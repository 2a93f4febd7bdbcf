"""The status of a dataflow, as its owner reports it."""

from __future__ import annotations

from enum import StrEnum

import msgspec
from msgspec import Struct

from headgate.agent.kafka.read_counts import ContainerReads
from headgate.agent.ports import BadRecord, WorkerState
from headgate.agent.state.run_records import RunRecord
from headgate.engine import Explanation, OnChange, RunPurpose
from headgate.engine import FlowExplanation as InputFlowExplanation
from headgate.flows import RunIdentity


class Phase(StrEnum):
    """Where a dataflow stands in this agent."""

    STARTING = "starting"
    """Its watches are not in effect yet."""
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"


class WaveStatus(Struct, frozen=True):
    """How a wave stands: settled when its consequences have come to rest."""

    wave: int
    settled: bool
    waiting: str = ""
    """For what, where it is not settled."""
    troubles: tuple[str, ...] = ()
    """What keeps steps from answering it, where it is settled: a quarantine, a pause, no input."""


class RunAnswer(Struct, frozen=True):
    """What became of a run that somebody asked for."""

    action: str
    run: str | None
    """The run that was launched; None where it waits."""
    waits: str = ""
    """For what."""
    follows: bool = False
    """Whether it waits only for the end of the run before it."""


class ActionStatus(Struct, frozen=True):
    """An action as ``flow show`` lists it."""

    name: str
    role: str
    state: str
    runs: int
    skipped: int
    last: RunRecord | None
    flows: str = ""
    """Of a stage, in words, what waits for it and who holds it; empty where nothing does."""
    runnable_failure: str = ""
    """What is wrong with the runnable of a stage, with a traceback; empty where nothing is."""
    action: str = ""
    """Its name again, as everything else of an action has it."""


class StageStatus(Struct, frozen=True):
    """A stage of a dataflow, as its owner sees it; what is in its files it does not look into."""

    action: str
    state: str
    """How it stands, in a word, as ``flow show`` has it."""
    location: str
    """Where the dataflow's stages keep their files: a URI, or a path where steps run."""
    manifest: str
    """The name, below that, of the file that says all of its state; empty where it has none."""
    on_change: OnChange
    flows: tuple[InputFlowExplanation, ...] = ()
    """What waits on its input flows."""
    held_by: tuple[str, ...] = ()
    wanted: RunPurpose = RunPurpose.ADVANCE
    """What its next run is for."""
    awaits: tuple[str, ...] = ()
    """The stages that are rebuilt before it."""
    failure: str = ""
    """Why it is in quarantine, why the last attempt failed, or what is wrong with its runnable."""


class RebuildAnswer(Struct, frozen=True):
    """What becomes of a rebuild that somebody asked for."""

    actions: tuple[str, ...]
    """The stages whose next run begins with nothing, makers first."""
    runs: dict[str, str]
    """By stage, the run that was launched already."""
    waits: dict[str, str]
    """By stage, what keeps that run from being launched yet, in words."""
    written: dict[str, tuple[str, ...]] = {}
    """Containers that a stage writes, by stage. What only the old state has written there is
    removed."""
    location: str = ""
    """Location of the stages' states."""
    manifests: dict[str, str] = {}
    """The state that does not count any more, by stage that writes to containers."""


class FlowStatus(Struct, frozen=True):
    """A dataflow as its owner sees it."""

    name: str
    phase: Phase
    words: str
    revision: int
    epoch: int
    worker: WorkerState
    actions: tuple[ActionStatus, ...]
    waves: int
    settled: int
    lag: int
    consumed: int
    shadow: bool = False
    """Whether it decides and launches nothing."""
    profile: str | None = None
    """Which of the file's bound profiles applies."""
    set_aside: int = 0
    """Records that were left out: they could not be read, or the engine failed on them."""
    bad_records: tuple[BadRecord, ...] = ()
    """The newest of them, the newest first."""
    wave_time: float | None = None
    """The last wave's own time, in Unix seconds; None where it is not known, or no wave is."""


class FlowExplanation(Explanation, frozen=True):
    """What the engine says, and how often what its bounds watch is read."""

    reads: tuple[ContainerReads, ...] = ()
    identities: dict[str, RunIdentity] = msgspec.field(default_factory=dict)
    """Identity of what the newest run of each action computed, where it is known."""
