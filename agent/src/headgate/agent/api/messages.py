"""What the HTTP API is asked and what it answers, as JSON."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from headgate.agent.dataflow.views import FlowStatus
from headgate.agent.ownership.flow_rows import FlowRow
from headgate.agent.state.run_records import RunRecord
from headgate.agent.training.task import PackedPairs, Source
from headgate.flows import Change


class SubmitRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A dataflow file: its text, its name for messages, the directory its paths start from."""

    source: str
    file: str = "dataflow"
    directory: str = "."
    profile: str | None = None
    name: str | None = None
    """Of the instance, where it is another than the file's own."""
    shadow: bool = False
    """Whether it is to decide only, and to launch nothing."""
    allow_missing_tables: bool = False
    """Whether tables may be created later."""


class UpdateRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be another of a dataflow; the rest stays as it was submitted.

    ``profile`` null is none at all. ``reload`` starts a new Spark session in any case, so that
    changed modules are read again.
    """

    source: str | None = None
    file: str = "dataflow"
    directory: str | None = None
    profile: str | UnsetType | None = UNSET
    shadow: bool | None = None
    reload: bool = False
    allow_missing_tables: bool = False


class UpdateView(Struct, frozen=True):
    """An updated dataflow, and what is another now."""

    flow: FlowRow
    changes: tuple[Change, ...]


class SignRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The bytes of a definition that an agent shall believe, and a signature of them."""

    value: bytes
    seal: bytes


class ActionRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Names an action; releasing and retrying without one means all for which it makes sense."""

    action: str | None = None


class RebuildRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Names a stage that is to be rebuilt."""

    action: str
    with_sources: bool = False
    """Whether those are rebuilt, too, that make what it reads."""


class LogRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Names an action, of which the newest attempt is meant, or a run."""

    of: str
    attempt: int | None = None
    lines: Annotated[int, Meta(ge=1)] = 1000


_WAVE_TIMES_END = 253_402_214_400.0
"""Before which times of waves lie, in Unix seconds: 9999-12-31T00:00:00Z. The last day of all
dates is left out, for it has none in zones east of Greenwich."""


class WaveRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Names the input actions whose wave ends; all of them where none is named.

    Raises:
        ValueError: ``time`` is before 1970 or after the year 9999, or no number.
    """

    actions: tuple[str, ...] = ()
    time: float | None = None
    """The wave's own, in Unix seconds; that of the request where None."""

    def __post_init__(self) -> None:
        """Refuse times that are none."""
        if self.time is not None and not 0 <= self.time < _WAVE_TIMES_END:
            raise ValueError(
                f"time: {self.time:.15g} is no time of a wave; give Unix seconds (not "
                "milliseconds) from 0, which is 1970-01-01T00:00:00Z, to below "
                f"{_WAVE_TIMES_END:.0f}, which is 9999-12-31T00:00:00Z"
            )


class EndedWave(Struct, frozen=True):
    """A wave that was ended: its number and its own time, in Unix seconds."""

    wave: int
    time: float


class TrainRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Which models are to be trained; of all bounded outputs where none is named."""

    outputs: tuple[str, ...] = ()
    waves: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    """Waves to train on; as many as the dataflow says where None."""
    source: Source = Source.RECORDING


class KnowledgeRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Pairs to be kept for a dataflow, whatever they were measured of."""

    pairs: tuple[PackedPairs, ...]


class TrimRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """How much of the knowledge of a dataflow is to stay."""

    waves: Annotated[int, Meta(ge=0)]
    """The newest, whose pairs stay."""


class KeptPairs(Struct, frozen=True):
    """How many waves were new, counted for each output and container."""

    new: int


class ReleasedActions(Struct, frozen=True):
    """What was let out of quarantine."""

    actions: tuple[str, ...]


class RetriedActions(Struct, frozen=True):
    """What is tried again."""

    actions: tuple[str, ...]


class FlowView(Struct, frozen=True):
    """A dataflow whole: as listed, and as its owner sees it."""

    flow: FlowRow
    status: FlowStatus
    runs: tuple[RunRecord, ...]


class ProblemView(Struct, frozen=True):
    """One fault of a dataflow file."""

    file: str
    line: int
    column: int
    message: str
    cure: str


class ErrorView(Struct, frozen=True):
    """Why a request was not carried out."""

    error: str
    problems: tuple[ProblemView, ...] = ()


class Liveness(Struct, frozen=True):
    """Whether the agent can get on by itself."""

    status: str
    words: str


class Health(Struct, frozen=True):
    """How the agent is."""

    status: str
    words: str
    dataflows: int
    observers: tuple[str, ...]
