"""Models of the outputs of ``lived``, and what they say of all its waves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from lived import READS, WRITES, AllWaves
from sklearn.ensemble import ExtraTreesRegressor

from headgate.learning import (
    FEATURES,
    Bounded,
    ContainerModel,
    ErrorMetric,
    Graph,
    LearnedSettings,
    Model,
    OutputSettings,
    Predicted,
    Residuals,
    Step,
    encode_model,
    errors,
    features,
    forest_of,
    levels_of,
    log_ratio,
    measured_pairs,
)

HORIZON, TRAINED, WAVES = 6, 60, 90
BOUNDS = {"level": 0.04, "map": 0.1}
GRAPH = Graph([Step(name, READS[name], (WRITES[name],)) for name in READS])
UNMOVED = Residuals(50.0, 0.3)
"""With these no label is above what was expected, so that thresholds stay where they are."""


def settings(
    audit: float = 0.0, waves: int = 336, bounds: Mapping[str, float] = BOUNDS
) -> LearnedSettings:
    outputs = {name: OutputSettings(bound) for name, bound in bounds.items()}
    return LearnedSettings(outputs, audit, waves, HORIZON)


def fitted(
    truth: AllWaves,
    threshold: float,
    residuals: Residuals = UNMOVED,
    bounds: Mapping[str, float] = BOUNDS,
) -> tuple[dict[str, Bounded], dict[str, bytes]]:
    """Return what models say of all waves and ages, and the models."""
    tables, models = {}, {}
    for output, bound in bounds.items():
        pairs = measured_pairs(truth.history(output), HORIZON)
        known = errors(pairs, ErrorMetric.RELATIVE)
        containers, scores = {}, {}
        for container in GRAPH.above(output):
            levels = levels_of(truth.values[container][:TRAINED].ravel())
            table = features(measured_pairs(truth.history(container), HORIZON, levels), pairs.means)
            there = [(t, a) for t in range(TRAINED) for a in range(1, min(t, HORIZON) + 1)]
            rows = np.array([table[pair] for pair in there])
            target = log_ratio(np.array([known[pair] for pair in there]), bound)
            forest = ExtraTreesRegressor(5, min_samples_leaf=3, random_state=1).fit(rows, target)
            trees = [one.tree_ for one in forest.estimators_]
            model = ContainerModel(
                forest_of(trees, FEATURES, (output,), Predicted.LOG_ERROR),
                table.reshape(-1, len(FEATURES)).min(0),
                table.reshape(-1, len(FEATURES)).max(0),
                levels,
                residuals,
            )
            containers[container] = model
            score = model.scores(table.reshape(-1, len(FEATURES))).reshape(table.shape[:2])
            scores[container] = score
        models[output] = encode_model(
            Model(output, ErrorMetric.RELATIVE, bound, 0.95, threshold, containers, HORIZON,
                  TRAINED, 0.0, 1.0, 0.05, "")
        )  # fmt: skip
        tables[output] = Bounded(known, bound, scores)
    return tables, models
