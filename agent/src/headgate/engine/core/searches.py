"""Limits that are searched for: what searches hear of runs and waves, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.engine.actions.action import Action
from headgate.engine.actions.state import EngineState
from headgate.engine.core.clocks import Clocks
from headgate.engine.core.output import Output
from headgate.engine.core.seeking import Said, Seeking
from headgate.engine.protocol.instructions import DecisionKind


class Searches:
    """The searches of a dataflow's limits, where it has any."""

    def __init__(self, state: EngineState, output: Output, clocks: Clocks) -> None:
        self._state = state
        self._output = output
        self._clocks = clocks
        self.build()

    def build(self) -> None:
        """Search by what the specification says now."""
        spec = self._state.spec.significance
        self._seeking = None if spec is None else Seeking(self._state.graph, spec)

    def begin(self) -> None:
        """Open the searches whose target is known."""
        if self._seeking is not None:
            self._take(self._seeking.begin())

    def wave_ended(self) -> None:
        """Note the end of a wave of input."""
        if self._seeking is not None:
            self._take(self._seeking.wave())

    def launching(self, action: Action) -> None:
        """Note what a run is about to consume."""
        if self._seeking is not None and action.search is not None:
            self._seeking.launching(action, action.search)

    def committed(self, action: Action) -> None:
        """Measure what a run has changed."""
        if self._seeking is not None and action.search is not None:
            self._take(self._seeking.finished(action, action.search))

    def failed(self, action: Action) -> None:
        """Note that a run has failed for good."""
        if action.search is not None:
            action.search.failed()

    def _take(self, said: Iterable[Said]) -> None:
        for action, words in said:
            self._output.decide(DecisionKind.ADJUSTED, words, action)
            self._clocks.set(action)
