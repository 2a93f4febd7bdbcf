"""What an update of a dataflow changes, and what becomes of the state of each part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct, structs

from headgate.engine import (
    ActionSpec,
    Bound,
    FilesSpec,
    Interval,
    Limit,
    SequenceBound,
    SequenceUnit,
    TopicSpec,
    UserMetric,
    ValueBound,
    definition_of,
)
from headgate.flows.dataflow import Dataflow
from headgate.flows.identity import RunIdentity
from headgate.flows.launchers import SessionLauncher
from headgate.flows.rebuilds import rebuilds_between
from headgate.settings import shell_word

_Spec = TypeVar("_Spec", FilesSpec, TopicSpec)


class ChangeKind(StrEnum):
    """What happened to a part of a dataflow."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class Change(Struct, frozen=True):
    """One part that differs; ``words`` say how, and what becomes of its state."""

    kind: ChangeKind
    part: str
    """Such as ``bound `readings` of `zones```."""
    words: str

    def __str__(self) -> str:
        return f"{self.part}: {self.kind.value}, {self.words}"


def changes(old: Dataflow, new: Dataflow) -> tuple[Change, ...]:
    """Return what differs between two versions of a dataflow, in the order of the file."""
    return (
        *_containers(old, new),
        *_outside("files", "them", old.files, new.files, lambda each: each.location),
        *_outside("topic", "it", old.topics, new.topics, lambda each: each.topic),
        *_actions(old, new),
        *_rebuilds(old, new),
        *_service(old, new),
    )


def edited_code(
    dataflow: Dataflow,
    ran: Mapping[str, RunIdentity],
    now: Mapping[str, RunIdentity],
    *,
    reloaded: bool,
) -> Iterator[Change]:
    """Yield the actions whose code, or files that it depends on, were edited since they ran.

    Args:
        dataflow: as it is now.
        ran: what the newest run of each action computed, where that is known.
        now: what each action would compute with what is on disk now.
        reloaded: whether the Spark session is replaced by another one.
    """
    for name in (action.name for action in dataflow.spec.actions):
        if name not in ran or name not in now:
            continue
        differing = now[name].differing(ran[name])
        if "code" in differing:
            words = "on disk it is another than what the newest run read"
            if not isinstance(dataflow.launchers[name], SessionLauncher):
                after = "the next run reads it"
            elif reloaded:
                after = "the new Spark session reads it"
            else:
                after = (
                    "a Spark session goes on with what it has read: "
                    f"`headgate flow update {shell_word(dataflow.name)} --reload` starts another"
                )
            yield Change(ChangeKind.CHANGED, f"code of `{name}`", f"{words}; {after}")
        if "files" in differing and dataflow.depends.get(name):
            words = "one of them is another than in the newest run; the next run reads it"
            yield Change(ChangeKind.CHANGED, f"files that `{name}` depends on", words)


def _containers(old: Dataflow, new: Dataflow) -> Iterator[Change]:
    before = {each.id: each for each in old.spec.containers if each.id not in old.outside}
    after = {each.id: each for each in new.spec.containers if each.id not in new.outside}
    for name, watched in after.items():
        part = f"container `{name}`"
        if name not in before:
            yield Change(ChangeKind.ADDED, part, "scanned first where a bound needs it")
        elif before[name] != watched:
            yield Change(ChangeKind.CHANGED, part, "its updates count on; its cells are read anew")
        elif old.on_undecodable.get(name) != new.on_undecodable.get(name):
            words = "`on_undecodable`, from the next attempt of a step that reads it"
            yield Change(ChangeKind.CHANGED, part, words)
        elif old.keys.get(name) != new.keys.get(name):
            words = (
                "`keys`, from the next attempt of a step that reads it; a stage that reads it is "
                f"made anew by `headgate stage rebuild {shell_word(new.name)} STAGE --with-sources`"
            )
            yield Change(ChangeKind.CHANGED, part, words)
    for name in (one for one in before if one not in after):
        yield Change(ChangeKind.REMOVED, f"container `{name}`", "not watched any more")


def _outside(
    kind: str,
    them: str,
    old: Mapping[str, _Spec],
    new: Mapping[str, _Spec],
    place: Callable[[_Spec], str],
) -> Iterator[Change]:
    """Yield what differs in what stages read or write besides containers.

    Args:
        kind: how one of them is called.
        them: the pronoun for that.
        old: by name.
        new: by name.
        place: returns where one of them is.
    """
    for name, spec in new.items():
        part, before = f"{kind} `{name}`", old.get(name)
        if before is None:
            yield Change(ChangeKind.ADDED, part, "read, or written, from the next run of a stage")
        elif place(before) != place(spec):
            words = (
                f"{place(before)} → {place(spec)}; what is written goes on there, and a stage that "
                f"reads {them} asks by `on_change` what becomes of its state"
            )
            yield Change(ChangeKind.CHANGED, part, words)
        elif before != spec:
            yield Change(ChangeKind.CHANGED, part, "from the next run of a stage")
    for name in (one for one in old if one not in new):
        yield Change(ChangeKind.REMOVED, f"{kind} `{name}`", "what is there stays")


