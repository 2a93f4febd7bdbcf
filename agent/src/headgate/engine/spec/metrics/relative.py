"""Σ|x−x′| / Σ|x′|, a ratio: 0.05 means 5 %."""

from __future__ import annotations

from headgate.engine.spec.metrics.divergence import Divergence, ValueMetric, ratio


def _relative(divergence: Divergence, _constant: float) -> float:
    return ratio(divergence.difference, divergence.magnitude)


RELATIVE = ValueMetric(_relative, "sum of differences in percent of the sum of old values")
