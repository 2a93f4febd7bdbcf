"""Parts of a running dataflow, which share its turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Part:
    """A part of a running dataflow.

    It never blocks, owns no thread, and has no clock: ``now`` is Unix time in seconds. Most parts
    need only some of these methods.
    """

    def due(self) -> Iterable[float]:
        """Return when ``tick`` is needed, in Unix seconds."""
        return ()

    def tick(self, now: float) -> None:
        """Do what is due."""

    def move_times(self, by: float) -> None:
        """Do what is due so many seconds later: the clock was set."""

    def saved(self) -> Mapping[str, object]:
        """Return fields of ``FlowProgress``."""
        return {}

    def stop(self) -> None:
        """Let go of what it holds outside the dataflow."""
