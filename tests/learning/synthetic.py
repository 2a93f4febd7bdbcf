"""Dataflows of one input and one output that are drawn at random, stationary or with a change."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from headgate.learning import ContainerHistory

CELLS = 60
_GROUP = 10
_HOUR = 3600.0
_START = 1_700_438_400.0  # a Monday
_STEEPER = 2.2

Array = npt.NDArray[np.float64]


class SyntheticDataflow(Struct, frozen=True, eq=False):
    """The synchronous states of an input and of what a step makes of it."""

    input: ContainerHistory
    output: ContainerHistory
    kind: str


def _written(random: np.random.Generator, waves: int) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return values of sensors, (waves, cells), of which a part reports in each wave."""
    period, swing = random.uniform(12.0, 96.0), random.uniform(0.0, 12.0)
    memory, step = random.uniform(0.8, 0.995), random.uniform(0.5, 4.0)
    common, noise = random.uniform(0.0, 1.0), random.uniform(0.0, 1.0)
    mean, least = random.uniform(35.0, 60.0), random.uniform(0.0, 0.9)
    phase = random.uniform(0.0, 0.6, CELLS)
    values, updates = np.empty((waves, CELLS)), np.empty(waves, np.int64)
    together, alone, shown = 0.0, np.zeros(CELLS), np.zeros(CELLS)
    for wave in range(waves):
        together = memory * together + step * common * random.standard_normal()
        alone = memory * alone + step * (1.0 - common) * random.standard_normal(CELLS)
        angle = 2.0 * np.pi * wave / period + phase
        there = mean + swing * np.sin(angle) + together + alone
        there += noise * random.standard_normal(CELLS)
        reports = (
            random.random(CELLS) < random.uniform(least, 1.0) if wave else np.ones(CELLS, bool)
        )
        shown = np.where(reports, np.clip(there, 0.0, 100.0), shown)
        values[wave], updates[wave] = shown, np.count_nonzero(reports)
    return values, updates


def _sums(random: np.random.Generator, _reference: float) -> Callable[[Array, float], Array]:
    weights = random.uniform(0.2, 1.0, (6, CELLS))
    return lambda x, steepness: (x @ weights.T) ** steepness


def _hotspots(_random: np.random.Generator, reference: float) -> Callable[[Array, float], Array]:
    return lambda x, steepness: np.where(x > reference + 8.0 * (steepness - 1.0), x, 0.0)


def _peaks(_random: np.random.Generator, _reference: float) -> Callable[[Array, float], Array]:
    def peaks(x: Array, steepness: float) -> Array:
        highest = x.reshape(len(x), -1, _GROUP).max(2)
        made: Array = np.exp(highest / 15.0 * steepness)
        return made

    return peaks


def _index(_random: np.random.Generator, reference: float) -> Callable[[Array, float], Array]:
    def index(x: Array, steepness: float) -> Array:
        share = (x > reference).mean(1, keepdims=True)
        made: Array = 1.0 + 10.0 * share**steepness + 0.02 * x.mean(1, keepdims=True)
        return made

    return index


_KINDS = {"sums": _sums, "hotspots": _hotspots, "peaks": _peaks, "index": _index}


def dataflow(seed: int, waves: int, change: int | None = None) -> SyntheticDataflow:
    """Return a dataflow; from wave ``change`` on its step makes something steeper of its input."""
    random = np.random.default_rng(seed)
    values, updates = _written(random, waves)
    kind = list(_KINDS)[int(random.integers(len(_KINDS)))]
    reference = float(np.quantile(values[:336], random.uniform(0.4, 0.8)))
    step = _KINDS[kind](random, reference)
    made = step(values, 1.0)
    if change is not None:
        made[change:] = step(values[change:], _STEEPER)
    times = _START + _HOUR * np.arange(waves, dtype=np.float64)

    def history(states: Array, counts: npt.NDArray[np.int64]) -> ContainerHistory:
        return ContainerHistory(states, np.full(waves, states.shape[1]), counts, times)

    return SyntheticDataflow(
        history(values, updates), history(made, np.full(waves, made.shape[1])), kind
    )
