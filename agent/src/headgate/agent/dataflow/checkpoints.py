"""Checkpoints: the engine's state and the service's own, in one row."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.dataflow.runs.history import RunHistory
from headgate.agent.dataflow.state import FlowState
from headgate.agent.parts import Part
from headgate.agent.state.saved_state import FlowProgress, SavedState
from headgate.spark import RunKey


class Checkpoints(Part):
    """Saves a dataflow's state, at once where that is asked for, and after a while else."""

    def __init__(
        self,
        state: FlowState,
        context: RuntimeContext,
        history: RunHistory,
        is_active: Callable[[RunKey], bool],
        parts: Iterable[Part],
    ) -> None:
        self._state = state
        self._context = context
        self._history = history
        self._is_active = is_active
        self._parts = tuple(parts)
        self._saved_at = 0.0

    def due(self) -> list[float]:
        """Return when the next checkpoint is saved, in Unix seconds, if something has changed."""
        return [self._saved_at + self._context.checkpoint_seconds]

    def tick(self, now: float) -> None:
        """Save if that is due, and delete what nobody needs any more."""
        if self._state.dirty and now >= min(self.due()):
            self.save(now)
        elif not self._state.dirty:
            self._saved_at = max(self._saved_at, now)
        self._history.forget_old()

    def move_times(self, by: float) -> None:
        """Have the next checkpoint saved so many seconds later."""
        self._saved_at += by

    def save(self, now: float) -> None:
        """Save a checkpoint."""
        metrics = self._context.metrics
        with metrics.checkpoint_seconds.time():
            written = self._write(now)
        metrics.snapshot_bytes.replace({(): written})
        self._state.dirty = False
        self._saved_at = now
        self._history.were_saved(self._is_active)

    def _write(self, now: float) -> int:
        """Write a checkpoint, and return how many bytes of the engine's state it has."""
        checkpoint = self._state.engine.checkpoint(self._context.saved_whole)
        fields: dict[str, object] = {}
        for part in self._parts:
            fields |= part.saved()
        progress = msgspec.structs.replace(FlowProgress(), **fields)
        saved = SavedState(checkpoint.head, self._state.position, progress, checkpoint.log)
        self._context.store.save(saved, self._history.changed, now)
        return len(saved.snapshot) + sum(len(segment.data) for segment in saved.log.written)
