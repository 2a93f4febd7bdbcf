"""The formulas against plain loops over single detectors."""

import math

import numpy as np
import pytest
from aqhi import model
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

units = st.floats(0, 100)
cities = st.integers(2, 7).flatmap(lambda side: arrays(float, (side, side), elements=units))


def neighbours(city, row, column, reach):
    side = len(city)
    return [
        city[y][x]
        for y in range(max(0, row - reach), min(side, row + reach + 1))
        for x in range(max(0, column - reach), min(side, column + reach + 1))
    ]


@given(st.lists(st.one_of(st.none(), units), min_size=3, max_size=3))
def test_combined_is_the_weighted_mean_of_the_sensors_that_reported(sensors):
    known = [
        (value, weight)
        for value, weight in zip(sensors, model.SENSOR_WEIGHTS, strict=True)
        if value is not None
    ]
    result = model.combined(np.array([math.nan if value is None else value for value in sensors]))
    if not known:
        assert math.isnan(result)
        return
    expected = sum(value * weight for value, weight in known) / sum(weight for _, weight in known)
    assert result == pytest.approx(expected)
    assert 0 <= result <= 100 + 1e-9


@given(cities)
def test_a_zone_is_the_shifted_geometric_mean_of_detectors_up_to_distance_two(city):
    zones = model.zones(city)
    for row in range(len(city)):
        for column in range(len(city)):
            members = neighbours(city, row, column, 2)
            product = math.prod(1 + value for value in members)
            expected = product ** (1 / len(members)) - 1
            assert zones[row, column] == pytest.approx(expected, abs=1e-9)


@given(cities)
def test_zones_stay_between_their_cleanest_and_dirtiest_detector(city):
    zones = model.zones(city)
    assert (zones >= city.min() - 1e-9).all()
    assert (zones <= city.max() + 1e-9).all()


@given(cities)
def test_a_zone_is_stored_to_the_nearest_step(city):
    stored = model.stored(model.zones(city))
    assert np.abs(stored - model.zones(city)).max() <= model.ZONE_RESOLUTION / 2
    assert not (stored % model.ZONE_RESOLUTION).any()


@given(cities)
def test_a_point_of_the_map_is_the_mean_of_the_four_detectors_around_it(city):
    points = model.city_map(city)
    assert points.shape == (len(city) - 1, len(city) - 1)
    for row in range(len(city) - 1):
        for column in range(len(city) - 1):
            around = [city[row + up][column + right] for up in (0, 1) for right in (0, 1)]
            assert points[row, column] == pytest.approx(sum(around) / 4)


@given(cities, units)
def test_hotspots_keep_zones_above_the_reference(city, reference):
    for zone, hotspot in zip(city.flat, model.hotspots(city, reference).flat, strict=True):
        assert hotspot == (zone if zone > reference else 0)


@given(cities)
def test_the_index_adds_the_percentage_and_the_mean_of_the_hotspots(city):
    hot = [value for value in city.flat if value > 0]
    percentage = 100 * len(hot) / city.size
    mean = sum(hot) / len(hot) if hot else 0
    assert model.index(city) == pytest.approx(1 + 0.1 * percentage + 0.02 * mean)
    assert 1 <= model.index(city) <= 13


@pytest.mark.parametrize(
    ("index", "risk"),
    [
        (1.0, "low"),
        (3.49, "low"),
        (3.51, "moderate"),
        (6.49, "moderate"),
        (6.51, "high"),
        (10.49, "high"),
        (10.51, "very high"),
    ],
)
def test_an_index_falls_in_the_class_of_its_nearest_point(index, risk):
    assert model.risk(index) == risk


@given(cities, cities, st.floats(10, 90))
def test_a_tenth_of_the_reference_makes_the_hotspots_divergence_cover_their_percentage(
    before, after, reference
):
    """Why the bound of step F is in points: every new or lost hotspot counts at least fully."""
    side = min(len(before), len(after))
    old = model.hotspots(before[:side, :side], reference)
    new = model.hotspots(after[:side, :side], reference)
    divergence = np.abs(new - old).sum() / (side * side * reference / 10)
    moved = 100 * abs((new > 0).sum() - (old > 0).sum()) / (side * side)
    assert divergence >= model.INDEX_PER_PERCENT * moved - 1e-9
