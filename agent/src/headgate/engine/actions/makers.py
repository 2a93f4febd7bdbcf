"""Who makes what an action reads: what its outputs reflect comes by these ways."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from headgate.engine.protocol.work import Work
from headgate.engine.spec.dataflow import ActionRole, ActionSpec, DataflowSpec
from headgate.engine.spec.order import circles
from headgate.events import ContainerId, updates_topic
from headgate.temporal import Sources


def sources_of(actions: Iterable[ActionSpec]) -> Sources:
    """Return which actions make what each action reads; inputs, which never run, make nothing."""
    actions = tuple(actions)
    writers: dict[ContainerId, list[str]] = {}
    for action in actions:
        if action.role is not ActionRole.INPUT:
            for container in action.writes:
                writers.setdefault(container, []).append(action.name)
    of_containers: dict[str, tuple[str, ...]] = {}
    of_flows: dict[str, tuple[str, ...]] = {}
    for action in actions:
        read = dict.fromkeys((*action.reads, *(bound.container for bound in action.bounds)))
        of_containers[action.name] = _distinct(n for one in read for n in writers.get(one, ()))
        inputs = () if action.stage is None else action.stage.inputs.values()
        of_flows[action.name] = _distinct(source.action for source in inputs)
    both = {name: (*of_containers[name], *of_flows[name]) for name in of_containers}
    if not any(both.values()):
        return Sources(of_containers, of_flows, {})
    return Sources(of_containers, of_flows, circles(both))


def increments_read(work: Work) -> dict[str, Collection[str]]:
    """Return the names of the increments that a run reads, by the action that made them."""
    found: dict[str, list[str]] = {}
    for part in work.taken.values():
        found.setdefault(part.source.action, []).extend(one.name for one in part.read)
    return {maker: names for maker, names in found.items() if names}


def topics_read(spec: DataflowSpec) -> dict[str, tuple[str, ...]]:
    """Return the topics of the tables that each action reads."""
    tables = {watched.id: watched.container.tables for watched in spec.containers}
    return {
        action.name: _distinct(
            updates_topic(table)
            for one in (*action.reads, *(bound.container for bound in action.bounds))
            for table in tables[one]
        )
        for action in spec.actions
    }


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
