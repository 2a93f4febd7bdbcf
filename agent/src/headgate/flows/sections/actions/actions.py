"""The steps of a dataflow: the section ``actions`` of a dataflow file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from headgate.engine import ActionRole, DataflowSpec
from headgate.flows.grammar.kinds import Key, MapOf
from headgate.flows.grammar.values import NAME
from headgate.flows.launchers import SessionLauncher
from headgate.flows.sections.actions.checking import ActionChecker
from headgate.flows.sections.actions.comparing import ACTION_DIFFERENCE
from headgate.flows.sections.actions.declared import DeclaredAction, declared_actions
from headgate.flows.sections.actions.grammar import ACTION
from headgate.flows.sections.actions.graph import implied_predecessors
from headgate.flows.sections.actions.reading import ActionReader
from headgate.flows.sections.actions.stages import check_stages
from headgate.flows.sections.actions.triggers import check_triggers
from headgate.flows.sections.containers.outside import OutsideChecker, outside_of
from headgate.flows.sections.section import Draft, Section


def _specify(draft: Draft, spec: DataflowSpec) -> DataflowSpec:
    trees = draft.mappings("actions")
    reader = ActionReader(draft, spec)
    read = {name: reader.action(name, tree) for name, tree in trees.items()}
    actions = {
        name: action
        if action.role is ActionRole.INPUT or trees[name].get("after") is not None
        else replace(action, after=implied_predecessors(action, read))
        for name, action in read.items()
    }
    OutsideChecker(outside_of(draft), trees, draft.findings).check(actions)
    ActionChecker(draft, actions, {one.id: one for one in spec.containers}).check()
    return replace(spec, actions=tuple(actions.values()))


def _check(draft: Draft, spec: DataflowSpec) -> None:
    trees = draft.mappings("actions")
    check_triggers(spec, trees, draft.findings)
    if not draft.findings.failed:
        check_stages(spec, trees, draft.findings)


def _with_turns(actions: Mapping[str, DeclaredAction], spec: DataflowSpec) -> DataflowSpec:
    """Let stages that share one session wait for their turn."""
    launchers = [one.launcher for one in actions.values() if one.launcher is not None]
    staged = any(action.stage is not None for action in spec.actions)
    if staged and all(isinstance(one, SessionLauncher) for one in launchers):
        return replace(spec, places=1)
    return spec


ACTIONS: Final = Section(
    "actions",
    Key(
        MapOf(ACTION, "actions by name", NAME, "action", at_least=1),
        "the steps, in any order",
        required=True,
    ),
    declared_actions,
    _specify,
    _check,
    _with_turns,
    ACTION_DIFFERENCE,
)
