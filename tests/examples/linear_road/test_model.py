"""The formulas, against numbers worked out by hand."""

import numpy as np
import pytest
from linear_road import model

ROAD = 2 * model.SEGMENTS


def road(**segments):
    """Return values of an empty road but for e0 = eastbound mile 0, w99 = westbound mile 99."""
    values = np.full(ROAD, np.nan)
    for name, value in segments.items():
        values[int(name[1:]) + (model.SEGMENTS if name[0] == "w" else 0)] = value
    return values


def test_segments_and_areas_have_keys_in_the_order_of_the_road():
    keys = model.segment_keys(2)
    assert (keys[0], keys[99], keys[100], keys[-1]) == (
        *("x00d0s000", "x00d0s099", "x00d1s000", "x01d1s099"),
    )
    areas = model.area_keys(2)
    assert (areas[0], areas[9], areas[10], areas[-1]) == (
        *("x00d0a00", "x00d0a09", "x00d1a00", "x01d1a09"),
    )
    assert (len(keys), len(areas)) == (400, 40)


def test_an_accident_is_near_to_those_who_drive_towards_it():
    near = np.flatnonzero(model.near_accident(road(e50=1.0, w50=2.0, e2=1.0, w98=1.0, e70=0.0)))
    assert near.tolist() == [0, 1, 2, *range(46, 51), *range(150, 155), 198, 199]


def test_congestion_grows_with_cars_and_slowness_and_accidents():
    speeds = road(e0=65.0, e1=0.0, e2=65.0, e10=65.0, e11=100.0, e12=110.0)
    cars = road(e0=45.0, e1=45.0, e2=90.0, e10=45.0, e11=45.0, e12=45.0)
    found = model.congestion(speeds, cars, road(e14=1.0))
    assert found[[0, 1, 2, 10]] == pytest.approx([0.6, 1.6, 1.2, 1.6])
    assert found[11] == pytest.approx(1.0615, abs=1e-3)
    assert found[12] == 1.0, "who drives faster than all others congests nothing"
    assert np.isnan(found[3:10]).all(), "nothing is known where nobody drives"


def test_the_toll_is_that_of_the_benchmark():
    speeds = road(e0=39.0, e1=40.0, e2=39.0, e3=39.0, e50=39.0)
    cars = road(e0=60.0, e1=60.0, e2=50.0, e3=51.0, e50=60.0)
    found = model.tolls(speeds, cars, road(e51=1.0))
    assert found[[0, 1, 2, 3, 50]].tolist() == [200.0, 0.0, 0.0, 2.0, 0.0]
    assert np.isnan(found[4])


def test_an_area_has_the_class_of_its_mean_level():
    levels = np.full(ROAD, np.nan)
    levels[0:10] = 0.39
    levels[10:20] = 0.4
    levels[20:30] = 0.69
    levels[30:40] = 0.7
    levels[45] = 3.9
    levels[55] = 4.1
    found = model.areas(levels)
    assert found[:6].tolist() == [1, 2, 2, 3, 1, 2]
    assert np.isnan(found[6:]).all()


def test_a_journey_takes_its_segments_in_its_direction():
    speeds = road(e10=30.0, e11=60.0, e12=2.0, w10=20.0, w12=60.0)
    tolls = road(e10=0.0, e11=50.0, e12=8.0, w10=7.0, w12=0.0)
    slow = 60 / model.SLOWEST
    assert model.journey(speeds, tolls, 0, 10, 12) == pytest.approx((2 + 1 + slow, 58))
    free = 60 / model.FREE_SPEED
    assert model.journey(speeds, tolls, 0, 12, 10) == pytest.approx((3 + free + 1, 7))
    assert model.journey(speeds, tolls, 0, 11, 11) == pytest.approx((1, 50))
    both = np.concatenate([road(), speeds]), np.concatenate([road(), tolls])
    assert model.journey(both[0], both[1], 1, 10, 11) == pytest.approx((3, 50))
