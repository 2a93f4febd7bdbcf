"""How a dataflow's actions, bounds and containers hang together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headgate.engine.actions.action import Action, detail_of
from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.columns import Detail
from headgate.engine.cells.routing import Router
from headgate.engine.cells.storage import Storage
from headgate.engine.spec.dataflow import (
    DataflowSpec,
    Role,
    SignificanceSpec,
    WatchedContainer,
    launch_order,
)
from headgate.engine.triggers.bounds import Part
from headgate.engine.triggers.significance.search import Search
from headgate.engine.tuning.adjustment import Adjuster
from headgate.events import ContainerId, updates_topic


class Graph:
    """Actions in launch order, the cells that their bounds watch, and who follows whom."""

    def __init__(
        self, spec: DataflowSpec, storage: Storage, known: Mapping[CellsPlace, ContainerCells]
    ) -> None:
        specs = {action.name: action for action in spec.actions}
        order = launch_order(spec.actions)
        self.actions = {name: Action(specs[name], place) for place, name in enumerate(order)}
        self.cells = {
            place: known.get(place) or ContainerCells(watched, place[1], detail, storage)
            for place, (watched, detail) in _wanted(spec).items()
        }
        for cells in known.values():
            cells.watchers.begin_change()
        self.tables: dict[str, list[ContainerCells]] = {}
        """What is watched in each table."""
        for cells in self.cells.values():
            self.tables.setdefault(cells.table, []).append(cells)
        self.valued = frozenset(c.table for c in self.cells.values() if c.detail is Detail.VALUES)
        """Tables of which values decide."""
        self.routers = {table: Router(watched) for table, watched in self.tables.items()}
        self.successors: dict[str, list[Action]] = {name: [] for name in self.actions}
        self.feeders: dict[ContainerId, list[Action]] = {}
        """Inputs, by each container that they feed."""
        self.watchers: dict[ContainerId, list[Action]] = {}
        """Actions that are evaluated at writes, by each container that they watch."""
        for action in self.actions.values():
            self._connect(action)
        if spec.significance is not None:
            self._seek(spec.significance)
        for cells in known.values():
            cells.watchers.end_change()
        for action in self.actions.values():
            if action.search is None:
                adjusters = (Adjuster(bound, spec.adjustment) for bound in action.spec.bounds)
                action.adjusters = [one for one in adjusters if one.intervals]
            action.take_limits()

    def _seek(self, spec: SignificanceSpec) -> None:
        """Give actions whose limits are searched for what a search needs."""
        for name in spec.actions:
            action = self.actions[name]
            action.search = Search(spec.tolerance, spec.patience)
            followers = {a.name: a for a in self.successors[name] if a.name in spec.actions}
            watched = {bound.container for a in followers.values() for bound in a.spec.bounds}
            for container in dict.fromkeys(action.spec.writes):
                if container == spec.output or container in watched:
                    action.meter += self._metered(f"output of {name}", container)

    def _metered(self, name: str, container: ContainerId) -> Iterator[Part]:
        for (known, _), cells in self.cells.items():
            if known == container:
                yield cells, cells.watchers.add(name, values=True, distinct=False, own=True)

    def _connect(self, action: Action) -> None:
        for name in action.spec.after:
            self.successors[name].append(action)
        if action.is_input:
            for container in dict.fromkeys((*action.spec.writes, *action.spec.reads)):
                self.feeders.setdefault(container, []).append(action)
        for container in dict.fromkeys(bound.container for bound in action.spec.bounds):
            self._watch(action, container)
            if action.spec.effective_evaluation.write:
                self.watchers.setdefault(container, []).append(action)

    def _watch(self, action: Action, container: ContainerId) -> None:
        bounds = [bound for bound in action.spec.bounds if bound.container == container]
        action.parts[container] = []
        for (name, _), cells in self.cells.items():
            if name != container:
                continue
            pending = cells.watchers.add(
                action.name,
                values=any(b.value is not None for b in bounds),
                distinct=any(b.sequence is not None and b.sequence.distinct for b in bounds),
                own=action.spec.own,
            )
            action.parts[container].append((cells, pending))

    def in_order(self, names: Iterable[str]) -> list[Action]:
        """Return these actions, each once, predecessors first."""
        names = list(names)
        if len(names) == 1:
            return [self.actions[names[0]]]
        return sorted((self.actions[name] for name in set(names)), key=lambda a: a.place)

    def watching(self, cells: ContainerCells) -> list[Action]:
        """Return the actions that have a bound on these cells."""
        return [a for a in self.actions.values() if cells.watched.id in a.parts]

    def awaited(self, action: Action) -> list[str]:
        """Return the predecessors that have never run."""
        return [name for name in action.spec.after if not self.actions[name].has_run]

    def tables_of(self, topic: str) -> list[str]:
        """Return the table of a topic; all tables if its name tells none."""
        return [t for t in self.tables if updates_topic(t) == topic] or list(self.tables)


CellsPlace = tuple[ContainerId, str]
"""A container, and a table in which it lies."""


def unchanged_cells(
    cells: Mapping[CellsPlace, ContainerCells], spec: DataflowSpec
) -> dict[CellsPlace, ContainerCells]:
    """Return those that another specification has as they are."""
    wanted = _wanted(spec)
    return {
        place: known
        for place, known in cells.items()
        if wanted.get(place) == (known.watched, known.detail)
    }


def _wanted(spec: DataflowSpec) -> dict[CellsPlace, tuple[WatchedContainer, Detail]]:
    details = _details(spec)
    return {
        (watched.id, table): (watched, details[watched.id])
        for watched in spec.containers
        if watched.id in details
        for table in watched.container.tables
    }


def _details(spec: DataflowSpec) -> dict[ContainerId, Detail]:
    least = Detail.KEYS if spec.keeps_keys else Detail.COUNTS
    details: dict[ContainerId, Detail] = {}
    for action in spec.actions:
        if action.role is Role.INPUT:
            for container in (*action.writes, *action.reads):
                details.setdefault(container, Detail.COUNTS)
        for bound in action.bounds:
            known = details.get(bound.container, Detail.COUNTS)
            details[bound.container] = max(known, least, detail_of(bound))
    if spec.significance is not None:
        details[spec.significance.output] = Detail.VALUES
    return details
