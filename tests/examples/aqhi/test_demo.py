"""The input of ``headgate demo aqhi``, and the dataflows that take it."""

import inspect
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from aqhi.demo import AirQuality, aqhi, drawn
from aqhi.generator import WEATHERS, Trend, generate
from aqhi.grid import Grid
from typer.testing import CliRunner

from headgate.cli.demo.commands import app
from headgate.flows import parse_dataflow


def of(weather):
    return drawn(3, "increasing", weather, 6, 30)


@pytest.mark.parametrize("weather", WEATHERS)
def test_a_weather_is_that_of_the_generator_and_is_named(weather):
    expected = generate(Grid(6), 30, 3, Trend.INCREASING, WEATHERS[weather])
    for one, other in zip(of(weather).readings, expected, strict=True):
        assert np.array_equal(one.detectors, other.detectors)
        assert np.array_equal(one.values, other.values)
    assert f"weather {weather}" in of(weather).source


def test_every_weather_can_be_chosen():
    parameter = inspect.signature(aqhi).parameters["weather"]
    choices, *_ = get_args(parameter.annotation)
    assert set(get_args(choices)) == set(WEATHERS)
    assert parameter.default == "drifting"


def test_an_unknown_weather_is_refused_with_those_that_there_are():
    refused = CliRunner().invoke(app, ["aqhi", "--weather", "stormy"], env={"COLUMNS": "200"})
    assert refused.exit_code == 2
    for weather in ("stormy", *WEATHERS):
        assert weather in refused.output


def test_each_bound_has_a_dataflow_beside_the_one_without_and_all_share_a_session():
    submitted = AirQuality(of("calm"), [20.0, 62.5], Path("page.html")).dataflows(Path("stand"))
    flows = [parse_dataflow(one.text, one.file.name) for one in submitted]
    assert [flow.name for flow in flows] == ["aqhi-synchronous", "aqhi-20", "aqhi-62_5"]
    assert len({flow.spark_pool for flow in flows} - {""}) == 1
    bounds = [{a.name: a.bounds for a in flow.spec.actions}["zones"] for flow in flows]
    limits = [[one.sequence.limit for one in each if one.sequence is not None] for each in bounds]
    assert limits == [[], [20.0], [62.5]]
    charts = [flow.launchers["city-map"].parameters["chart"] for flow in flows]
    assert charts == [str(Path("stand/charts") / f"{flow.name}.png") for flow in flows]
