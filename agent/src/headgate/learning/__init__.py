"""Learned triggers: predicting whether a step that is skipped would leave an output out of bounds.

From "Smart Scheduling of Continuous Data-Intensive Workflows with Machine Learning Triggered
Execution" (SmartFlux). Waves, containers and steps are the engine's; whoever trains and launches
stands above.
"""

from headgate.learning.calibration import (
    Calibration,
    Fold,
    blocks,
    calibrate,
    candidates,
    effective_count,
    outside,
    upper_rate,
)
from headgate.learning.envelope import UnusableModel
from headgate.learning.features import FEATURES, WaveContext, levels_of, row_of
from headgate.learning.forest import (
    FittedTree,
    Forest,
    Predicted,
    decode_forest,
    encode_forest,
    forest_of,
)
from headgate.learning.impact import (
    ErrorMetric,
    Impact,
    ImpactMetric,
    Version,
    error,
    error_of_current,
    geometric_mean,
    impact,
    measure,
    version_of,
)
from headgate.learning.pairs import (
    ContainerHistory,
    MeasuredPairs,
    errors,
    features,
    measured_pairs,
)
from headgate.learning.predictor import (
    ContainerModel,
    Model,
    Predictor,
    Residuals,
    decode_model,
    encode_model,
    log_ratio,
)
from headgate.learning.simulation import (
    Bounded,
    ClosedLoop,
    Graph,
    StagedLoop,
    Step,
    closed_loop,
    staged_loop,
)

__all__ = [
    "FEATURES",
    "Bounded",
    "Calibration",
    "ClosedLoop",
    "ContainerHistory",
    "ContainerModel",
    "ErrorMetric",
    "FittedTree",
    "Fold",
    "Forest",
    "Graph",
    "Impact",
    "ImpactMetric",
    "MeasuredPairs",
    "Model",
    "Predicted",
    "Predictor",
    "Residuals",
    "StagedLoop",
    "Step",
    "UnusableModel",
    "Version",
    "WaveContext",
    "blocks",
    "calibrate",
    "candidates",
    "closed_loop",
    "decode_forest",
    "decode_model",
    "effective_count",
    "encode_forest",
    "encode_model",
    "error",
    "error_of_current",
    "errors",
    "features",
    "forest_of",
    "geometric_mean",
    "impact",
    "levels_of",
    "log_ratio",
    "measure",
    "measured_pairs",
    "outside",
    "row_of",
    "staged_loop",
    "upper_rate",
    "version_of",
]
