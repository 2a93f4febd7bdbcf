"""Oozie: workflows with bounds become dataflow files, and plain workflows again."""

from headgate.flows.oozie.document import load_workflow_text
from headgate.flows.oozie.exporting import export_workflow, plain_workflow
from headgate.flows.oozie.importing import ImportChoices, ImportedWorkflow, import_workflow
from headgate.flows.oozie.qod import qod_schema_text

__all__ = [
    "ImportChoices",
    "ImportedWorkflow",
    "export_workflow",
    "import_workflow",
    "load_workflow_text",
    "plain_workflow",
    "qod_schema_text",
]
