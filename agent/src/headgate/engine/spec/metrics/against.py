"""Σ|x−x′| / (n·c) for a constant c, a ratio: 0.05 means 5 %."""

from __future__ import annotations

from headgate.engine.spec.metrics.divergence import Divergence, ValueMetric, ratio


def _against(divergence: Divergence, constant: float) -> float:
    return ratio(divergence.difference, divergence.cells * constant)


AGAINST = ValueMetric(
    _against,
    "mean difference in percent of the constant in `against`",
    constant="a constant, such as the greatest value possible, with `limit` in percent of it",
)
