"""Incremental stages: functions with a loopback state that cost what changed, on Spark.

Importing this room does not import PySpark.
"""

from headgate.incremental import library
from headgate.incremental.arrivals import FilesCursor, UnusableFile, files_cursor
from headgate.incremental.comparing import (
    SAMPLE,
    Comparison,
    DifferentGroup,
    compare_states,
)
from headgate.incremental.epochs.maintenance import Maintained, Upkeep, maintain, upkeep_due
from headgate.incremental.maintaining import maintain_stage
from headgate.incremental.published import (
    INCREMENT,
    DamagedIncrement,
    PublishedIncrements,
    publish_committed,
)
from headgate.incremental.stage import Fusible, Stage
from headgate.incremental.stages.described import DescribedInput, DescribedStage, described
from headgate.incremental.stages.errors import StageError, TaskFailed, TranslationFailed
from headgate.incremental.stages.specification import (
    GROUP,
    STATE,
    Adu,
    Computed,
    Fused,
    Groups,
    InputFlow,
    Keys,
    Outer,
    Route,
    StateFlow,
)
from headgate.incremental.stages.streams import FlowStream
from headgate.incremental.state.compaction import WHOLLY, Tiers
from headgate.incremental.state.errors import (
    DamagedState,
    DifferentColumns,
    NewerState,
    StateError,
    UnusableKey,
)
from headgate.incremental.state.keys import Key
from headgate.incremental.state.rows import Match
from headgate.incremental.stored import DamagedFile, NoState, StoredState, stage_name
from headgate.incremental.topics.cursors import LostMessages, TopicCursor, topic_cursor
from headgate.incremental.topics.decoding import UnusableMessage
from headgate.incremental.topics.sending import UnsentIncrement
from headgate.incremental.written_cells import unknown_words

__all__ = [
    "GROUP",
    "INCREMENT",
    "SAMPLE",
    "STATE",
    "WHOLLY",
    "Adu",
    "Comparison",
    "Computed",
    "DamagedFile",
    "DamagedIncrement",
    "DamagedState",
    "DescribedInput",
    "DescribedStage",
    "DifferentColumns",
    "DifferentGroup",
    "FilesCursor",
    "FlowStream",
    "Fused",
    "Fusible",
    "Groups",
    "InputFlow",
    "Key",
    "Keys",
    "LostMessages",
    "Maintained",
    "Match",
    "NewerState",
    "NoState",
    "Outer",
    "PublishedIncrements",
    "Route",
    "Stage",
    "StageError",
    "StateError",
    "StateFlow",
    "StoredState",
    "TaskFailed",
    "Tiers",
    "TopicCursor",
    "TranslationFailed",
    "UnsentIncrement",
    "UnusableFile",
    "UnusableKey",
    "UnusableMessage",
    "Upkeep",
    "compare_states",
    "described",
    "files_cursor",
    "library",
    "maintain",
    "maintain_stage",
    "publish_committed",
    "stage_name",
    "topic_cursor",
    "unknown_words",
    "upkeep_due",
]
