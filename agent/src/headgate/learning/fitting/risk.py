"""Predictions from several containers made comparable: how often what they say is a violation.

Predictions from far above an output are the less certain, and so the nearer to the mean. The same
predicted error is thus of another risk from each container, and one threshold for all of them would
run too often as seen from one and too rarely as seen from another. At one risk the most is skipped
for the violations that are allowed.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from msgspec import Struct

from headgate.learning.impact import Values
from headgate.learning.pairs import Table
from headgate.learning.simulation import Flags

RISK_AGES: Final = 8
"""Waves up to which pairs say what a prediction risks: the ages at which most are decided on.
Fitted; four do as well, all up to a day save a fiftieth less."""
MOST_RISK: Final = 0.5
"""At which a skip passes, however many violations are allowed: one that is more likely wrong than
right is no skip of what does not matter, though the allowance might pay for it."""
_ORDER: Final = 1e-4
"""Of a score that is added to its risk, so that scores of one risk keep their order."""


class Risk(Struct, frozen=True, eq=False):
    """How risky a skip is at a predicted ln(ε / bound), by isotonic regression."""

    scores: Values
    """In rising order, shape (k,)."""
    rates: Values
    """Share of violations at them, in rising order, shape (k,)."""

    def of(self, scores: Table) -> Table:
        """Return the risks of scores, in their shape and order; NaN where there is no score."""
        known = np.isfinite(scores)
        found = np.where(np.isnan(scores), np.nan, np.inf)
        found[known] = np.interp(scores[known], self.scores, self.rates) + _ORDER * scores[known]
        return found


def risk_of(scores: Values, violated: Flags) -> Risk:
    """Return the risk that comes with scores.

    Args:
        scores: predicted ln(ε / bound), out of fold, shape (n,), at least one.
        violated: whether a skip would be out of bounds, shape (n,).
    """
    from sklearn.isotonic import isotonic_regression  # whoever only predicts goes without it

    distinct, where, counts = np.unique(scores, return_inverse=True, return_counts=True)
    shares = np.bincount(where, weights=violated) / counts
    return Risk(distinct, isotonic_regression(shares, sample_weight=counts, y_min=0.0, y_max=1.0))


def limit_of(scores: Table, risks: Table, threshold: float) -> float:
    """Return the largest score up to which the risk is at most ``threshold``.

    Where no score is, it is the next number below the smallest of them.

    Args:
        scores: predicted ln(ε / bound); NaN where there is none.
        risks: of them, in their shape and order.
        threshold: λ as a risk.
    """
    skipped = scores[risks <= threshold]
    if skipped.size:
        return float(skipped.max())
    return math.nextafter(float(np.nanmin(scores)), -math.inf)
