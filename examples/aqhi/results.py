"""What a comparison found, in a form that can be stored and drawn again."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray


class StepInfo(Struct, frozen=True):
    """One step as readers of a result know it."""

    action: str
    """Its name in the dataflow file."""
    letter: str
    """Its name in the paper."""
    output: str
    """What it computes, in words."""


STEPS = (
    StepInfo("combine", "B", "concentration of each detector"),
    StepInfo("zones", "C", "concentration of each zone"),
    StepInfo("city-map", "D", "map of the points between detectors"),
    StepInfo("hotspots", "E", "concentration of each hotspot"),
    StepInfo("index", "F", "index of the city"),
)
"""The steps that are run, in the order of the dataflow; step A is the input."""


class OutputError(Struct, frozen=True):
    """How far an output stands from what a synchronous run would show at the same moment."""

    epsilon: float
    """Σ|x−x′| / Σ max(|x|, |x′|) over all elements, 0 to 1: design equation (3)."""
    relative: float
    """Σ|x−x′| / Σ|x| with x the synchronous output; above 1 where that one is nearly all zero."""
    largest: float
    """max |x−x′| in the output's own units."""


def output_error(synchronous: NDArray[np.float64], shown: NDArray[np.float64]) -> OutputError:
    """Compare two outputs of the same shape; an element that is missing (NaN) counts as 0."""
    exact = np.nan_to_num(synchronous)
    other = np.nan_to_num(shown)
    apart = np.abs(exact - other)
    total = float(apart.sum())
    if total == 0:
        return OutputError(0.0, 0.0, 0.0)
    above = float(np.abs(exact).sum())
    return OutputError(
        epsilon=total / float(np.maximum(np.abs(exact), np.abs(other)).sum()),
        relative=total / above if above else float("inf"),
        largest=float(apart.max()),
    )


class Way(Struct, frozen=True):
    """One dataflow's behaviour over all waves; lists have one entry per wave."""

    name: str
    bounds: str
    """Its bounds in words."""
    runs: dict[str, list[int]]
    """By action: the waves (from 0) in which it ran, one entry a run."""
    seconds: dict[str, float]
    """By action: all its runs' time from launch to commit."""
    index: list[float]
    """The index that people saw after the wave."""
    errors: dict[str, list[OutputError]]
    """By action: against the synchronous output of the same wave. Empty for the synchronous way."""
    maps: list[list[list[float]]]
    """The city map after each wave: rows of points from south to north, in units."""

    def saved(self, action: str, synchronous: Way) -> float:
        """Return the percentage of the synchronous runs of an action that were not needed."""
        most = len(synchronous.runs[action])
        return 100.0 * (1 - len(self.runs[action]) / most) if most else 0.0

    def mean_error(self, action: str) -> float:
        """Return the mean over the waves of ε of an action's output, 0 to 1."""
        return float(np.mean([error.epsilon for error in self.errors[action]]))

    def worst_error(self, action: str) -> float:
        """Return the largest ε of an action's output over the waves, 0 to 1."""
        return max(error.epsilon for error in self.errors[action])

    def largest_error(self, action: str) -> float:
        """Return the largest |x−x′| of any element in any wave, in the output's units."""
        return max(error.largest for error in self.errors[action])


class Comparison(Struct, frozen=True):
    """The same waves through a synchronous dataflow and through dataflows with bounds."""

    source: str
    """Where the waves came from, in words."""
    side: int
    """Detectors along each side of the city."""
    labels: list[str]
    """One for each wave."""
    changed: list[float]
    """By wave: the part of the detectors that reported, 0 to 1."""
    synchronous: Way
    bounded: list[Way]
    """The ways under bounds, narrowest first."""
    conditions: list[tuple[str, str]]
    """Name and value of whatever the figures depend on: machine, versions, times."""
