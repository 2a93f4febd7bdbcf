"""Every decision of a dataflow, as a pure state machine: stimuli in, instructions out.

Time comes only from the stimuli. The service carries stimuli in (records that it has read together
through ``Engine.arrive``, everything else through ``Engine.handle``) and instructions out, saves
``Engine.snapshot`` before it carries out a ``Launch`` and after a ``RunFinished``, and sends
``Restarted`` first to an engine made from a snapshot.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headgate.engine.protocol.adjustments import Assessment, Vote
from headgate.engine.protocol.increments import FlowTaken, FramingKey, Increment, Produced
from headgate.engine.protocol.instructions import (
    Cause,
    Consult,
    Decision,
    DecisionKind,
    Instruction,
    Launch,
    NotifyAt,
    Quarantine,
    ReadCells,
    RecordDecision,
    ScanContainer,
)
from headgate.engine.protocol.runnables import (
    LARGEST_STATE,
    PYTHON_RUNNABLE,
    HowMany,
    RunnableAnswer,
    RunnableQuestion,
    WaitingFlow,
    WaitingIncrement,
    decode_runnable_answer,
    decode_runnable_question,
    encode_runnable,
)
from headgate.engine.protocol.stimuli import (
    CellsRead,
    ClockMoved,
    CompactionRequested,
    Consulted,
    ContainerScanned,
    ObserverLost,
    PartitionReset,
    Paused,
    RebuildRequested,
    ReconciliationDue,
    RecordArrived,
    Released,
    ResourceSample,
    ResourcesSampled,
    Restarted,
    Resumed,
    RetryRequested,
    RunFailed,
    RunFinished,
    RunRehearsed,
    RunRequested,
    RunStarted,
    ScanBegun,
    SpecificationChanged,
    Stimulus,
    Tick,
    TopicsOpened,
    WaveEnded,
)
from headgate.engine.protocol.work import Advance, Rebuild, RunPurpose
from headgate.engine.spec.codecs import (
    LAYOUTS,
    Codec,
    CodecName,
    OnUndecodable,
    decode_column,
    decode_one,
    decode_wholes,
    decoder_of,
)
from headgate.engine.spec.conditions import (
    AllOf,
    AnyOf,
    AtLeast,
    BoundReached,
    BoundResult,
    Condition,
    ConditionError,
    ConditionResult,
    Dimension,
    PredecessorsResult,
    TriggerResult,
    VectorResult,
    all_of,
    at_least_one,
    bounds_of,
    leaves,
    majority,
    parse_condition,
    write_condition,
)
from headgate.engine.spec.dataflow import (
    SOUGHT_SEQUENCE,
    SOUGHT_VALUE,
    ActionRole,
    ActionSpec,
    Bound,
    Count,
    DataflowSpec,
    Evaluation,
    FirstChanges,
    Interval,
    Limit,
    RetryPolicy,
    SequenceBound,
    SequenceUnit,
    SignificanceSpec,
    SpecificationError,
    Trigger,
    ValueBound,
    WatchedContainer,
    check_specification,
    launch_order,
)
from headgate.engine.spec.files import DEFAULT_LATE, FileFormat, FilesSpec
from headgate.engine.spec.json_paths import JSON_IN_BRACKETS, canonical_path
from headgate.engine.spec.layouts import Layout
from headgate.engine.spec.metrics.divergence import ValueMetric
from headgate.engine.spec.metrics.table import METRICS, Metric, definition_of
from headgate.engine.spec.metrics.user import UserMetric
from headgate.engine.spec.reading import edits_between, reading_of
from headgate.engine.spec.references import (
    RESOURCES,
    AdjustmentSpec,
    FrequencyUnit,
    Reference,
    Resource,
    WriteReference,
)
from headgate.engine.spec.stages import (
    DEFAULT_BACKLOG,
    ActionFlows,
    FlowId,
    OnChange,
    RunnableSpec,
)
from headgate.engine.spec.topics import TOPIC_METADATA, OnGap, TopicSpec

if TYPE_CHECKING:
    from headgate.engine.actions.factory import (
        MAKERS,
        NAMED_TRIGGERS,
        PolicyMaker,
        make_policy,
        policies_of,
        with_triggers,
    )
    from headgate.engine.actions.runs import RunState
    from headgate.engine.cells.columns import Detail
    from headgate.engine.cells.storage import (
        Array,
        Index,
        MemoryIndex,
        MemoryStorage,
        Storage,
        blank,
    )
    from headgate.engine.cells.sums import LARGEST_TOTAL, exact_total, signed_total
    from headgate.engine.cells.totals import limb_totals, limbs, rounded_totals
    from headgate.engine.checkpoint.changelog import (
        Checkpoint,
        Kept,
        LogChange,
        LogSegment,
        SavedEngine,
    )
    from headgate.engine.checkpoint.log_reader import SnapshotError
    from headgate.engine.checkpoint.saved import SNAPSHOT_VERSION
    from headgate.engine.core.engine import Engine
    from headgate.engine.core.explain import (
        ActionExplanation,
        ContainerExplanation,
        Explanation,
    )
    from headgate.engine.intake.duplicates import Deliveries
    from headgate.engine.intake.isolation import counted_part
    from headgate.engine.intake.rivals import Rivals
    from headgate.engine.stages.coordination import FlowExplanation
    from headgate.engine.stages.rebuilding import Unrebuildable, rebuilt_together
    from headgate.engine.testing.invariants import BrokenInvariant, check_invariants
    from headgate.engine.testing.tester import EngineTester, launched
    from headgate.engine.triggers.bounds.measures import seconds_words
    from headgate.engine.triggers.bounds.policy import BOUNDS
    from headgate.engine.triggers.bounds.questions import (
        ChangedValues,
        MetricAnswer,
        MetricAnswers,
        MetricQuestion,
        MetricQuestions,
        decode_metric_answers,
        decode_metric_questions,
        encode_metrics,
    )
    from headgate.engine.triggers.facets import Adopts, PolicyReport, Reports
    from headgate.engine.triggers.policy import (
        Adopted,
        Advice,
        Ask,
        AskAgain,
        ContainerWatch,
        Heard,
        Inputs,
        LimitsMoved,
        Moment,
        Needs,
        NeedsAnswer,
        NeedsReading,
        Nothing,
        Notice,
        Part,
        PolicyFactory,
        Probe,
        Response,
        RunFirst,
        RunNow,
        TriggerPolicy,
        Verdict,
        WaitUntil,
        Wave,
    )

__all__ = [
    "BOUNDS",
    "DEFAULT_BACKLOG",
    "DEFAULT_LATE",
    "JSON_IN_BRACKETS",
    "LARGEST_STATE",
    "LARGEST_TOTAL",
    "LAYOUTS",
    "MAKERS",
    "METRICS",
    "NAMED_TRIGGERS",
    "PYTHON_RUNNABLE",
    "RESOURCES",
    "SNAPSHOT_VERSION",
    "SOUGHT_SEQUENCE",
    "SOUGHT_VALUE",
    "TOPIC_METADATA",
    "ActionExplanation",
    "ActionFlows",
    "ActionRole",
    "ActionSpec",
    "AdjustmentSpec",
    "Adopted",
    "Adopts",
    "Advance",
    "Advice",
    "AllOf",
    "AnyOf",
    "Array",
    "Ask",
    "AskAgain",
    "Assessment",
    "AtLeast",
    "Bound",
    "BoundReached",
    "BoundResult",
    "BrokenInvariant",
    "Cause",
    "CellsRead",
    "ChangedValues",
    "Checkpoint",
    "ClockMoved",
    "Codec",
    "CodecName",
    "CompactionRequested",
    "Condition",
    "ConditionError",
    "ConditionResult",
    "Consult",
    "Consulted",
    "ContainerExplanation",
    "ContainerScanned",
    "ContainerWatch",
    "Count",
    "DataflowSpec",
    "Decision",
    "DecisionKind",
    "Deliveries",
    "Detail",
    "Dimension",
    "Engine",
    "EngineTester",
    "Evaluation",
    "Explanation",
    "FileFormat",
    "FilesSpec",
    "FirstChanges",
    "FlowExplanation",
    "FlowId",
    "FlowTaken",
    "FramingKey",
    "FrequencyUnit",
    "Heard",
    "HowMany",
    "Increment",
    "Index",
    "Inputs",
    "Instruction",
    "Interval",
    "Kept",
    "Launch",
    "Layout",
    "Limit",
    "LimitsMoved",
    "LogChange",
    "LogSegment",
    "MemoryIndex",
    "MemoryStorage",
    "Metric",
    "MetricAnswer",
    "MetricAnswers",
    "MetricQuestion",
    "MetricQuestions",
    "Moment",
    "Needs",
    "NeedsAnswer",
    "NeedsReading",
    "Nothing",
    "Notice",
    "NotifyAt",
    "ObserverLost",
    "OnChange",
    "OnGap",
    "OnUndecodable",
    "Part",
    "PartitionReset",
    "Paused",
    "PolicyFactory",
    "PolicyMaker",
    "PolicyReport",
    "PredecessorsResult",
    "Probe",
    "Produced",
    "Quarantine",
    "ReadCells",
    "Rebuild",
    "RebuildRequested",
    "ReconciliationDue",
    "RecordArrived",
    "RecordDecision",
    "Reference",
    "Released",
    "Reports",
    "Resource",
    "ResourceSample",
    "ResourcesSampled",
    "Response",
    "Restarted",
    "Resumed",
    "RetryPolicy",
    "RetryRequested",
    "Rivals",
    "RunFailed",
    "RunFinished",
    "RunFirst",
    "RunNow",
    "RunPurpose",
    "RunRehearsed",
    "RunRequested",
    "RunStarted",
    "RunState",
    "RunnableAnswer",
    "RunnableQuestion",
    "RunnableSpec",
    "SavedEngine",
    "ScanBegun",
    "ScanContainer",
    "SequenceBound",
    "SequenceUnit",
    "SignificanceSpec",
    "SnapshotError",
    "SpecificationChanged",
    "SpecificationError",
    "Stimulus",
    "Storage",
    "Tick",
    "TopicSpec",
    "TopicsOpened",
    "Trigger",
    "TriggerPolicy",
    "TriggerResult",
    "Unrebuildable",
    "UserMetric",
    "ValueBound",
    "ValueMetric",
    "VectorResult",
    "Verdict",
    "Vote",
    "WaitUntil",
    "WaitingFlow",
    "WaitingIncrement",
    "WatchedContainer",
    "Wave",
    "WaveEnded",
    "WriteReference",
    "all_of",
    "at_least_one",
    "blank",
    "bounds_of",
    "canonical_path",
    "check_invariants",
    "check_specification",
    "counted_part",
    "decode_column",
    "decode_metric_answers",
    "decode_metric_questions",
    "decode_one",
    "decode_runnable_answer",
    "decode_runnable_question",
    "decode_wholes",
    "decoder_of",
    "definition_of",
    "edits_between",
    "encode_metrics",
    "encode_runnable",
    "exact_total",
    "launch_order",
    "launched",
    "leaves",
    "limb_totals",
    "limbs",
    "majority",
    "make_policy",
    "parse_condition",
    "policies_of",
    "reading_of",
    "rebuilt_together",
    "rounded_totals",
    "seconds_words",
    "signed_total",
    "with_triggers",
    "write_condition",
]

_LATE = {
    name: module
    for module, names in {
        "actions.factory": (
            "MAKERS NAMED_TRIGGERS PolicyMaker make_policy policies_of with_triggers"
        ),
        "actions.runs": "RunState",
        "cells.columns": "Detail",
        "cells.storage": "Array Index MemoryIndex MemoryStorage Storage blank",
        "cells.sums": "LARGEST_TOTAL exact_total signed_total",
        "cells.totals": "limb_totals limbs rounded_totals",
        "checkpoint.changelog": "Checkpoint Kept LogChange LogSegment SavedEngine",
        "checkpoint.log_reader": "SnapshotError",
        "checkpoint.saved": "SNAPSHOT_VERSION",
        "core.engine": "Engine",
        "core.explain": "ActionExplanation ContainerExplanation Explanation",
        "intake.duplicates": "Deliveries",
        "intake.isolation": "counted_part",
        "intake.rivals": "Rivals",
        "stages.coordination": "FlowExplanation",
        "stages.rebuilding": "Unrebuildable rebuilt_together",
        "testing.invariants": "BrokenInvariant check_invariants",
        "testing.tester": "EngineTester launched",
        "triggers.bounds.measures": "seconds_words",
        "triggers.bounds.policy": "BOUNDS",
        "triggers.bounds.questions": (
            "ChangedValues MetricAnswer MetricAnswers MetricQuestion MetricQuestions "
            "decode_metric_answers decode_metric_questions encode_metrics"
        ),
        "triggers.facets": "Adopts PolicyReport Reports",
        "triggers.policy": (
            "Adopted Advice Ask AskAgain ContainerWatch Heard Inputs LimitsMoved Moment Needs "
            "NeedsAnswer NeedsReading Nothing Notice Part PolicyFactory Probe Response RunFirst "
            "RunNow TriggerPolicy Verdict WaitUntil Wave"
        ),
    }.items()
    for name in names.split()
}
"""Names by the module that they come from, which is loaded when one is first asked for."""


def __getattr__(name: str) -> Any:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
