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
from headgate.learning.triggers.outputs import BoundedOutput, OutputState
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
    """The wave in which another step waits for it."""
    updates: dict[str, int] = {}
    """Of sources that this step is the first to read, in the last wave."""
    outputs: dict[str, OutputState] = {}
    counts: dict[str, int] = {}
    """n of these sources at the end of the last wave, where it is known."""


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
                    [c for c in self.graph.above(name) if c not in opaque],
                    self.updates,
                    self.counts,
                    settings.impacts,
                ),
            )
            for name, output in settings.outputs.items()
        }
        self.below = self.graph.below(self.outputs)
        above = {container for output in self.outputs.values() for container in output.above.names}
        unread = [repr(container) for container in settings.impacts if container not in above]
        if unread:
            words = f"impacts of {', '.join(unread)}: no output is predicted from it; leave it out"
            raise SpecificationError((words,))
        self.first_readers: dict[str, str] = {}
        """By container, the first step that reads it, which has its probes."""
        for step in self.graph.steps:
            for container in step.reads:
                self.first_readers.setdefault(container, step.name)

    def version(self, output: str) -> int:
        """Return the wave in which an output was made last."""
        return self.members[self.graph.writers[output]].state.version

    def is_fresh(self, container: str) -> bool:
        """Return whether a container is as this wave has it."""
        writer = self.graph.writers.get(container)
        return writer is None or self.members[writer].state.version == self.wave.number

    def stale_before(self, step: str) -> tuple[str, ...]:
        """Return the steps before one that have not run in this wave, predecessors first."""
        number = self.wave.number
        return tuple(
            name for name in self.graph.ancestors[step] if self.members[name].state.version < number
        )

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
        for output in self.outputs.values():
            if self.graph.writers[output.name] == step:
                yield Probe(output.error_probe, (ContainerId(output.name),))
