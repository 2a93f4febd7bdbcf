"""Keeps what outputs reflect while runs are launched, commit and are given up."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from headgate.events import Cut
from headgate.temporal.reflections import NOTHING, ReflectedRun, Reflections, Span

_FEW = 10  # runs that are not worth a look


class Sources(Struct, frozen=True):
    """Which actions make what another reads; all by the name of the action that reads.

    Of what actions of one circle have read of each other no more is kept than the run that they
    have read: else it would have no end.
    """

    writers: Mapping[str, Collection[str]]
    """The actions that write the containers that it reads."""
    feeders: Mapping[str, Collection[str]]
    """The actions whose increments it reads."""
    circles: Mapping[str, Collection[str]]
    """All that depend on it and on which it depends, itself included."""


class ReflectionTracker:
    """What the outputs of one dataflow reflect.

    Args:
        sources: who makes what each action reads.
        saved: what was known before, maybe of another specification of the dataflow.
    """

    def __init__(self, sources: Sources, saved: Reflections = NOTHING) -> None:
        self._sources = sources
        known = sources.writers
        self._last = {name: run for name, run in saved.last.items() if name in known}
        self._launched = {name: runs for name, runs in saved.launched.items() if name in known}
        self._runs = dict(saved.runs)
        self._made = dict(saved.made)
        self._kept = len(self._runs)
        """How many runs were there after the last look for what can be forgotten."""
        self._value: Reflections | None = None

    @property
    def is_crowded(self) -> bool:
        """Return whether there are twice as many runs as after the last look for what to forget.

        A look takes as long as there are runs, so that it may not follow each commit.
        """
        return len(self._runs) > 2 * self._kept + _FEW

    @property
    def value(self) -> Reflections:
        """What is known now; the same object until it changes."""
        if self._value is None:
            self._value = Reflections(
                dict(self._last), dict(self._runs), dict(self._launched), dict(self._made)
            )
        return self._value

    def launched(
        self, action: str, read: Mapping[str, Collection[str]], *, anew: bool = False
    ) -> None:
        """Note that a run is launched.

        Args:
            action: whose run it is.
            read: by action whose increments it reads, the names of these.
            anew: whether it begins with nothing of what its action has read before.
        """
        before = None if anew else self._runs.get(self._last.get(action, ""))
        found = {writer: self._last.get(writer, "") for writer in self._sources.writers[action]}
        for feeder in self._sources.feeders[action]:
            if read.get(feeder):
                found[feeder] = self._newest(self._made.get(name, "") for name in read[feeder])
            elif before is not None and feeder in before.inputs:
                found[feeder] = before.inputs[feeder].last
        self._launched[action] = found
        self._value = None

    def _newest(self, runs: Iterable[str]) -> str:
        known = {name: self._runs[name].ended_at for name in runs if name in self._runs}
        return max(known, key=known.__getitem__, default="")

    def given_up(self, action: str) -> None:
        """Note that nothing comes of the run of an action that was launched."""
        if self._launched.pop(action, None) is not None:
            self._value = None

    def committed(
        self,
        action: str,
        run: str,
        cuts: tuple[Cut, Cut],
        times: tuple[float, float],
        made: Iterable[str] = (),
    ) -> None:
        """Note that the run of an action that was launched has committed.

        Args:
            action: whose run it is.
            run: its id.
            cuts: at its launch and now, with the topics that it reads.
            times: likewise, in Unix seconds.
            made: names of increments that it has made.
        """
        begun = self._launched.pop(action, {})
        in_place = self._sources.writers.get(action, ())
        inputs = {
            maker: Span(first, self._last.get(maker, first) if maker in in_place else first)
            for maker, first in begun.items()
        }
        self._runs[run] = ReflectedRun(action, *cuts, *times, inputs)
        self._last[action] = run
        self._made |= dict.fromkeys(made, run)
        self._value = None

    def forget(self, unread: Collection[str]) -> None:
        """Forget what nothing reflects any more.

        Args:
            unread: names of all increments that somebody may still read.
        """
        self._made = {name: run for name, run in self._made.items() if name in unread}
        reached: dict[str, None] = {}
        waiting = [*self._last.values(), *self._made.values()]
        waiting += (run for runs in self._launched.values() for run in runs.values())
        while waiting:
            name = waiting.pop()
            run = self._runs.get(name)
            if run is None or name in reached:
                continue
            reached[name] = None
            circle = self._sources.circles.get(run.action, ())
            for maker, span in run.inputs.items():
                if maker not in circle:
                    waiting += (span.first, span.last)
        self._kept = len(reached)
        if len(reached) < len(self._runs):
            self._runs = {name: run for name, run in self._runs.items() if name in reached}
            self._value = None
