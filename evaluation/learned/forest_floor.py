"""The fire risk of a forest over a recorded summer, by the formulas of its Spark steps.

The sensor in the middle sees the station's own weather, so that its codes must be those that the
record has: whoever reads a summer gets an error where they are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from fire_risk.forest import AREA, Forest
from fire_risk.fwi import START, WEATHER
from fire_risk.weather import Hour, recorded
from scipy import ndimage

from headgate.learning import ContainerHistory

STEPS: Final = {
    "2a": ("areas", ("floor",)),
    "2b": ("map", ("floor",)),
    "3": ("risk", ("areas",)),
    "4a": ("forest", ("risk", "hot")),
}
"""Those that tolerate error: their outputs and what they read."""
_START = datetime(2007, 5, 10, 8)  # noqa: DTZ001 -- the record states local time
_HOURS = 2623
_SIDE = 15
_SEED = 1
_HOT, _RISKY = 55.0, 11.0
"""Degrees and fire weather index, as in ``fire_risk.yaml``."""
_DRY_HOURS = 5
_MOISTURE = 14875 / 101
_PRINTED = 0.01
"""By which codes may differ from the record's after a summer; it has four decimals."""

Array = npt.NDArray[np.float64]
Codes = Mapping[str, Array]


def summer(file: Path) -> dict[str, ContainerHistory]:
    """Return the synchronous states of all containers in the recorded hours.

    Raises:
        ValueError: the codes of the station are not those of the record.
    """
    _, season = recorded(file, _START, _HOURS)
    forest = Forest(_SIDE, _SEED)
    station = (_SIDE // 2) * _SIDE + _SIDE // 2
    codes: Codes = {name: np.full(_SIDE * _SIDE, value) for name, value in START.items()}
    kept: dict[str, list[Array]] = {name: [] for name in ("temperature", "wind", *START)}
    for hour, seen in zip(season, forest.hours(season), strict=True):
        weather = {
            name: np.array([float(cells[b"s:" + name.encode()]) for _, cells in seen.sensors])
            for name in WEATHER
        }
        codes = next_codes(weather, codes)
        _check(hour, codes, station)
        for name, values in kept.items():
            values.append(codes[name] if name in codes else weather[name])
    return _histories({name: np.array(values) for name, values in kept.items()}, season)


def _check(hour: Hour, codes: Codes, station: int) -> None:
    for name, expected in (hour.codes or {}).items():
        if not abs(codes[name][station] - expected) <= _PRINTED:
            message = (
                f"{hour.label}: {name} of the station comes to {codes[name][station]:.4f}, and the "
                f"record has {expected:.4f}; name a record of whole seasons"
            )
            raise ValueError(message)


def next_codes(weather: Mapping[str, Array], before: Codes) -> dict[str, Array]:
    """Return the moisture codes at the end of an hour: ``fwi.next_codes`` on arrays.

    Args:
        weather: of the hour, by ``fwi.WEATHER``, shape (sensors,) each.
        before: codes at its beginning, by ``fwi.CODES``.
    """
    rain = weather["rain"]
    raining = np.round(rain, 1) > 0
    waited = np.where(raining | (before["rained"] == 0), 0.0, before["dry"] + 1)
    again = waited >= _DRY_HOURS
    held = np.where(again, 0.0, before["rained"])

    def below(canopy: float, lost: float, share: float) -> Array:
        first = share * (held + rain) - lost
        later = np.where(np.round(held, 1) > canopy, share * rain, first)
        return np.where(np.round(held + rain, 1) <= canopy, 0.0, later)

    return {
        "ffmc": _fine_fuel(weather, _moisture(before["ffmc"]), below(0.5, 0.5, 1.0)),
        "dmc": _duff(weather, before["dmc"], below(1.5, 1.27, 0.92)),
        "dc": _drought(weather, before["dc"], below(2.8, 1.27, 0.83)),
        "rained": held + rain,
        "dry": np.where(again, 0.0, waited),
    }


def _moisture(ffmc: Array) -> Array:
    return np.maximum(_MOISTURE * (101 - ffmc) / (59.5 + ffmc), 0.0)


def _fine_fuel(weather: Mapping[str, Array], fine: Array, rain: Array) -> Array:
    temperature, humidity = weather["temperature"], weather["humidity"]
    with np.errstate(divide="ignore", invalid="ignore"):
        taken = 42.5 * rain * np.exp(-100 / (251 - fine)) * (1 - np.exp(-6.93 / rain))
    flooded = np.where(fine > 150, 0.0015 * (fine - 150) ** 2 * np.sqrt(rain), 0.0)
    fine = np.where(rain > 0, np.minimum(fine + taken + flooded, 250.0), fine)
    warm = 0.18 * (21.1 - temperature) * (1 - np.exp(-0.115 * humidity))
    steam = np.exp((humidity - 100) / 10)
    dried = 0.942 * humidity**0.679 + 11 * steam + warm
    moistened = 0.618 * humidity**0.753 + 10 * steam + warm

    def approached(equilibrium: Array, air: Array) -> Array:
        speed = 0.424 * (1 - air**1.7) + 0.0694 * np.sqrt(weather["wind"]) * (1 - air**8)
        rate = 0.1158 * np.exp(0.0365 * temperature) * speed
        near: Array = equilibrium + (fine - equilibrium) * 10.0**-rate
        return near

    air = humidity / 100
    wetter = np.where(fine < moistened, approached(moistened, 1 - air), fine)
    fine = np.maximum(np.where(fine > dried, approached(dried, air), wetter), 0.0)
    ffmc: Array = 59.5 * (250 - fine) / (_MOISTURE + fine)
    return ffmc


def _duff(weather: Mapping[str, Array], dmc: Array, rain: Array) -> Array:
    with np.errstate(divide="ignore"):
        deep = np.where(dmc <= 65, 14 - 1.3 * np.log(dmc), 6.2 * np.log(dmc) - 17.2)
    slope = np.where(dmc <= 33, 100 / (0.5 + 0.3 * dmc), deep)
    before = 20 + 280 * np.exp(-dmc / 43.43)
    wet = np.minimum(before + 1000 * rain / (48.77 + slope * rain), 300.0)
    warmth = np.maximum(weather["temperature"], 0.0)
    drying = weather["daylight"] * 2.22e-4 * warmth * (100 - weather["humidity"])
    code: Array = 43.43 * np.log(280 / (wet - 20)) + drying
    return code


def _drought(weather: Mapping[str, Array], dc: Array, rain: Array) -> Array:
    temperature = weather["temperature"]
    wet = np.minimum(400 * np.exp(-dc / 400) + 3.937 * rain / 2, 400.0)
    drying = np.where(temperature > 0, 0.015 * temperature + 3 / 16, 0.0)
    code: Array = 400 * np.log(400 / wet) + weather["daylight"] * drying
    return code


def fire_weather_index(areas: Mapping[str, Array]) -> Array:
    """Return the FWI of wind, ffmc, dmc and dc: ``fwi.fire_weather_index`` on arrays."""
    wind, dmc, dc = areas["wind"], areas["dmc"], areas["dc"]
    wet = _moisture(areas["ffmc"])
    fuel = 91.9 * np.exp(-0.1386 * wet) * (1 + wet**5.31 / 4.93e7)
    gale = 12 * (1 - np.exp(-0.0818 * (wind - 28)))
    spread = 0.208 * fuel * np.where(wind < 40, np.exp(0.05039 * wind), gale)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where((dmc == 0) & (dc == 0), 0.0, 0.8 * dmc * dc / (dmc + 0.4 * dc))
        less = dmc - (0.92 + (0.0114 * dmc) ** 1.7) * (1 - mean / dmc)
    buildup = np.where(mean < dmc, np.maximum(less, 0.0), mean)
    with np.errstate(invalid="ignore"):
        ready = np.where(
            buildup <= 80,
            0.626 * buildup**0.809 + 2,
            1000 / (25 + 108.64 * np.exp(-0.023 * buildup)),
        )
        intensity = 0.1 * spread * ready
        grown = np.exp(2.72 * (0.434 * np.log(np.maximum(intensity, 1.0))) ** 0.647)
    index: Array = np.where(intensity <= 1, intensity, grown)
    return index


def _histories(floor: Mapping[str, Array], season: Sequence[Hour]) -> dict[str, ContainerHistory]:
    count, side = len(season), _SIDE // AREA
    cells = {
        name: values.reshape(count, side, AREA, side, AREA).swapaxes(2, 3)
        for name, values in floor.items()
    }
    areas = {
        "hottest": cells["temperature"].max((3, 4)),
        **{name: cells[name].mean((3, 4)) for name in ("wind", "ffmc", "dmc", "dc")},
    }
    risk = fire_weather_index(areas)
    hot = np.where(areas["hottest"] > _HOT, areas["hottest"], 0.0)
    risky = (risk >= _RISKY) | (hot > 0)
    groups = [ndimage.label(square, structure=np.ones((3, 3)))[1] for square in risky]
    states: dict[str, Array] = {
        "floor": np.stack(
            [floor[name] for name in ("temperature", "wind", "ffmc", "dmc", "dc")], 1
        ),
        "map": floor["temperature"],
        "areas": np.stack(list(areas.values()), 1),
        "risk": risk,
        "hot": hot,
        "forest": np.stack([risk.mean((1, 2)), 100 * risky.mean((1, 2)), np.array(groups)], 1),
    }
    start = datetime.fromisoformat(f"{season[0].label}+00:00").timestamp()
    times = start + 3600.0 * np.arange(count, dtype=np.float64)
    return {name: _history(values.reshape(count, -1), times) for name, values in states.items()}


def _history(states: Array, times: Array) -> ContainerHistory:
    differs = np.ones(states.shape, np.bool_)
    differs[1:] = states[1:] != states[:-1]
    elements = np.full(len(states), states.shape[1])
    return ContainerHistory(states, elements, differs.sum(1), times)
