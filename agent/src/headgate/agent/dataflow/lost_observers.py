"""Observers that are lost for good: what they had not published is looked for, once."""

from __future__ import annotations

import structlog

from headgate.agent.dataflow.state import FlowState, RuntimePort
from headgate.agent.kafka.observers import ObserverTable
from headgate.agent.parts import Part
from headgate.agent.state.saved_state import FlowProgress
from headgate.engine import ObserverLost

log = structlog.get_logger("headgate.agent.flow")


class LostObservers(Part):
    """Epochs of observers that have ended without a goodbye."""

    def __init__(
        self, state: FlowState, port: RuntimePort, observers: ObserverTable, progress: FlowProgress
    ) -> None:
        self._state = state
        self._port = port
        self._observers = observers
        self._known = progress.lost_epochs
        """Epochs, by observer, of which what is missing was looked for."""

    def saved(self) -> dict[str, object]:
        """Return fields of ``FlowProgress``."""
        return {"lost_epochs": self._known}

    def forgive(self, now: float) -> None:
        """Look for nothing of observers that are lost by now: nothing was watched before."""
        self._known = self._observers.gone(now)

    def tick(self, now: float) -> None:
        """Have the engine look for what observers had not published that are lost for good."""
        if not self._state.watching:
            return
        # One that was heard again may be lost another time.
        under_way = self._observers.under_way(now)
        kept = {
            name: tuple(epoch for epoch in epochs if (name, epoch) not in under_way)
            for name, epochs in self._known.items()
        }
        known = {name: epochs for name, epochs in kept.items() if epochs}
        lost: dict[str, tuple[int, ...]] = {}
        for name, epochs in sorted(self._observers.gone(now).items()):
            new = tuple(epoch for epoch in epochs if epoch not in known.get(name, ()))
            if new:
                lost[name] = new
                known[name] = (*known.get(name, ()), *new)
        if known != self._known:
            self._known = known
            self._state.dirty = True
        for name, epochs in lost.items():
            log.warning("observer lost", dataflow=self._state.name, observer=name, epochs=epochs)
            self._port.handle(ObserverLost(now, name))
