"""Errors of an output in training by a metric of the user's: asked of it pair by pair of waves."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from headgate.agent.advisers.metric_process import MetricProcess, Silent
from headgate.engine import MetricQuestion, UserMetric
from headgate.learning import ContainerHistory, Values, error_in, questions


class AskedErrors(Struct, frozen=True, eq=False):
    """What a metric says of all pairs of waves."""

    table: Values
    """ε by wave and age, shape (T, H+1): infinity where the metric failed, and 0 at age 0."""
    usable: bool
    """Whether anything is to be learned from it: the metric did not fail on all that it was asked
    for, nor leave a question without an answer."""
    failure: str
    """What it failed on, for people; empty where nothing is."""


def asked_errors(
    process: MetricProcess,
    history: ContainerHistory,
    horizon: int,
    output: str,
    metric: UserMetric,
) -> AskedErrors:
    """Return the errors of an output by a metric.

    One that leaves a question without an answer is asked no more: each would take as long again.

    Args:
        process: in which it is computed.
        history: of the output.
        horizon: H, in waves.
        output: the container.
        metric: of the output.
    """
    table = np.zeros((history.waves, horizon + 1))
    asked = failed = 0
    first = ""
    for wave, age, question in questions(history, horizon, output, metric):
        if not isinstance(question, MetricQuestion):
            table[wave, age] = question
            continue
        asked += 1
        try:
            found = error_in(process.ask(question))
        except Silent as silent:
            table[...] = math.inf
            return AskedErrors(table, usable=False, failure=f"its error is not known: {silent}")
        table[wave, age] = found.value
        failed += bool(found.failure)
        first = first or found.failure
    words = ""
    if failed:
        words = (
            f"its metric failed on {failed} of {asked} pairs of waves, which count as violations; "
            f"the first time, {first}"
        )
    return AskedErrors(table, failed < asked or not asked, words)
