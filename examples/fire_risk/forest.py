"""What a forest's sensors and a satellite see, hour by hour.

A square of sensors stands in the weather of one station. It is warmer on one slope and windier on
another, always by as much; the sensor in the middle sees the station's own weather. In some hour an
area catches fire and the area beside it follows; earlier, one sensor has only a fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fire_risk.weather import Hour

AREA = 3
"""Sensors along each side of an area."""

FIRE_DEGREES = 70.0
"""By how much fire warms a sensor, and by how much the faulty one is wrong."""

_FAULT, _FIRE = (0.25, 0.4), (0.5, 0.85)
"""From and to which part of the hours."""
_SPREAD_HOURS = 2

_PIXELS = 64
_COLD, _BURNING = (285, 305), (400, 700)
"""Kelvin."""
_BURNING_SHARE = 0.3

Puts = list[tuple[bytes, dict[bytes, bytes]]]


class ForestHour(Struct, frozen=True):
    """What is written to HBase in one hour."""

    label: str
    sensors: Puts
    satellite: Puts


class Forest:
    """A forest of ``side`` × ``side`` sensors, the same for the same seed.

    Args:
        side: sensors along each side, a multiple of :data:`AREA`.
        seed: of its slopes, of where it burns, and of the satellite's pictures.
    """

    def __init__(self, side: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        self._side = side
        self._warmer, self._windier, self._wetter = (self._slope(random) for _ in range(3))
        areas = side // AREA
        self._fire, self._fault = random.choice(areas * areas, 2, replace=False)
        self._next = self._fire + (1 if (self._fire + 1) % areas else -1)
        if self._fault == self._next:
            self._fault = (self._fault + areas) % (areas * areas)
        self._pictures = [
            (_picture(random, burning=False), _picture(random, burning=True))
            for _ in range(areas * areas)
        ]

    @property
    def station(self) -> bytes:
        """Key of the sensor that sees the station's own weather."""
        return cell_key(self._side // 2, self._side // 2)

    @property
    def areas(self) -> int:
        """How many."""
        return len(self._pictures)

    def hours(self, season: Sequence[Hour]) -> Iterator[ForestHour]:
        """Yield what is measured in each hour."""
        for number, hour in enumerate(season):
            passed = number / len(season)
            burning = set()
            if _FIRE[0] <= passed < _FIRE[1]:
                burning.add(self._fire)
                if number - _SPREAD_HOURS >= _FIRE[0] * len(season):
                    burning.add(self._next)
            faulty = _FAULT[0] <= passed < _FAULT[1]
            yield ForestHour(
                hour.label,
                self._measured(number, hour, burning, faulty=faulty),
                self._seen(burning),
            )

    def _slope(self, random: np.random.Generator) -> NDArray[np.float64]:
        """Return a smooth surface from about -1 to 1 that is 0 in the middle."""
        y, x = np.mgrid[: self._side, : self._side] / self._side
        waves = [
            np.cos(2 * np.pi * (y * vector[0] + x * vector[1]) + phase)
            for vector, phase in zip(
                random.uniform(-1, 1, (3, 2)), random.uniform(0, 2 * np.pi, 3), strict=True
            )
        ]
        surface = np.mean(waves, axis=0)
        result: NDArray[np.float64] = surface - surface[self._side // 2, self._side // 2]
        return result

    def _measured(self, number: int, hour: Hour, burning: set[int], *, faulty: bool) -> Puts:
        heat = np.zeros((self._side, self._side))
        for area in burning:
            heat[self._square(area)] = FIRE_DEGREES
        if faulty:
            rows, columns = self._square(self._fault)
            heat[rows.start + 1, columns.start + 1] = FIRE_DEGREES
        measured = {
            "hour": np.full_like(heat, number),
            "temperature": hour.temperature + 3 * self._warmer + heat,
            "humidity": np.clip(hour.humidity - 8 * self._warmer, 1, 100),
            "wind": hour.wind * np.exp(0.3 * self._windier),
            "rain": hour.rain * np.exp(0.3 * self._wetter),
            "daylight": np.full_like(heat, hour.daylight),
        }
        return [
            (
                cell_key(y, x),
                {
                    b"s:%s" % name.encode(): b"%.6g" % square[y, x]
                    for name, square in measured.items()
                },
            )
            for y in range(self._side)
            for x in range(self._side)
        ]

    def _seen(self, burning: set[int]) -> Puts:
        areas = self._side // AREA
        return [
            (cell_key(*divmod(area, areas)), {b"s:image": pictures[area in burning]})
            for area, pictures in enumerate(self._pictures)
        ]

    def _square(self, area: int) -> tuple[slice, slice]:
        y, x = divmod(int(area), self._side // AREA)
        return slice(y * AREA, (y + 1) * AREA), slice(x * AREA, (x + 1) * AREA)


def cell_key(y: int, x: int) -> bytes:
    """Return the key of a sensor or an area: its row and column from the south-west."""
    return b"r%03dc%03d" % (y, x)


def _picture(random: np.random.Generator, *, burning: bool) -> bytes:
    """Return the temperatures of an area's pixels in kelvin, as a JSON array."""
    kelvin = random.integers(*_COLD, _PIXELS)
    if burning:
        hot = random.uniform(size=_PIXELS) < _BURNING_SHARE
        kelvin = np.where(hot, random.integers(*_BURNING, _PIXELS), kelvin)
    return json.dumps(kelvin.tolist()).encode()
