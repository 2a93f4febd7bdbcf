"""Bounds whose limits are searched for, from a dataflow's output backwards (paper: Figure 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import msgspec

from headgate.engine.spec.dataflow import (
    ActionSpec,
    DataflowSpec,
    SignificanceSpec,
    SpecificationError,
    launch_order,
)
from headgate.engine.spec.metrics.table import METRICS, Metric
from headgate.engine.triggers.bounds.measures import divergence_of
from headgate.engine.triggers.bounds.policy import Bounded
from headgate.engine.triggers.facets import PolicyReport, Reports
from headgate.engine.triggers.policy import (
    Heard,
    LimitsMoved,
    Moment,
    Notice,
    Probe,
    Response,
    TriggerPolicy,
    Wave,
)
from headgate.engine.triggers.significance.search import Search, SearchState, Taken
from headgate.events import ContainerId

_decode = msgspec.msgpack.Decoder(SearchState).decode
_encode = msgspec.msgpack.Encoder().encode


class Backwards:
    """The searches of one dataflow: each gets its target from those that follow."""

    def __init__(self, output: ContainerId, change: float) -> None:
        self._output = output
        self._change = change
        self.members: list[Searched] = []
        """Successors first."""

    def open(self, member: Searched) -> Iterator[LimitsMoved]:
        """Open a search if its target is known; yield what comes of it."""
        target = self._target(member)
        if target is not None:
            words = member.search.open(target)
            if words is not None:
                yield LimitsMoved(member.spec.name, words)
        member.take_limits()

    def settled(self, member: Searched, words: str | None) -> Iterator[LimitsMoved]:
        """Yield what came of a search, and of those before it that may have a target now."""
        if words is not None:
            yield LimitsMoved(member.spec.name, words)
            for each in self.members:
                yield from self.open(each)

    def _target(self, member: Searched) -> float | None:
        """Return the change that is searched for; None while successors are searched for."""
        if self._output in member.spec.writes:
            return self._change
        followers = [m.search for m in self.members if member.spec.name in m.spec.after]
        targets = [search.input_change for search in followers]
        known = [target for target in targets if target is not None and target > 0]
        if not followers or len(known) < len(followers):
            return None
        return min(known)


class Searched(Bounded, Reports):
    """An action whose limits are where its output changes as much as its target says."""

    kind: ClassVar[str] = "significance"

    def __init__(
        self,
        spec: ActionSpec,
        significance: SignificanceSpec,
        metered: tuple[ContainerId, ...],
        searches: Backwards,
    ) -> None:
        super().__init__(spec)
        self.spec = spec
        self.adjustable = ()
        self.search = Search(significance.tolerance, significance.patience)
        self._searches = searches
        self._metric, self._constant = Metric.RELATIVE, 0.0
        if significance.output in spec.writes and significance.against is not None:
            self._metric, self._constant = Metric.AGAINST, significance.against
        self._meter = f"output of {spec.name}"
        probe = Probe(self._meter, metered)
        self.needs = msgspec.structs.replace(self.needs, probes=(probe,))
        self.take_limits()

    def take_limits(self) -> None:
        """Have the limits hold at which the search is."""
        for name in self.bounds:
            for dimension, limit in self.search.limits.items():
                self.limits[name, dimension] = limit

    def heard(self, event: Heard, inputs: Moment) -> Sequence[Response]:
        """Go on with the search, by what was consumed, made and brought."""
        super().heard(event, inputs)
        match event:
            case Notice.BEGUN:
                return list(self._searches.open(self))
            case Notice.LAUNCHED:
                self.search.launched(_taken(inputs))
            case Notice.COMMITTED:
                return list(self._searches.settled(self, self._finished(inputs)))
            case Notice.GIVEN_UP:
                self.search.failed()
            case Wave():
                parts = inputs.all_parts()
                received = sum(pending.received for _, pending in parts)
                elements = sum(cells.elements for cells, _ in parts)
                return list(self._searches.settled(self, self.search.wave(received, elements)))
            case _:
                pass
        return ()

    def _finished(self, inputs: Moment) -> str | None:
        """Measure how far what the run has written is from what the one before has.

        Return what comes of it.
        """
        parts = inputs.probe(self._meter)
        for _, pending in parts:
            pending.recount()
        change = METRICS[self._metric].compute(divergence_of(parts, self._metric), self._constant)
        inputs.reset(self._meter)
        return self.search.finished(change)

    def report(self) -> PolicyReport:
        """Return where the search is."""
        state, search = self.search.state, self.search
        return PolicyReport(
            f"Search for its limit: {search.words()}.",
            {
                "phase": state.phase,
                "dimension": state.dimension,
                "limit": state.limit,
                "target": state.target,
                "change": search.change,
                "waves": state.waves,
                "opened": state.opened,
            },
        )

    def save(self) -> bytes:
        """Return the state of the search."""
        return _encode(self.search.state)

    def load(self, saved: bytes) -> None:
        """Go on with a search."""
        self.search.state = _decode(saved)
        self.take_limits()


def _taken(inputs: Moment) -> Taken:
    """Return what a run is about to consume."""
    parts = inputs.all_parts()
    updates = float(sum(pending.updates for _, pending in parts))
    change = METRICS[Metric.RELATIVE].compute(divergence_of(parts, Metric.RELATIVE), 0.0)
    return Taken(updates, change)


def searched(spec: DataflowSpec, actions: Sequence[ActionSpec]) -> Mapping[str, TriggerPolicy]:
    """Return the policies of the actions whose limits are searched for.

    Raises:
        SpecificationError: the dataflow does not say which change matters.
    """
    significance = spec.significance
    if significance is None:
        raise SpecificationError((f"no change matters to {actions[0].name!r}: say which",))
    specs = {action.name: action for action in actions}
    searches = Backwards(significance.output, significance.change)
    found: dict[str, Searched] = {}
    for name in launch_order(spec.actions):
        if name in specs:
            metered = tuple(_metered(specs[name], spec, significance))
            found[name] = Searched(specs[name], significance, metered, searches)
    searches.members = list(found.values())[::-1]
    return found


def _metered(
    action: ActionSpec, spec: DataflowSpec, significance: SignificanceSpec
) -> Iterator[ContainerId]:
    """Yield what an action writes whose change counts: the output, and what followers watch."""
    watched = {
        bound.container
        for follower in spec.actions
        if follower.name in significance.actions and action.name in follower.after
        for bound in follower.bounds
    }
    for container in dict.fromkeys(action.writes):
        if container == significance.output or container in watched:
            yield container
