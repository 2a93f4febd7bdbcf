"""Recorded waves of a small dataflow: sensors, their means by area, an index of these, a map."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import ExtraTreesRegressor
from synthetic import CELLS, dataflow

from headgate.learning import (
    FEATURES,
    ContainerHistory,
    ErrorMetric,
    Forest,
    Graph,
    MeasuredPairs,
    Predicted,
    Step,
    Target,
    forest_of,
    levels_of,
    measured_pairs,
)

HORIZON = 8
GRAPH = Graph(
    [
        Step("average", ("sensors",), ("areas",)),
        Step("rate", ("areas",), ("index",)),
        Step("draw", ("sensors", "areas"), ("map",)),
    ]
)
AREAS = Target("areas", ErrorMetric.RELATIVE, 0.04)
INDEX = Target("index", ErrorMetric.RELATIVE, 0.06)
MAP = Target("map", ErrorMetric.RMSE, 12.0)
GROUP = 10


def histories(waves: int, seed: int = 4) -> dict[str, ContainerHistory]:
    """Return the synchronous states of all containers."""
    sensors = dataflow(seed, waves).input
    areas = sensors.values.reshape(waves, -1, GROUP).mean(2)
    above = sensors.values > np.quantile(sensors.values, 0.6)
    states = {
        "areas": areas,
        "index": 1.0 + (areas / 30.0) ** 2,
        "map": np.where(above, sensors.values, 0.0) + np.repeat(areas, GROUP, 1),
    }
    made = {
        name: ContainerHistory(
            values,
            np.full(waves, values.shape[1]),
            np.full(waves, values.shape[1]),
            sensors.times,
        )
        for name, values in states.items()
    }
    assert sensors.values.shape[1] == CELLS
    return {"sensors": sensors, **made}


def recorded(waves: int, horizon: int = HORIZON, seed: int = 4) -> dict[str, MeasuredPairs]:
    """Return all containers measured, with their deciles."""
    return {
        name: measured_pairs(history, horizon, levels_of(history.values))
        for name, history in histories(waves, seed).items()
    }


def few_trees(
    rows: npt.NDArray[np.float32], logs: npt.NDArray[np.float64], output: str, trees: int = 8
) -> Forest:
    """Return a forest that is fitted in a moment."""
    fitted = ExtraTreesRegressor(trees, min_samples_leaf=4, max_features=0.4, random_state=0)
    fitted.fit(rows, logs)
    made = [tree.tree_ for tree in fitted.estimators_]
    return forest_of(made, FEATURES, (output,), Predicted.LOG_ERROR)


def stump(rows: npt.NDArray[np.float32], logs: npt.NDArray[np.float64], output: str) -> Forest:
    """Return a forest that knows next to nothing: one leaf."""
    return partial(few_trees, trees=1)(rows[:1], logs[:1], output)
