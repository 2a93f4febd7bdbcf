"""Waves of readings that are drawn by a seed."""

import msgspec
import numpy as np
import pytest
from aqhi.cycles import DAY, WEEK
from aqhi.generator import (
    CALM,
    DRIFTING,
    WEATHERS,
    WEEKLY,
    Trend,
    generate,
    generate_one,
)
from aqhi.grid import Grid

WAVES = 40
O3, PM25, NO2 = range(3)
every_weather = pytest.mark.parametrize("weather", WEATHERS.values(), ids=WEATHERS)


def run(seed=1, trend=Trend.UNIFORM, side=20, waves=WAVES, weather=DRIFTING):
    return list(generate(Grid(side), waves, seed, trend, weather))


def same(one, other):
    return (
        one.label == other.label
        and np.array_equal(one.detectors, other.detectors)
        and np.array_equal(one.values, other.values)
    )


@every_weather
def test_the_same_seed_gives_the_same_waves(weather):
    waves = zip(run(weather=weather), run(weather=weather), strict=True)
    assert all(same(one, other) for one, other in waves)


@pytest.mark.parametrize(
    ("name", "reporting", "tenths"),
    [
        ("drifting", [16, 2, 1, 10], [[621, 581, 484], [440, 701, 709]]),
        ("calm", [16, 2, 1, 10], [[620, 571, 489], [470, 680, 723]]),
        ("weekly", [16, 16, 4, 14], [[355, 568, 185], [227, 359, 207]]),
    ],
)
def test_a_seed_gives_the_same_bits_on_every_machine(name, reporting, tenths):
    waves = run(seed=11, side=4, waves=4, weather=WEATHERS[name])
    assert [len(wave.detectors) for wave in waves] == reporting
    ends = np.array([waves[0].values[0], waves[-1].values[-1]])
    assert np.rint(10 * ends).tolist() == tenths
    assert (ends == np.rint(10 * ends) * 0.1).all()


@every_weather
def test_another_seed_gives_other_waves(weather):
    one, other = run(seed=1, weather=weather)[0], run(seed=2, weather=weather)[0]
    assert (one.values != other.values).mean() > 0.9


@pytest.mark.parametrize("trend", list(Trend))
@every_weather
def test_readings_lie_between_0_and_100_in_steps_of_a_tenth(trend, weather):
    for wave in run(trend=trend, weather=weather):
        assert wave.values.shape == (len(wave.detectors), 3)
        assert wave.values.min() >= 0
        assert wave.values.max() <= 100
        assert np.abs(wave.values * 10 - np.round(wave.values * 10)).max() < 1e-9


@every_weather
def test_every_detector_reports_in_the_first_wave_and_none_twice_in_any(weather):
    waves = run(weather=weather)
    assert waves[0].detectors.tolist() == list(range(400))
    for wave in waves:
        assert len(set(wave.detectors.tolist())) == len(wave.detectors) > 0


@pytest.mark.parametrize("weather", [DRIFTING, WEEKLY], ids=["in order", "each on its own"])
def test_the_fraction_that_changes_is_spread_evenly_from_0_to_1(weather):
    fractions = [len(wave.detectors) / 400 for wave in run(waves=400, weather=weather)[1:]]
    assert np.mean(fractions) == pytest.approx(0.5, abs=0.05)
    assert np.quantile(fractions, [0.1, 0.9]) == pytest.approx([0.1, 0.9], abs=0.06)


@pytest.mark.parametrize(
    ("trend", "sign"), [(Trend.INCREASING, 1), (Trend.DECREASING, -1), (Trend.UNIFORM, 0)]
)
def test_the_trend_moves_all_readings_and_nothing_else_does(trend, sign):
    for one, other in zip(run(trend=trend), run(), strict=True):
        assert (one.detectors == other.detectors).all()
    first, last = run(trend=trend)[0], run(trend=trend)[-1]
    flat_first, flat_last = run()[0], run()[-1]
    moved = (last.values - flat_last.values).mean() - (first.values - flat_first.values).mean()
    assert np.sign(round(float(moved), 3)) == sign


@pytest.mark.parametrize("weather", [CALM, WEEKLY], ids=["calm", "weekly"])
def test_noise_changes_what_is_read_and_not_who_reports(weather):
    noisy = run(weather=weather)
    still = run(weather=msgspec.structs.replace(weather, noise=0.0))
    for one, other in zip(noisy, still, strict=True):
        assert (one.detectors == other.detectors).all()
    apart = np.concatenate(
        [(o.values - s.values).ravel() for o, s in zip(noisy, still, strict=True)]
    )
    assert apart.std() == pytest.approx(weather.noise, rel=0.05)
    assert apart.mean() == pytest.approx(0, abs=0.05)


