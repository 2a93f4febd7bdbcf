"""Other limits for the same bounds: the section ``profiles`` of a dataflow file."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from headgate.engine import ActionSpec, Bound, DataflowSpec
from headgate.flows.grammar.kinds import Key, MapOf
from headgate.flows.grammar.problems import suggestion
from headgate.flows.grammar.tree import Mapping, entries_of
from headgate.flows.grammar.values import NAME
from headgate.flows.sections.actions.bound_keys import OVERRIDE
from headgate.flows.sections.actions.bounds import check_codec, overridden
from headgate.flows.sections.section import Draft, Section


def _specify(draft: Draft, spec: DataflowSpec) -> DataflowSpec:
    """Read every profile, so that errors in it are found, and take the bounds of the chosen one."""
    chosen = spec
    for name, tree in draft.mappings("profiles").items():
        changed = _with_profile(tree, spec, draft)
        chosen = changed if name == draft.profile else chosen
    known = draft.entries("profiles")
    if draft.profile is not None and draft.profile not in known:
        entry = draft.tree.entries.get("profiles")
        draft.findings.error(
            entry.key.at if entry else draft.tree.at,
            f"there is no profile `{draft.profile}`",
            suggestion(draft.profile, known, "profile"),
        )
    return chosen


def _with_profile(tree: Mapping, spec: DataflowSpec, draft: Draft) -> DataflowSpec:
    actions = {action.name: action for action in spec.actions}
    for name, entry in tree.entries.items():
        if name not in actions:
            draft.findings.error(
                entry.key.at, f"there is no action `{name}`", suggestion(name, actions, "action")
            )
        elif isinstance(entry.value, Mapping):
            bounds = _overridden(actions[name], entry.value, spec, draft)
            actions[name] = replace(actions[name], bounds=bounds)
    return replace(spec, actions=tuple(actions.values()))


def _overridden(
    action: ActionSpec, tree: Mapping, spec: DataflowSpec, draft: Draft
) -> tuple[Bound, ...]:
    bounds = {bound.name: bound for bound in action.bounds}
    codecs = {one.id: one.codec for one in spec.containers}
    for name, entry in tree.entries.items():
        if name not in bounds:
            draft.findings.error(
                entry.key.at,
                f"action `{action.name}` has no bound `{name}`",
                suggestion(name, bounds, "bound"),
            )
        elif isinstance(entry.value, Mapping):
            bounds[name] = overridden(bounds[name], entry.value, draft.findings)
            codec = codecs[bounds[name].container]
            check_codec(bounds[name], codec, entry.key.at, draft.findings)
    return tuple(bounds.values())


PROFILES: Final = Section(
    "profiles",
    Key(
        MapOf(
            MapOf(
                MapOf(OVERRIDE, "bounds by name", NAME, "bound", at_least=1),
                "actions by name",
                NAME,
                "action",
                at_least=1,
            ),
            "profiles by name",
            NAME,
            "profile",
        ),
        "other limits for the same bounds, chosen when the dataflow is submitted",
    ),
    lambda written, _: tuple(entries_of(written)),
    _specify,
)
