"""Dataflow files: YAML in, a checked dataflow or every problem with its line and cure out."""

from headgate.flows import launchers
from headgate.flows.building import load_dataflow, parse_dataflow
from headgate.flows.dataflow import (
    Dataflow,
    OozieOrigin,
    WaveEnd,
    WaveSpec,
)
from headgate.flows.differences import Change, ChangeKind, changes
from headgate.flows.grammar.problems import DataflowErrors, Problem, Severity, nearest
from headgate.flows.launchers import (
    LAUNCHER_KINDS,
    AirflowLauncher,
    CommandLauncher,
    ConnectLauncher,
    JobLauncher,
    Launcher,
    LauncherSettings,
    SessionLauncher,
    StepLauncher,
    SubmitLauncher,
)
from headgate.flows.limits import bounded_actions, scale_limits
from headgate.flows.oozie import (
    ImportChoices,
    ImportedWorkflow,
    export_workflow,
    import_workflow,
    load_workflow_text,
    plain_workflow,
    qod_schema_text,
)
from headgate.flows.pools import PoolMember, pool_conflict, pool_member, session_roots
from headgate.flows.schema import schema_text
from headgate.flows.sections.modes import Deletes, FoundBy, Mode, ScanSpec

__all__ = [
    "LAUNCHER_KINDS",
    "AirflowLauncher",
    "Change",
    "ChangeKind",
    "CommandLauncher",
    "ConnectLauncher",
    "Dataflow",
    "DataflowErrors",
    "Deletes",
    "FoundBy",
    "ImportChoices",
    "ImportedWorkflow",
    "JobLauncher",
    "Launcher",
    "LauncherSettings",
    "Mode",
    "OozieOrigin",
    "PoolMember",
    "Problem",
    "ScanSpec",
    "SessionLauncher",
    "Severity",
    "StepLauncher",
    "SubmitLauncher",
    "WaveEnd",
    "WaveSpec",
    "bounded_actions",
    "changes",
    "export_workflow",
    "import_workflow",
    "launchers",
    "load_dataflow",
    "load_workflow_text",
    "nearest",
    "parse_dataflow",
    "plain_workflow",
    "pool_conflict",
    "pool_member",
    "qod_schema_text",
    "scale_limits",
    "schema_text",
    "session_roots",
]
