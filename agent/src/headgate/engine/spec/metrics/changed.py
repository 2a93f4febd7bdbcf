"""m / n, a ratio: 0.05 means 5 % of the cells (Fluχ's modified keys / total keys)."""

from __future__ import annotations

from headgate.engine.spec.metrics.divergence import Divergence, ValueMetric, ratio


def _changed(divergence: Divergence, _constant: float) -> float:
    return ratio(divergence.changed, divergence.cells)


CHANGED = ValueMetric(
    _changed,
    "changed elements in percent of all elements",
    numeric=False,
    part="changed elements",
)