def test_the_weather_sets_how_fast_the_fields_move():
    still = msgspec.structs.replace(CALM, noise=0.0)

    def moved(weather):
        waves = list(generate(Grid(20), 2, 1, Trend.UNIFORM, weather))
        before = waves[0].values[waves[1].detectors]
        return np.abs(waves[1].values - before).mean()

    assert moved(DRIFTING) > 5 * moved(still)


def test_neighbours_read_nearly_the_same():
    city = run(side=50)[0].values.reshape(50, 50, 3)
    assert np.abs(np.diff(city, axis=0)).max() < 5
    assert np.abs(np.diff(city, axis=1)).max() < 5


def test_a_wave_of_a_week_is_made_without_those_before_it():
    grid = Grid(10)
    waves = run(seed=4, trend=Trend.INCREASING, side=10, waves=60, weather=WEEKLY)
    for wave in (59, 0, 31, 30):
        assert same(generate_one(grid, wave, 60, 4, Trend.INCREASING), waves[wave])


def test_more_waves_of_a_week_begin_with_the_same():
    few, many = run(waves=30, weather=WEEKLY), run(waves=60, weather=WEEKLY)
    assert all(same(one, other) for one, other in zip(few, many, strict=False))


@pytest.mark.parametrize("wave", [-1, 10])
def test_a_wave_that_is_not_there_is_refused(wave):
    with pytest.raises(ValueError, match=rf"wave {wave} is none of 10: they are counted from 0"):
        generate_one(Grid(5), wave, 10, 1, Trend.UNIFORM)


def test_a_wave_on_its_own_is_refused_where_it_hangs_on_those_before():
    with pytest.raises(ValueError, match=r"hangs on all waves before: use generate\(\)"):
        generate_one(Grid(5), 3, 10, 1, Trend.UNIFORM, CALM)


@pytest.fixture(scope="module", params=[1, 2, 3])
def city(request):
    """Means of what detectors read over five weeks: by week, day, hour and sensor."""
    waves = run(seed=request.param, side=8, waves=5 * WEEK, weather=WEEKLY)
    return np.array([wave.values.mean(axis=0) for wave in waves]).reshape(5, 7, DAY, 3)


def test_a_working_days_hours_differ_by_sun_and_traffic(city):
    day = city[:, :5].mean(axis=(0, 1))
    assert 13 <= day[:, O3].argmax() <= 17
    assert day[15, O3] > day[3, O3] + 30
    for rush in (8, 18):
        assert day[rush, NO2] > day[13, NO2] + 20
        assert day[rush, NO2] > day[3, NO2] + 30
    assert np.ptp(day[:, PM25]) < 0.7 * min(np.ptp(day[:, O3]), np.ptp(day[:, NO2]))


def test_rush_hours_of_a_weekend_are_smaller(city):
    rush = city[:, :, (8, 18), NO2].mean(axis=(0, 2))
    assert rush[5:].max() < rush[:5].min() - 5


def test_no_day_of_the_same_name_repeats(city):
    for week in range(1, 5):
        assert (np.abs(city[week] - city[week - 1]).mean(axis=1) > 1.0).all()


def test_hills_stand_over_the_city_and_drift():
    still = msgspec.structs.replace(WEEKLY, noise=0.0)

    def hills(wave):
        everywhere = generate_one(Grid(20), 0, 1, 1, Trend.UNIFORM, still).values
        later = generate_one(Grid(20), wave, 100, 1, Trend.UNIFORM, still)
        there = everywhere[later.detectors] - everywhere[later.detectors].mean(axis=0)
        now = later.values - later.values.mean(axis=0)
        return [np.corrcoef(there[:, s], now[:, s])[0, 1] for s in range(3)]

    assert min(hills(1)) > 0.8
    assert np.mean(hills(24)) < 0.6


def test_a_put_holds_the_three_columns_of_a_detector_as_text():
    grid = Grid(3)
    puts = dict(run(side=3)[0].puts(grid))
    assert list(puts) == grid.rows()
    for cells in puts.values():
        assert set(cells) == {b"s:o3", b"s:pm25", b"s:no2"}
        assert all(0 <= float(value) <= 100 for value in cells.values())
