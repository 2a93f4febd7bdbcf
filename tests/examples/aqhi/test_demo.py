"""Where the waves of ``headgate demo aqhi`` come from."""

import inspect
import sys
from datetime import datetime
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
from typer.testing import CliRunner

from headgate.cli.demo.commands import _Input, app, aqhi

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

from aqhi.generator import WEATHERS, Trend, generate
from aqhi.grid import Grid


def of(weather):
    return _Input(30, 6, 3, "increasing", weather, None, datetime(2015, 11, 27))  # noqa: DTZ001 -- as typer gives it


@pytest.mark.parametrize("weather", WEATHERS)
def test_a_weather_is_that_of_the_generator_and_is_named(weather):
    expected = generate(Grid(6), 30, 3, Trend.INCREASING, WEATHERS[weather])
    for one, other in zip(of(weather).readings(), expected, strict=True):
        assert np.array_equal(one.detectors, other.detectors)
        assert np.array_equal(one.values, other.values)
    assert f"weather {weather}" in of(weather).source


def test_every_weather_can_be_chosen():
    choices, *_ = get_args(get_type_hints(aqhi, include_extras=True)["weather"])
    assert set(get_args(choices)) == set(WEATHERS)
    assert inspect.signature(aqhi).parameters["weather"].default == "drifting"


def test_an_unknown_weather_is_refused_with_those_that_there_are():
    refused = CliRunner().invoke(app, ["aqhi", "--weather", "stormy"], env={"COLUMNS": "200"})
    assert refused.exit_code == 2
    for weather in ("stormy", *WEATHERS):
        assert weather in refused.output
