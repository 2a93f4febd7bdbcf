"""Models of dataflows that are drawn at random, and what they say of all waves after training."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from tests.learning.synthetic import SyntheticDataflow, dataflow

from headgate.learning import (
    Calibration,
    ErrorMetric,
    Graph,
    Model,
    Step,
    Target,
    calibrate,
    candidates,
    closed_loop,
    errors,
    extra_trees,
    features,
    levels_of,
    measured_pairs,
)
from headgate.learning.fitting.training import pairs_of, train
from headgate.learning.pairs import FeatureTable

TRAINING = 336
WAVES = TRAINING + 1_000
HORIZON = 24
CONFIDENCE = 0.95
BOUNDS = (0.1, 0.05, 0.2, 0.02)
"""The first of which the oracle saves between a fifth and nine tenths is a user's bound."""
_SAVES = (0.2, 0.93)
GRAPH = Graph([Step("make", ("input",), ("output",))])

Table = npt.NDArray[np.float64]
Outcome = TypeVar("Outcome")


class Learned(Struct, frozen=True, eq=False):
    """A dataflow's output with a model of its first waves."""

    kind: str
    bound: float
    known: Table
    """ε by wave and age."""
    predicted: Table
    """ln(ε / bound) likewise, out of fold in training."""
    scores: Table
    """As predicted, and infinite where the model runs because a feature is out of its range."""
    table: FeatureTable
    """Features of the input, by wave and age."""
    model: Model
    calibration: Calibration
    seconds: float
    """Of processor time for all forests."""

    @property
    def threshold(self) -> float:
        """λ; -infinity where none was found."""
        return self.model.threshold


def learned(flows: list[SyntheticDataflow]) -> list[Learned] | None:
    """Return dataflows that are alike in training under one model.

    None where no bound of ours is one that a user might set.
    """
    output = measured_pairs(flows[0].output, HORIZON)
    known = errors(output, ErrorMetric.RELATIVE)
    for bound in BOUNDS:
        saved = closed_loop(known, known, bound, bound, 0, TRAINING).saved
        if _SAVES[0] < saved < _SAVES[1]:
            break
    else:
        return None
    levels = levels_of(flows[0].input.values[:TRAINING].ravel())
    source = measured_pairs(flows[0].input, HORIZON, levels)
    began = time.process_time()
    pairs = {"input": source.until(TRAINING), "output": output.until(TRAINING)}
    target = Target("output", ErrorMetric.RELATIVE, bound, CONFIDENCE)
    trained = train(GRAPH, pairs, target, extra_trees)
    seconds = time.process_time() - began
    own = trained.bounded.scores["input"]
    calibration = calibrate(
        lambda threshold: closed_loop(trained.bounded.errors, own, threshold, bound, 0, TRAINING),
        candidates(own),
        CONFIDENCE,
    )
    threshold = -math.inf if calibration.threshold is None else calibration.threshold
    ran = closed_loop(trained.bounded.errors, own, threshold, bound, 0, TRAINING).ran
    container = trained.container_model("input", levels, ran)
    model = Model(
        output="output",
        metric=target.metric,
        bound=bound,
        confidence=CONFIDENCE,
        threshold=threshold,
        containers={"input": container},
        horizon=HORIZON,
        waves=TRAINING,
        first_time=0.0,
        last_time=0.0,
        upper=calibration.upper,
        calibration="",
    )
    found = []
    for flow in flows:
        if flow is not flows[0]:
            output = measured_pairs(flow.output, HORIZON)
            known = errors(output, ErrorMetric.RELATIVE)
        waves, ages = pairs_of(WAVES, HORIZON)
        later = waves >= TRAINING
        waves, ages = waves[later], ages[later]
        predicted = np.full(known.shape, np.nan)
        predicted[:TRAINING] = own
        scores = predicted.copy()
        table = features(source, output.means)
        rows = table[waves, ages]
        predicted[waves, ages] = container.forest.predict(rows)[:, 0]
        scores[waves, ages] = np.where(container.within(rows), predicted[waves, ages], math.inf)
        found.append(
            Learned(flow.kind, bound, known, predicted, scores, table, model, calibration, seconds)
        )
    return found


def drawn(
    measure: Callable[[int], Outcome | None], count: int, first: int, jobs: int
) -> list[Outcome]:
    """Return the outcomes of so many dataflows for which there are any, by seeds in order."""
    return list(_outcomes(measure, count, first, jobs))


def _outcomes(
    measure: Callable[[int], Outcome | None], count: int, first: int, jobs: int
) -> Iterator[Outcome]:
    found = 0
    with ProcessPoolExecutor(jobs) as pool:
        for start in range(first, first + 4 * count, 4 * jobs):
            for outcome in pool.map(measure, range(start, start + 4 * jobs)):
                if outcome is not None and found < count:
                    found += 1
                    yield outcome
            if found == count:
                return


__all__ = [
    "CONFIDENCE",
    "GRAPH",
    "TRAINING",
    "WAVES",
    "Learned",
    "SyntheticDataflow",
    "Table",
    "dataflow",
    "drawn",
    "learned",
]
