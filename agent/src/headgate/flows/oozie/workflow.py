"""A workflow as its XML says it: nodes and the transitions between them."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from headgate.flows.grammar.problems import Findings, Position, suggestion
from headgate.flows.grammar.values import NAME
from headgate.flows.oozie.document import Element, read_document, says_utf8

QOD = "qod"
"""Name of an element that is added to Oozie's own: how much has to change for an action to run."""
ERROR_BOUNDS = "error-bounds"
"""Name of the other: how far what it writes may be off."""

_NAMESPACE = re.compile(r"uri:oozie:workflow:(?:0\.[1-9](?:\.\d+)?|1\.\d+)")
SLA = re.compile(r"uri:oozie:sla:")
"""Begins the namespaces of what Oozie watches over: when an action should start and end."""
_PREAMBLE = ("parameters", "global", "credentials")
_NODES = ("start", "action", "fork", "join", "decision", "kill", "end")


@dataclass(frozen=True, slots=True)
class OozieAction:
    """A step: ``body`` says what it does, ``qod`` and ``error_bounds`` when it is worth doing."""

    name: str
    at: Position
    body: Element
    ok: str
    error: str
    error_at: Position
    qod: Element | None
    error_bounds: Element | None
    attributes: dict[str, str]
    sla: Element | None = None


@dataclass(frozen=True, slots=True)
class Fork:
    """Goes on along all paths at once."""

    name: str
    at: Position
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Goes on when all that lead to it have come."""

    name: str
    at: Position
    to: str


@dataclass(frozen=True, slots=True)
class OozieDecision:
    """Goes on along the first case that holds, otherwise along the default, which is last."""

    name: str
    at: Position
    cases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kill:
    """Ends the workflow as failed."""

    name: str
    at: Position


@dataclass(frozen=True, slots=True)
class End:
    """Ends the workflow."""

    name: str
    at: Position


Node = OozieAction | Fork | Join | OozieDecision | Kill | End


def targets(node: Node) -> tuple[str, ...]:
    """Return the names of the nodes that a node leads to while nothing fails."""
    match node:
        case OozieAction(ok=name) | Join(to=name):
            return (name,)
        case Fork(paths=names) | OozieDecision(cases=names):
            return names
        case Kill() | End():
            return ()


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow: its nodes by name in the order of the file, and the first of them."""

    name: str
    at: Position
    start: str
    nodes: dict[str, Node]
    text: str
    root: Element

    @property
    def defaults(self) -> dict[str, str]:
        """The properties that it declares with a value, since 0.3."""
        return {
            name.text.strip(): value.text.strip()
            for parameters in self.root.of("parameters")
            for one in parameters.of("property")
            for name, value in itertools.product(one.of("name"), one.of("value"))
        }

    @property
    def actions(self) -> tuple[OozieAction, ...]:
        """Its actions in the order of the file."""
        return tuple(node for node in self.nodes.values() if isinstance(node, OozieAction))


def read_workflow(text: str, findings: Findings) -> Workflow | None:
    """Return the workflow in an XML text; None where it is no workflow.

    Where there is one, transitions lead to nodes that exist unless an error says otherwise.
    """
    root = read_document(text, findings)
    if root is None or not _is_workflow(root, findings):
        return None
    reader = _Reader(root, findings)
    reader.read()
    name = root.attributes.get("name", "")
    if not name:
        findings.error(root.at, "the workflow has no name", 'add `name="…"` to `workflow-app`')
    if not reader.start:
        return None
    return Workflow(name, root.at, reader.start, reader.nodes, text, root)


def _is_workflow(root: Element, findings: Findings) -> bool:
    if root.name != "workflow-app":
        findings.error(
            root.at,
            f"`{root.name}` is not a workflow",
            "name the workflow.xml, whose first element is `workflow-app`",
        )
        return False
    if not _NAMESPACE.fullmatch(root.namespace):
        findings.error(
            root.at,
            f"the namespace `{root.namespace}` is none of Oozie's workflow schemas",
            'write `xmlns="uri:oozie:workflow:0.2"`, or the later version that it follows',
        )
        return False
    return True


