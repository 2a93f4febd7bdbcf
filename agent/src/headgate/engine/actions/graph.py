"""How a dataflow's actions, bounds and containers hang together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headgate.engine.actions.action import Action, MarkedCut
from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.columns import Detail
from headgate.engine.cells.routing import Router
from headgate.engine.cells.storage import Storage
from headgate.engine.spec.dataflow import ActionRole, DataflowSpec, WatchedContainer, launch_order
from headgate.engine.triggers.policy import ContainerWatch, Part, Probe, TriggerPolicy
from headgate.engine.tuning.adjustment import Adjuster
from headgate.events import ContainerId, updates_topic


class Graph:
    """Actions in launch order, the cells that their policies watch, and who follows whom."""

    def __init__(
        self,
        spec: DataflowSpec,
        policies: Mapping[str, TriggerPolicy],
        storage: Storage,
        known: Mapping[CellsPlace, ContainerCells],
    ) -> None:
        specs = {action.name: action for action in spec.actions}
        self.actions = {
            name: Action(specs[name], place, policies[name])
            for place, name in enumerate(launch_order(spec.actions))
        }
        self.cells = {
            place: known.get(place) or ContainerCells(watched, place[1], detail, storage)
            for place, (watched, detail) in _wanted(spec, policies).items()
        }
        for cells in known.values():
            cells.watchers.begin_change()
        self.tables: dict[str, list[ContainerCells]] = {}
        """What is watched in each table."""
        for cells in self.cells.values():
            self.tables.setdefault(cells.table, []).append(cells)
        self.kept = frozenset(c.table for c in self.cells.values() if c.detail is not Detail.COUNTS)
        """Tables of which cells are kept."""
        self.routers = {table: Router(watched) for table, watched in self.tables.items()}
        self.successors: dict[str, list[Action]] = {name: [] for name in self.actions}
        self.feeders: dict[ContainerId, list[Action]] = {}
        """Inputs, by each container that they feed."""
        self.watchers: dict[ContainerId, list[Action]] = {}
        """Actions that are evaluated at writes, by each container that they watch."""
        probes: dict[str, list[Part]] = {}
        for action in self.actions.values():
            self._connect(action, probes)
        for cells in known.values():
            cells.watchers.end_change()
        for action in self.actions.values():
            bounds = () if action.adjusts is None else action.adjusts.adjustable
            adjusters = (Adjuster(bound, spec.adjustment) for bound in bounds)
            action.adjusters = [one for one in adjusters if one.intervals]
            action.take_limits()

    def _connect(self, action: Action, probes: dict[str, list[Part]]) -> None:
        action.preceding = tuple(self.actions[name] for name in action.spec.after)
        for name in action.spec.after:
            self.successors[name].append(action)
        if action.is_input:
            for container in dict.fromkeys((*action.spec.writes, *action.spec.reads)):
                self.feeders.setdefault(container, []).append(action)
        needs = action.policy.needs
        for watch in needs.watches:
            action.parts[watch.container] = list(self._watched(action, watch))
            if action.moments.write:
                self.watchers.setdefault(watch.container, []).append(action)
        action.probes = probes
        for probe in needs.probes:
            probes[probe.name] = list(self._probed(probe))
        for mark in needs.marks:
            action.marks[mark] = MarkedCut(
                {
                    pending: part
                    for watch in needs.watches
                    for (_, pending), part in zip(
                        action.parts[watch.container],
                        self._watched(action, watch, f"{action.name} since {mark}"),
                        strict=True,
                    )
                }
            )

    def _watched(
        self, action: Action, watch: ContainerWatch, name: str | None = None
    ) -> Iterator[Part]:
        """Yield a container with what is counted of it for an action, or for something of it."""
        for cells in self._cells_of(watch.container):
            pending = cells.watchers.add(
                name or action.name,
                values=watch.detail is Detail.VALUES,
                distinct=watch.distinct,
                own=action.spec.own,
                writer=action.name,
            )
            pending.keeps_cells = watch.detail is not Detail.COUNTS
            yield cells, pending

    def _probed(self, probe: Probe) -> Iterator[Part]:
        for container in probe.containers:
            for cells in self._cells_of(container):
                yield cells, cells.watchers.add(probe.name, values=True, distinct=False, own=True)

    def _cells_of(self, container: ContainerId) -> list[ContainerCells]:
        return [cells for (known, _), cells in self.cells.items() if known == container]

    def in_order(self, names: Iterable[str]) -> list[Action]:
        """Return these actions, each once, predecessors first."""
        names = list(names)
        if len(names) == 1:
            return [self.actions[names[0]]]
        return sorted((self.actions[name] for name in set(names)), key=lambda a: a.place)

    def watching(self, cells: ContainerCells) -> list[Action]:
        """Return the actions whose policy watches these cells."""
        return [a for a in self.actions.values() if cells.watched.id in a.parts]

    def awaited(self, action: Action) -> list[str]:
        """Return the predecessors that have never run."""
        return [name for name in action.spec.after if not self.actions[name].has_run]

    def tables_of(self, topic: str) -> list[str]:
        """Return the table of a topic; all tables if its name is of none."""
        return [t for t in self.tables if updates_topic(t) == topic] or list(self.tables)


CellsPlace = tuple[ContainerId, str]
"""A container, and a table in which it lies."""


def unchanged_cells(
    cells: Mapping[CellsPlace, ContainerCells],
    spec: DataflowSpec,
    policies: Mapping[str, TriggerPolicy],
) -> dict[CellsPlace, ContainerCells]:
    """Return those that another specification has as they are."""
    wanted = _wanted(spec, policies)
    return {
        place: known
        for place, known in cells.items()
        if wanted.get(place) == (known.watched, known.detail)
    }


def _wanted(
    spec: DataflowSpec, policies: Mapping[str, TriggerPolicy]
) -> dict[CellsPlace, tuple[WatchedContainer, Detail]]:
    details = _details(spec, policies)
    return {
        (watched.id, table): (watched, details[watched.id])
        for watched in spec.containers
        if watched.id in details
        for table in watched.container.tables
    }


def _details(
    spec: DataflowSpec, policies: Mapping[str, TriggerPolicy]
) -> dict[ContainerId, Detail]:
    least = Detail.KEYS if spec.keeps_keys else Detail.COUNTS
    details: dict[ContainerId, Detail] = {}
    for action in spec.actions:
        if action.role is ActionRole.INPUT:
            for container in (*action.writes, *action.reads):
                details.setdefault(container, Detail.COUNTS)
        needs = policies[action.name].needs
        for watch in needs.watches:
            known = details.get(watch.container, Detail.COUNTS)
            details[watch.container] = max(known, least, watch.detail)
        for probe in needs.probes:
            details.update(dict.fromkeys(probe.containers, Detail.VALUES))
    return details
