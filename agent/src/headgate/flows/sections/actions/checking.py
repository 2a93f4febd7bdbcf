"""Problems of actions that each fit the grammar: circles, keys without meaning, unused parts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping as AbstractMapping

from headgate.engine import ActionRole, ActionSpec, WatchedContainer
from headgate.flows.grammar.tree import Entry, Items, Mapping, Scalar
from headgate.flows.sections.actions.graph import ancestors, cycles
from headgate.flows.sections.containers.outside import outside_of
from headgate.flows.sections.containers.tables import overlap
from headgate.flows.sections.section import Draft


class ActionChecker:
    """Notes what is wrong with the actions of a file.

    Args:
        draft: the file.
        actions: its actions, by name.
        containers: its containers, by name.
    """

    def __init__(
        self,
        draft: Draft,
        actions: AbstractMapping[str, ActionSpec],
        containers: AbstractMapping[str, WatchedContainer],
    ) -> None:
        self._draft = draft
        self._findings = draft.findings
        self._trees = draft.mappings("actions")
        self._actions = actions
        self._containers = containers
        self._outside = outside_of(draft)

    def check(self) -> None:
        """Note the problems of all actions; what seems unused only where there is no error.

        In a file with errors something often seems unused or unwritten because of them.
        """
        self._check_graph()
        for action in self._actions.values():
            self._check_action(action)
        if not self._findings.failed:
            self._warn_of_unused()

    def _check_graph(self) -> None:
        for path in cycles({name: action.after for name, action in self._actions.items()}):
            closing = self._trees[path[1]]
            written = closing.entries.get("after")
            what = " → ".join(f"`{name}`" for name in path)
            if written is not None:
                cure = f"remove `{path[0]}` from `after` of `{path[1]}`, or another of these steps"
            else:
                cure = (
                    f"`{path[1]}` comes after `{path[0]}` because it reads what that writes: "
                    f"say with `after:` which actions really come first"
                )
            at = written.value.at if written else closing.at
            if isinstance(written, Entry) and isinstance(written.value, Items):
                at = next(
                    (
                        one.at
                        for one in written.value.values
                        if isinstance(one, Scalar) and one.text == path[0]
                    ),
                    at,
                )
            self._findings.error(at, f"the actions go round in a circle: {what}", cure)

    def _check_action(self, action: ActionSpec) -> None:
        tree = self._trees[action.name]
        when = tree.get("when")
        if action.role is ActionRole.INPUT:
            return
        if when is None:
            fed = action.stage is not None and bool(action.stage.inputs)
            needless = {"combine", "own"} if fed else {"combine", "evaluate", "own"}
            for key in tree.entries:
                if key in needless and action.trigger is None:
                    self._findings.error(
                        tree.entries[key].key.at,
                        f"`{key}` says nothing without bounds",
                        "add `when:` with a bound, or remove it",
                    )
            if not action.after and not fed and not self._findings.failed:
                nouns = {name: self._outside.noun(name) for name in action.reads}
                read, noun = next(((n, one) for n, one in nouns.items() if one), ("", None))
                bound = f"`when: {{{read}: {{time: 5 min}}}}`" if read else "`when:`"
                why = f"; that {noun.come} starts nothing" if noun else ""
                self._findings.warning(
                    tree.at,
                    f"`{action.name}` has neither predecessors nor bounds, so nothing starts it"
                    f"{why}",
                    f"add `after:` or {bound}, or start it by hand with `headgate flow run`",
                )
        evaluation = action.evaluation
        if evaluation is not None and evaluation.action_end and not action.after:
            self._findings.error(
                tree.entries["evaluate"].value.at,
                f"no action precedes `{action.name}`, so none ever ends",
                "write `write` or `every 30 s`, or add `after:`",
            )

    def _warn_of_unwritten(self, action: ActionSpec) -> None:
        when = self._trees[action.name].get("when")
        if not isinstance(when, Mapping) or self._draft.tree.get("oozie") is not None:
            return  # a workflow doesn't say what its actions write
        written = [
            self._containers[name].container
            for other in self._actions.values()
            if other.name != action.name or action.own
            for name in other.writes
        ]
        for bound in action.bounds:
            if self._outside.noun(bound.container) is not None:
                continue
            watched = self._containers[bound.container].container
            if not any(overlap(watched, one) for one in written):
                self._findings.warning(
                    when.entries[bound.name].key.at,
                    f"bound `{bound.name}`: no other action writes `{bound.container}`",
                    "name its writer: `writes:` on a step, or an action with `input:` if it is fed "
                    "from outside",
                )

    def _warn_of_unordered(self, action: ActionSpec) -> None:
        tree = self._trees[action.name]
        if tree.get("after") is not None:
            return
        before = ancestors(action.name, {name: one.after for name, one in self._actions.items()})
        for other in self._actions.values():
            if other.name == action.name or other.name in before:
                continue
            for read, written in itertools.product(action.reads, other.writes):
                if overlap(self._containers[read].container, self._containers[written].container):
                    self._findings.warning(
                        tree.at,
                        f"`{action.name}` reads `{read}`, of which `{other.name}` writes a part "
                        f"as `{written}`, but doesn't come after it",
                        "say with `after:` which actions come first, `[]` if none",
                    )

    def _warn_of_unused(self) -> None:
        for action in self._actions.values():
            self._warn_of_unwritten(action)
            self._warn_of_unordered(action)
        used = {
            name for action in self._actions.values() for name in (*action.reads, *action.writes)
        }
        for name, entry in self._draft.entries("containers").items():
            if name not in used:
                self._findings.warning(
                    entry.key.at, f"no action uses container `{name}`", "remove it, or use it"
                )
