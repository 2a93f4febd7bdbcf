"""Pairs of waves as they are kept: features and errors, by dataflow, output, container and wave."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from headgate.learning import (
    FEATURES,
    FEATURES_OF_BEFORE,
    Changes,
    ErrorMetric,
    Graph,
    MeasuredPairs,
    Target,
    Values,
    errors,
    features,
)


def _version_of(names: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


FEATURE_SET: Final = _version_of(FEATURES)
"""Version of the features: another one says that columns mean something else."""
FEATURE_SETS: Final = {_version_of(names): names for names in (FEATURES, FEATURES_OF_BEFORE)}
"""Those that are known, by version."""


def feature_set_of(features: npt.NDArray[np.float32]) -> str:
    """Return the version of features, shape (a, k)."""
    return next(v for v, names in FEATURE_SETS.items() if len(names) == features.shape[1])


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
    set: str = ""
    """What ``set_of`` returns of the training that measured it; empty before there were sets."""


class PairBasis(Struct, frozen=True):
    """What was measured by: without it pairs are looked at, and not trained on."""

    metric: ErrorMetric
    """Of the errors."""
    levels: tuple[float, ...]
    """Deciles of the container, by which crossings were counted."""
    time: float
    """The later wave's own, in Unix seconds."""


class WavePairs(Struct, frozen=True, eq=False):
    """What a model would be shown at a wave, had the last run been so many waves before."""

    key: PairKey
    features: npt.NDArray[np.float32]
    """By age from 1 on, without impacts by users' metrics, shape (a, k)."""
    errors: Values
    """ε of the output by its own metric, shape (a,)."""
    basis: PairBasis | None = None
    """None where it was measured before this was noted."""


def set_of(metric: ErrorMetric, levels: Mapping[str, Values], features: int) -> str:
    """Return what pairs of an output share that were measured alike, and so train one model.

    Args:
        metric: of its errors.
        levels: deciles by container above it, shape (9,) each.
        features: how many each pair has, without impacts by users' metrics.
    """
    digest = hashlib.sha256()
    if features != len(FEATURES_OF_BEFORE):
        digest.update(FEATURE_SET.encode())
    for container in sorted(levels):
        digest.update(f"{len(container)}/{container}/".encode())
        digest.update(np.asarray(levels[container], "<f8").tobytes())
    return f"{metric.value}-{digest.hexdigest()[:16]}"


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
        times = measured[output].times
        there = measured[output].spaced.there(measured[output].horizon)[:, 1:].sum(1).tolist()
        # What is not measured is opaque.
        above = [container for container in graph.above(output) if container in measured]
        metric = _plain_metric(target)
        levels_above = {container: measured[container].deciles for container in above}
        alike = "" if metric is None else set_of(metric, levels_above, len(FEATURES))
        for container in above:
            levels = tuple(levels_above[container].tolist())
            shown = features(measured[container], measured[output].means)[..., : len(FEATURES)]
            for place in range(1, len(numbers)):
                ages = slice(1, 1 + there[place])
                key = PairKey(
                    dataflow, output, container, round(1000 * submitted), numbers[place], alike
                )
                basis = None if metric is None else PairBasis(metric, levels, float(times[place]))
                found.append(WavePairs(key, shown[place, ages], table[place, ages], basis))
    return found


def _plain_metric(target: Target) -> ErrorMetric | None:
    """Return what pairs say that they were measured by; only these are trained on again."""
    if isinstance(target.metric, ErrorMetric) and target.changes is Changes.CANCEL:
        return target.metric
    return None
