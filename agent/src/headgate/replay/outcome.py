"""What a replay found: runs and errors, step by step."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from headgate.replay.outputs import OutputError
from headgate.replay.recording import Recording


class ReplayedRun(Struct, frozen=True):
    """A run that would have been. ``recorded`` is the run that took place then, if one did."""

    wave: int
    """The last wave that had ended, from 1; 0 before the first."""
    time: float
    """Unix seconds."""
    cause: str
    recorded: str


class OutputReplay(Struct, frozen=True):
    """A container that a step writes: its error after each wave, or each recorded run if none."""

    container: str
    errors: tuple[OutputError, ...]

    @property
    def mean(self) -> float:
        """The mean ε, 0 to 1."""
        return sum(e.epsilon for e in self.errors) / len(self.errors) if self.errors else 0.0

    @property
    def worst(self) -> float:
        """The largest ε, 0 to 1."""
        return max((e.epsilon for e in self.errors), default=0.0)

    @property
    def largest(self) -> float:
        """The largest |x−x′| of any cell at any time, in the values' units."""
        return max((e.largest for e in self.errors), default=0.0)

    @property
    def changed(self) -> float:
        """The mean share of cells that differ, 0 to 1."""
        return sum(e.changed for e in self.errors) / len(self.errors) if self.errors else 0.0


class StepReplay(Struct, frozen=True):
    """One step: how often it ran, and would have run."""

    action: str
    recorded: int
    runs: tuple[ReplayedRun, ...]
    outputs: tuple[OutputReplay, ...]

    @property
    def saved(self) -> float:
        """Recorded runs that were not needed, 0 to 1; negative where more would have been."""
        return 1 - len(self.runs) / self.recorded if self.recorded else 0.0

    @property
    def error(self) -> float:
        """The mean ε of the output that is farthest off, 0 to 1."""
        return max((output.mean for output in self.outputs), default=0.0)


class WantedModel(Struct, frozen=True, order=True):
    """A model that a trigger asked to have trained, and the wave at whose end it did."""

    output: str
    """The container."""
    wave: int
    """From 1, as waves are counted here."""


class Replayed(Struct, frozen=True):
    """What a dataflow would have done under some bounds."""

    label: str
    waves: int
    steps: tuple[StepReplay, ...]
    wanted: tuple[WantedModel, ...] = ()
    """Models: a replay trains none, and gives those that were recorded when they came."""

    @property
    def runs(self) -> int:
        """Runs of all steps."""
        return sum(len(step.runs) for step in self.steps)

    @property
    def recorded(self) -> int:
        """Recorded runs of all steps."""
        return sum(step.recorded for step in self.steps)

    @property
    def saved(self) -> float:
        """Recorded runs that were not needed, 0 to 1."""
        return 1 - self.runs / self.recorded if self.recorded else 0.0

    def step(self, action: str) -> StepReplay:
        """Return one step."""
        return next(step for step in self.steps if step.action == action)


class Difference(Struct, frozen=True):
    """A wave in which a step ran another number of times than was recorded."""

    action: str
    wave: int
    recorded: int
    replayed: int


def untrained(replayed: Replayed, recorded: Replayed) -> str:
    """Return what a replay says of models that it would have had trained, and the record has not.

    Args:
        replayed: under any settings.
        recorded: the replay of the recorded ones, which asks when the agent did.
    """
    missing: dict[str, list[int]] = {}
    for wanted in sorted(set(replayed.wanted) - set(recorded.wanted)):
        missing.setdefault(wanted.output, []).append(wanted.wave)
    if not missing:
        return ""
    told = ", ".join(
        f"`{output}` (first after wave {waves[0]}, {len(waves)} in all)"
        for output, waves in missing.items()
    )
    return (
        f"{replayed.label}: models would have been trained of {told} that are not recorded; a "
        "replay trains none, and goes on with those that it has"
    )


def differences(replayed: Replayed, recording: Recording) -> tuple[Difference, ...]:
    """Return where a replay, of the recorded bounds, say, does not agree with the record."""
    found = []
    for step in replayed.steps:
        recorded = Counter(run.wave for run in recording.runs.get(step.action, ()))
        here = Counter(run.wave for run in step.runs)
        found += [
            Difference(step.action, wave, recorded[wave], here[wave])
            for wave in sorted(recorded.keys() | here.keys())
            if recorded[wave] != here[wave]
        ]
    return tuple(found)
