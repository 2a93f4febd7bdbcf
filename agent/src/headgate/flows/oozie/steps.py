"""Actions of a workflow, and of those inside of it, as steps of one dataflow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from headgate.flows.grammar.problems import Findings, Position
from headgate.flows.grammar.tree import Items, Scalar, Tree
from headgate.flows.grammar.tree import Mapping as TreeMapping
from headgate.flows.oozie.containers import keyed, text_scalar
from headgate.flows.oozie.document import Element
from headgate.flows.oozie.properties import CONFIGURATION, pairs, used
from headgate.flows.oozie.workflow import SLA, OozieAction, Workflow

PROPERTIES: Final = "properties"
"""The parameter that says what ``${name}`` means in the other one."""

_ARGUMENTS = ("arg", "args", "argument", "param", "env-var", "java-opt")
"""Elements of which an empty one is an empty text; any other empty element is a flag."""

_INTEGER = re.compile(r"[0-9]{1,4}")
_MOST_ATTEMPTS = 100  # that a dataflow file may ask for
_USUAL_MINUTES = 10  # between attempts, where a workflow does not say it: Oozie's own default
_LONGEST_MINUTES = 1_440  # between attempts that come ever later


@dataclass(frozen=True, slots=True)
class ImportedStep:
    """An action, named as in the dataflow: ``action.inner`` inside of a sub-workflow."""

    name: str
    action: OozieAction
    body: Element
    """Element of what it does, with what it takes from its workflow's ``global`` section."""
    after: tuple[str, ...]
    at: Position
    """Its own place, or that of the sub-workflow in which it lies."""
    findings: Findings
    properties: Mapping[str, str]
    """The properties of the job that are known where it lies."""


def parameters(step: ImportedStep) -> TreeMapping | None:
    """Return what an action says as a step's parameters; None where it says nothing.

    They are the action's content under its kind, and ``properties``: the known ones that it uses.
    """
    at = step.at
    keys: dict[str, Tree] = {}
    said = _content(step.body)
    if isinstance(said, TreeMapping) and said.entries:
        keys[step.body.name] = said
    needed = used(step.body, step.properties)
    if needed:
        values = {name: text_scalar(value, at) for name, value in needed.items()}
        keys[PROPERTIES] = keyed(values, at)
    if not keys:
        return None
    return keyed(keys, at)


def _mixed_order(element: Element) -> tuple[str, ...]:
    """Return names of children that stand between others: of the order nothing is left in data."""
    if element.name == CONFIGURATION:
        return ()
    names = [child.name for child in element.children]
    begun = [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]
    return tuple(dict.fromkeys(name for name in begun if begun.count(name) > 1))


def _content(element: Element) -> Tree:
    """Return what an element says as plain data: text, or its attributes and children by name."""
    at = element.at
    if element.name == CONFIGURATION:
        return keyed({name: text_scalar(value, at) for name, value in pairs(element)}, at)
    if not element.children and not element.attributes:
        written = element.text.strip()
        if written or element.name in _ARGUMENTS:
            return text_scalar(written, at)
        return Scalar("true", True, at)  # noqa: FBT003 -- a flag
    found: dict[str, list[Tree]] = {}
    for name, value in _parts(element):
        found.setdefault(name, []).append(value)
    several = {
        name: values[0] if len(values) == 1 else Items(tuple(values), at)
        for name, values in found.items()
    }
    return keyed(several, at)


def _parts(element: Element) -> Iterator[tuple[str, Tree]]:
    for name, value in element.attributes.items():
        yield name, text_scalar(value, element.at)
    for child in element.children:
        yield child.name, _content(child)
    if element.text.strip():
        yield "text", text_scalar(element.text.strip(), element.at)


def retries(step: ImportedStep) -> Tree | None:
    """Return ``retries`` of an action; None where the workflow does not say it."""
    at = step.action.at
    said = {name: step.action.attributes.get(f"retry-{name}") for name in ("max", "interval")}
    policy = step.action.attributes.get("retry-policy", "periodic").strip().lower()
    for name, written in said.items():
        if written is not None and not _INTEGER.fullmatch(written):
            step.findings.warning(
                at,
                f"`retry-{name}` is `{written}`, which only a job knows",
                "write `retries` of the action in the dataflow file",
            )
            return None
    if policy not in ("periodic", "exponential"):
        step.findings.warning(
            at,
            f"`retry-policy` is `{policy}`, which is neither periodic nor exponential",
            "write `retries` of the action in the dataflow file",
        )
    if said["max"] is None:
        if said["interval"] is not None or "retry-policy" in step.action.attributes:
            step.findings.warning(
                at,
                f"`{step.name}` says how it is tried again, but not how often: it has no "
                "`retry-max`",
                "write `retries` of the action in the dataflow file, or take the default",
            )
        return None
    most = int(said["max"])
    minutes = _USUAL_MINUTES if said["interval"] is None else int(said["interval"])
    attempts = _number(min(most + 1, _MOST_ATTEMPTS), at)
    if minutes == 0 or (said["interval"] is None and policy != "exponential"):
        return attempts
    longest = minutes
    if policy == "exponential":
        longest = max(minutes, min(minutes * 2 ** min(most, 20), _LONGEST_MINUTES))
    waits = (text_scalar(f"{wait} min", at) for wait in (minutes, longest))
    keys: dict[str, Tree] = {"attempts": attempts, "backoff": Items(tuple(waits), at)}
    return keyed(keys, at)


def _number(value: int, at: Position) -> Scalar:
    return Scalar(str(value), value, at)


def note_unmapped(workflow: Workflow, actions: Iterable[OozieAction], findings: Findings) -> None:
    """Warn of what a workflow says and a dataflow has nothing for.

    Args:
        workflow: it.
        actions: those of its actions that become steps.
        findings: the warnings are added to them.
    """
    for element in workflow.root.children:
        if SLA.match(element.namespace):
            _note_sla(element, f"workflow `{workflow.name}`", findings)
    for one in workflow.root.of("credentials"):
        names = ", ".join(f"`{each.attributes.get('name', '')}`" for each in one.of("credential"))
        findings.warning(
            one.at,
            f"credentials {names} are fetched by Oozie, and by nobody here",
            "let the agent's Spark sessions, or the step itself, log in",
        )
    for action in actions:
        if "cred" in action.attributes:
            findings.warning(
                action.at,
                f"`{action.name}` runs with credentials `{action.attributes['cred']}` of Oozie's, "
                "which the step will not have",
                "let the agent's Spark sessions, or the step itself, log in",
            )
        if action.sla is not None:
            _note_sla(action.sla, f"action `{action.name}`", findings)
        mixed = _mixed_order(action.body)
        if mixed:
            listed = ", ".join(f"`{name}`" for name in mixed)
            findings.warning(
                action.body.at,
                f"{listed} of `{action.name}` stand between others; parameters have them together, "
                "so their order is lost",
                "do them in their order in the step itself",
            )


def _note_sla(element: Element, whose: str, findings: Findings) -> None:
    findings.warning(
        element.at,
        f"nobody watches over the `sla:{element.name}` of {whose}",
        "write an alert on the agent's metrics, such as headgate_agent_runs_total",
    )
