"""The second factor of adjustment: how busy the machines are on which steps run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from headgate.engine.protocol.adjustments import Assessment, Vote
from headgate.engine.protocol.stimuli import ResourceSample
from headgate.engine.spec.references import UNITS, AdjustmentSpec, Reference, Resource

_DECISIVE = 0.5
"""Share of the machines, by weight, that must be overloaded (idle) beyond those that are not."""


class Machines:
    """The newest samples of each machine, as far back as the window of the adjustment."""

    def __init__(self) -> None:
        self.samples: dict[str, list[ResourceSample]] = {}

    def take(self, samples: Iterable[ResourceSample]) -> None:
        """Keep samples; one that is older than what is known of its machine is left out."""
        for sample in samples:
            known = self.samples.setdefault(sample.machine, [])
            if not known or sample.time > known[-1].time:
                known.append(sample)

    def assess(self, now: float, spec: AdjustmentSpec) -> Assessment:
        """Return relax where the machines are overloaded and restrict where they are idle.

        A machine is overloaded when any of its resources is, and idle when all are. Of several
        machines the weighted majority counts; one without samples of late says nothing.
        """
        self._forget(now, spec)
        balance = weight = 0.0
        words = []
        for machine, samples in self.samples.items():
            level, said = _level(_means(samples), spec.resources)
            if said:
                share = samples[-1].weight
                balance += level * share
                weight += share
                words.append(f"{machine}: {said}")
        if not weight:
            return Assessment(Vote.NONE, "no samples of resources")
        balance /= weight
        vote = Vote.NONE
        if balance >= _DECISIVE:
            vote = Vote.RELAX
        elif balance <= -_DECISIVE:
            vote = Vote.RESTRICT
        return Assessment(vote, "; ".join(words))

    def move_times(self, by: float) -> None:
        """Have all samples taken so many seconds later."""
        for machine, samples in self.samples.items():
            self.samples[machine] = [replace(sample, time=sample.time + by) for sample in samples]

    def _forget(self, now: float, spec: AdjustmentSpec) -> None:
        for machine, samples in list(self.samples.items()):
            kept = [s for s in samples if now - s.time <= spec.window]
            if not samples or now - samples[-1].time > spec.silence:
                del self.samples[machine]
            else:
                # Where samples come less often than once in a window, the last one stands for it.
                self.samples[machine] = kept or samples[-1:]


def _means(samples: list[ResourceSample]) -> dict[Resource, float]:
    found: dict[Resource, list[float]] = {}
    for sample in samples:
        for resource, used in sample.used.items():
            found.setdefault(resource, []).append(used)
    return {resource: sum(used) / len(used) for resource, used in found.items()}


def _level(
    used: Mapping[Resource, float], references: Mapping[Resource, Reference]
) -> tuple[int, str]:
    """Return 1 for overloaded, -1 for idle, 0 for neither, and why; no words: nothing is known."""
    measured = {r: reference for r, reference in references.items() if r in used}
    over = [r for r, reference in measured.items() if used[r] >= reference.overloaded]
    if over:
        return 1, "overloaded, " + ", ".join(
            f"{resource} {_amount(resource, used[resource])} of "
            f"{_amount(resource, measured[resource].overloaded)}"
            for resource in over
        )
    said = ", ".join(f"{resource} {_amount(resource, used[resource])}" for resource in measured)
    if measured and all(used[r] < reference.idle for r, reference in measured.items()):
        return -1, f"idle, {said}"
    return 0, said


def _amount(resource: Resource, used: float) -> str:
    return f"{used:.3g} {UNITS[resource]}"
