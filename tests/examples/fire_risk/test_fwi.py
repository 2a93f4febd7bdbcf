"""The fire weather index against the values that its authors publish for a whole summer."""

import csv
import gzip
from pathlib import Path

import pytest
from fire_risk import fwi
from pyspark.sql import functions as sql

RECORD = Path(__file__).parents[4] / "shared/data/fire/PRF2007_standard_hourly_FWI.csv.gz"
PRINTED = 1e-4
"""The published values have four decimals, and so have the codes that an hour starts from."""


@pytest.fixture(scope="module")
def summer(spark):
    """Each hour with the codes of the hour before."""
    if not RECORD.is_file():
        pytest.skip(f"{RECORD} is not on this machine")
    with gzip.open(RECORD, "rt", encoding="ascii", newline="") as file:
        hours = list(csv.DictReader(file))
    names = ("ffmc", "dmc", "dc", "prec_cumulative", "canopy_drying")
    before = [tuple(fwi.START.values()), *(tuple(float(h[n]) for n in names) for h in hours)]
    rows = []
    for codes, hour in zip(before, hours, strict=False):
        at = float(hour["hr"])
        light = float(float(hour["sunrise"]) <= at <= float(hour["sunset"]))
        weather = [float(hour[name]) for name in ("temp", "rh", "ws", "prec")]
        expected = [float(hour[name]) for name in (*names, "isi", "bui", "fwi")]
        rows.append((*codes, *weather, light, *expected))
    published = [f"published_{name}" for name in (*fwi.CODES, "isi", "bui", "fwi")]
    columns = [*fwi.BEFORE, *fwi.WEATHER, *published]
    hours = spark.createDataFrame(rows, ", ".join(f"{name} double" for name in columns))
    return fwi.next_codes(hours).cache()


def largest_difference(summer, computed, name):
    """Return max |computed − published|; a null would be a hole in the formula."""
    difference = sql.abs(computed - sql.col(f"published_{name}"))
    hours, counted, largest = summer.agg(
        sql.count(sql.lit(1)), sql.count(difference), sql.max(difference)
    ).first()
    assert hours == counted == 2623
    return largest


@pytest.mark.parametrize("code", ["ffmc", "dmc", "dc", "rained", "dry"])
def test_codes_follow_the_weather_of_every_hour(summer, code):
    assert largest_difference(summer, sql.col(code), code) <= 2 * PRINTED


def test_the_spread_index_comes_from_wind_and_fine_fuel(summer):
    isi = fwi.spread_index(sql.col("published_ffmc"), sql.col("wind"))
    assert largest_difference(summer, isi, "isi") <= 2 * PRINTED


def test_the_buildup_index_comes_from_the_deeper_layers(summer):
    bui = fwi.buildup_index(sql.col("published_dmc"), sql.col("published_dc"))
    assert largest_difference(summer, bui, "bui") <= 2 * PRINTED


def test_the_fire_weather_index_comes_from_both(summer):
    index = fwi.fire_weather_index(sql.col("published_isi"), sql.col("published_bui"))
    # Just above 1 it rises so steeply that the fourth decimal of its inputs moves the third.
    assert largest_difference(summer, index, "fwi") <= 10 * PRINTED
