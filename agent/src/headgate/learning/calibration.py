"""From scores to a threshold that keeps a stated confidence, and how far it is believed.

A threshold at which five waves in a hundred were violated in training is passed by a third of all
dataflows later. So what is held below the stated rate is the upper confidence bound of the rate,
over as many waves as there would be if each were independent of the one before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from headgate.learning.pairs import Table
from headgate.learning.simulation import ClosedLoop, Flags

Waves = npt.NDArray[np.int64]
"""Numbers of waves, or of waves between two."""

SURE: Final = 0.97
"""Probability with which the true rate is below the bound (Clopper and Pearson, one-sided).

Fitted: the stated confidence was later kept by 93.9 % of 396 dataflows drawn at random at 0.95, by
96.2 at 0.97 and 97.5 at 0.98, as waves to come are not drawn from those of training."""
_LAGS = 12
"""Waves over which violations are looked at for following each other."""
_UNRELATED = 0.05
"""Autocorrelation from which on down waves are taken as independent."""


FOLDS: Final = 4
"""Blocks of waves for scores out of fold; a quarter is a few days of two weeks of hours."""
_SHORTEST_BLOCK = 6
"""Waves of a block at least, however short the horizon."""


def fewest_waves(horizon: int) -> int:
    """Return the waves that blocks with gaps of the horizon take."""
    return FOLDS * max(horizon, _SHORTEST_BLOCK)


def fewest_confident(confidence: float) -> int:
    """Return the waves without a violation from which on a threshold keeps a confidence."""
    return math.ceil(math.log(1.0 - SURE) / math.log(confidence))


def effective_count(violated: Flags) -> float:
    """Return as how many independent waves these count: T / (1 + 2 Σ autocorrelation)."""
    count = len(violated)
    centred = violated - violated.mean()
    variance = float(centred @ centred)
    if variance == 0.0:
        return float(count)
    spread = 1.0
    for lag in range(1, min(_LAGS, count - 1) + 1):
        correlation = float(centred[:-lag] @ centred[lag:]) / variance
        if correlation < _UNRELATED:
            break
        spread += 2.0 * correlation
    return count / spread


def upper_rate(violations: float, waves: float) -> float:
    """Return the upper confidence bound of a rate; numbers of waves need not be whole."""
    from scipy.special import betaincinv  # loading it takes longer than most commands

    if violations >= waves:
        return 1.0
    return float(betaincinv(violations + 1.0, waves - violations, SURE))


class Calibration(Struct, frozen=True):
    """A threshold, and what it was found by. ``threshold`` None: only synchronous runs will do."""

    threshold: float | None
    waves: int
    violations: int
    """In the waves, at the threshold; at the lowest that skips anything where there is none."""
    effective: float
    """As how many independent waves they count."""
    upper: float
    """Upper confidence bound of the rate of violations there."""
    saved: float
    """Share of runs skipped at the threshold; 0 where there is none."""
    missing: int | None = None
    """Waves that are missing for a threshold, if violations stay as rare; None where there is one,
    or where no number would do."""


def calibration_of(threshold: float, loop: ClosedLoop) -> Calibration:
    """Return what a closed loop says of its threshold."""
    effective = effective_count(loop.violated)
    upper = upper_rate(loop.violation_rate * effective, effective)
    count, violations = len(loop.violated), int(loop.violated.sum())
    return Calibration(threshold, count, violations, effective, upper, loop.saved)


def calibrate(
    loop: Callable[[float], ClosedLoop], thresholds: Iterable[float], confidence: float
) -> Calibration:
    """Return the largest threshold up to which all hold the confidence.

    Args:
        loop: runs the closed loop of an output at a threshold.
        thresholds: to try, in any order; those that skip nothing are passed over.
        confidence: share of the waves that shall be within bounds, such as 0.95.
    """
    found: Calibration | None = None
    for threshold in sorted(set(thresholds)):
        tried = loop(threshold)
        if tried.ran.all():
            continue
        here = calibration_of(threshold, tried)
        if here.upper > 1.0 - confidence:
            return found or _none(here, confidence)
        found = here
    return found or Calibration(None, 0, 0, 0.0, 1.0, 0.0)


def _none(tried: Calibration, confidence: float) -> Calibration:
    return Calibration(
        None,
        tried.waves,
        tried.violations,
        tried.effective,
        tried.upper,
        0.0,
        _missing(tried, confidence),
    )


def _missing(tried: Calibration, confidence: float) -> int | None:
    """Return how many more waves with violations as rare would lower the upper bound enough."""
    rate = tried.violations / tried.waves
    if rate >= 1.0 - confidence:
        return None
    low, high = tried.effective, 2.0 * tried.effective
    while upper_rate(rate * high, high) > 1.0 - confidence:
        low, high = high, 2.0 * high
    while high - low > 1.0:
        middle = (low + high) / 2.0
        if upper_rate(rate * middle, middle) > 1.0 - confidence:
            low = middle
        else:
            high = middle
    return math.ceil(high * tried.waves / tried.effective) - tried.waves


def candidates(scores: Table, count: int = 120) -> list[float]:
    """Return thresholds to try: quantiles of the scores that are known, each counted once.

    Of most pairs it is clear on which side they are: their scores are few and say the same.
    """
    known = np.unique(scores[np.isfinite(scores)])
    if not known.size:
        return []
    return sorted(set(np.quantile(known, np.linspace(0.0, 1.0, count)).tolist()))


class Fold(Struct, frozen=True):
    """Waves that are predicted by a model that has seen none near them."""

    first: int
    last: int


def blocks(first: int, last: int, folds: int) -> list[Fold]:
    """Return the waves from ``first`` to before ``last`` as so many blocks of one length or two.

    Raises:
        ValueError: there are fewer waves than blocks.
    """
    if last - first < folds:
        message = f"{last - first} waves make no {folds} blocks; train for longer"
        raise ValueError(message)
    edges = np.linspace(first, last, folds + 1).astype(int).tolist()
    return [Fold(a, b) for a, b in pairwise(edges)]


def outside(fold: Fold, waves: Waves, ages: Waves, horizon: int) -> Flags:
    """Return which pairs may train for a fold: those whose waves, both, are clear of it.

    Args:
        fold: what will be predicted.
        waves: the later wave of each pair, shape (p,).
        ages: how many waves before it the earlier one is, shape (p,).
        horizon: the gap, in waves, on either side.
    """
    clear: Flags = (waves < fold.first - horizon) | (waves - ages >= fold.last + horizon)
    return clear
