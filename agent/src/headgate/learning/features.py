"""What a model is shown of a container above an output: one row of numbers for a possible run.

The impact alone (SmartFlux, section 3) is the first two; the others were found to be worth a third
of all that is saved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from headgate.learning.impact import (
    Counts,
    ErrorMetric,
    Impact,
    ImpactMetric,
    Impacts,
    Values,
    error,
    errors_of,
    impact,
    impacts,
)

Row = npt.NDArray[np.float32]
"""Features of one container, shape (k,), as models take them."""
Rows = npt.NDArray[np.float32]
"""Those of many, shape (..., k)."""

LEVELS: Final = 9
"""Deciles of the values of a container in training."""
_PLAIN = (
    "impact",
    "relative_impact",
    "relative_error",
    "largest",
    "signed",
    "changed",
    "rmse",
    "updates",
    "last_updates",
    "age",
    "hour_sine",
    "hour_cosine",
    "weekend",
    "shown",
    "level",
)
FEATURES: Final = (
    *_PLAIN,
    *(f"crossed_{decile}0" for decile in range(1, LEVELS + 1)),
    *(f"above_{decile}0" for decile in range(1, LEVELS + 1)),
    *(f"net_crossed_{decile}0" for decile in range(1, LEVELS + 1)),
)
"""Names of all features, in the order of a row."""

FEATURES_OF_BEFORE: Final = FEATURES[:-LEVELS]
"""Those of models, and of pairs of waves, that a version has kept which knew no net crossings."""

HOUR: Final = slice(FEATURES.index("hour_sine"), FEATURES.index("hour_cosine") + 1)
"""Columns of the hour, from -1 to 1."""
WEEKEND: Final = slice(FEATURES.index("weekend"), FEATURES.index("weekend") + 1)
"""The column that says whether it is one, 0 or 1."""

_DAY = 86_400.0
_THURSDAY = 3  # 1 January 1970; Monday is 0
_SATURDAY = 5
_LARGEST = float(np.finfo(np.float32).max)


class WaveContext(Struct, frozen=True):
    """What a row says besides the container's impact."""

    time: float
    """The wave's own, in Unix seconds; not that of whoever decides."""
    age: int
    """Waves since the output's version; 1 where the wave before made it."""
    updates: int
    """σ: of the container since that version."""
    last_updates: int
    """Of the container in this wave."""
    shown: float
    """Mean of the output's values as they are shown."""


class WaveContexts(Struct, frozen=True, eq=False):
    """What rows say besides the impacts: columns that broadcast to the impacts' shape (...)."""

    clock: Values
    """What ``clocks_of`` returns of the waves' times, shape (..., 3)."""
    age: Counts
    updates: Counts
    last_updates: Counts
    shown: Values


def levels_of(values: Values) -> Values:
    """Return the deciles of a container's values in training, in rising order, shape (9,)."""
    known = values[np.isfinite(values)]
    if not known.size:
        return np.zeros(LEVELS)
    levels: Values = np.quantile(known, np.linspace(0.1, 0.9, LEVELS))
    return levels


def row_of(measured: Impact, context: WaveContext) -> Row:
    """Return the features of a container, shape (k,), finite."""
    n = max(1, measured.elements)
    magnitude = measured.magnitude or 1.0
    row: Values = np.array(
        (
            impact(measured, ImpactMetric.ABSOLUTE),
            impact(measured, ImpactMetric.RELATIVE),
            error(measured, ErrorMetric.RELATIVE),
            measured.largest,
            measured.signed / magnitude,
            measured.changed / n,
            error(measured, ErrorMetric.RMSE),
            context.updates / n,
            context.last_updates / n,
            context.age,
            *_clock(context.time),
            context.shown,
            measured.sum / n,
            *(crossed / n for crossed in measured.crossed),
            *(above / n for above in measured.above),
            *map(_net, measured.above, measured.above_before),
        )
    )
    return np.clip(row, -_LARGEST, _LARGEST).astype(np.float32)


def with_own(rows: Row, amounts: Values) -> Row:
    """Return rows (..., k) with impacts (...) that a user's metric gives, shape (..., k+1)."""
    own = np.clip(amounts, -_LARGEST, _LARGEST).astype(np.float32)
    return np.concatenate((rows, own[..., None]), axis=-1)


def rows_of(measured: Impacts, contexts: WaveContexts) -> npt.NDArray[np.float32]:
    """Return the features of many, shape (..., k): bit for bit what ``row_of`` returns of each."""
    n = np.maximum(1, measured.elements)
    magnitude = np.where(measured.magnitude == 0.0, 1.0, measured.magnitude)
    plain = (
        impacts(measured, ImpactMetric.ABSOLUTE),
        impacts(measured, ImpactMetric.RELATIVE),
        errors_of(measured, ErrorMetric.RELATIVE),
        measured.largest,
        measured.signed / magnitude,
        measured.changed / n,
        errors_of(measured, ErrorMetric.RMSE),
        contexts.updates / n,
        contexts.last_updates / n,
        contexts.age,
        *np.moveaxis(contexts.clock, -1, 0),
        contexts.shown,
        measured.sum / n,
    )
    by_level = (*np.moveaxis(measured.crossed, -1, 0), *np.moveaxis(measured.above, -1, 0))
    net = _nets(measured.above, measured.above_before)
    rows = np.empty((*n.shape, len(FEATURES)), np.float32)
    for at, column in enumerate((*plain, *(counts / n for counts in by_level), *net)):
        rows[..., at] = np.clip(column, -_LARGEST, _LARGEST)
    return rows


def own_metric(names: Sequence[str]) -> str | None:
    """Return the user's metric that gives the last of a model's features, empty where none does.

    None where the features are none that are computed here.
    """
    for known in (FEATURES, FEATURES_OF_BEFORE):
        own = names[len(known) :]
        if tuple(names[: len(known)]) == known and len(own) <= 1:
            return "".join(own)
    return None


def columns_of(names: Sequence[str]) -> list[int]:
    """Return the places in a row of now, (k,), of a model's features."""
    return [FEATURES.index(name) if name in FEATURES else len(FEATURES) for name in names]


def _net(above: int, before: int) -> float:
    """Return how many elements more are above a level, of as many as there were or are, -1 to 1.

    Of those that cross a level in both directions an output that adds up over it sees nothing.
    """
    return (above - before) / max(above, before, 1)


def _nets(above: Counts, before: Counts) -> Values:
    """Return ``_net`` of each, by level, (..., k) as (k, ...)."""
    return np.moveaxis((above - before) / np.maximum(np.maximum(above, before), 1), -1, 0)


def clocks_of(times: Values) -> Values:
    """Return sine and cosine of the hour and whether it is a weekend, (t,) as (t, 3)."""
    return np.array([_clock(time) for time in times.tolist()]).reshape(-1, 3)


def _clock(time: float) -> tuple[float, float, float]:
    angle = 2.0 * math.pi * (time % _DAY) / _DAY
    weekday = (int(time // _DAY) + _THURSDAY) % 7
    return math.sin(angle), math.cos(angle), float(weekday >= _SATURDAY)
