"""Limits that are found from the output: the section ``significance`` of a dataflow file."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headgate.engine import (
    SOUGHT_SEQUENCE,
    SOUGHT_VALUE,
    ActionRole,
    ActionSpec,
    Bound,
    CodecName,
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
from headgate.flows.grammar.tree import Mapping, Scalar
from headgate.flows.sections.graph import ancestors

_PERCENT = Single("a percentage such as `5%`", pattern=PERCENTAGE, why_not=why_no_percentage)
_LONGEST = 3600.0
"""Seconds a step may wait where the file says nothing: the paper's default constant, ours."""

SIGNIFICANCE = RecordOf(
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
"""The grammar of the section."""

Actions = dict[str, ActionSpec]


def read_significance(
    tree: Mapping,
    actions: Actions,
    containers: dict[str, WatchedContainer],
    findings: Findings,
) -> tuple[Actions, SignificanceSpec | None]:
    """Return the actions with bounds whose limits are searched for, and what they are searched by.

    Every step without bounds on the way to the output, that which writes it included, gets a bound
    on each container that it reads and another action writes.
    """
    output, change = tree.get("output"), tree.get("change")
    if not isinstance(output, Scalar) or not isinstance(change, Scalar):
        return actions, None
    if output.text not in containers:
        findings.error(
            output.at,
            f"there is no container `{output.text}`",
            suggestion(output.text, containers, "container"),
        )
        return actions, None
    if containers[output.text].codec.name is CodecName.OPAQUE:
        findings.error(
            output.at,
            f"the change of `{output.text}` needs numbers; its values are opaque",
            f"give `{output.text}` a codec such as `number`",
        )
    time = tree.get("time")
    longest = duration_seconds(_value(time)) if isinstance(time, Scalar) else _LONGEST
    sought = _with_bounds(ContainerId(output.text), actions, containers, longest)
    if not any(output.text in actions[name].writes for name in sought):
        findings.error(
            output.at,
            f"no step without bounds of its own writes `{output.text}`",
            "name it in `writes` of the last step, and leave out `when` there",
        )
        return actions, None
    spec = SignificanceSpec(
        ContainerId(output.text), percentage_points(change.text) / 100, tuple(sought)
    )
    return {**actions, **sought}, _with_settings(spec, tree, findings)


def _with_settings(spec: SignificanceSpec, tree: Mapping, findings: Findings) -> SignificanceSpec:
    against, tolerance, patience = (tree.get(k) for k in ("against", "tolerance", "patience"))
    if isinstance(against, Scalar):
        spec = msgspec.structs.replace(spec, against=float(_value(against)))
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


def _value(one: Scalar) -> float | str:
    return one.value if isinstance(one.value, int | float | str) else one.text
