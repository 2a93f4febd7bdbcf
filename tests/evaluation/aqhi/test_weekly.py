"""How much a week's outputs change from wave to wave: what its weather was fitted for."""

import numpy as np
import pytest
from aqhi.generator import WEEKLY, Trend, generate
from aqhi.grid import Grid
from evaluation.aqhi.histories import histories

from headgate.learning import ErrorMetric, errors, measured_pairs

GRID = Grid(20)
TRAINING, TEST = 336, 384
"""Waves that the paper trains and tests on (SmartFlux, section 5, AQHI)."""


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_combined_concentration_changes_by_5_to_6_percent_in_the_median_wave(seed):
    waves = list(generate(GRID, TRAINING + TEST, seed, Trend.UNIFORM, WEEKLY))
    change = errors(measured_pairs(histories(waves, GRID)["detectors"], 1), ErrorMetric.RELATIVE)[
        1:, 1
    ]
    assert 0.05 <= np.median(change) <= 0.06
