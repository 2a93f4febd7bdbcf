"""What other bounds would have saved and cost: recorded events through the same engine.

Pure: whoever has the decisions topic's lines and the updates of its tables can replay them.
"""

from headgate.replay.models import ModelKey, RecordedModels, UnknownModel, recorded_models
from headgate.replay.outcome import (
    Difference,
    OutputReplay,
    Replayed,
    ReplayedRun,
    StepReplay,
    WantedModel,
    differences,
    untrained,
)
from headgate.replay.outputs import OutputError
from headgate.replay.recording import (
    PLACED,
    NothingRecorded,
    NotRecorded,
    RecordedDecision,
    RecordedRun,
    Recording,
    RecordingError,
    ReplayedDecision,
    RetentionPassed,
    read_recording,
)
from headgate.replay.replaying import Candidate, ReplayReport, replay
from headgate.replay.stream import Fetch, RecordedUpdate, in_order
from headgate.replay.tables import UNKNOWN, RecordedTables, Write
from headgate.replay.tuning import (
    ErrorTarget,
    Evaluate,
    Factors,
    SavingTarget,
    Target,
    Trial,
    Tuned,
    tune,
)

__all__ = [
    "PLACED",
    "UNKNOWN",
    "Candidate",
    "Difference",
    "ErrorTarget",
    "Evaluate",
    "Factors",
    "Fetch",
    "ModelKey",
    "NotRecorded",
    "NothingRecorded",
    "OutputError",
    "OutputReplay",
    "RecordedDecision",
    "RecordedModels",
    "RecordedRun",
    "RecordedTables",
    "RecordedUpdate",
    "Recording",
    "RecordingError",
    "ReplayReport",
    "Replayed",
    "ReplayedDecision",
    "ReplayedRun",
    "RetentionPassed",
    "SavingTarget",
    "StepReplay",
    "Target",
    "Trial",
    "Tuned",
    "UnknownModel",
    "WantedModel",
    "Write",
    "differences",
    "in_order",
    "read_recording",
    "recorded_models",
    "replay",
    "tune",
    "untrained",
]
