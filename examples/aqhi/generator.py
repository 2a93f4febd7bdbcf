"""Seeded input: three smooth fields of pollution that drift over the city."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

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


class Weather(Struct, frozen=True):
    """How the fields behave from one wave to the next."""

    periods: tuple[float, float]
    """Waves of input (hours) that a ripple takes to move by its own wavelength: from, to."""
    noise: float
    """Standard deviation of what a sensor adds to the field each time that it reports, in units."""


DRIFTING = Weather(periods=(36.0, 120.0), noise=0.0)
"""Hills of pollution cross the city within days; the sensors are exact."""

CALM = Weather(periods=(720.0, 2400.0), noise=1.5)
"""Hills of pollution hardly move in a week; the sensors are as good as real ones.

Chosen so that step F runs about as often as the paper says: see ``evaluation.Choices``.
"""


class Trend(StrEnum):
    """The fields' tendency over time (the paper's three)."""

    INCREASING = "increasing"
    DECREASING = "decreasing"
    UNIFORM = "uniform"


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


def generate(
    grid: Grid, waves: int, seed: int, trend: Trend, weather: Weather = DRIFTING
) -> Iterator[Readings]:
    """Yield ``waves`` waves, the same for the same arguments.

    Each sensor follows its own sum of plane waves, smooth over the city and drifting, plus the
    trend and its noise, cut off at 0 and 100. In the first wave every detector reports. In every
    later one the fraction of detectors that perceive a change is drawn from U(0, 1), and that many
    report, chosen at random; the others keep their last reading.

    Args:
        grid: where the detectors stand.
        waves: how many waves, and the time over which the trend acts.
        seed: of all random choices.
        trend: the tendency of all three fields.
        weather: how fast they drift, and how noisy the sensors are.
    """
    random = np.random.default_rng(seed)
    noise = random.spawn(1)[0]
    fields = [_field(random, weather.periods) for _ in SENSORS]
    x, y = grid.positions()
    slope = {Trend.INCREASING: _TREND, Trend.DECREASING: -_TREND, Trend.UNIFORM: 0.0}[trend]
    for wave in range(waves):
        elapsed = wave / max(waves - 1, 1) - 0.5
        everywhere = np.stack(
            [_MEAN + slope * elapsed + _SWING * field.at(x, y, wave) for field in fields], axis=-1
        ).reshape(grid.detectors, len(SENSORS))
        count = grid.detectors if wave == 0 else max(1, round(random.uniform() * grid.detectors))
        detectors = np.sort(random.choice(grid.detectors, count, replace=False))
        exact = everywhere[detectors]
        noisy = exact + weather.noise * noise.standard_normal(exact.shape)
        readings = np.round(np.clip(noisy, 0, 100) / RESOLUTION) * RESOLUTION
        yield Readings(f"wave {wave + 1}", detectors, readings)
