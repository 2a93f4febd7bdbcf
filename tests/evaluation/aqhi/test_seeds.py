"""The evaluation over several seeds: the engine alone over what the formulas say."""

from __future__ import annotations

import math

import pytest
from aqhi.generator import CALM, Trend, generate
from aqhi.grid import Grid
from evaluation.aqhi.seeds import f_by_choices, mean_of_seeds

GRID = Grid(10)
WAVES = 40
SEEDS = 2


@pytest.fixture(scope="module")
def found():
    return mean_of_seeds(GRID, WAVES, SEEDS, quick=True)


def runs_of_c(seed, sigma):
    runs = pending = 0
    for wave in generate(GRID, WAVES, seed, Trend.INCREASING, CALM):
        pending += len(wave.detectors)
        if 100 * pending >= sigma * GRID.detectors:
            runs, pending = runs + 1, 0
    return runs


@pytest.mark.parametrize("sigma", [20, 80])
def test_c_runs_whenever_so_many_detectors_have_reported(found, sigma):
    runs = sum(runs_of_c(seed, sigma) for seed in (1, 2))
    assert found["C"][str(sigma)]["executions_percent"] == 100 * runs / (WAVES * SEEDS)
    assert found["C"][str(sigma)]["expected_percent"] == 100 * math.exp(-sigma / 100)


def test_a_wider_bound_has_fewer_runs_and_larger_errors(found):
    for step in ("C", "E", "F"):
        narrow, wide = found[step]["20"], found[step]["80"]
        assert narrow["executions_percent"] > wide["executions_percent"] > 0
    assert found["F"]["20"]["mean_error_points"] < found["F"]["80"]["mean_error_points"]


def test_the_index_stays_within_what_f_tolerates(found):
    assert all(figures["max_error_points"] <= 0.3 for figures in found["F"].values())


def test_settings_that_bound_several_steps_are_left_to_the_stand(found):
    assert set(found) == {"C", "D", "E", "F", "F, every update counted"}


def test_f_depends_on_what_the_paper_leaves_open(found):
    by_choice = f_by_choices(GRID, WAVES, SEEDS)
    fitted = by_choice["as fitted"]
    for sigma, figures in fitted.items():
        assert figures == found["F"][sigma], "the same, computed by itself"
    fast = by_choice["fields four times as fast"]
    slow = by_choice["fields half as fast"]
    assert fast["80"]["executions_percent"] > slow["80"]["executions_percent"]
    counted = by_choice["each update of a hotspot counted"]
    for sigma, figures in counted.items():
        figures.pop("paper_percent")  # the paper counts otherwise
        assert figures == found["F, every update counted"][sigma]
