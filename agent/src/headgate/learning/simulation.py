"""What scores and thresholds would have skipped, over waves of which everything is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from headgate.learning.looks import Looks, Persistence
from headgate.learning.pairs import Table

Flags = npt.NDArray[np.bool_]
"""By wave, shape (w,)."""


class ClosedLoop(Struct, frozen=True, eq=False):
    """One output under a policy, wave by wave from the first; the first always runs."""

    ran: Flags
    violated: Flags
    """Whether what was shown was out of bounds; never where it ran."""
    gap: float = 1.0
    """Waves from one of these to the next, on average: more than 1 where runs outlast waves."""

    @property
    def violation_rate(self) -> float:
        """Share of violations in the waves that service decides on.

        While a run is under way no wave is decided on. After a skip each one is, those too that
        are not in the loop, as a run of training was under way in them.
        """
        weights = np.where(self.ran, 1.0, self.gap)
        return float(self.violated @ weights) / float(weights.sum())

    @property
    def saved(self) -> float:
        """Share of the waves in which it was skipped."""
        return 1.0 - float(self.ran.mean())

    @property
    def confidence(self) -> float:
        """Share of the waves in which what was shown was within bounds."""
        return 1.0 - float(self.violated.mean())


def closed_loop(
    errors: Table, scores: Table, threshold: float, bound: float, first: int, last: int
) -> ClosedLoop:
    """Return what becomes of an output that runs where the score passes the threshold.

    Args:
        errors: ε by wave and age, shape (T, H+1). Past the horizon it always runs.
        scores: predicted violations, likewise; what is NaN runs.
        threshold: λ; what is above it runs.
        bound: of ε.
        first: the wave from which on it is looked at.
        last: the wave before which it ends.
    """
    count, horizon = last - first, errors.shape[1] - 1
    ran, violated = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    ages = np.arange(1, horizon + 1)
    version = first
    while version < last:
        ran[version - first] = True
        waves = version + ages
        waves = waves[waves < last]
        known = ages[: len(waves)]
        skipped = scores[waves, known] <= threshold
        until = int(np.argmin(skipped)) if not skipped.all() else len(waves)
        wrong = ~(errors[waves[:until], known[:until]] <= bound)
        violated[version - first + 1 : version - first + 1 + until] = wrong
        version += 1 + until
    return ClosedLoop(ran, violated)


class Step(Struct, frozen=True):
    """A step of a dataflow: what it reads and what it writes."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


class Graph:
    """The steps of a dataflow, predecessors first.

    Args:
        steps: in an order in which every container is written before it is read.

    Raises:
        ValueError: a container is read before the step that writes it or by that step, or two
            write one.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self.writers: dict[str, str] = {}
        self.ancestors: dict[str, tuple[str, ...]] = {}
        """By step, all steps before it, predecessors first."""
        read: set[str] = set()
        for step in steps:
            read.update(step.reads)
            before = {
                name
                for container in step.reads
                if container in self.writers
                for name in (*self.ancestors[self.writers[container]], self.writers[container])
            }
            self.ancestors[step.name] = tuple(s.name for s in steps if s.name in before)
            for container in step.writes:
                if container in step.reads:
                    message = (
                        f"step {step.name} reads {container}, which it writes: what it makes "
                        "depends on how often it has run, so that none of its runs can be skipped; "
                        "have it write another container"
                    )
                    raise ValueError(message)
                if container in read or container in self.writers:
                    message = (
                        f"step {step.name} writes {container}, which a step before it reads or "
                        "writes; name the steps in their order"
                    )
                    raise ValueError(message)
                self.writers[container] = step.name
        self.sources = frozenset(read - self.writers.keys())
        """Containers that no step writes: they change in every wave."""

    def below(self, outputs: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return, by step, those of some outputs that it writes or that lie below it."""
        leading = {o: (*self.ancestors[self.writers[o]], self.writers[o]) for o in outputs}
        return {
            step.name: tuple(output for output, steps in leading.items() if step.name in steps)
            for step in self.steps
        }

    def above(self, output: str) -> tuple[str, ...]:
        """Return the containers from which an output is predicted: those that its steps read."""
        writer = self.writers[output]
        steps = {*self.ancestors[writer], writer}
        read = (c for step in self.steps if step.name in steps for c in step.reads)
        return tuple(dict.fromkeys(read))

    def upstream(self, output: str) -> tuple[str, ...]:
        """Return those of ``above`` that the step which makes the output does not read."""
        [maker] = (step for step in self.steps if step.name == self.writers[output])
        return tuple(name for name in self.above(output) if name not in maker.reads)

    def nearer(self, output: str) -> dict[str, tuple[str, ...]]:
        """Return, by container above an output, those of them that are made of it, if any is."""
        above = self.above(output)
        made_of = {name: self.above(name) for name in above if name in self.writers}
        found = {name: tuple(c for c, of in made_of.items() if name in of) for name in above}
        return {name: nearer for name, nearer in found.items() if nearer}

    def readers(self, container: str, output: str) -> tuple[str, ...]:
        """Return the steps that are decided on by a container, for an output at or below them."""
        writer = self.writers[output]
        steps = {*self.ancestors[writer], writer}
        return tuple(s.name for s in self.steps if s.name in steps and container in s.reads)


class Bounded(Struct, frozen=True, eq=False):
    """An output with a bound, and what predicts that it is passed."""

    errors: Table
    """ε by wave and age against the synchronous output."""
    bound: float
    scores: Mapping[str, Table]
    """By container above it, the predicted violation by wave and age."""
    persistence: Persistence = {}
    """Of what is seen from nearer; empty where each wave is looked at for itself."""


