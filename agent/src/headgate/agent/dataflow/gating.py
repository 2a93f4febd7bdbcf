"""Gates: bounds that hold writers back from when they are found reached until a run has ended."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.agent.dataflow.standing import COUNTER_BITS, GatePlace, Standing
from headgate.engine import Bound
from headgate.events import VERSION, Container, Gate

_LEASE = 10.0  # seconds a gate stays closed when its agent is lost, and nobody renews it
_RENEWAL = _LEASE / 3


class Gating(Standing):
    """Closes gates, renews their leases, and opens them, as the engine says who is to be held."""

    def _tend_gates(self, now: float) -> None:
        """Close, renew and open gates, as the runs under way ask for it."""
        if not self._gates and not self._blocking:
            return
        wanted = dict(self._holding())
        for place, (container, _) in list(self._gates.items()):
            if place not in wanted:
                del self._gates[place]
                self._gate(place, container, now, released=True)
        for place, container in wanted.items():
            known = self._gates.get(place)
            if known is None or now >= known[1] - _LEASE + _RENEWAL:
                self._gates[place] = (container, now + _LEASE)
                self._gate(place, container, now + _LEASE, released=False)

    def _open_gates(self, now: float) -> None:
        """Open all: the dataflow is being removed."""
        for place, (container, _) in self._gates.items():
            self._gate(place, container, now, released=True)
        self._gates.clear()

    def _renew_gates(self, now: float) -> None:
        """Publish the leases of closed gates again: their ends are by a clock that was set."""
        self._gates = {place: (container, 0.0) for place, (container, _) in self._gates.items()}
        self._tend_gates(now)

    @property
    def _renewals(self) -> list[float]:
        """When leases are to be renewed, in Unix seconds."""
        return [until - _LEASE + _RENEWAL for _, until in self._gates.values()]

    @property
    def _blocking(self) -> dict[GatePlace, Bound]:
        """The bounds that hold writers back, found once for each definition."""
        if self._blocking_of is not self._dataflow:
            self._blocking_of = self._dataflow
            self._blocking_bounds = {
                (spec.name, bound.name): bound
                for spec in self._dataflow.spec.actions
                for bound in spec.bounds
                if bound.block
            }
        return self._blocking_bounds

    def _holding(self) -> Iterator[tuple[GatePlace, Container]]:
        if self.definition.shadow or self._withdrawn:
            return
        blocking = self._blocking
        for place in self._engine.holding():
            if place in blocking:
                yield place, self._container_of(blocking[place])

    def _container_of(self, bound: Bound) -> Container:
        return next(w.container for w in self._dataflow.spec.containers if w.id == bound.container)

    def _gate(
        self, place: GatePlace, container: Container, until: float, *, released: bool
    ) -> None:
        action, bound = place
        self._gate_revision += 1
        revision = (self.epoch << COUNTER_BITS) + self._gate_revision
        gate = Gate(VERSION, self.name, action, bound, (container,), until, revision, released)
        self._around.broker.control(gate)
