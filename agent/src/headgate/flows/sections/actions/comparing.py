"""Differences between the actions of two versions of a dataflow, and between their bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import structs

from headgate.engine import (
    ActionSpec,
    Bound,
    DataflowSpec,
    Interval,
    Limit,
    SequenceBound,
    SequenceUnit,
    UserMetric,
    ValueBound,
    definition_of,
)
from headgate.flows.sections.actions.declared import AGENT_KEYS, DeclaredAction
from headgate.flows.sections.changes import Change, ChangeKind, Parts, Version


class _Action(NamedTuple):
    """An action as the engine and as the agent has it."""

    spec: ActionSpec
    declared: DeclaredAction


def _actions(version: Version[Mapping[str, DeclaredAction]]) -> dict[str, _Action]:
    return {one.name: _Action(one, version.value[one.name]) for one in version.spec.actions}


_KEYS: Final = {"condition": "combine", "evaluation": "evaluate", "retry": "retries"}
"""Keys of an action by the field of ``ActionSpec``, where the two differ."""
_PLAIN_FIELDS: Final = tuple(
    field.name for field in structs.fields(ActionSpec) if field.name not in ("name", "bounds")
)


def _added(name: str, old: Mapping[str, _Action], new: Mapping[str, _Action]) -> str:
    """Return what becomes of an action that is new, or is an old one with another name."""
    launcher = new[name].declared.launcher
    gone = sorted(old.keys() - new.keys())
    same = [one for one in gone if launcher and old[one].declared.launcher == launcher]
    if not same:
        return "it counts from now"
    return f"it begins anew: what `{same[0]}` knew, which runs the same, is not taken over"


def _changed(name: str, old: _Action, new: _Action, _: DataflowSpec) -> Iterator[Change]:
    part = f"action `{name}`"
    yield from _bounds(old.spec, new.spec)
    other = [one for one in _PLAIN_FIELDS if getattr(old.spec, one) != getattr(new.spec, one)]
    if other:
        fields = ", ".join(f"`{_KEYS.get(field, field)}`" for field in other)
        yield Change(ChangeKind.CHANGED, part, f"{fields}; it keeps what was counted")
    for key in AGENT_KEYS:
        before, after = (getattr(one.declared, key.name) for one in (old, new))
        if key.words and before != after:
            yield Change(ChangeKind.CHANGED, part, key.words)


def _bounds(old: ActionSpec, new: ActionSpec) -> Iterator[Change]:
    before = {bound.name: bound for bound in old.bounds}
    after = {bound.name: bound for bound in new.bounds}
    for name, bound in after.items():
        part = f"bound `{name}` of `{new.name}`"
        if name not in before:
            yield Change(ChangeKind.ADDED, part, _limits(bound))
        elif before[name].container != bound.container:
            yield Change(ChangeKind.CHANGED, part, f"it watches `{bound.container}` from now")
        elif before[name] != bound:
            words = f"{_limits(before[name])} → {_limits(bound)}; it keeps what was counted"
            yield Change(ChangeKind.CHANGED, part, words)
    for name in (one for one in before if one not in after):
        yield Change(ChangeKind.REMOVED, f"bound `{name}` of `{new.name}`", "it decides nothing")


def _limits(bound: Bound) -> str:
    said = []
    if bound.time is not None:
        said.append(f"time {_limit(bound.time, ' s')}")
    if bound.sequence is not None:
        said.append(f"sequence {_sequence(bound.sequence)}")
    if bound.value is not None:
        said.append(f"value {_value(bound.value)}")
    if bound.block:
        said.append("block")
    return ", ".join(said)


def _sequence(sequence: SequenceBound) -> str:
    unit = "%" if sequence.unit is SequenceUnit.PERCENT else ""
    return f"{_limit(sequence.limit, unit)}{' distinct' if sequence.distinct else ''}"


def _value(value: ValueBound) -> str:
    if isinstance(value.metric, UserMetric):
        return f"{value.metric} {_limit(value.limit, '')}"
    if not definition_of(value.metric).percent:
        return _limit(value.limit, "")
    against = f" of {value.constant:g}" if value.constant is not None else ""
    return f"{value.metric.value} {_limit(value.limit, '%', 100)}{against}"


def _limit(limit: Limit, unit: str, scale: float = 1) -> str:
    if isinstance(limit, Interval):
        return f"[{limit.minimum * scale:g}{unit}, {limit.maximum * scale:g}{unit}]"
    return f"{limit * scale:g}{unit}"


ACTION_DIFFERENCE: Final = Parts(
    "action", _added, _changed, "a run under way is given up", _actions
)
"""How the actions of two versions are compared."""
