"""How well violations are predicted: the measures of the test phase of SmartFlux, section 3."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from headgate.learning.pairs import Table
from headgate.learning.simulation import Flags, closed_loop

_UNKNOWN = 1e300
"""What stands for scores that are not known, above all others."""


class Quality(Struct, frozen=True):
    """Shares of examples, of which each is a possible run; a positive is a violation."""

    examples: int
    violations: int
    accuracy: float
    """Of all, those that were classified as what they are; 0 where there is none."""
    precision: float | None
    """Of those classified as violations, those that are; None where there is none."""
    recall: float | None
    """Of the violations, those that were classified as such; None where there is none."""
    roc_area: float | None
    """Probability that a violation scores above what is none; None where all are of one class."""


def quality(violated: Flags, scores: npt.NDArray[np.float64], threshold: float) -> Quality:
    """Return the quality of a threshold.

    Args:
        violated: whether a skip would have been out of bounds, shape (n,).
        scores: predicted violations, shape (n,); what is above the threshold is classified as one.
        threshold: λ.

    Raises:
        ValueError: the arrays differ in length.
    """
    if violated.shape != scores.shape:
        message = f"{len(scores)} scores stand against {len(violated)} examples"
        raise ValueError(message)
    positive = ~(scores <= threshold)
    right = violated & positive
    count, found = int(violated.sum()), int(positive.sum())
    area = None
    if 0 < count < len(violated):
        from sklearn.metrics import roc_auc_score  # whoever only predicts goes without it

        area = float(roc_auc_score(violated, np.nan_to_num(scores, nan=_UNKNOWN, posinf=_UNKNOWN)))
    return Quality(
        examples=len(violated),
        violations=count,
        accuracy=float((positive == violated).mean()) if len(violated) else 0.0,
        precision=float(right.sum() / found) if found else None,
        recall=float(right.sum() / count) if count else None,
        roc_area=area,
    )


class Examples(Struct, frozen=True, eq=False):
    """The pairs of waves at which a simulated policy decides."""

    waves: npt.NDArray[np.int64]
    """The later wave of each, shape (n,)."""
    ages: npt.NDArray[np.int64]
    """How many waves before it the earlier one is, shape (n,)."""


def simulated_runs(errors: Table, bound: float) -> Examples:
    """Return the training set of SmartFlux: a wave each, against a run that its error repeats.

    The simulated last run restarts where ε passes its bound. Waves past the horizon are left out.
    """
    loop = closed_loop(errors, errors, bound, bound, 0, len(errors))
    return decided_pairs(loop.ran, errors)


def decided_pairs(ran: Flags, errors: Table) -> Examples:
    """Return each wave but the first with the run before it, where there is such a pair.

    Args:
        ran: whether the step ran, by wave.
        errors: ε by wave and age; NaN where there is no such pair.
    """
    waves = np.arange(1, len(ran))
    ages = waves - np.maximum.accumulate(np.where(ran, np.arange(len(ran)), 0))[:-1]
    near = ages < errors.shape[1]
    near[near] = ~np.isnan(errors[waves[near], ages[near]])
    return Examples(waves[near], ages[near])
