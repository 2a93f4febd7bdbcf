"""A small model of one output, fitted to numbers that are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import ExtraTreesRegressor

from headgate.learning import FEATURES, ErrorMetric, Predicted, forest_of
from headgate.learning.predictor import ContainerModel, Model, Residuals

OUTPUT = "map"
SOURCE = "sensors"


def drawn_rows(seed: int = 0, count: int = 80) -> npt.NDArray[np.float32]:
    """Return rows of features between 0 and 1, shape (count, k)."""
    return np.random.default_rng(seed).random((count, len(FEATURES))).astype(np.float32)


def container_model(
    adjustment: float = 0.0, persistence: Mapping[str, float] = MappingProxyType({})
) -> ContainerModel:
    """Return what predicts ln(ε / bound) as about the first feature less a half."""
    rows = drawn_rows()
    fitted = ExtraTreesRegressor(5, min_samples_leaf=3, random_state=0).fit(rows, rows[:, 0] - 0.5)
    trees = [tree.tree_ for tree in fitted.estimators_]
    forest = forest_of(trees, FEATURES, (OUTPUT,), Predicted.LOG_ERROR)
    levels = np.linspace(0.1, 0.9, 9)
    residuals = Residuals(0.4, 0.3)
    return ContainerModel(
        forest, rows.min(0), rows.max(0), levels, residuals, adjustment, persistence
    )


def model() -> Model:
    """Return a model of one output, predicted from two containers."""
    return Model(
        OUTPUT,
        ErrorMetric.RELATIVE,
        0.1,
        0.95,
        -0.2,
        {
            SOURCE: container_model(persistence={"areas": 0.6}),
            "areas": container_model(adjustment=0.07),
        },
        24,
        336,
        1.7e9,
        1.7e9 + 335 * 3600.0,
        0.04,
        "held in 336 waves",
    )
