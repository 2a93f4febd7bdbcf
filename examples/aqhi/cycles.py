"""Daily and weekly cycles of a city's mean concentrations, in which no day repeats another.

"A wave, corresponding to an hour of the day, for a total of 168 waves for a full week simulated"
(SmartFlux, section 5, AQHI); the paper leaves the generating functions open, these are ours.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

DAY = 24
"""Waves in a day: a wave is an hour. The first is that of a Monday's midnight."""

WEEK = 7 * DAY
"""Waves in a week."""

_SLOW = 12.0
_QUICK = 3.0
"""Hours on either side of midnight in which one day's value passes into the next one's: the
weather changes from noon to noon, traffic within the night."""

_BEFORE = 1
"""Days before the first, whose values still count in its morning."""

_STREAM = 1
"""Of a seed: what the days draw by numbers of their own."""


class Peak(Struct, frozen=True):
    """A bell over the hours of the day, 24 hours long in all."""

    hour: float
    """At which it is highest, 0 to 24."""
    width: float
    """Standard deviation in hours."""
    height: float
    """Units on a mean working day."""

    def at(self, hour: float) -> float:
        """Return its units at an hour of the day."""
        apart = (hour - self.hour + DAY / 2) % DAY - DAY / 2
        return self.height * math.exp(-0.5 * (apart / self.width) ** 2)


class DailyProfile(Struct, frozen=True):
    """The course of one sensor's city mean over a day, and how days differ from one another."""

    base: float
    """Units without any peak, in the mean day."""
    peaks: tuple[Peak, ...]
    weekend: tuple[float, float]
    """Factors of the peaks on Saturday and on Sunday."""
    strength: float
    """Standard deviation of the logarithm of a day's own factor of the peaks."""
    level: float
    """Standard deviation of what a day adds to the base, in units."""


class WeeklyCycle(Struct, frozen=True):
    """The sensors' profiles, and how much a day is like the one before."""

    profiles: tuple[DailyProfile, ...]
    """Of each sensor, in the order of ``SENSORS``."""
    memory: float
    """Correlation of a day's factor and level with those of the day before, -1 to 1."""


class CityMeans:
    """The city's mean concentrations in each wave, the same for the same arguments.

    Each sensor's factor and level follow an autoregressive process of the first order from day to
    day: z(d) = ρ z(d-1) + √(1-ρ²) e(d), of variance 1, with e(d) from N(0, 1).

    Args:
        cycle: what they follow.
        waves: how many there are at least; more give the same means.
        seed: of the days.
    """

    def __init__(self, cycle: WeeklyCycle, waves: int, seed: int) -> None:
        self._cycle = cycle
        days = _BEFORE + math.ceil(waves / DAY) + 1
        random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
        news = random.standard_normal((days, len(cycle.profiles), 2))
        self._states = news.copy()
        """z by day from the one before the first, sensor, and factor or level."""
        for day in range(1, days):
            kept = cycle.memory * self._states[day - 1]
            self._states[day] = kept + math.sqrt(1 - cycle.memory**2) * news[day]

    def at(self, wave: int) -> NDArray[np.float64]:
        """Return the means in a wave (from 0) in units, not cut off; shape (sensors,)."""
        midnight = (wave + DAY // 2) // DAY
        hour, past = wave % DAY, wave - midnight * DAY
        air, cars = _passed(past, _SLOW), _passed(past, _QUICK)
        last = midnight - 1
        day, next_day = self._states[last + _BEFORE], self._states[last + _BEFORE + 1]
        means = []
        for sensor, profile in enumerate(self._cycle.profiles):
            factor, level = (1 - air) * day[sensor] + air * next_day[sensor]
            strength = math.exp(profile.strength * factor)
            strength *= (1 - cars) * _working(profile, last) + cars * _working(profile, last + 1)
            peaks = sum(peak.at(hour) for peak in profile.peaks)
            means.append(profile.base + profile.level * level + strength * peaks)
        return np.array(means)


def _passed(past: int, around: float) -> float:
    """Return how far one day's value has become the next one's, 0 to 1.

    Args:
        past: hours since the nearest midnight; negative before it.
        around: on either side of midnight, the hours in which it does.
    """
    return min(max((past + around) / (2 * around), 0.0), 1.0)


def _working(profile: DailyProfile, day: int) -> float:
    """Return the factor of the peaks on a day, by its day of the week."""
    return (1.0, 1.0, 1.0, 1.0, 1.0, *profile.weekend)[day % 7]


_OZONE = DailyProfile(
    base=26.0,
    peaks=(Peak(hour=15.0, width=3.2, height=52.0),),
    weekend=(1.1, 1.15),
    strength=0.25,
    level=4.0,
)
"""What the sun makes; more of it where fewer cars take it away."""

_PARTICLES = DailyProfile(
    base=40.0,
    peaks=(Peak(hour=8.0, width=3.0, height=12.0), Peak(hour=21.5, width=4.5, height=18.0)),
    weekend=(0.9, 0.85),
    strength=0.25,
    level=10.0,
)
"""What was there yesterday, and a little of the morning's traffic and of the evening's stoves."""

_NITROGEN_DIOXIDE = DailyProfile(
    base=26.0,
    peaks=(Peak(hour=8.0, width=2.0, height=58.0), Peak(hour=18.5, width=2.6, height=63.0)),
    weekend=(0.55, 0.4),
    strength=0.22,
    level=4.0,
)
"""Two rush hours, small ones at the week's end."""

CITY_WEEK = WeeklyCycle(profiles=(_OZONE, _PARTICLES, _NITROGEN_DIOXIDE), memory=0.6)
"""The week of ``generator.WEEKLY``."""
