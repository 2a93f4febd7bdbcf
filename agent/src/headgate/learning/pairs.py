"""Pairs of waves of a recorded dataflow: what a run at one would have been shown, and its error.

In training every step runs in every wave (SmartFlux, section 3), so the synchronous state of all
waves is known. Any wave may then stand for the last run before any other: a table of pairs holds
them all, up to an age, and every policy can be tried on it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from headgate.learning.features import FEATURES, LEVELS, WaveContext, row_of
from headgate.learning.impact import (
    ErrorMetric,
    Impact,
    Values,
    error,
    measure,
    version_of,
)

Table = npt.NDArray[np.float64]
"""By wave and age, shape (T, H+1). What is older than the first wave is NaN; age 0 is 0."""
FeatureTable = npt.NDArray[np.float32]
"""By wave, age and feature, shape (T, H+1, k); zeros where there is no such pair."""


class ContainerHistory(Struct, frozen=True, eq=False):
    """The synchronous states of a container, wave by wave."""

    values: Values
    """x of every element that there ever was, 0 where it is not there; shape (T, elements)."""
    elements: npt.NDArray[np.int64]
    """n: how many are there, shape (T,)."""
    updates: npt.NDArray[np.int64]
    """Updates in each wave, shape (T,)."""
    times: Values
    """The waves' own times in Unix seconds, shape (T,)."""

    @property
    def waves(self) -> int:
        """How many waves there are."""
        return len(self.values)


class MeasuredPairs(Struct, frozen=True, eq=False):
    """How far a container has moved between any two of its waves that are not too far apart."""

    impacts: tuple[tuple[Impact, ...], ...]
    """By wave, then by age from 1 on, up to the horizon or the first wave."""
    horizon: int
    """H, in waves."""
    means: Values
    """Mean of the container's values by wave, shape (T,)."""
    updates: npt.NDArray[np.int64]
    """Updates in each wave, shape (T,)."""
    times: Values
    """The waves' own times in Unix seconds, shape (T,)."""
    levels: Values | None = None
    """Deciles by which crossings were counted, shape (9,); None where it is above no output."""

    @property
    def waves(self) -> int:
        """How many waves there are."""
        return len(self.impacts)

    @property
    def deciles(self) -> Values:
        """The levels, shape (9,).

        Raises:
            ValueError: the container was measured without them.
        """
        if self.levels is None:
            message = "a container above an output is measured with its levels; give its deciles"
            raise ValueError(message)
        return self.levels


def measured_pairs(
    history: ContainerHistory, horizon: int, levels: Values | None = None
) -> MeasuredPairs:
    """Return the impacts of all waves and ages of a container, of which errors and features come.

    Args:
        history: of the container.
        horizon: H, in waves.
        levels: deciles of the container in training, shape (9,); None where it is above none.

    Raises:
        ValueError: parts of the history are of different numbers of waves.
    """
    lengths = {len(history.values), len(history.elements), len(history.updates), len(history.times)}
    if len(lengths) != 1:
        message = f"a container's history has parts of {sorted(lengths)} waves; they must be equal"
        raise ValueError(message)
    versions = [version_of(values, levels) for values in history.values]
    impacts = tuple(
        tuple(
            measure(
                history.values[wave],
                history.values[wave - age],
                versions[wave - age],
                int(history.elements[wave]),
                levels,
            )
            for age in range(1, min(wave, horizon) + 1)
        )
        for wave in range(history.waves)
    )
    sums = np.array([version.sum for version in versions])
    means = sums / np.maximum(1, history.elements)
    return MeasuredPairs(impacts, horizon, means, history.updates, history.times, levels)


def errors(pairs: MeasuredPairs, metric: ErrorMetric) -> Table:
    """Return ε of an output for all waves and ages up to the horizon."""
    table = np.full((pairs.waves, pairs.horizon + 1), np.nan)
    table[:, 0] = 0.0
    for wave, age, measured in _each(pairs):
        table[wave, age] = error(measured, metric)
    return table


def features(pairs: MeasuredPairs, shown: Values) -> FeatureTable:
    """Return what a model is shown of a container for all waves and ages up to the horizon.

    Args:
        pairs: of the container, with its levels.
        shown: means of the values of the output that is decided on, by wave; shape (T,).

    Raises:
        ValueError: the container was measured without levels, or in other waves than the output.
    """
    if len(pairs.deciles) != LEVELS:
        message = (
            f"a container has {LEVELS} deciles, not the {len(pairs.deciles)} it is measured by"
        )
        raise ValueError(message)
    if len(shown) != pairs.waves:
        message = f"an output of {len(shown)} waves is below a container of {pairs.waves}"
        raise ValueError(message)
    table = np.zeros((pairs.waves, pairs.horizon + 1, len(FEATURES)), np.float32)
    counted = np.concatenate(([0], np.cumsum(pairs.updates)))
    for wave, age, measured in _each(pairs):
        context = WaveContext(
            time=float(pairs.times[wave]),
            age=age,
            updates=int(counted[wave + 1] - counted[wave - age + 1]),
            last_updates=int(pairs.updates[wave]),
            shown=float(shown[wave - age]),
        )
        table[wave, age] = row_of(measured, context)
    return table


def _each(pairs: MeasuredPairs) -> Iterator[tuple[int, int, Impact]]:
    for wave, row in enumerate(pairs.impacts):
        for age, measured in enumerate(row, 1):
            yield wave, age, measured
