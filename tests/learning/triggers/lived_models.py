"""Models of the outputs of ``lived``, and what they say of all its waves."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from lived import READS, WRITES, AllWaves
from msgspec.structs import replace
from sklearn.ensemble import ExtraTreesRegressor

from headgate.engine import MetricAnswer, MetricQuestion, UserMetric
from headgate.learning import (
    Bounded,
    ContainerModel,
    ErrorMetric,
    GivenImpact,
    Graph,
    LearnedSettings,
    Model,
    OutputMetric,
    OutputSettings,
    Predicted,
    Residuals,
    Step,
    Values,
    amount_in,
    encode_model,
    errors,
    feature_names,
    features,
    forest_of,
    levels_of,
    log_ratio,
    measured_pairs,
    questions,
)

Computes = Callable[[MetricQuestion], MetricAnswer]
"""Says what a user's metric gives."""

HORIZON, TRAINED, WAVES = 6, 60, 90
BOUNDS = {"level": 0.04, "map": 0.1}
GRAPH = Graph([Step(name, READS[name], (WRITES[name],)) for name in READS])
PERSISTENCE = 0.7
"""Of what is seen from nearer containers."""
UNMOVED = Residuals(50.0, 0.3)
"""With these no label is above what was expected, so that thresholds stay where they are."""


def settings(
    audit: float = 0.0,
    waves: int = 336,
    metric: OutputMetric = ErrorMetric.RELATIVE,
    impacts: Mapping[str, str] = {},
    bounds: Mapping[str, float] = BOUNDS,
) -> LearnedSettings:
    outputs = {name: OutputSettings(bound, metric) for name, bound in bounds.items()}
    return LearnedSettings(outputs, audit, waves, HORIZON, dict(impacts))


def given(truth: AllWaves, output: str, metric: UserMetric, computes: Computes) -> Values:
    """Return what a user's metric gives of a container in all pairs of waves."""
    table = np.zeros((truth.waves, HORIZON + 1))
    for wave, age, asked in questions(truth.history(output), HORIZON, output, metric):
        found = asked if isinstance(asked, float) else amount_in(computes(asked)).value
        table[wave, age] = found
    return table


def fitted(
    truth: AllWaves,
    threshold: float,
    residuals: Residuals = UNMOVED,
    metric: OutputMetric = ErrorMetric.RELATIVE,
    computes: Computes | None = None,
    impacts: Mapping[str, str] = {},
    bounds: Mapping[str, float] = BOUNDS,
) -> tuple[dict[str, Bounded], dict[str, bytes]]:
    """Return what models say of all waves and ages, and the models."""
    tables, models = {}, {}
    for output, bound in bounds.items():
        pairs = measured_pairs(truth.history(output), HORIZON)
        if isinstance(metric, UserMetric) and computes is not None:
            pairs = replace(pairs, given=given(truth, output, metric, computes))
        known = errors(pairs, metric)
        containers, scores, nearer = {}, {}, GRAPH.nearer(output)
        for container in GRAPH.above(output):
            levels = levels_of(truth.values[container][:TRAINED].ravel())
            seen = measured_pairs(truth.history(container), HORIZON, levels)
            if container in impacts and computes is not None:
                entry = impacts[container]
                own = given(truth, container, UserMetric(entry), computes)
                seen = replace(seen, impact=GivenImpact(entry, own))
            table, names = features(seen, pairs.means), feature_names(seen)
            there = [(t, a) for t in range(TRAINED) for a in range(1, min(t, HORIZON) + 1)]
            rows = np.array([table[pair] for pair in there])
            target = log_ratio(np.array([known[pair] for pair in there]), bound)
            forest = ExtraTreesRegressor(5, min_samples_leaf=3, random_state=1).fit(rows, target)
            trees = [one.tree_ for one in forest.estimators_]
            model = ContainerModel(
                forest_of(trees, names, (output,), Predicted.LOG_ERROR),
                table.reshape(-1, len(names)).min(0),
                table.reshape(-1, len(names)).max(0),
                levels,
                residuals,
                persistence=dict.fromkeys(nearer.get(container, ()), PERSISTENCE),
            )
            containers[container] = model
            score = model.scores(table.reshape(-1, len(names))).reshape(table.shape[:2])
            scores[container] = score
        models[output] = encode_model(
            Model(output, metric, bound, 0.95, threshold, containers, HORIZON,
                  TRAINED, 0.0, 1.0, 0.05, "")
        )  # fmt: skip
        kept = {name: each.persistence for name, each in containers.items() if each.persistence}
        tables[output] = Bounded(known, bound, scores, kept)
    return tables, models
