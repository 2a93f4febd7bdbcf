"""Pairs of waves as they are kept: features and errors, by dataflow, output, container and wave."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from headgate.learning import (
    FEATURES,
    Graph,
    MeasuredPairs,
    Target,
    Values,
    errors,
    features,
)

FEATURE_SET: Final = hashlib.sha256("\n".join(FEATURES).encode()).hexdigest()[:16]
"""Version of the features: another one says that columns mean something else."""


class PairKey(Struct, frozen=True, order=True):
    """What pairs are of."""

    dataflow: str
    output: str
    container: str
    """From which the output is predicted."""
    submitted: int
    """When the dataflow was submitted anew, in Unix milliseconds: its waves count from there."""
    wave: int
    """The later wave of each pair."""


class WavePairs(Struct, frozen=True, eq=False):
    """What a model would be shown at a wave, had the last run been so many waves before."""

    key: PairKey
    features: npt.NDArray[np.float32]
    """By age from 1 on, without impacts by users' metrics, shape (a, k)."""
    errors: Values
    """ε of the output by its own metric, shape (a,)."""


def wave_pairs(
    dataflow: str,
    submitted: float,
    waves: Iterable[int],
    graph: Graph,
    targets: Iterable[Target],
    measured: Mapping[str, MeasuredPairs],
) -> list[WavePairs]:
    """Return the pairs of all waves that have one before them.

    Args:
        dataflow: its name.
        submitted: when, in Unix seconds.
        waves: their numbers.
        graph: of its steps.
        targets: its bounded outputs.
        measured: by container; those above outputs with their levels.
    """
    found = []
    numbers = list(waves)
    for target in targets:
        output = target.output
        table = errors(measured[output], target.metric, target.changes)
        for container in graph.above(output):
            if container not in measured:
                continue  # it is opaque
            shown = features(measured[container], measured[output].means)[..., : len(FEATURES)]
            for place in range(1, len(numbers)):
                ages = slice(1, min(place, measured[output].horizon) + 1)
                key = PairKey(dataflow, output, container, round(1000 * submitted), numbers[place])
                found.append(WavePairs(key, shown[place, ages], table[place, ages]))
    return found
