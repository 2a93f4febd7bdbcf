"""How long holds what was seen from nearer: learned from the pairs of training, out of fold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from headgate.learning.fitting.risk import RISK_AGES
from headgate.learning.looks import Persistence
from headgate.learning.pairs import Table


def persistence_of(
    logs: Table, scores: Mapping[str, Table], nearer: Mapping[str, Sequence[str]]
) -> Persistence:
    """Return which part of what nearer containers say otherwise is left a wave later.

    That is the slope, by least squares and through 0, of what a prediction is off by, over the
    difference between it and that from nearer a wave before, of the same version of the output.

    Args:
        logs: measured ln(ε / bound) by wave and age, shape (T, H+1).
        scores: predicted, out of fold, likewise, by container; NaN where there is none.
        nearer: by container, those that are made of it.
    """
    return {
        container: {each: _slope(logs, scores[container], scores[each]) for each in found}
        for container, found in nearer.items()
    }


def _slope(logs: Table, far: Table, near: Table) -> float:
    most = min(RISK_AGES, far.shape[1] - 1)
    before = (near - far)[:-1, 1:most]
    off = (logs - far)[1:, 2 : most + 1]
    known = np.isfinite(before) & np.isfinite(off)
    spread = float(before[known] @ before[known])
    return min(1.0, max(0.0, float(before[known] @ off[known]) / spread)) if spread else 0.0
