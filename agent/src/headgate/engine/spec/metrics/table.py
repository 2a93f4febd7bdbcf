"""The metrics of value bounds, by the names that dataflow files have for them."""

from __future__ import annotations

from enum import StrEnum

from headgate.engine.spec.metrics.absolute import ABSOLUTE
from headgate.engine.spec.metrics.against import AGAINST
from headgate.engine.spec.metrics.changed import CHANGED
from headgate.engine.spec.metrics.divergence import ValueMetric
from headgate.engine.spec.metrics.relative import RELATIVE
from headgate.engine.spec.metrics.user import USER, UserMetric


class Metric(StrEnum):
    """How far a container has moved: x new, x′ at the last run's cut, m changed cells of n."""

    RELATIVE = "relative"
    ABSOLUTE = "absolute"
    CHANGED = "changed"
    AGAINST = "against"


METRICS: dict[Metric, ValueMetric] = {
    Metric.RELATIVE: RELATIVE,
    Metric.ABSOLUTE: ABSOLUTE,
    Metric.CHANGED: CHANGED,
    Metric.AGAINST: AGAINST,
}


def definition_of(metric: Metric | UserMetric) -> ValueMetric:
    """Return what is to be known of a metric."""
    return USER if isinstance(metric, UserMetric) else METRICS[metric]
