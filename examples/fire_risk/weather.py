"""The hours of a fire season: a seeded generator's, or those of a recorded one.

The record is the sample of the FWI System's authors: one station's hourly weather, gzipped CSV,
with the moisture codes and indices that are to be computed from it.
"""

from __future__ import annotations

import csv
import gzip
from datetime import datetime
from pathlib import Path

import numpy as np
from msgspec import Struct

FIRST_HOUR = 8
"""Time of day at which a generated season begins, as the record does."""

_DAY = 24
_SUNRISE, _SUNSET = 6, 20
_MEAN, _SWING = 22.0, 8.0
"""Degrees: the mean of a day, and by how much an afternoon is warmer."""
_WARMEST = 16
"""Time of day."""
_SHOWERS = 0.02
"""Share of the hours in which a shower falls."""


class WeatherDataError(Exception):
    """The file is not the record of a season, or does not have the hours that were asked for."""


class Hour(Struct, frozen=True):
    """The weather of one hour at the station, and what the record says about the forest's floor."""

    label: str
    """What people call it."""
    temperature: float
    """Degrees Celsius."""
    humidity: float
    """Relative, in per cent."""
    wind: float
    """Kilometres per hour."""
    rain: float
    """Millimetres."""
    daylight: float
    """1 between sunrise and sunset, else 0."""
    codes: dict[str, float] | None = None
    """Of the station at the end of the hour, by the names of ``fwi.CODES``, where recorded."""


def generated(hours: int, seed: int) -> list[Hour]:
    """Return the first hours of a season: warm dry days, cool nights, a shower now and then."""
    random = np.random.default_rng(seed)
    noise = 0.0
    season = []
    for hour in range(hours):
        time = (FIRST_HOUR + hour) % _DAY
        noise = 0.9 * noise + random.normal(0, 0.4)
        warmth = np.cos(2 * np.pi * (time - _WARMEST) / _DAY)
        temperature = _MEAN + _SWING * warmth + noise
        shower = random.uniform() < _SHOWERS
        humidity = 92.0 if shower else np.clip(58 - 28 * warmth - 2 * noise, 15, 100)
        season.append(
            Hour(
                label=f"hour {hour + 1}, {time:02d}:00",
                temperature=round(float(temperature), 2),
                humidity=round(float(humidity), 2),
                wind=round(float(8 + 5 * warmth + random.gamma(2, 1.5)), 2),
                rain=round(float(random.exponential(2.0)), 1) if shower else 0.0,
                daylight=float(_SUNRISE <= time <= _SUNSET),
            )
        )
    return season


def recorded(path: Path, start: datetime, hours: int) -> tuple[dict[str, float] | None, list[Hour]]:
    """Return the codes before the hour ``start`` (None: a new season), and the hours from it on.

    Raises:
        WeatherDataError: there is no such file, or it does not have those hours.
    """
    if not path.is_file():
        raise WeatherDataError(
            f"{path}: not found; --data must name PRF2007_standard_hourly_FWI.csv.gz"
        )
    before = None
    season: list[Hour] = []
    with gzip.open(path, "rt", encoding="ascii", newline="") as file:
        for line in csv.DictReader(file):
            try:
                time, hour = _hour(line)
            except (KeyError, ValueError) as error:
                raise WeatherDataError(
                    f"{path}: not hours of weather with their fire weather index: {error!r}"
                ) from error
            if time < start:
                before = hour.codes
            elif len(season) < hours:
                season.append(hour)
    if len(season) < hours:
        raise WeatherDataError(
            f"{path}: only {len(season)} of {hours} hours from {start:%Y-%m-%d %H:00} on; choose "
            "an earlier --start or fewer --waves"
        )
    return before, season


def _hour(line: dict[str, str]) -> tuple[datetime, Hour]:
    time = datetime(  # noqa: DTZ001 -- the record states local time
        int(line["yr"]), int(line["mon"]), int(line["day"]), int(line["hr"])
    )
    return time, Hour(
        label=f"{time:%Y-%m-%d %H:00}",
        temperature=float(line["temp"]),
        humidity=float(line["rh"]),
        wind=float(line["ws"]),
        rain=float(line["prec"]),
        daylight=float(float(line["sunrise"]) <= time.hour <= float(line["sunset"])),
        codes={
            "ffmc": float(line["ffmc"]),
            "dmc": float(line["dmc"]),
            "dc": float(line["dc"]),
            "rained": float(line["prec_cumulative"]),
            "dry": float(line["canopy_drying"]),
        },
    )
