"""Seeded input: three smooth fields of pollution that drift over the city.

A seed gives the same bits on every machine: the last bit of a machine's cosine is rounded away with
what is finer than :data:`RESOLUTION`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from aqhi.cycles import CITY_WEEK, CityMeans, WeeklyCycle
from aqhi.grid import Grid
from aqhi.model import SENSORS
from aqhi.readings import RESOLUTION, Readings

_RIPPLES = 4
"""Plane waves that add up to one field."""

_WAVELENGTHS = (70.0, 160.0)
"""Units: hills of pollution are tens of units wide, so neighbours read nearly the same."""

_MEAN = 52.0
_SWING = 13.0
"""The fields' mean and standard deviation in units."""

_TREND = 12.0
"""Units that a trend moves the mean by over all waves, half before and half after the middle."""

_STREAM = 2
"""Of a seed: what single waves draw by numbers of their own."""


class Weather(Struct, frozen=True):
    """How the fields behave from one wave to the next."""

    periods: tuple[float, float]
    """Waves of input (hours) that a ripple takes to move by its own wavelength: from, to."""
    noise: float
    """Standard deviation of what a sensor adds to the field each time that it reports, in units."""
    swing: float = _SWING
    """Standard deviation of the field over the city, in units."""
    cycle: WeeklyCycle | None = None
    """What the city's means follow over the hours; without it, they stay."""


DRIFTING = Weather(periods=(36.0, 120.0), noise=0.0)
"""Hills of pollution cross the city within days; the sensors are exact."""

CALM = Weather(periods=(720.0, 2400.0), noise=1.5)
"""Hills of pollution hardly move in a week; the sensors are as good as real ones.

Chosen so that step F runs about as often as the paper says: see ``evaluation.Choices``.
"""

WEEKLY = Weather(periods=(18.0, 60.0), noise=2.0, swing=12.0, cycle=CITY_WEEK)
"""Every hour of the week has its own concentrations and every day its own strength; hills of
pollution cross the city in a day or two, and cheap sensors are noisy.

Fitted so that step B's output changes by 5 to 6 % in the median wave, by SmartFlux's error (3):
"the error variation, from wave to wave, was most of the time above 5% for the first 2 steps"
(section 5, AQHI).
"""

WEATHERS = {"drifting": DRIFTING, "calm": CALM, "weekly": WEEKLY}
"""All of them, as people call them."""


class Trend(StrEnum):
    """The fields' tendency over time (the paper's three)."""

    INCREASING = "increasing"
    DECREASING = "decreasing"
    UNIFORM = "uniform"


_SLOPES = {Trend.INCREASING: _TREND, Trend.DECREASING: -_TREND, Trend.UNIFORM: 0.0}


class _Field(Struct, frozen=True):
    """One sensor's generating function."""

    vectors: NDArray[np.float64]
    phases: NDArray[np.float64]
    speeds: NDArray[np.float64]

    def at(
        self, x: NDArray[np.float64], y: NDArray[np.float64], time: float
    ) -> NDArray[np.float64]:
        """Return the field without its trend; mean 0, standard deviation about 1."""
        angle = (
            self.vectors[:, 0, None, None] * x
            + self.vectors[:, 1, None, None] * y
            + (self.phases - self.speeds * time)[:, None, None]
        )
        result: NDArray[np.float64] = np.cos(angle).sum(axis=0) / np.sqrt(len(self.phases) / 2)
        return result


def _field(random: np.random.Generator, periods: tuple[float, float]) -> _Field:
    turn = 2 * np.pi
    lengths = random.uniform(*_WAVELENGTHS, _RIPPLES)
    directions = random.uniform(0, turn, _RIPPLES)
    vectors = (turn / lengths)[:, None] * np.stack([np.cos(directions), np.sin(directions)], axis=1)
    speeds = turn / random.uniform(*periods, _RIPPLES)
    return _Field(vectors, random.uniform(0, turn, _RIPPLES), speeds)


