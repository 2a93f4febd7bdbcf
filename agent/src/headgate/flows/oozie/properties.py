"""Properties of jobs, ``${name}`` in a workflow, and the ``global`` section of a workflow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from headgate.flows.oozie.containers import resolved
from headgate.flows.oozie.document import Element
from headgate.flows.oozie.workflow import Workflow

CONFIGURATION: Final = "configuration"
JOB_XML: Final = "job-xml"
_SECTIONS = (CONFIGURATION, "launcher")
_PROPAGATE = "propagate-configuration"

_EXPRESSION = re.compile(r"\$\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_APPLICATION_PATH = re.compile(r"\$\{\s*wf:appPath\(\)\s*\}/+([^$]+)")

_WITHOUT_GLOBAL = ("ssh", "email")
"""Kinds of actions that take nothing from ``global``: they start no job."""
_TRACKERS = ("job-tracker", "resource-manager")
"""Two names of one thing; an action that has either takes none from ``global``."""


def names_in(text: str) -> frozenset[str]:
    """Return the names that the expressions of a text have: properties, functions and texts."""
    return frozenset(name for one in _EXPRESSION.findall(text) for name in _NAME.findall(one))


def configured(element: Element) -> dict[str, str]:
    """Return the properties of an element's ``configuration``."""
    return {
        name: value
        for section in element.of(CONFIGURATION)
        for name, value in pairs(section)
        if name
    }


def pairs(section: Element) -> Iterator[tuple[str, str]]:
    """Yield name and value of each ``property`` of a section."""
    for one in section.of("property"):
        name, value = (
            next((part.text.strip() for part in one.of(which)), "") for which in ("name", "value")
        )
        yield name, value


def used(element: Element, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that an element's expressions need, and those that these need."""
    found: dict[str, str] = {}
    waiting = set(_names(element))
    while waiting:
        name = waiting.pop()
        if name in properties and name not in found:
            found[name] = properties[name]
            waiting |= names_in(found[name])
    return {name: value for name, value in properties.items() if name in found}


def _names(element: Element) -> Iterator[str]:
    for text in (element.text, *element.attributes.values()):
        yield from names_in(text)
    for child in element.children:
        yield from _names(child)


def inner_properties(
    body: Element, inner: Workflow, outer: Mapping[str, str], job: Mapping[str, str]
) -> dict[str, str]:
    """Return the properties of a workflow that is an action of another.

    Its configuration comes first, then what the outer workflow hands on, then its own defaults. A
    property of the job that is not handed on is taken only where nothing else says what it is.

    Args:
        body: the action's ``sub-workflow``.
        inner: the workflow that it starts.
        outer: properties of the workflow with the action.
        job: those that the import was told.
    """
    handed_on = outer if any(body.of(_PROPAGATE)) else {}
    return {**job, **inner.defaults, **handed_on, **configured(resolved(body, outer))}


def path_beside(body: Element, properties: Mapping[str, str]) -> str | None:
    """Return the path of a sub-workflow from the folder of its outer one; None if it has none."""
    for path in resolved(body, properties).of("app-path"):
        found = _APPLICATION_PATH.fullmatch(path.text.strip())
        if found is not None:
            return found[1]
    return None


def with_global(body: Element, workflow: Workflow) -> Element:
    """Return what an action says, with what it takes from the workflow's ``global`` section.

    As in Oozie, the action's own values count where both have one.
    """
    shared = next(workflow.root.of("global"), None)
    if shared is None or body.name in _WITHOUT_GLOBAL:
        return body
    own = {child.name for child in body.children}
    taken = {one.name: one for one in (_moved(child, body.namespace) for child in shared.children)}
    if body.name == "fs" or own & set(_TRACKERS):
        taken = {name: one for name, one in taken.items() if name not in _TRACKERS}
    merged = [
        _merged(taken[one.name], one) if one.name in taken and one.name in _SECTIONS else one
        for one in body.children
    ]
    added = [one for name, one in taken.items() if name not in own and name != JOB_XML]
    there = {one.text.strip() for one in body.of(JOB_XML)}
    files = [_moved(one, body.namespace) for one in shared.of(JOB_XML)]
    return replace(
        body,
        children=[*(one for one in files if one.text.strip() not in there), *merged, *added],
    )


def _moved(element: Element, namespace: str) -> Element:
    return replace(
        element,
        namespace=namespace,
        children=[_moved(child, namespace) for child in element.children],
    )


def _merged(shared: Element, own: Element) -> Element:
    """Return a section with the shared one's parts that it does not have itself."""
    if own.name == CONFIGURATION:
        names = {name for name, _ in pairs(own)}
        more = [
            one
            for one in shared.of("property")
            if next((part.text.strip() for part in one.of("name")), "") not in names
        ]
    else:
        more = [one for one in shared.children if not any(own.of(one.name))]
    return replace(own, children=[*more, *own.children])
