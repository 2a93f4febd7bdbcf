"""Searches of a dataflow: from its actions and cells to what each search must know, and back."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.engine.actions.action import Action
from headgate.engine.actions.graph import Graph
from headgate.engine.spec.dataflow import Metric, SignificanceSpec
from headgate.engine.triggers.bounds import divergence_of
from headgate.engine.triggers.metrics import METRICS
from headgate.engine.triggers.significance.search import Search, Taken

Said = tuple[Action, str]
"""An action and what has come of its search, for people."""


class Seeking:
    """The searches of one dataflow, from its output backwards (paper: Figure 4)."""

    def __init__(self, graph: Graph, spec: SignificanceSpec) -> None:
        self._graph = graph
        self._spec = spec
        self._backwards = graph.in_order(spec.actions)[::-1]

    def launching(self, action: Action, search: Search) -> None:
        """Note what a run is about to consume."""
        parts = action.all_parts()
        search.launched(
            Taken(
                float(sum(pending.updates for _, pending in parts)),
                METRICS[Metric.RELATIVE](divergence_of(parts, Metric.RELATIVE), 0.0),
            )
        )

    def finished(self, action: Action, search: Search) -> Iterator[Said]:
        """Measure the output of a run that has committed; yield what comes of it."""
        said = search.finished(self._change(action))
        for _, pending in action.meter:
            consumed = pending.take()
            pending.committed += consumed.updates
            consumed.release()
        yield from self._settled(action, said)

    def wave(self) -> Iterator[Said]:
        """Take note of the end of a wave; yield what comes of it."""
        for action in self._backwards:
            if action.search is not None:
                parts = action.all_parts()
                received = sum(pending.received for _, pending in parts)
                elements = sum(cells.elements for cells, _ in parts)
                yield from self._settled(action, action.search.wave(received, elements))

    def begin(self) -> Iterator[Said]:
        """Open the searches whose target is known; yield what comes of it."""
        for action in self._backwards:
            target = self._target(action)
            if action.search is not None and target is not None:
                said = action.search.open(target)
                if said is not None:
                    yield action, said
            action.take_limits()

    def _settled(self, action: Action, said: str | None) -> Iterator[Said]:
        if said is not None:
            yield action, said
            # Its limit has moved, and its predecessors may have a target now.
            yield from self.begin()

    def _change(self, action: Action) -> float:
        """Return how far what the action writes has moved since its last run."""
        metric, constant = Metric.RELATIVE, 0.0
        if self._spec.output in action.spec.writes and self._spec.against is not None:
            metric, constant = Metric.AGAINST, self._spec.against
        for _, pending in action.meter:
            pending.recount()
        return METRICS[metric](divergence_of(action.meter, metric), constant)

    def _target(self, action: Action) -> float | None:
        """Return the change that is searched for; None while successors are searched for."""
        if self._spec.output in action.spec.writes:
            return self._spec.change
        searches = [a.search for a in self._graph.successors[action.name] if a.search is not None]
        targets = [search.input_change for search in searches]
        known = [target for target in targets if target is not None and target > 0]
        if not searches or len(known) < len(searches):
            return None
        return min(known)