class StagedLoop(Struct, frozen=True, eq=False):
    """A whole dataflow under a policy, wave by wave from the first, in which all steps run."""

    ran: Mapping[str, Flags]
    """By step."""
    violated: Mapping[str, Flags]
    """By bounded output."""

    @property
    def saved(self) -> float:
        """Share of all runs that were skipped."""
        return 1.0 - float(np.mean([flags.mean() for flags in self.ran.values()]))


class StagePolicy(Protocol):
    """Says of each output whether it is made in a wave."""

    def wants(
        self, output: str, containers: Sequence[str], wave: int, age: int, *, certain: bool = True
    ) -> bool:
        """Return whether an output is to be made, as seen from containers that are of this wave.

        Args:
            output: the container.
            containers: those that one step reads and that are fresh; there is one at least.
            wave: its number.
            age: waves since the output was made, from 1 to the horizon.
            certain: whether they would be fresh without any audit in this wave.
        """

    def is_audited(self, output: str, wave: int) -> bool:
        """Return whether an output is made in a wave only to see what its skip would cost."""

    def made(self, output: str, wave: int, age: int) -> None:
        """Take note that an output was made, for whatever reason."""

    def wave_over(self, output: str, wave: int, age: int) -> None:
        """Take note that a wave is over; ``age`` is 0 where the output is of it."""


class Thresholds:
    """Makes an output where a score passes a threshold that stays as it is.

    Args:
        outputs: by container.
        thresholds: λ by output.
    """

    def __init__(self, outputs: Mapping[str, Bounded], thresholds: Mapping[str, float]) -> None:
        self._outputs = outputs
        self._thresholds = thresholds
        self._looks = dict.fromkeys(outputs, Looks())

    def wants(
        self,
        output: str,
        containers: Sequence[str],
        wave: int,
        age: int,
        *,
        certain: bool = True,  # noqa: ARG002 -- the interface
    ) -> bool:
        """See ``StagePolicy``."""
        bounded, threshold = self._outputs[output], self._thresholds[output]
        scores = {name: float(bounded.scores[name][wave, age]) for name in containers}
        if bounded.persistence:
            looks = self._looks[output].looked(wave - age, wave, scores, bounded.persistence)
            self._looks[output] = looks
            scores = {name: looks.looks[name].score for name in containers}
        return any(not score <= threshold for score in scores.values())

    def is_audited(self, output: str, wave: int) -> bool:  # noqa: ARG002 -- the interface
        """See ``StagePolicy``."""
        return False

    def made(self, output: str, wave: int, age: int) -> None:
        """See ``StagePolicy``."""

    def wave_over(self, output: str, wave: int, age: int) -> None:
        """See ``StagePolicy``."""


def staged_loop(
    graph: Graph,
    outputs: Mapping[str, Bounded],
    thresholds: Mapping[str, float],
    first: int,
    last: int,
) -> StagedLoop:
    """Return what becomes of a dataflow by thresholds that stay as they are; see ``stages``.

    Args:
        graph: of the steps that lead to bounded outputs; others never run.
        outputs: by container.
        thresholds: λ by output.
        first: the wave from which on it is looked at.
        last: the wave before which it ends.
    """
    return stages(graph, outputs, Thresholds(outputs, thresholds), first, last)


def stages(
    graph: Graph, outputs: Mapping[str, Bounded], policy: StagePolicy, first: int, last: int
) -> StagedLoop:
    """Return what becomes of a dataflow whose steps are decided on one after the other.

    A step is looked at when a container that it reads is of this wave. It runs if the policy wants
    any bounded output at or below it, seen from there; its stale ancestors run before it. So
    whatever is shown is the synchronous output of one wave.

    Args:
        graph: of the steps that lead to bounded outputs; others never run.
        outputs: by container.
        policy: decides; past the horizon an output is made without it.
        first: the wave from which on it is looked at.
        last: the wave before which it ends.
    """
    below = graph.below(outputs)
    writes = {step.name: step.writes for step in graph.steps}
    ran = {name: np.zeros(last - first, np.bool_) for name, served in below.items() if served}
    violated = {output: np.zeros(last - first, np.bool_) for output in outputs}
    versions = dict.fromkeys(outputs, first)
    for flags in ran.values():
        flags[0] = True
    for wave in range(first + 1, last):
        fresh = set(graph.sources)
        done: set[str] = set()
        certain = set(graph.sources)
        for step in graph.steps:
            seen = [container for container in step.reads if container in fresh]
            if step.name in done or not seen:
                continue
            ages = {output: wave - versions[output] for output in below[step.name]}
            sure = any(container in certain for container in seen)
            wanted = [
                output
                for output, age in ages.items()
                if age
                and (
                    age >= outputs[output].errors.shape[1]
                    or policy.wants(output, seen, wave, age, certain=sure)
                )
            ]
            if not wanted:
                continue
            runs = sure and not all(policy.is_audited(output, wave) for output in wanted)
            for name in (*graph.ancestors[step.name], step.name):
                if runs:
                    certain.update(writes[name])
                if name in done:
                    continue
                done.add(name)
                ran[name][wave - first] = True
                fresh.update(writes[name])
                for output in set(writes[name]) & versions.keys():
                    policy.made(output, wave, wave - versions[output])
                    versions[output] = wave
        for output, bounded in outputs.items():
            age = wave - versions[output]
            violated[output][wave - first] = age > 0 and not (
                age < bounded.errors.shape[1] and bounded.errors[wave, age] <= bounded.bound
            )
            policy.wave_over(output, wave, age)
    return StagedLoop(ran, violated)
