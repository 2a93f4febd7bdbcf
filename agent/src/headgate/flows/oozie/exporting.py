"""From a dataflow that was a workflow back to the workflow, without what was added to it."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.engine import ActionRole, DataflowSpec
from headgate.flows.dataflow import Dataflow
from headgate.flows.grammar.problems import DataflowErrors, Findings, Position
from headgate.flows.oozie.importing import SUB_WORKFLOW
from headgate.flows.oozie.order import Order
from headgate.flows.oozie.workflow import Workflow, read_workflow, without_bounds
from headgate.flows.sections.actions.graph import ancestors

_TOP = Position(1, 1)


def plain_workflow(text: str, file: str) -> str:
    """Return a workflow's XML text without its ``qod`` and ``error-bounds`` elements.

    Raises:
        DataflowErrors: the text is no workflow.
    """
    findings = Findings(file)
    workflow = read_workflow(text, findings)
    if workflow is None or findings.failed:
        raise DataflowErrors(findings.problems)
    return without_bounds(workflow)


def export_workflow(dataflow: Dataflow) -> str:
    """Return the XML text of the workflow that a dataflow was imported from.

    Raises:
        DataflowErrors: it comes from none, or its actions are no longer those of the workflow.
    """
    findings = Findings(dataflow.file)
    if dataflow.oozie is None:
        findings.error(
            _TOP,
            f"dataflow `{dataflow.name}` was not imported from a workflow",
            "only dataflows made by `headgate flow import` can be exported",
        )
        raise DataflowErrors(findings.problems)
    inner = Findings(f"{dataflow.file}: oozie.workflow")
    workflow = read_workflow(dataflow.oozie.workflow, inner)
    if workflow is not None and not inner.failed:
        order = Order(workflow, dataflow.oozie.decisions, inner)
        if order.sound:
            _compare(dataflow.spec, workflow, order, findings)
    problems = (*findings.problems, *inner.problems)
    if workflow is None or findings.failed or inner.failed:
        raise DataflowErrors(problems)
    return without_bounds(workflow)


def _compare(spec: DataflowSpec, workflow: Workflow, order: Order, findings: Findings) -> None:
    """Note where the dataflow's graph is another than the workflow's."""
    cure = "change the workflow and import it again"
    said = {action.name: set(order.predecessors(action.name)) for action in order.actions}
    found: dict[str, set[str]] = {}
    for action in spec.actions:
        name = _outer(action.name, workflow)
        before = {_outer(one, workflow) for one in action.after} - {name}
        found.setdefault(name, set()).update(before)
    for name in sorted(found.keys() - said.keys()):
        findings.error(_TOP, f"the workflow has no action `{name}`", cure)
    for name in sorted(said.keys() - found.keys()):
        findings.error(_TOP, f"the dataflow has no action `{name}` of the workflow any more", cure)
    inputs = {action.name for action in spec.actions if action.role is ActionRole.INPUT}
    if said.keys() != found.keys():
        return
    here, there = _reduced(found), _reduced(said)
    for name in sorted(said.keys() - inputs):
        if here[name] != there[name]:
            findings.error(
                _TOP,
                f"`{name}` comes after {_listed(here[name])} here, in the workflow after "
                f"{_listed(there[name])}",
                cure,
            )


def _reduced(after: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the predecessors of each action without those that come before another of them.

    A step with a learned trigger names all whose output it reads, a workflow only the last of them.
    """
    direct = {name: tuple(before) for name, before in after.items()}
    earlier = {name: ancestors(name, direct) for name in direct}
    return {
        name: {
            one
            for one in before
            if not any(one in earlier[other] and other not in earlier[one] for other in before)
        }
        for name, before in after.items()
    }


def _outer(name: str, workflow: Workflow) -> str:
    """Return the workflow's own action that an action of the dataflow is, or is a part of."""
    outer = name.partition(".")[0]
    inside = any(a.name == outer and a.body.name == SUB_WORKFLOW for a in workflow.actions)
    return outer if inside else name


def _listed(names: set[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "none"
