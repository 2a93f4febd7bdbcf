"""What other bounds would have saved and cost: recorded events through the same engine.

Pure: whoever has the decisions topic's lines and the updates of its tables can replay them.
"""

from headgate.replay.outcome import (
    Difference,
    OutputReplay,
    Replayed,
    ReplayedRun,
    StepReplay,
    differences,
)
from headgate.replay.outputs import OutputError
from headgate.replay.recording import (
    PLACED,
    Moment,
    NothingRecorded,
    NotRecorded,
    RecordedDecision,
    RecordedRun,
    Recording,
    RecordingError,
    RetentionPassed,
    read_recording,
)
from headgate.replay.replaying import Candidate, ReplayReport, replay
from headgate.replay.stream import Fetch, RecordedUpdate, in_order

__all__ = [
    "PLACED",
    "Candidate",
    "Difference",
    "Fetch",
    "Moment",
    "NotRecorded",
    "NothingRecorded",
    "OutputError",
    "OutputReplay",
    "RecordedDecision",
    "RecordedRun",
    "RecordedUpdate",
    "Recording",
    "RecordingError",
    "ReplayReport",
    "Replayed",
    "ReplayedRun",
    "RetentionPassed",
    "StepReplay",
    "differences",
    "in_order",
    "read_recording",
    "replay",
]