class _City:
    """The fields of one seed, and what the detectors read of them.

    Args: those of :func:`generate`.
    """

    def __init__(self, grid: Grid, waves: int, seed: int, trend: Trend, weather: Weather) -> None:
        self.random = np.random.default_rng(seed)
        self.noise = self.random.spawn(1)[0]
        self._fields = [_field(self.random, weather.periods) for _ in SENSORS]
        self._means = None if weather.cycle is None else CityMeans(weather.cycle, waves, seed)
        self._detectors = grid.detectors
        self._positions = grid.positions()
        self._waves = waves
        self._slope = _SLOPES[trend]
        self._weather = weather

    def readings(
        self, wave: int, random: np.random.Generator, noise: np.random.Generator
    ) -> Readings:
        """Return what is read in a wave (from 0), by generators of who reports and of the noise."""
        x, y = self._positions
        moved = self._slope * (wave / max(self._waves - 1, 1) - 0.5)
        means = [_MEAN] * len(SENSORS) if self._means is None else self._means.at(wave)
        everywhere = np.stack(
            [
                mean + moved + self._weather.swing * field.at(x, y, wave)
                for mean, field in zip(means, self._fields, strict=True)
            ],
            axis=-1,
        ).reshape(self._detectors, len(SENSORS))
        every = self._detectors
        count = every if wave == 0 else max(1, round(random.uniform() * every))
        detectors = np.sort(random.choice(every, count, replace=False))
        exact = everywhere[detectors]
        noisy = exact + self._weather.noise * noise.standard_normal(exact.shape)
        readings = np.round(np.clip(noisy, 0, 100) / RESOLUTION) * RESOLUTION
        return Readings(f"wave {wave + 1}", detectors, readings)


def generate(
    grid: Grid, waves: int, seed: int, trend: Trend, weather: Weather = DRIFTING
) -> Iterator[Readings]:
    """Yield ``waves`` waves, the same for the same arguments.

    Each sensor follows its own sum of plane waves, smooth over the city and drifting, plus the
    city's mean, the trend and its noise, cut off at 0 and 100. In the first wave every detector
    reports. In every later one the fraction of detectors that perceive a change is drawn from
    U(0, 1), and that many report, chosen at random; the others keep their last reading.

    Args:
        grid: where the detectors stand.
        waves: how many waves, and the time over which the trend acts.
        seed: of all random choices.
        trend: the tendency of all three fields.
        weather: how fast they drift, how noisy the sensors are, and what the means follow.
    """
    city = _City(grid, waves, seed, trend, weather)
    for wave in range(waves):
        if weather.cycle is None:
            yield city.readings(wave, city.random, city.noise)
        else:
            yield city.readings(wave, *_generators(seed, wave))


def generate_one(
    grid: Grid, wave: int, waves: int, seed: int, trend: Trend, weather: Weather = WEEKLY
) -> Readings:
    """Return one wave (from 0) of those that :func:`generate` yields, without those before it.

    Args:
        grid: where the detectors stand.
        wave: which one.
        waves: how many :func:`generate` would yield.
        seed: of all random choices.
        trend: the tendency of all three fields.
        weather: one with a cycle.

    Raises:
        ValueError: there is no such wave, or the weather has no cycle.
    """
    if not 0 <= wave < waves:
        raise ValueError(f"wave {wave} is none of {waves}: they are counted from 0")
    if weather.cycle is None:
        raise ValueError(
            "without a cycle, who reports in a wave hangs on all waves before: use generate()"
        )
    return _City(grid, waves, seed, trend, weather).readings(wave, *_generators(seed, wave))


def _generators(seed: int, wave: int) -> tuple[np.random.Generator, np.random.Generator]:
    """Return those of who reports in a wave, and of its noise."""
    key = np.random.SeedSequence(seed, spawn_key=(_STREAM, wave))
    reporting, noise = key.spawn(2)
    return np.random.default_rng(reporting), np.random.default_rng(noise)
