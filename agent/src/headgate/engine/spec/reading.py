"""The inputs of a dataflow's actions, and what an edit of them makes of the actions' states."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from headgate.engine.spec.dataflow import Count, DataflowSpec, WatchedContainer
from headgate.engine.spec.stages import FlowId
from headgate.events import ContainerId


class Reading(Struct, frozen=True):
    """The inputs of a dataflow's actions.

    They are saved with an engine, since an edit may come while no engine runs.
    """

    containers: tuple[WatchedContainer, ...] = ()
    reads: Mapping[str, tuple[ContainerId, ...]] = {}
    """Containers that an action reads, by action."""
    watched: Mapping[str, tuple[ContainerId, ...]] = {}
    """Containers that an action's bounds watch, by action."""
    flows: Mapping[str, Mapping[str, FlowId]] = {}
    """Input flows of a stage under its own names for them, by stage."""

    def of(self, action: str) -> tuple[WatchedContainer, ...]:
        """Return the containers that an action is shown, without how their elements are counted.

        A step may ask for what its bounds watch, too.
        """
        bounded = () if action in self.flows else self.watched.get(action, ())
        names = {*self.reads.get(action, ()), *bounded}
        return tuple(replace(one, count=Count.ROWS) for one in self.containers if one.id in names)

    def tables(self, action: str) -> frozenset[str]:
        """Return the tables of the containers that an action is shown."""
        return frozenset(table for one in self.of(action) for table in one.container.tables)


class Edits(Struct, frozen=True):
    """Consequences of an edit for actions that cannot go on as before."""

    shown_anew: Mapping[str, frozenset[str]]
    """Tables that are shown to a step as a whole, by step, since it reads something else there."""
    contradicted: Mapping[str, str]
    """Reason why the state of a stage does not fit what the stage reads now, in words, by stage."""


def reading_of(spec: DataflowSpec) -> Reading:
    """Return what the actions of a dataflow read."""
    return Reading(
        spec.containers,
        {action.name: action.reads for action in spec.actions},
        {
            action.name: tuple(dict.fromkeys(bound.container for bound in action.bounds))
            for action in spec.actions
        },
        {action.name: action.stage.inputs for action in spec.actions if action.stage is not None},
    )


def edits_between(before: Reading, now: Reading, begun: Collection[str]) -> Edits:
    """Return what actions cannot go on with after an edit.

    Args:
        before: what was read before it, as far as that is known.
        now: what is read.
        begun: the actions that have run, or are running, since they are in the dataflow.
    """
    if not before.reads:
        return Edits({}, {})
    shown_anew: dict[str, frozenset[str]] = {}
    contradicted: dict[str, str] = {}
    for name in now.reads:
        other = _others(before.of(name), now.of(name)) if name in before.reads else ()
        if name in now.flows:
            if name in begun:
                words = _of_others(before, now, name, other)
            else:
                words = _too_late(before, now, name, begun)
            if words:
                contradicted[name] = words
        elif other:
            tables = (table for one in other for table in one.container.tables)
            shown_anew[name] = frozenset(tables)
    return Edits(shown_anew, contradicted)


def _of_others(before: Reading, now: Reading, stage: str, other: Iterable[WatchedContainer]) -> str:
    """Return in words why a stage that has run has another state than begun anew, or nothing."""
    if stage not in before.reads:
        return ""
    if stage not in before.flows:
        return "it was no stage"
    was, flows = before.flows[stage], now.flows[stage]
    moved = [name for name in {**was, **flows} if was.get(name) != flows.get(name)]
    if moved:
        return f"{_listed(moved)} is read from elsewhere, or is not read any more"
    names = {one.id for one in other}
    return f"container {_listed(names)} is another" if names else ""


def _too_late(before: Reading, now: Reading, stage: str, begun: Collection[str]) -> str:
    """Return in words what was made before a stage read it, or nothing."""
    was = before.flows.get(stage, {})
    late = [
        name
        for name, source in now.flows[stage].items()
        if was.get(name) != source and source.action in begun
    ]
    return f"of {_listed(late)} it would lack what was made before" if late else ""


def _others(
    was: Iterable[WatchedContainer], now: Iterable[WatchedContainer]
) -> tuple[WatchedContainer, ...]:
    """Return containers of which something else is read than before, whatever their names."""
    known, wanted = {_unnamed(one) for one in was}, {_unnamed(one) for one in now}
    added = [one for one in now if _unnamed(one) not in known]
    gone = [one for one in was if _unnamed(one) not in wanted]
    return (*added, *gone)


def _unnamed(watched: WatchedContainer) -> WatchedContainer:
    return replace(watched, container=replace(watched.container, id=ContainerId("")))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))
