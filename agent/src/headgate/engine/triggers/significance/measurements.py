"""What runs have changed, and what can be estimated from several of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

_FEW = 2
"""Runs through which any curve goes."""
_ROUNDS = 100
"""How often the waves known are gone through for one run, at most."""
_EXPONENTS = (0.25, 2.0)
"""How steeply an output may follow its input, as an exponent."""
_SPREAD = 4.0
"""Ratio between the largest and the smallest amount from which on an exponent can be fitted."""
LEAST = 1e-12
"""Stands for no change in ratios."""
_MOST = 1e12
"""Stands for all that is larger: squares of it, and ratios, are numbers still."""


class Measurement(Struct, frozen=True, array_like=True):
    """One run: what it consumed (in units of the limit), under which limit, and what it changed.

    ``change`` is Σ|x−x′| / Σ|x′| of its output (or against a reference), ``input`` of its input.
    """

    amount: float
    limit: float
    change: float
    input: float


def measurement(amount: float, limit: float, change: float, taken_in: float) -> Measurement:
    """Return a run as it is kept: no figure is so small or large that a square of it is none."""
    return Measurement(
        min(max(amount, LEAST), _MOST),
        limit,
        0.0 if change < LEAST else min(change, _MOST),
        min(taken_in, _MOST),
    )


def mean_run(arrived: Sequence[float], limit: float) -> float:
    """Return the mean amount of runs, each at the end of the wave that reaches the limit.

    The waves known are gone through in their order, again and again, from each of them on.
    """
    total = sum(arrived)
    if limit > _ROUNDS * total:
        # Very long runs: what exceeds the limit is a fraction of one wave.
        return limit + sum(updates * updates for updates in arrived) / (2 * total)
    consumed = 0.0
    for start in range(len(arrived)):
        # Whole rounds are the same from wherever they begin.
        amount, place = limit // total * total, start
        while amount < limit or amount == 0:
            amount += arrived[place % len(arrived)]
            place += 1
        consumed += amount
    return consumed / len(arrived)


def exponent(runs: Sequence[Measurement]) -> float:
    """Return b of change ≈ a · amount^b over the runs, 1 where they do not show it."""
    amounts = [_log(m.amount) for m in runs]
    if len(runs) <= _FEW or max(amounts) - min(amounts) < math.log(_SPREAD):
        return 1.0
    changes = [_log(m.change) for m in runs]
    middle, height = math.fsum(amounts) / len(runs), math.fsum(changes) / len(runs)
    over = math.fsum((a - middle) * (c - height) for a, c in zip(amounts, changes, strict=True))
    slope = over / math.fsum((a - middle) ** 2 for a in amounts)
    return min(_EXPONENTS[1], max(_EXPONENTS[0], slope))


def spread(runs: Sequence[Measurement]) -> float:
    """Return the relative standard deviation of the change at one amount."""
    steepness = exponent(runs)
    ratios = [m.change / m.amount**steepness for m in runs]
    mean = math.fsum(ratios) / len(ratios)
    variance = math.fsum((r - mean) ** 2 for r in ratios) / len(ratios)
    return math.sqrt(variance) / mean if mean else 0.0


def deviation(changes: Sequence[float]) -> float:
    """Return the standard deviation of changes, by how they follow each other.

    Where the trend changes, only one of them is far from the one before.
    """
    squares = math.fsum((b - a) ** 2 for a, b in pairwise(changes))
    return math.sqrt(squares / (2 * (len(changes) - 1)))


def _log(value: float) -> float:
    return math.log(max(value, LEAST))
