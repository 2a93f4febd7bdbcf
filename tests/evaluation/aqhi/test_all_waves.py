"""All waves in one Spark application, against the formulas wave after wave."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from aqhi.generator import WEATHERS, Trend, generate
from aqhi.grid import Grid
from aqhi.readings import Readings
from evaluation.aqhi.all_waves import all_waves
from evaluation.aqhi.synchronous import synchronous

GRID = Grid(6)
WAVES = 4


@dataclass
class Outputs:
    spark: Any
    formulas: Any


def silent(waves):
    """The same, but one detector is silent at first, and later half of them lack a sensor."""
    for number, wave in enumerate(waves):
        kept = wave.detectors > 0 if number < 2 else wave.detectors >= 0
        values = wave.values[kept].copy()
        if number:
            values[::2, 1] = np.nan
        yield Readings(wave.label, wave.detectors[kept], values)


@pytest.fixture(scope="module", params=WEATHERS)
def outputs(spark, request):
    waves = list(silent(generate(GRID, WAVES, 3, Trend.UNIFORM, WEATHERS[request.param])))
    return Outputs(all_waves(spark, waves, GRID, 50.0), synchronous(waves, GRID, 50.0))


@pytest.mark.parametrize("name", ["changed", "zones", "maps", "hotspots", "index"])
def test_every_step_shows_what_the_formulas_say(outputs, name):
    (by_spark, _), (by_formulas, _) = outputs.spark, outputs.formulas
    found, expected = getattr(by_spark, name), getattr(by_formulas, name)
    known = ~np.isnan(expected) if name != "maps" else ~np.isnan(expected) & ~np.isnan(found)
    assert found[known] == pytest.approx(expected[known])


def test_a_detector_that_has_not_reported_yet_has_no_concentration(outputs):
    (_, found), (_, expected) = outputs.spark, outputs.formulas
    assert np.isnan(found[:2, 0, 0]).all()
    assert (np.isnan(found) == np.isnan(expected)).all()
    assert found[~np.isnan(found)] == pytest.approx(expected[~np.isnan(expected)])
