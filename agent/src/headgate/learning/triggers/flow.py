"""What the triggers of one dataflow share: its bounded outputs, and the wave that is decided on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from headgate.engine import (
    ActionSpec,
    DataflowSpec,
    Probe,
    SpecificationError,
    Wave,
)
from headgate.events import ContainerId
from headgate.learning.triggers.above import ContainersAbove, wave_probe
from headgate.learning.triggers.bases import Base, Bases
from headgate.learning.triggers.output_state import OutputState
from headgate.learning.triggers.outputs import BoundedOutput
from headgate.learning.triggers.renewal import Renewal
from headgate.learning.triggers.settings import graph_of, opaque_containers, settings_of


class StepState(Struct):
    """What is saved of a step, and of the outputs that it writes."""

    wave: int = 0
    time: float = 0.0
    """Of that wave, in Unix seconds."""
    version: int = 0
    """The wave of the step's last committed run; 0 before the first."""
    launched: int = 0
    """The wave of its last run."""
    demanded: int = 0
    """The wave that it is to run on when the steps before it have."""
    updates: dict[str, int] = {}
    """Of sources that this step is the first to read, in the last wave."""
    outputs: dict[str, OutputState] = {}
    counts: dict[str, int] = {}
    """n of these sources at the end of the last wave, where it is known."""
    running: bool = False
    """True while the step's last run is under way."""
    launched_time: float = 0.0
    """Time of the wave of the step's last run, in Unix seconds."""
    version_time: float = 0.0
    """Time of the wave of the step's last committed run, in Unix seconds."""
    certain: int = 0
    """The last wave in which it ran, or will, without any audit in it."""
    held: bool = False
    """True while the step waits for another one, with the same reader, that still runs on the wave
    that this step has run on."""
    bases: dict[str, Base] = {}
    """Containers that are kept as the step's runs have read them, by probe."""


class Member(Protocol):
    """A step that the outputs of a dataflow decide on."""

    state: StepState


