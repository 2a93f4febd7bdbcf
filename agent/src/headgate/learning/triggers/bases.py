"""Containers as runs under way have read them, where waves end before all steps have run on one.

Where runs outlast waves, a step may run on a wave after later ones have ended: what is above it was
read by a run before and has changed since. So each step that others read keeps how the containers
above it stood for its run under way, and for its last one. A probe is kept only while it may be
needed: none where no run outlasts a wave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct

from headgate.engine import Inputs, Moment
from headgate.learning.simulation import Graph
from headgate.learning.triggers.metering import NOW, Until, counted_elements


class Base(Struct, frozen=True):
    """A container as a probe has it since its last reset."""

    wave: int
    """The wave that it is of."""
    elements: int | None = None
    """n at the reset; None where it is not known."""


class Start(Struct, frozen=True):
    """Base from which a container is measured, for the output of a run that begins."""

    known: bool
    """True if the container is still as it was read for the run's wave, or a probe knows it."""
    since: str | None = None
    """The probe that was reset then; None where the container is as it was."""
    elements: int | None = None
    """n then; None where it is not known."""


class Holder(Protocol):
    """Knowledge of a step."""

    version: int
    """The wave of its last committed run."""
    launched: int
    """The wave of its last run."""
    running: bool
    bases: dict[str, Base]
    """Bases by probe."""


class Sources(Protocol):
    """Knowledge of steps, and of the containers that none of them writes."""

    counts: dict[str, int]
    """n at the end of the last wave, by container, where it is known."""

    @property
    def number(self) -> int:
        """Number of the last wave that has ended."""

    def holder(self, step: str) -> Holder:
        """Return what is known of a step."""

    def source_probe(self, container: str) -> str:
        """Return the probe that was reset when the last wave ended."""


