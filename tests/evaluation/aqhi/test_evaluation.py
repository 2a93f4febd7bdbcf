"""The paper's evaluation: its settings, what they show, and its page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from aqhi import model
from aqhi.generator import Trend, generate
from aqhi.grid import Grid
from aqhi.variants import City, dataflow
from evaluation.aqhi.figures import (
    C_SIGMAS,
    StepRuns,
    Waves,
    executions,
    expected_executions,
    experiments,
    figures,
    relative_errors,
    shown,
    with_bounds,
)
from evaluation.aqhi.report import write_evaluation

from headgate.flows import parse_dataflow

SIDE = 6
WAVES = 30


def waves(trend: Trend) -> Waves:
    """Outputs of the synchronous dataflow, by the formulas."""
    grid = Grid(SIDE)
    readings = np.full((grid.detectors, 3), np.nan)
    changed, zones, maps, hotspots = [], [], [], []
    for wave in generate(grid, WAVES, 1, trend):
        readings[wave.detectors] = wave.values
        changed.append(len(wave.detectors) / grid.detectors)
        concentration = model.combined(readings).reshape(SIDE, SIDE)
        zones.append(model.stored(model.zones(concentration)))
        maps.append(model.city_map(concentration))
        hotspots.append(model.hotspots(zones[-1]))
    index = np.array([model.index(square) for square in hotspots])
    return Waves(np.array(changed), np.array(zones), np.array(maps), np.array(hotspots), index)


def found(every: int, *, quick: bool = False) -> list[StepRuns]:
    runs = tuple(range(1, WAVES + 1, every))
    steps = ("combine", "zones", "city-map", "hotspots", "index")
    return [
        StepRuns(setting, dict.fromkeys(steps, runs))
        for experiment in experiments(55.0, quick=quick)
        for setting in experiment.settings
    ]


def test_a_step_shows_what_it_showed_when_it_last_ran() -> None:
    assert shown(np.array([1.0, 2.0, 3.0, 4.0]), (2, 4)).tolist() == [0.0, 2.0, 2.0, 4.0]


def test_executions_are_percent_of_the_waves() -> None:
    assert executions((1, 3), 8) == 25.0
    assert [round(expected_executions(s)) for s in (25, 80)] == [78, 45]


def test_errors_are_relative_to_what_is_exact() -> None:
    exact, seen = np.array([[1.0, 3.0], [0.0, 0.0]]), np.array([[2.0, 3.0], [0.0, 0.0]])
    assert relative_errors(exact, seen).tolist() == [0.25, 0.0]


@pytest.mark.parametrize("quick", [False, True])
def test_every_setting_is_a_dataflow_file_in_order(quick: bool) -> None:
    text = dataflow("aqhi-synchronous", City(SIDE, 55.0, Path("charts")), None)
    assert not [a for a in parse_dataflow(text, "x").spec.actions if a.bounds]
    for experiment in experiments(55.0, quick=quick):
        for setting in experiment.settings:
            spec = parse_dataflow(with_bounds(text, setting), setting.name).spec
            assert {a.name for a in spec.actions if a.bounds} == set(setting.when)
        assert not experiment.real or experiment.real in {s.name for s in experiment.settings}


def test_steps_that_always_run_have_no_error() -> None:
    data = {trend: waves(trend) for trend in (Trend.INCREASING, Trend.UNIFORM)}
    result = figures(data, found(1))
    assert list(result["C"]) == list(map(str, C_SIGMAS))
    assert all(
        step["executions_percent"] == 100 for part in result.values() for step in part.values()
    )
    assert all(
        value == 0
        for part in result.values()
        for step in part.values()
        for name, value in step.items()
        if "error" in name or "difference" in name
    )


def test_the_page_has_every_figure(tmp_path: Path) -> None:
    data = {trend: waves(trend) for trend in (Trend.INCREASING, Trend.UNIFORM)}
    runs = found(3, quick=True)
    result = {
        "waves": WAVES,
        "detectors": SIDE * SIDE,
        "seed": 1,
        "outputs": "Somebody ran it",
        "checks": {"uniform": {"real_setting": "all 80"}},
        "figures": figures(data, runs),
        "F by what the paper leaves open, mean of 5 seeds": {
            "as <fitted>": {"20": {"executions_percent": 26.8, "max_error_points": 0.22}}
        },
        "seconds of 24 waves by detectors": {2500: 50.0, 10000: 90.0},
    }
    page = write_evaluation(data, runs, result, tmp_path / "page.html").read_text()
    for number in (*range(7, 20), 22):
        assert f"Figure {number}:" in page
    assert page.count("<svg") == 13 + 2
    assert "$" not in page
    assert "Somebody ran it" in page
    assert "<td>as &lt;fitted&gt;</td><td>27</td><td>0.22</td>" in page
    assert "one was run for real" in page
    assert json.loads(json.dumps(result))["figures"]["C"]["20"]["max_error_units"] > 0
