"""Pairs of waves of a recorded dataflow: what a run at one would have been shown, and its error.

In training every step runs in every wave (SmartFlux, section 3), so the synchronous state of all
waves is known. Any wave may then stand for the last run before any other: a table of pairs holds
them all, up to an age, and every policy can be tried on it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from headgate.learning.features import FEATURES, WaveContext, row_of
from headgate.learning.impact import (
    ErrorMetric,
    Impact,
    Values,
    Version,
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


def check_history(history: ContainerHistory) -> None:
    """Raise if the parts of a history do not belong together.

    Raises:
        ValueError: they are of different numbers of waves.
    """
    lengths = {len(history.values), len(history.elements), len(history.updates), len(history.times)}
    if len(lengths) != 1:
        message = f"a container's history has parts of {sorted(lengths)} waves; they must be equal"
        raise ValueError(message)


def errors(history: ContainerHistory, metric: ErrorMetric, horizon: int) -> Table:
    """Return ε of an output for all waves and ages up to the horizon."""
    check_history(history)
    table = np.full((history.waves, horizon + 1), np.nan)
    table[:, 0] = 0.0
    versions = [version_of(values) for values in history.values]
    for wave, age in _pairs(history.waves, horizon):
        table[wave, age] = error(_measured(history, versions, None, wave, age), metric)
    return table


def features(
    history: ContainerHistory, shown: Values, levels: Values, horizon: int
) -> FeatureTable:
    """Return what a model is shown of a container for all waves and ages up to the horizon.

    Args:
        history: of the container.
        shown: means of the values of the output that is decided on, by wave; shape (T,).
        levels: deciles of the container in training, shape (9,).
        horizon: H, in waves.
    """
    check_history(history)
    table = np.zeros((history.waves, horizon + 1, len(FEATURES)), np.float32)
    versions = [version_of(values, levels) for values in history.values]
    counted = np.concatenate(([0], np.cumsum(history.updates)))
    for wave, age in _pairs(history.waves, horizon):
        context = WaveContext(
            time=float(history.times[wave]),
            age=age,
            updates=int(counted[wave + 1] - counted[wave - age + 1]),
            last_updates=int(history.updates[wave]),
            shown=float(shown[wave - age]),
        )
        table[wave, age] = row_of(_measured(history, versions, levels, wave, age), context)
    return table


def _pairs(waves: int, horizon: int) -> list[tuple[int, int]]:
    return [(wave, age) for wave in range(waves) for age in range(1, min(wave, horizon) + 1)]


def _measured(
    history: ContainerHistory,
    versions: Sequence[Version],
    levels: Values | None,
    wave: int,
    age: int,
) -> Impact:
    now, then = history.values[wave], history.values[wave - age]
    return measure(now, then, versions[wave - age], int(history.elements[wave]), levels)
