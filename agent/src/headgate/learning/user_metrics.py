"""Impacts and errors by metrics of users: what is asked of them, and what their answers say.

SmartFlux, section 4, "Input Impact and Output Error API". Users' code runs elsewhere. What it is
told is built here for training and for service alike, so that both get the same number.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from headgate.engine import ChangedValues, MetricAnswer, MetricQuestion, UserMetric
from headgate.learning.impact import Values


class UserAmount(Struct, frozen=True):
    """What a metric says of a container: an impact, or an output's error."""

    value: float
    """In the metric's own units, 0 or more; infinity where it is not known."""
    failure: str = ""
    """Why it is not known, where it isn't."""


def question_about(
    current: Values,
    previous: Values,
    elements: int,
    name: str,
    moment: tuple[float, ...],
    metric: UserMetric,
) -> float | MetricQuestion:
    """Return what a metric has to be asked for ε or ι, or that where it is known without asking.

    It is 0 where nothing has changed, and infinity where a value is no number. Cells are ordered by
    their values: a metric's sums may depend on the order, and a table has another one than the
    recording of it.

    Args:
        current: x of elements, 0 where they are gone, NaN where x is no number; shape (t,).
        previous: their x′, likewise; shape (t,).
        elements: n, present now.
        name: of what is asked about; it comes back with the answer.
        moment: likewise.
        metric: of the user's.
    """
    moved = current != previous  # NaN differs from all
    x, before = (np.ascontiguousarray(values[moved], "<f8") for values in (current, previous))
    if not len(x):
        return 0.0
    if np.isnan(x).any() or np.isnan(before).any():
        return math.inf
    order = np.lexsort((before.view("<i8"), x.view("<i8")))  # of 0.0 and -0.0 one comes first
    changed = ChangedValues(x[order].tobytes(), before[order].tobytes())
    return MetricQuestion(name, moment, metric.entry, [changed], elements)


def amount_in(answer: MetricAnswer) -> UserAmount:
    """Return what an answer says; what is no amount, such as NaN, is one that is not known."""
    amount = answer.amount
    if amount is None:
        return UserAmount(math.inf, answer.failure or "the metric gave nothing")
    if not amount >= 0.0:
        return UserAmount(math.inf, f"the metric gave {amount:g}, and has to give 0 or more")
    return UserAmount(amount)
