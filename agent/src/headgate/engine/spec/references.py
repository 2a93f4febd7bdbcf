"""What the adjustment of intervals is measured against: windows, rates and reference values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, field


class Resource(StrEnum):
    """What a machine may run out of, with the unit of its samples and reference values."""

    CPU = "cpu"
    """Percent of all cores that were busy."""
    MEMORY = "memory"
    """Percent of the memory that is not available."""
    DISK = "disk"
    """Percent of the time in which the busiest disk had something to do."""
    NETWORK = "network"
    """Bytes per second, received and sent."""
    LOAD = "load"
    """Processes that run or want to, per core (mean of the last minute)."""


UNITS: dict[Resource, str] = {
    Resource.CPU: "%",
    Resource.MEMORY: "%",
    Resource.DISK: "%",
    Resource.NETWORK: "B/s",
    Resource.LOAD: "per core",
}
"""Units for people."""


class Reference(Struct, frozen=True):
    """A machine's resource is idle below ``idle`` and overloaded from ``overloaded`` on."""

    idle: float
    overloaded: float


class FrequencyUnit(StrEnum):
    """What the frequency of writes is compared with."""

    USUAL = "usual"
    """The mean frequency of the last ten windows: 2.0 is twice as many."""
    UPDATES = "updates"
    """A number of updates in a window."""


class WriteReference(Struct, frozen=True):
    """Writes of a window are rare up to ``rare`` and many from ``frequent`` on."""

    rare: float = 0.5
    frequent: float = 2.0
    unit: FrequencyUnit = FrequencyUnit.USUAL


RESOURCES: dict[Resource, Reference] = {
    Resource.CPU: Reference(30, 85),
    Resource.MEMORY: Reference(70, 92),
    Resource.DISK: Reference(30, 85),
    Resource.LOAD: Reference(0.5, 1.5),
}
"""Reference values where a dataflow gives none. What a network bears, nobody can know."""


class AdjustmentSpec(Struct, frozen=True):
    """How intervals are adjusted (paper: dynamic adjustment of QoD constraints); times in seconds.

    Every ``every`` both factors vote on each bound with an interval. After ``confirmations`` equal
    outcomes in a row its limits move by one of ``steps`` equal steps, and in the other direction
    than the last time not before ``reversal`` has passed since.
    """

    start: float = 0.0
    """Where limits start: 0 is the minimum of the interval, 1 the maximum."""
    steps: int = 10
    every: float = 10.0
    window: float = 60.0
    """The time in which writes are counted and samples of resources are averaged."""
    confirmations: int = 3
    reversal: float = 600.0
    silence: float = 30.0
    """Age from which on a machine's samples say nothing any more."""
    writes: WriteReference = WriteReference()
    resources: Mapping[Resource, Reference] = field(default_factory=lambda: dict(RESOURCES))
    """Resources that are not in it are not looked at."""


def adjustment_problems(spec: AdjustmentSpec) -> Iterable[str]:
    """Yield what is wrong with the settings, each with its cure."""
    if not 0 <= spec.start <= 1:
        yield f"adjustment, start: {spec.start:g} is not between 0 (minimum) and 1 (maximum)"
    for name, number in (("steps", spec.steps), ("confirmations", spec.confirmations)):
        if number < 1:
            yield f"adjustment, {name}: {number} is below 1"
    for name, seconds in (
        ("every", spec.every),
        ("window", spec.window),
        ("silence", spec.silence),
    ):
        if not seconds > 0:
            yield f"adjustment, {name}: {seconds:g} s must be above 0"
    if spec.reversal < 0:
        yield f"adjustment, reversal: {spec.reversal:g} s is negative"
    if spec.every > spec.window:
        yield (
            f"adjustment: votes are taken every {spec.every:g} s on a window of {spec.window:g} s; "
            "make the window at least as long"
        )
    if not 0 <= spec.writes.rare < spec.writes.frequent:
        yield (
            f"adjustment, writes: rare {spec.writes.rare:g} must be below frequent "
            f"{spec.writes.frequent:g}"
        )
    for resource, reference in spec.resources.items():
        if not 0 <= reference.idle < reference.overloaded:
            yield (
                f"adjustment, {resource}: idle {reference.idle:g} must be below overloaded "
                f"{reference.overloaded:g}"
            )
