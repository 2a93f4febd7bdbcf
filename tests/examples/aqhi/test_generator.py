"""Waves of readings that are drawn by a seed."""

import msgspec
import numpy as np
import pytest
from aqhi.generator import CALM, DRIFTING, Trend, generate
from aqhi.grid import Grid

WAVES = 40


def run(seed=1, trend=Trend.UNIFORM, side=20, waves=WAVES):
    return list(generate(Grid(side), waves, seed, trend))


def test_the_same_seed_gives_the_same_waves():
    for one, other in zip(run(), run(), strict=True):
        assert one.label == other.label
        assert (one.detectors == other.detectors).all()
        assert (one.values == other.values).all()


def test_another_seed_gives_other_waves():
    assert not np.array_equal(run(seed=1)[0].values, run(seed=2)[0].values)


@pytest.mark.parametrize("trend", list(Trend))
def test_readings_lie_between_0_and_100_in_steps_of_a_tenth(trend):
    for wave in run(trend=trend):
        assert wave.values.shape == (len(wave.detectors), 3)
        assert wave.values.min() >= 0
        assert wave.values.max() <= 100
        assert np.abs(wave.values * 10 - np.round(wave.values * 10)).max() < 1e-9


def test_every_detector_reports_in_the_first_wave_and_none_twice_in_any():
    waves = run()
    assert waves[0].detectors.tolist() == list(range(400))
    for wave in waves:
        assert len(set(wave.detectors.tolist())) == len(wave.detectors) > 0


def test_the_fraction_that_changes_is_spread_evenly_from_0_to_1():
    fractions = [len(wave.detectors) / 400 for wave in run(waves=400)[1:]]
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


def test_noise_changes_what_is_read_and_not_who_reports():
    noisy = list(generate(Grid(20), WAVES, 1, Trend.UNIFORM, CALM))
    still = list(
        generate(Grid(20), WAVES, 1, Trend.UNIFORM, msgspec.structs.replace(CALM, noise=0.0))
    )
    for one, other in zip(noisy, still, strict=True):
        assert (one.detectors == other.detectors).all()
    apart = np.concatenate(
        [(o.values - s.values).ravel() for o, s in zip(noisy, still, strict=True)]
    )
    assert apart.std() == pytest.approx(CALM.noise, rel=0.05)
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


def test_a_put_holds_the_three_columns_of_a_detector_as_text():
    grid = Grid(3)
    puts = dict(run(side=3)[0].puts(grid))
    assert list(puts) == grid.rows()
    for cells in puts.values():
        assert set(cells) == {b"s:o3", b"s:pm25", b"s:no2"}
        assert all(0 <= float(value) <= 100 for value in cells.values())