class _Reader:
    """Reads the children of ``workflow-app``, and reports every one that can't be read."""

    def __init__(self, root: Element, findings: Findings) -> None:
        self.nodes: dict[str, Node] = {}
        self.start = ""
        self._root = root
        self._findings = findings

    def read(self) -> None:
        for child in self._root.children:
            if child.namespace != self._root.namespace:
                if not SLA.match(child.namespace):
                    self._unknown(child, _NODES)
            elif child.name == "start":
                self._read_start(child)
            elif child.name in _NODES:
                self._read_node(child)
            elif child.name not in _PREAMBLE:
                self._unknown(child, (*_NODES, *_PREAMBLE))
        if not self.start:
            self._findings.error(
                self._root.at,
                "the workflow has no start",
                'add `<start to="…"/>` with its first node',
            )
        if not any(isinstance(node, End) for node in self.nodes.values()):
            self._findings.error(
                self._root.at, "the workflow has no end", 'add `<end name="end"/>`'
            )

    def _unknown(self, element: Element, known: tuple[str, ...]) -> None:
        self._findings.error(
            element.at,
            f"`{element.name}` is no element of a workflow",
            suggestion(element.name, known, "element"),
        )

    def _read_start(self, element: Element) -> None:
        if self.start:
            self._findings.error(element.at, "a second start", "keep one `start`")
        self.start = self._attribute(element, "to")

    def _read_node(self, element: Element) -> None:
        name = self._attribute(element, "name")
        if not name:
            return
        if not re.fullmatch(NAME, name):
            self._findings.error(
                element.at,
                f"`{name}` can't name a node",
                "use letters, digits, `_` and `-`, at most 100, with a letter first",
            )
        elif name in self.nodes:
            first = self.nodes[name].at.line
            self._findings.error(
                element.at,
                f"`{name}` is here for the second time; the first is on line {first}",
                "give one of them another name",
            )
        else:
            node = self._node(name, element)
            if node is not None:
                self.nodes[name] = node

    def _node(self, name: str, element: Element) -> Node | None:
        match element.name:
            case "action":
                return self._action(name, element)
            case "fork":
                paths = tuple(self._attribute(path, "start") for path in element.of("path"))
                if len(paths) < 2:
                    self._findings.error(
                        element.at,
                        f"fork `{name}` has fewer than two paths",
                        'add `<path start="…"/>`, or go to its only path directly',
                    )
                return Fork(name, element.at, paths)
            case "join":
                return Join(name, element.at, self._attribute(element, "to"))
            case "decision":
                return self._decision(name, element)
            case "kill":
                return Kill(name, element.at)
            case _:
                return End(name, element.at)

    def _decision(self, name: str, element: Element) -> OozieDecision:
        branches = [
            branch
            for switch in element.of("switch")
            for branch in (*switch.of("case"), *switch.of("default"))
        ]
        if not branches or branches[-1].name != "default":
            self._findings.error(
                element.at,
                f"decision `{name}` has no default",
                'add `<default to="…"/>` at the end of its `switch`',
            )
        return OozieDecision(name, element.at, tuple(self._attribute(b, "to") for b in branches))

    def _action(self, name: str, element: Element) -> OozieAction | None:
        parts: dict[str, Element] = {}
        bodies: list[Element] = []
        watched: Element | None = None
        for child in element.children:
            own = child.namespace in (element.namespace, "")
            if own and child.name in ("ok", "error", QOD, ERROR_BOUNDS):
                if child.name in parts:
                    self._findings.error(
                        child.at, f"a second `{child.name}` in action `{name}`", "keep one of them"
                    )
                parts.setdefault(child.name, child)
            elif SLA.match(child.namespace):
                watched = child
            else:
                bodies.append(child)
        for part in ("ok", "error"):
            if part not in parts:
                self._findings.error(
                    element.at,
                    f"action `{name}` has no `{part}`",
                    f'add `<{part} to="…"/>` as its last element',
                )
        if len(bodies) != 1:
            at = bodies[1].at if bodies else element.at
            found = " and ".join(f"`{body.name}`" for body in bodies) or "nothing to do"
            self._findings.error(
                at,
                f"action `{name}` has {found}",
                "an action is one of map-reduce, pig, java, shell, spark, hive, sub-workflow, …",
            )
        if len(bodies) != 1 or "ok" not in parts or "error" not in parts:
            return None
        return OozieAction(
            name,
            element.at,
            bodies[0],
            self._attribute(parts["ok"], "to"),
            self._attribute(parts["error"], "to"),
            parts["error"].at,
            parts.get(QOD),
            parts.get(ERROR_BOUNDS),
            element.attributes,
            watched,
        )

    def _attribute(self, element: Element, name: str) -> str:
        value = element.attributes.get(name, "")
        if not value:
            self._findings.error(
                element.at, f"`{element.name}` has no `{name}`", f'add `{name}="…"` to it'
            )
        return value


def without_bounds(workflow: Workflow) -> str:
    """Return the text without the added elements, every other character as it was."""
    text = workflow.text
    added = (one for action in workflow.actions for one in (action.qod, action.error_bounds))
    found = (element for element in added if element is not None)
    for element in sorted(found, key=lambda one: one.start, reverse=True):
        start = element.start
        line = text.rfind("\n", 0, start)
        if line >= 0 and not text[line:start].strip():
            start = line  # it began its line: the line goes with it
        text = text[:start] + text[element.end :]
    return says_utf8(text.strip() + "\n")
