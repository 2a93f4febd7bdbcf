"""Daily and weekly cycles of a city's means."""

from itertools import combinations

import msgspec
import numpy as np
import pytest
from aqhi.cycles import CITY_WEEK, DAY, WEEK, CityMeans, Peak, WeeklyCycle
from aqhi.model import SENSORS

DAYS = 56
O3, PM25, NO2 = range(3)
MORNING, AFTERNOON, EVENING = 8, 15, 18


def means(cycle=CITY_WEEK, days=DAYS, seed=1):
    """By day, hour and sensor."""
    city = CityMeans(cycle, days * DAY, seed)
    return np.array([city.at(wave) for wave in range(days * DAY)]).reshape(days, DAY, -1)


def varied(strength, level, memory=CITY_WEEK.memory):
    """A cycle whose days differ by so much in their factors and levels."""
    profiles = tuple(
        msgspec.structs.replace(profile, strength=strength, level=level)
        for profile in CITY_WEEK.profiles
    )
    return WeeklyCycle(profiles, memory)


@pytest.fixture(scope="module")
def typical():
    """One week without differences from day to day, by day, hour and sensor."""
    return means(varied(0.0, 0.0), 7)


def highest(hours):
    """The hours that are higher than those before and after."""
    later, earlier = np.roll(hours, -1), np.roll(hours, 1)
    return np.flatnonzero((hours > later) & (hours > earlier)).tolist()


def test_there_is_a_profile_for_every_sensor():
    assert len(CITY_WEEK.profiles) == len(SENSORS)


def test_a_peak_reaches_over_midnight():
    peak = Peak(hour=23.0, width=2.0, height=10.0)
    assert peak.at(23.0) == 10.0
    assert peak.at(1.0) == peak.at(21.0) == pytest.approx(10.0 * np.exp(-0.5))


def test_ozone_follows_the_sun(typical):
    for day in typical[:, :, O3]:
        assert highest(day) == [AFTERNOON]
        assert day[AFTERNOON] > 2 * day[0]


def test_nitrogen_dioxide_has_two_rush_hours(typical):
    for day in typical[:5, :, NO2]:
        morning, evening = highest(day)
        assert (morning, evening) == (MORNING, EVENING)
        assert min(day[morning], day[evening]) > 1.5 * day[13]


def test_particles_are_the_slowest(typical):
    fastest = np.abs(np.diff(typical.reshape(WEEK, 3), axis=0)).max(axis=0)
    assert 2 * fastest[PM25] < min(fastest[O3], fastest[NO2])


def test_the_weekend_has_less_traffic_and_more_ozone(typical):
    working, saturday, sunday = typical[2], typical[5], typical[6]
    for hour in (MORNING, EVENING):
        assert sunday[hour, NO2] < saturday[hour, NO2] < 0.8 * working[hour, NO2]
    assert sunday[AFTERNOON, O3] > saturday[AFTERNOON, O3] > working[AFTERNOON, O3]


def test_working_days_are_alike_and_weeks_repeat_where_nothing_differs(typical):
    assert typical[1:4] == pytest.approx(np.broadcast_to(typical[2], (3, DAY, 3)))
    two = means(varied(0.0, 0.0), 14)
    assert (two[1:7] == two[8:]).all()


def test_days_pass_into_one_another_without_a_jump():
    course = means(varied(0.0, 10.0)).reshape(-1, 3)
    within = np.abs(np.diff(means(varied(0.0, 0.0)).reshape(-1, 3), axis=0)).max(axis=0)
    at_midnight = np.abs(course[DAY::DAY] - course[DAY - 1 : -1 : DAY])
    assert (at_midnight.max(axis=0) < within + 10.0 * 4 / DAY).all()


def test_no_day_repeats_another():
    days = means()
    for one, other in combinations(range(DAYS), 2):
        apart = np.abs(days[one] - days[other]).max(axis=0)
        assert (apart > 0.1).all(), (one, other)


def noons(cycle, days):
    """By day and sensor."""
    city = CityMeans(cycle, days * DAY, 1)
    return np.array([city.at(day * DAY + DAY // 2) for day in range(days)])


@pytest.mark.parametrize("memory", [0.0, 0.6, 0.9])
def test_a_days_level_hangs_on_the_day_before_as_much_as_the_memory_says(memory):
    level = noons(varied(0.0, 10.0, memory), 4_200) - noons(varied(0.0, 0.0), 4_200)
    assert level.std() == pytest.approx(10.0, rel=0.1)
    for lag in (1, 2):
        by_sensor = [np.corrcoef(level[lag:, s], level[:-lag, s])[0, 1] for s in range(3)]
        assert by_sensor == pytest.approx([memory**lag] * 3, abs=0.06)
    across = np.corrcoef(level.T)[np.triu_indices(3, 1)]
    assert across == pytest.approx([0.0] * 3, abs=0.12)


def test_a_days_factor_is_that_of_its_peaks_alone():
    bases = np.array([profile.base for profile in CITY_WEEK.profiles])
    strong = noons(varied(0.5, 0.0), 2_100) - bases
    usual = noons(varied(0.0, 0.0), 2_100) - bases
    factors = np.log(strong / usual)
    assert factors.std() == pytest.approx(0.5, rel=0.1)
    assert factors.mean() == pytest.approx(0.0, abs=0.05)


def test_the_same_seed_gives_the_same_means_however_many_waves_there_are():
    few, many = CityMeans(CITY_WEEK, 30, 3), CityMeans(CITY_WEEK, 5_000, 3)
    assert all((few.at(wave) == many.at(wave)).all() for wave in range(30))
    assert (CityMeans(CITY_WEEK, 30, 4).at(12) != few.at(12)).all()
