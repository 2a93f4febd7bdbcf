"""Dataflow files: YAML in, a checked dataflow or every problem with its line and cure out."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.flows import launchers
    from headgate.flows.building import load_dataflow, parse_dataflow
    from headgate.flows.code import ModuleText, code_of, digest
    from headgate.flows.dataflow import Dataflow
    from headgate.flows.differences import changes, edited_code
    from headgate.flows.grammar.problems import DataflowErrors, Problem, Severity, nearest
    from headgate.flows.identity import (
        ActionIdentity,
        RunIdentity,
        container_identities,
        declared_identity,
        identity_of,
    )
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
    from headgate.flows.rebuilds import Rebuilds, rebuilds_between
    from headgate.flows.schema import schema_text
    from headgate.flows.sections.changes import Change, ChangeKind
    from headgate.flows.sections.modes import Deletes, FoundBy, Mode, ScanSpec
    from headgate.flows.sections.origin import OozieOrigin
    from headgate.flows.sections.waves import WaveEnd, WaveSpec

__all__ = [
    "LAUNCHER_KINDS",
    "ActionIdentity",
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
    "ModuleText",
    "OozieOrigin",
    "PoolMember",
    "Problem",
    "Rebuilds",
    "RunIdentity",
    "ScanSpec",
    "SessionLauncher",
    "Severity",
    "StepLauncher",
    "SubmitLauncher",
    "WaveEnd",
    "WaveSpec",
    "bounded_actions",
    "changes",
    "code_of",
    "container_identities",
    "declared_identity",
    "digest",
    "edited_code",
    "export_workflow",
    "identity_of",
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
    "rebuilds_between",
    "scale_limits",
    "schema_text",
    "session_roots",
]

_LATE = {
    "ActionIdentity": "identity",
    "RunIdentity": "identity",
    "AirflowLauncher": "launchers",
    "Change": "sections.changes",
    "ChangeKind": "sections.changes",
    "CommandLauncher": "launchers",
    "ConnectLauncher": "launchers",
    "Dataflow": "dataflow",
    "DataflowErrors": "grammar.problems",
    "Deletes": "sections.modes",
    "FoundBy": "sections.modes",
    "ImportChoices": "oozie",
    "ImportedWorkflow": "oozie",
    "JobLauncher": "launchers",
    "LAUNCHER_KINDS": "launchers",
    "Launcher": "launchers",
    "LauncherSettings": "launchers",
    "Mode": "sections.modes",
    "ModuleText": "code",
    "OozieOrigin": "sections.origin",
    "PoolMember": "pools",
    "Problem": "grammar.problems",
    "Rebuilds": "rebuilds",
    "ScanSpec": "sections.modes",
    "SessionLauncher": "launchers",
    "Severity": "grammar.problems",
    "StepLauncher": "launchers",
    "SubmitLauncher": "launchers",
    "WaveEnd": "sections.waves",
    "WaveSpec": "sections.waves",
    "bounded_actions": "limits",
    "changes": "differences",
    "code_of": "code",
    "container_identities": "identity",
    "declared_identity": "identity",
    "edited_code": "differences",
    "digest": "code",
    "export_workflow": "oozie",
    "identity_of": "identity",
    "import_workflow": "oozie",
    "load_dataflow": "building",
    "load_workflow_text": "oozie",
    "nearest": "grammar.problems",
    "parse_dataflow": "building",
    "plain_workflow": "oozie",
    "pool_conflict": "pools",
    "pool_member": "pools",
    "qod_schema_text": "oozie",
    "rebuilds_between": "rebuilds",
    "scale_limits": "limits",
    "schema_text": "schema",
    "session_roots": "pools",
}
"""Names by the module that they come from, which is loaded when one is first asked for."""


def __getattr__(name: str) -> Any:
    if name == "launchers":
        return import_module(f"{__name__}.launchers")
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
