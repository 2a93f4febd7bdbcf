"""The formulas of the fire risk on arrays, against the values that their authors publish."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest
from evaluation.learned.forest_floor import fire_weather_index, next_codes

RECORD = Path(__file__).parents[4] / "shared/data/fire/PRF2007_standard_hourly_FWI.csv.gz"
PRINTED = 1e-4
"""The published values have four decimals, and so have the codes that an hour starts from."""
PUBLISHED = {
    "ffmc": "ffmc",
    "dmc": "dmc",
    "dc": "dc",
    "rained": "prec_cumulative",
    "dry": "canopy_drying",
}


@pytest.fixture(scope="module")
def summer() -> dict[str, np.ndarray]:
    """Each column of the record, by its name."""
    if not RECORD.is_file():
        pytest.skip("the record of the summer is not beside the project")
    with gzip.open(RECORD, "rt", encoding="ascii", newline="") as file:
        hours = list(csv.DictReader(file))
    names = set(hours[0]) - {"id"}
    return {name: np.array([float(hour[name]) for hour in hours]) for name in names}


def test_codes_follow_the_weather_of_every_hour(summer: dict[str, np.ndarray]) -> None:
    light = (summer["sunrise"] <= summer["hr"]) & (summer["hr"] <= summer["sunset"])
    weather = {
        "temperature": summer["temp"],
        "humidity": summer["rh"],
        "wind": summer["ws"],
        "rain": summer["prec"],
        "daylight": light.astype(float),
    }
    now = {name: values[1:] for name, values in weather.items()}
    found = next_codes(now, {code: summer[name][:-1] for code, name in PUBLISHED.items()})
    for code, name in PUBLISHED.items():
        assert np.abs(found[code] - summer[name][1:]).max() <= 2 * PRINTED, code


def test_the_index_comes_from_wind_and_codes(summer: dict[str, np.ndarray]) -> None:
    areas = {"wind": summer["ws"], **{code: summer[code] for code in ("ffmc", "dmc", "dc")}}
    assert np.abs(fire_weather_index(areas) - summer["fwi"]).max() <= 2e-3
    assert summer["fwi"].max() > 20
