"""Limits that are found from the output: the section ``significance`` of a dataflow file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headgate.engine import (
    SOUGHT_SEQUENCE,
    SOUGHT_VALUE,
    ActionRole,
    ActionSpec,
    Bound,
    CodecName,
    DataflowSpec,
    SignificanceSpec,
    WatchedContainer,
    at_least_one,
)
from headgate.events import ContainerId
from headgate.flows.grammar.kinds import ANY_TEXT, Key, Numbers, RecordOf, Single
from headgate.flows.grammar.problems import Findings, suggestion
from headgate.flows.grammar.quantities import (
    DURATION,
    PERCENTAGE,
    duration_seconds,
    percentage_points,
    why_no_duration,
    why_no_percentage,
)
from headgate.flows.grammar.tree import Mapping, Scalar, number_or_text
from headgate.flows.sections.actions.graph import ancestors
from headgate.flows.sections.changes import Setting, Version
from headgate.flows.sections.containers.outside import require_values
from headgate.flows.sections.section import Draft, Section

_PERCENT = Single("a percentage such as `5%`", pattern=PERCENTAGE, why_not=why_no_percentage)
_LONGEST = 3600.0
"""Seconds a step may wait where the file says nothing: the paper's default constant, ours."""

_GRAMMAR: Final = RecordOf(
    "the significance",
    {
        "output": Key(
            Single("the name of a container", pattern=ANY_TEXT),
            "the container that people read, written by the last step",
            required=True,
        ),
        "change": Key(
            _PERCENT,
            "change of the output that matters: sum of differences in percent of the sum of old "
            "values, or of the constant in `against`",
            required=True,
        ),
        "against": Key(
            Single("a number above zero", numbers=Numbers(above=0)),
            "a reference, such as the greatest value possible, that the change is taken against",
        ),
        "tolerance": Key(_PERCENT, "by how much the change may be missed; default 10%"),
        "patience": Key(
            Single("a number of runs from 1 to 1000", numbers=Numbers(0, 1000, whole=True)),
            "runs out of tolerance after which limits are searched for again; default 5",
        ),
        "time": Key(
            Single(
                "a duration such as `30 s` or `5 min`",
                pattern=DURATION,
                numbers=Numbers(above=0),
                why_not=why_no_duration,
            ),
            "longest time since a step last ran; default 1 h",
        ),
    },
)
Actions = dict[str, ActionSpec]


def _specify(draft: Draft, spec: DataflowSpec) -> DataflowSpec:
    """Return the specification with bounds whose limits are searched for.

    Every step without bounds on the way to the output, that which writes it included, gets a bound
    on each container that it reads and another action writes.
    """
    tree = draft.tree.get("significance")
    if isinstance(tree, Mapping) and not draft.findings.failed:
        spec = _sought(tree, spec, draft.findings)
    if isinstance(tree, Mapping):
        require_values(draft, "significance")
    return spec


def _sought(tree: Mapping, spec: DataflowSpec, findings: Findings) -> DataflowSpec:
    output, change = tree.get("output"), tree.get("change")
    if not isinstance(output, Scalar) or not isinstance(change, Scalar):
        return spec
    actions = {action.name: action for action in spec.actions}
    containers: dict[str, WatchedContainer] = {one.id: one for one in spec.containers}
    if output.text not in containers:
        findings.error(
            output.at,
            f"there is no container `{output.text}`",
            suggestion(output.text, containers, "container"),
        )
        return spec
    if containers[output.text].codec.name is CodecName.OPAQUE:
        findings.error(
            output.at,
            f"the change of `{output.text}` needs numbers; its values are opaque",
            f"give `{output.text}` a codec such as `number`",
        )
    time = tree.get("time")
    longest = duration_seconds(number_or_text(time)) if isinstance(time, Scalar) else _LONGEST
    sought = _with_bounds(ContainerId(output.text), actions, containers, longest)
    if not any(output.text in actions[name].writes for name in sought):
        findings.error(
            output.at,
            f"no step without bounds of its own writes `{output.text}`",
            "name it in `writes` of the last step, and leave out `when` there",
        )
        return spec
    significance = SignificanceSpec(
        ContainerId(output.text), percentage_points(change.text) / 100, tuple(sought)
    )
    return msgspec.structs.replace(
        spec,
        actions=tuple({**actions, **sought}.values()),
        significance=_with_settings(significance, tree, findings),
    )


def _with_settings(spec: SignificanceSpec, tree: Mapping, findings: Findings) -> SignificanceSpec:
    against, tolerance, patience = (tree.get(k) for k in ("against", "tolerance", "patience"))
    if isinstance(against, Scalar):
        spec = msgspec.structs.replace(spec, against=float(number_or_text(against)))
    if isinstance(tolerance, Scalar):
        points = percentage_points(tolerance.text)
        if points >= 100:  # per cent
            findings.error(
                tolerance.at, f"with `{tolerance.text}` any change will do", "write about `10%`"
            )
        spec = msgspec.structs.replace(spec, tolerance=points / 100)
    if isinstance(patience, Scalar):
        spec = msgspec.structs.replace(spec, patience=int(patience.text))
    return spec


def _with_bounds(
    output: ContainerId,
    actions: Actions,
    containers: dict[str, WatchedContainer],
    longest: float,
) -> Actions:
    after = {name: action.after for name, action in actions.items()}
    last = [action.name for action in actions.values() if output in action.writes]
    on_the_way = {*last, *(before for name in last for before in ancestors(name, after))}
    found = {}
    for name in actions:
        action = actions[name]
        watched = _watched(action, actions.values(), containers)
        if name in on_the_way and action.role is ActionRole.STEP and not action.bounds and watched:
            bounds = tuple(
                Bound(container, container, longest, SOUGHT_SEQUENCE, SOUGHT_VALUE)
                for container in watched
            )
            found[name] = msgspec.structs.replace(
                action, bounds=bounds, condition=at_least_one(bound.name for bound in bounds)
            )
    return found


def _watched(
    action: ActionSpec, actions: Iterable[ActionSpec], containers: dict[str, WatchedContainer]
) -> tuple[ContainerId, ...]:
    """Return what the action reads and others write, as far as it holds numbers."""
    written = {c for other in actions if other.name != action.name for c in other.writes}
    return tuple(
        container
        for container in action.reads
        if container in written
        and container not in action.writes
        and containers[container].codec.name is not CodecName.OPAQUE
    )


def _words(old: Version[None], new: Version[None]) -> str:
    if old.spec.significance is None:
        return "searches for limits begin"
    if new.spec.significance is None:
        return "limits that were found are given up"
    return "searches go on from where they are"


SIGNIFICANCE: Final[Section[None]] = Section(
    "significance",
    Key(_GRAMMAR, "the change of the output that matters, from which limits are found"),
    specify=_specify,
    difference=Setting(_words, lambda version: version.spec.significance),
)
