"""Actions of a workflow, and of those inside of it, as steps of one dataflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.flows.grammar.problems import Findings, Position
from headgate.flows.oozie.workflow import OozieAction


@dataclass(frozen=True, slots=True)
class ImportedStep:
    """An action, named as in the dataflow: ``action.inner`` inside of a sub-workflow."""

    name: str
    action: OozieAction
    after: tuple[str, ...]
    at: Position
    """Its own place, or that of the sub-workflow in which it lies."""
    findings: Findings
    defaults: Mapping[str, str]
    """Of the properties that its workflow declares."""
