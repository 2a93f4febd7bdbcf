"""Gates: bounds that hold writers back from when they are found reached until a run has ended."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.agent.dataflow.state import COUNTER_BITS, FlowState
from headgate.agent.kafka.broker import Broker
from headgate.agent.parts import Part
from headgate.engine import Bound
from headgate.events import VERSION, Container, Gate
from headgate.flows import Dataflow

_LEASE = 10.0  # seconds a gate stays closed when its agent is lost, and nobody renews it
_RENEWAL = _LEASE / 3

Place = tuple[str, str]
"""An action and a bound of it."""


class Gates(Part):
    """Closes gates, renews their leases, and opens them, as the engine says who is to be held."""

    def __init__(self, state: FlowState, broker: Broker) -> None:
        self._state = state
        self._broker = broker
        self._closed: dict[Place, tuple[Container, float]] = {}
        """What closed gates hold, and the ends of their leases."""
        self._revision = 0
        self._blocking_of: Dataflow | None = None
        self._blocking_bounds: dict[Place, Bound] = {}
        """Of the dataflow in ``_blocking_of``."""

    def due(self) -> list[float]:
        """Return when leases are to be renewed, in Unix seconds."""
        return [until - _LEASE + _RENEWAL for _, until in self._closed.values()]

    def tick(self, now: float) -> None:
        """Renew leases."""
        if self._closed and now >= min(self.due()):
            self.follow(now)

    def follow(self, now: float) -> None:
        """Close, renew and open gates, as the runs under way ask for it."""
        if not self._closed and not self._blocking:
            return
        wanted = dict(self._holding())
        for place, (container, _) in list(self._closed.items()):
            if place not in wanted:
                del self._closed[place]
                self._publish(place, container, now, released=True)
        for place, container in wanted.items():
            known = self._closed.get(place)
            if known is None or now >= known[1] - _LEASE + _RENEWAL:
                self._closed[place] = (container, now + _LEASE)
                self._publish(place, container, now + _LEASE, released=False)

    def open_all(self, now: float) -> None:
        """Open all gates: the dataflow is being removed."""
        for place, (container, _) in self._closed.items():
            self._publish(place, container, now, released=True)
        self._closed.clear()

    def renew_all(self, now: float) -> None:
        """Publish the leases of closed gates again: their ends are by a clock that was set."""
        self._closed = {place: (container, 0.0) for place, (container, _) in self._closed.items()}
        self.follow(now)

    @property
    def _blocking(self) -> dict[Place, Bound]:
        """The bounds that hold writers back, found once for each definition."""
        dataflow = self._state.dataflow
        if self._blocking_of is not dataflow:
            self._blocking_of = dataflow
            self._blocking_bounds = {
                (spec.name, bound.name): bound
                for spec in dataflow.spec.actions
                for bound in spec.bounds
                if bound.block
            }
        return self._blocking_bounds

    def _holding(self) -> Iterator[tuple[Place, Container]]:
        if self._state.definition.shadow or self._state.withdrawn:
            return
        blocking = self._blocking
        for place in self._state.engine.holding():
            if place in blocking:
                yield place, self._container_of(blocking[place])

    def _container_of(self, bound: Bound) -> Container:
        watched = self._state.dataflow.spec.containers
        return next(w.container for w in watched if w.id == bound.container)

    def _publish(self, place: Place, container: Container, until: float, *, released: bool) -> None:
        action, bound = place
        self._revision += 1
        revision = (self._state.epoch << COUNTER_BITS) + self._revision
        gate = Gate(
            VERSION, self._state.name, action, bound, (container,), until, revision, released
        )
        self._broker.control(gate)