def _actions(old: Dataflow, new: Dataflow) -> Iterator[Change]:
    before = {action.name: action for action in old.spec.actions}
    after = {action.name: action for action in new.spec.actions}
    for name, action in after.items():
        part = f"action `{name}`"
        if name not in before:
            yield Change(ChangeKind.ADDED, part, _added(old, new, name))
            continue
        yield from _bounds(before[name], action)
        other = [
            field
            for field in _PLAIN_FIELDS
            if getattr(before[name], field) != getattr(action, field)
        ]
        if other:
            fields = ", ".join(f"`{_KEYS.get(field, field)}`" for field in other)
            yield Change(ChangeKind.CHANGED, part, f"{fields}; it keeps what was counted")
        if old.on_change.get(name) != new.on_change.get(name):
            yield Change(ChangeKind.CHANGED, part, "`on_change`, from its next attempt")
        if old.launchers.get(name) != new.launchers.get(name):
            yield Change(ChangeKind.CHANGED, part, "its next attempt runs what is said now")
        if old.depends.get(name, ()) != new.depends.get(name, ()):
            yield Change(ChangeKind.CHANGED, part, "`depends`, from its next attempt")
    for name in (one for one in before if one not in after):
        yield Change(ChangeKind.REMOVED, f"action `{name}`", "a run under way is given up")


_KEYS = {"condition": "combine", "evaluation": "evaluate", "retry": "retries"}
_PLAIN_FIELDS = tuple(
    field.name for field in structs.fields(ActionSpec) if field.name not in ("name", "bounds")
)


def _added(old: Dataflow, new: Dataflow, name: str) -> str:
    """Return what becomes of an action that is new, or is an old one with another name."""
    gone = {action.name for action in old.spec.actions} - {one.name for one in new.spec.actions}
    launcher = new.launchers.get(name)
    same = sorted(one for one in gone if launcher and old.launchers.get(one) == launcher)
    if not same:
        return "it counts from now"
    return f"it begins anew: what `{same[0]}` knew, which runs the same, is not taken over"


def _rebuilds(old: Dataflow, new: Dataflow) -> Iterator[Change]:
    """Yield what becomes of states that are not those of what is read now."""
    rebuilds = rebuilds_between(old, new)
    for name, why in rebuilds.why.items():
        words = f"rebuilt from all that its inputs hold, since {why}"
        yield Change(ChangeKind.CHANGED, f"state of `{name}`", words)
    for name, tables in rebuilds.shown_anew.items():
        named = ", ".join(f"`{table}`" for table in sorted(tables))
        words = f"what it reads of {named} is another; its next run is shown everything there"
        yield Change(ChangeKind.CHANGED, f"action `{name}`", words)


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


def _service(old: Dataflow, new: Dataflow) -> Iterator[Change]:
    if old.profile != new.profile:
        words = f"{old.profile or 'none'} → {new.profile or 'none'}"
        yield Change(ChangeKind.CHANGED, "profile", words)
    if old.waves != new.waves:
        yield Change(ChangeKind.CHANGED, "waves", "from now")
    if (old.mode, old.spec.feeders) != (new.mode, new.spec.feeders):
        words = f"{old.mode.value} → {new.mode.value}; what was counted is kept"
        yield Change(ChangeKind.CHANGED, "mode", words)
    if old.scans != new.scans:
        yield Change(ChangeKind.CHANGED, "scans", "from the next one")
    if old.spec.adjustment != new.spec.adjustment:
        yield Change(ChangeKind.CHANGED, "adjustment", "limits stay where they are")
    for key in ("concurrency", "priority"):
        if getattr(old, key) != getattr(new, key):
            words = f"{getattr(old, key)} → {getattr(new, key)}"
            yield Change(ChangeKind.CHANGED, key, words)
    if old.state != new.state:
        before, after = (one.state or "the agent's directory" for one in (old, new))
        words = f"{before} → {after}; stages find their files there if somebody moves them"
        yield Change(ChangeKind.CHANGED, "state", words)
    if old.spark != new.spark:
        yield Change(ChangeKind.CHANGED, "spark", "a new session before the next attempt")
    if old.spark_pool != new.spark_pool:
        words = f"{old.spark_pool or 'none'} → {new.spark_pool or 'none'}"
        yield Change(ChangeKind.CHANGED, "spark_pool", f"{words}, before the next attempt")


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
