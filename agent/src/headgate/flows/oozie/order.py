"""Which actions come before which: forks, joins and decisions turned into predecessors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter

from headgate.flows.grammar.problems import Findings, Position, suggestion
from headgate.flows.oozie.workflow import (
    End,
    Fork,
    Join,
    Node,
    OozieAction,
    OozieDecision,
    Workflow,
    targets,
)
from headgate.flows.sections.actions.graph import cycles

ALL = "all"
"""The choice of a decision that takes every branch."""


_WORDS = {OozieAction: "`ok` of", Fork: "fork", Join: "join", OozieDecision: "decision"}


class Order:
    """The nodes that a workflow reaches while nothing fails, and what comes before each.

    Args:
        workflow: the workflow.
        decisions: by decision, the branch that is taken as if it were the only one, or ``all``.
        findings: gets transitions to nowhere, circles, and decisions without a choice.
    """

    def __init__(
        self, workflow: Workflow, decisions: Mapping[str, str], findings: Findings
    ) -> None:
        self._workflow = workflow
        self._decisions = decisions
        self._findings = findings
        reached = self._reached()
        before: dict[str, list[str]] = {name: [] for name in reached}
        for name, following in reached.items():
            for target in following:
                before[target].append(name)
        self._before = {name: tuple(dict.fromkeys(names)) for name, names in before.items()}
        self.sound = self._has_no_circle()

    @property
    def actions(self) -> tuple[OozieAction, ...]:
        """The actions that are reached, predecessors first; only where ``sound``."""
        nodes = map(
            self._workflow.nodes.__getitem__, TopologicalSorter(self._before).static_order()
        )
        return tuple(node for node in nodes if isinstance(node, OozieAction))

    @property
    def ends(self) -> tuple[str, ...]:
        """The actions after which the workflow has ended well."""
        ends = (n.name for n in self._workflow.nodes.values() if isinstance(n, End))
        found = (name for end in ends if end in self._before for name in self.predecessors(end))
        return tuple(dict.fromkeys(found))

    def predecessors(self, name: str) -> tuple[str, ...]:
        """Return the actions that come right before a node, whatever lies between."""
        found: set[str] = set()
        seen: set[str] = set()
        waiting = list(self._before[name])
        while waiting:
            one = waiting.pop()
            if one in seen:
                continue
            seen.add(one)
            if isinstance(self._workflow.nodes[one], OozieAction):
                found.add(one)
            else:
                waiting.extend(self._before[one])
        return tuple(one for one in self._workflow.nodes if one in found)

    def _reached(self) -> dict[str, tuple[str, ...]]:
        reached: dict[str, tuple[str, ...]] = {}
        waiting = list(self._known("start", self._workflow.at, (self._workflow.start,)))
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached[name] = self._targets(self._workflow.nodes[name])
                waiting.extend(reached[name])
        return reached

    def _targets(self, node: Node) -> tuple[str, ...]:
        what = f"{_WORDS.get(type(node), '')} `{node.name}`"
        known = self._known(what, node.at, targets(node))
        return self._taken(node, known) if isinstance(node, OozieDecision) else known

    def _known(self, what: str, at: Position, names: Iterable[str]) -> tuple[str, ...]:
        nodes = self._workflow.nodes
        for name in names:
            if name and name not in nodes:
                self._findings.error(
                    at,
                    f"{what} leads to `{name}`, which is no node",
                    suggestion(name, nodes, "node"),
                )
        return tuple(dict.fromkeys(name for name in names if name in nodes))

    def _taken(self, decision: OozieDecision, branches: tuple[str, ...]) -> tuple[str, ...]:
        chosen = self._decisions.get(decision.name)
        if len(branches) <= 1 or (chosen == ALL and ALL not in branches):
            return branches
        if chosen in branches:
            return (chosen,)
        possible = ", ".join(f"`{name}`" for name in branches)
        option = f"--decision {decision.name}="
        if chosen is not None:
            self._findings.error(
                decision.at,
                f"decision `{decision.name}` has no branch `{chosen}`",
                f"choose one of {possible}, or `{ALL}`",
            )
        else:
            self._findings.error(
                decision.at,
                f"decision `{decision.name}` can't be mapped: an action runs when what it watches "
                "has changed enough, not when an expression holds",
                f"put the condition into the step and import with `{option}{ALL}` (every branch is "
                f"taken), or choose one: `{option}{branches[0]}` of {possible}",
            )
        return branches

    def _has_no_circle(self) -> bool:
        found = cycles(self._before)
        for path in found:
            what = " → ".join(f"`{name}`" for name in path)
            self._findings.error(
                self._workflow.nodes[path[0]].at,
                f"the transitions go round in a circle: {what}",
                "a workflow has no loops: remove one of these transitions",
            )
        return not found