class Bases:
    """How the containers above steps stood for the runs of these.

    Args:
        graph: of the steps.
        measured: by step, the containers that outputs below it are predicted from.
        sources: the containers that no step writes.
    """

    def __init__(
        self, graph: Graph, measured: Mapping[str, frozenset[str]], sources: Sources
    ) -> None:
        self._graph = graph
        self._sources = sources
        reads = {step.name: step.reads for step in graph.steps}
        self._makers = {
            name: {graph.writers[c] for c in containers if c in graph.writers}
            for name, containers in reads.items()
        }
        self._readers = {
            name: [reader for reader, makers in self._makers.items() if name in makers]
            for name in self._makers
        }
        self.kept = {
            step.name: self._kept_by(step.name, reads, step.writes, measured)
            for step in graph.steps
        }
        """Containers that are kept as a step's runs have read or made them, by step."""

    def _kept_by(
        self,
        step: str,
        reads: Mapping[str, Iterable[str]],
        writes: Iterable[str],
        measured: Mapping[str, frozenset[str]],
    ) -> tuple[str, ...]:
        readers = self._readers[step]
        above = [c for name in (*self._graph.ancestors[step], step) for c in reads[name]]
        beside = [c for name in readers for c in reads[name] if c in self._graph.sources]
        wanted = frozenset().union(*(measured[name] for name in readers))
        return tuple(c for c in dict.fromkeys((*above, *beside, *writes)) if c in wanted)

    def probes(self, step: str) -> Iterator[tuple[str, str]]:
        """Yield the probes that a step's runs need, each with its container."""
        for container in self.kept[step]:
            yield _of_version(container, step), container
        for container in self._read_by(step):
            yield _at_work(container, step), container

    def rest(self, step: str, inputs: Moment) -> None:
        """Have the probes of a step rest that are not needed: those of a new dataflow, too."""
        bases = self._sources.holder(step).bases
        for probe, _ in self.probes(step):
            if probe not in bases:
                inputs.rest(probe)

    # -- what happens

    def source_changes(self, container: str, wave: int, inputs: Moment) -> None:
        """Keep a source for the runs that have read it, as a wave has ended after this one."""
        self._keep(container, wave, self._of_last_wave(container), inputs)

    def launched(self, step: str, inputs: Moment) -> None:
        """Keep what the run reads that begins, and what it writes as the run before made it."""
        holder = self._sources.holder(step)
        for container in self._written_by(step):
            found = counted_elements(inputs.probe(_of_version(container, step)))
            self._keep(container, holder.version, Start(known=True, elements=found), inputs)
        for container in self._read_by(step):
            probe, start = _at_work(container, step), self.start(step, container, holder.launched)
            if self._is_of(container, holder.launched) or not start.known:
                self._drop(holder, probe, inputs)
            else:
                inputs.reset(probe, start.since)
                holder.bases[probe] = Base(holder.launched, start.elements)

    def committed(self, step: str, inputs: Moment) -> None:
        """Keep what the run has read that has ended, instead of what the one before had."""
        holder = self._sources.holder(step)
        for container in self._written_by(step):
            self._drop(holder, _of_version(container, step), inputs)
        for container in self._read_by(step):
            probe, new = _of_version(container, step), _at_work(container, step)
            base = holder.bases.get(new)
            if base is None or base.wave != holder.version:
                self._drop(holder, probe, inputs)
            else:
                inputs.reset(probe, new)
                holder.bases[probe] = base
            self._drop(holder, new, inputs)

    def failed(self, step: str, inputs: Moment) -> None:
        """Forget what a run has read that was given up, and what it may have written over."""
        holder = self._sources.holder(step)
        for container in self._read_by(step):
            self._drop(holder, _at_work(container, step), inputs)
        for container in self._written_by(step):
            self._drop(holder, _of_version(container, step), inputs)

    def _read_by(self, step: str) -> list[str]:
        return [c for c in self.kept[step] if self._graph.writers.get(c) != step]

    def _written_by(self, step: str) -> list[str]:
        return [c for c in self.kept[step] if self._graph.writers.get(c) == step]

    def _keep(self, container: str, wave: int, start: Start, inputs: Moment) -> None:
        """Keep a container as it is of a wave, for all runs on that wave that may need it."""
        if not wave:
            return
        for step, kept in self.kept.items():
            if container not in kept:
                continue
            holder = self._sources.holder(step)
            probes = []
            if holder.running and holder.launched == wave:
                probes.append(_at_work(container, step))
            if holder.version == wave and self._is_behind(step, wave):
                probes.append(_of_version(container, step))
            for probe in probes:
                if probe not in holder.bases:
                    inputs.reset(probe, start.since)
                    holder.bases[probe] = Base(wave, start.elements)

    def _is_behind(self, step: str, wave: int) -> bool:
        """Return whether a step that reads what another makes has not read that of a wave."""
        for reader in self._readers[step]:
            holder = self._sources.holder(reader)
            at_work = holder.running and holder.launched >= wave
            if holder.version < wave and not at_work:
                return True
        return False

    def _drop(self, holder: Holder, probe: str, inputs: Moment) -> None:
        holder.bases.pop(probe, None)
        inputs.rest(probe)

    # -- what is known

    def start(self, step: str, container: str, wave: int) -> Start:
        """Return from where a container is to be measured for a run on a wave."""
        if self._is_of(container, wave):
            made = container in self._graph.writers
            return Start(known=True) if made else self._of_last_wave(container)
        for maker in self._makers[step]:
            holder = self._sources.holder(maker)
            probe = _of_version(container, maker)
            base = holder.bases.get(probe)
            if holder.version == wave and base is not None and base.wave == wave:
                return Start(known=True, since=probe, elements=base.elements)
        return Start(known=False)

    def until(self, container: str, inputs: Inputs) -> Until:
        """Return the moment at which a container was as the wave has it that it is of."""
        writer = self._graph.writers.get(container)
        if writer is None:
            start = self._of_last_wave(container)
            return Until(inputs.probe(start.since or ""), start.elements)
        probe = _of_version(container, writer)
        base = self._sources.holder(writer).bases.get(probe)
        return NOW if base is None else Until(inputs.probe(probe), base.elements)

    def _of_last_wave(self, source: str) -> Start:
        probe, elements = self._sources.source_probe(source), self._sources.counts.get(source)
        return Start(known=True, since=probe, elements=elements)

    def _is_of(self, container: str, wave: int) -> bool:
        """Return whether a container is of a wave, but for what came after the wave's end."""
        writer = self._graph.writers.get(container)
        if writer is None:
            return self._sources.number == wave
        holder = self._sources.holder(writer)
        return holder.version == wave and not holder.running


def _at_work(container: str, step: str) -> str:
    return f"{container} for the run of {step}"


def _of_version(container: str, step: str) -> str:
    return f"{container} for {step}"
