"""Metrics that users write in Python; the engine has them computed outside."""

from __future__ import annotations

from msgspec import Struct

from headgate.engine.spec.metrics.divergence import Divergence, ValueMetric


class UserMetric(Struct, frozen=True):
    """A class of the user's; ``entry`` is ``module:Class``."""

    entry: str

    @property
    def value(self) -> str:
        """What people see of it, as they wrote it."""
        return self.entry

    def __str__(self) -> str:
        return self.entry


def _elsewhere(_divergence: Divergence, _constant: float) -> float:
    message = "a user's metric is computed outside the engine"
    raise TypeError(message)


USER = ValueMetric(
    _elsewhere, "what a metric in Python gives, in its own units", percent=False, numeric=False
)