class LearnedFlow:
    """What the policies of one dataflow share: its steps, its bounded outputs and the wave.

    Raises:
        SpecificationError: see ``settings_of`` and ``graph_of``; or a container with an impact is
            above no output.
    """

    def __init__(self, spec: DataflowSpec, actions: Sequence[ActionSpec]) -> None:
        self.settings = settings = settings_of(actions)
        self.graph = graph_of(spec, actions, tuple(settings.outputs))
        self.name = spec.name
        self.members: dict[str, Member] = {}
        """Predecessors first."""
        self.wave = Wave(0, 0.0)
        opaque = opaque_containers(spec)
        self.updates: dict[str, int] = dict.fromkeys(sorted(self.graph.sources - opaque), 0)
        """Of each source in the last wave."""
        self.counts: dict[str, int] = {}
        """n of each source at the end of the last wave, where it is known."""
        above = {
            o: tuple(c for c in self.graph.above(o) if c not in opaque) for o in settings.outputs
        }
        below = self.graph.below(settings.outputs)
        self.bases = Bases(
            self.graph,
            {
                step: frozenset(c for o in outputs for c in above[o])
                for step, outputs in below.items()
            },
            self,
        )
        self.outputs = {
            name: BoundedOutput(
                spec.name,
                name,
                output,
                settings.audit,
                Renewal(
                    settings.refit if settings.has_labels_of_service(name) else 0,
                    settings.retrain,
                    settings.waves,
                    settings.horizon,
                ),
                ContainersAbove(
                    name,
                    above[name],
                    self.updates,
                    settings.impacts,
                    self.bases.until,
                ),
            )
            for name, output in settings.outputs.items()
        }
        self.below = below
        predicting = {container for containers in above.values() for container in containers}
        unread = [repr(container) for container in settings.impacts if container not in predicting]
        if unread:
            words = f"impacts of {', '.join(unread)}: no output is predicted from it; leave it out"
            raise SpecificationError((words,))
        self.makers = {
            step.name: tuple(
                dict.fromkeys(self.graph.writers[c] for c in step.reads if c in self.graph.writers)
            )
            for step in self.graph.steps
        }
        """Steps that make what a step reads, by step."""
        self.read_by = {
            name: tuple(reader for reader, makers in self.makers.items() if name in makers)
            for name in self.makers
        }
        """Steps that read what a step makes, by step."""
        self.reads_only_made = {
            step.name: all(c in self.graph.writers for c in step.reads) for step in self.graph.steps
        }
        self.first_readers: dict[str, str] = {}
        """By container, the first step that reads it, which has its probes."""
        for step in self.graph.steps:
            for container in step.reads:
                self.first_readers.setdefault(container, step.name)

    def first_of_world(self, outputs: Sequence[str]) -> int:
        """Return the first wave after the last change that concerns any of these outputs.

        A change of what several outputs are made of is one of all of them.
        """
        above = {container for name in outputs for container in self.graph.above(name)}
        return 1 + max(
            each.state.changed
            for name, each in self.outputs.items()
            if name in outputs or above & set(self.graph.above(name))
        )

    @property
    def number(self) -> int:
        """Number of the last wave that has ended."""
        return self.wave.number

    def holder(self, step: str) -> StepState:
        """Return what is known of a step."""
        return self.members[step].state

    def source_probe(self, container: str) -> str:
        """Return the probe that was reset when the last wave ended."""
        return wave_probe(container)

    def version(self, output: str) -> int:
        """Return the wave in which an output was made last."""
        return self.members[self.graph.writers[output]].state.version

    def is_fresh(self, container: str, wave: int) -> bool:
        """Return whether a container is as a wave has it."""
        writer = self.graph.writers.get(container)
        version = self.wave.number if writer is None else self.members[writer].state.version
        return version == wave

    def is_certain(self, container: str, wave: int) -> bool:
        """Return whether a container is as a wave has it without any audit in that wave."""
        writer = self.graph.writers.get(container)
        return writer is None or self.members[writer].state.certain == wave

    def stale_before(self, step: str, wave: int) -> tuple[str, ...]:
        """Return the steps before one that have not run on a wave or a newer, predecessors first.

        Of a wave before the last only what the step itself reads has to be there: what that was
        made of may be newer by now.
        """
        before = self.graph.ancestors[step] if wave == self.wave.number else self.makers[step]
        return tuple(name for name in before if self.members[name].state.version < wave)

    def wave_at_hand(self, step: str) -> Wave:
        """Return the wave that a step would run on now: the last, or that of what it reads.

        Where a step before it takes longer than a wave, what that has made is of a wave before the
        last.
        """
        makers = [self.members[name].state for name in self.makers[step]]
        own = self.members[step].state
        if not makers:
            return self.wave
        newest = max(makers, key=lambda state: state.version)
        together = all(state.version == newest.version for state in makers)
        if newest.version <= own.version or not (together or self.reads_only_made[step]):
            return self.wave
        return Wave(newest.version, newest.version_time)

    def held_by(self, step: str) -> str | None:
        """Return the step that another must run on the same wave as; None where none must.

        Both are read by a third, which is to be made of one wave. The other is still at work on the
        wave that this one has run on: if this one ran on the next, the third would never run.
        """
        version = self.members[step].state.version
        for reader in self.read_by[step]:
            if self.members[reader].state.version >= version or not self._is_due(reader, version):
                continue
            for maker in self.makers[reader]:
                for name in () if maker == step else (*self.graph.ancestors[maker], maker):
                    state = self.members[name].state
                    if name != step and state.running and state.launched == version:
                        return name
        return None

    def _is_due(self, step: str, wave: int) -> bool:
        """Return whether a step is to run on a wave once all that it reads is of it."""
        demanded = self.members[step].state.demanded == wave
        return demanded or any(self.outputs[name].state.due == wave for name in self.below[step])

    def is_at_work(self, output: str, wave: int) -> bool:
        """Return whether an output is still being made of a wave before the one at hand."""
        due = self.outputs[output].state.due
        running = self.members[self.graph.writers[output]].state.running
        return running or (due != wave and self.is_made_late(output, due))

    def is_made_late(self, output: str, wave: int) -> bool:
        """Return whether an output is still being made of a wave that was decided on."""
        writer = self.graph.writers[output]
        steps = (self.members[n].state for n in (*self.graph.ancestors[writer], writer))
        return any(state.running and state.launched == wave for state in steps)

    def begin(self, wave: Wave) -> None:
        """Take note of the end of a wave, whoever hears of it first."""
        number = wave.number or self.wave.number + 1
        if number > self.wave.number:
            self.wave = Wave(number, wave.time)

    def probes_of(self, step: str) -> Iterator[Probe]:
        """Yield the probes that a step needs that no step before it does."""
        for container, reader in self.first_readers.items():
            if reader != step:
                continue
            if container in self.updates:
                yield Probe(wave_probe(container), (ContainerId(container),))
            for output in self.outputs.values():
                if container in output.above.names:
                    yield Probe(output.above.probe(container), (ContainerId(container),))
        for probe, container in self.bases.probes(step):
            yield Probe(probe, (ContainerId(container),))
        for output in self.outputs.values():
            if self.graph.writers[output.name] == step:
                yield Probe(output.error_probe, (ContainerId(output.name),))
