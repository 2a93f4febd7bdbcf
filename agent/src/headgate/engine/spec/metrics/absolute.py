"""max |x−x′|, in the values' own units."""

from __future__ import annotations

from headgate.engine.spec.metrics.divergence import Divergence, ValueMetric


def _absolute(divergence: Divergence, _constant: float) -> float:
    return divergence.largest


ABSOLUTE = ValueMetric(
    _absolute,
    "largest difference of one element, in the values' units",
    percent=False,
    largest=True,
)
