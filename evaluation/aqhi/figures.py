"""The paper's evaluation (section 5): its settings, and its figures from what was recorded.

A step under bounds shows what the synchronous dataflow showed in the wave in which it last ran:
every step is looked at when its predecessor ends, so what it reads is then as fresh. So the waves
in which a step runs, and the synchronous outputs of all waves, say everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import yaml
from aqhi.generator import CALM, DRIFTING, WEEKLY, Trend, Weather
from aqhi.model import ZONE_RESOLUTION
from msgspec import Struct
from numpy.typing import NDArray

Series = NDArray[np.float64]

C_SIGMAS = (10, 20, 25, 40, 60, 80, 100)
"""Percent of the detectors that have changed before step C runs: the paper's figures 8 and 9."""
SIGMAS = (20, 40, 60, 80)
"""The settings of the paper's other figures."""
E_SIGMAS = (20, 40, 60, 80, 100)
MAP_LIMIT = "5%"
"""ν of step D: divergence of the detectors since the map was drawn."""
INDEX_LIMIT = 0.3
"""ν of step F in points of the index."""

PAPER_C = {25: 80.0, 80: 48.0}
PAPER_F = {20: 30.0, 80: 5.0}
"""Executions in percent of the waves that the paper reports, by σ."""


class Setting(Struct, frozen=True):
    """Bounds to be compared."""

    name: str
    step: str
    """The action whose runs and errors are the figure's."""
    sigma: int
    when: dict[str, dict[str, Any]]
    """Bounds by action, as in the dataflow file; the others are synchronous."""


def _slower(weather: Weather, factor: float) -> tuple[float, float]:
    begin, end = weather.periods
    return begin * factor, end * factor


class Choices(Struct, frozen=True):
    """Choices that the paper leaves open and F's figures depend on: fitted ones, and others."""

    name: str
    weather: Weather = CALM
    resolution: float = ZONE_RESOLUTION
    """Units in whose steps C writes zones."""
    distinct: bool = True
    """True if a hotspot that changes again still counts once in F's σ."""


CHOICES = (
    Choices("as fitted"),
    Choices("fields half as fast", Weather(_slower(CALM, 2.0), CALM.noise)),
    Choices("fields twice as fast", Weather(_slower(CALM, 0.5), CALM.noise)),
    Choices("fields four times as fast", Weather(_slower(CALM, 0.25), CALM.noise)),
    Choices("zones in steps of 0.1 unit", resolution=0.1),
    Choices("zones in steps of 1 unit", resolution=1.0),
    Choices("exact sensors", Weather(CALM.periods, 0.0)),
    Choices("sensors twice as noisy", Weather(CALM.periods, 2 * CALM.noise)),
    Choices("each update of a hotspot counted", distinct=False),
    Choices(
        "those of `headgate demo aqhi`: fields cross the city in days, exact sensors", DRIFTING
    ),
    Choices("weeks with hours, weekends and days of their own", WEEKLY),
)
"""Each but the last two differs from the first in one."""


class Experiment(Struct, frozen=True):
    """One input, and the settings that are replayed over it."""

    trend: Trend
    settings: tuple[Setting, ...]
    real: str
    """The setting that is run for real too, by its name; empty for none."""
    left_out: frozenset[str] = frozenset()
    """Steps that no figure of this input shows; they are not run."""


class Waves(Struct, frozen=True):
    """Outputs of the synchronous dataflow after each wave."""

    changed: Series
    """Part of the detectors that reported, 0 to 1."""
    zones: Series
    """Shape (waves, side, side)."""
    maps: Series
    """Shape (waves, side - 1, side - 1)."""
    hotspots: Series
    """Shape (waves, side, side); 0 where no hotspot is. Empty where E was not run."""
    index: Series
    """Shape (waves,). Empty where F was not run."""


class StepRuns(Struct, frozen=True):
    """One setting's outcome: by action, the waves (from 1) in which it ran."""

    setting: Setting
    runs: dict[str, tuple[int, ...]]


def experiments(reference: float, *, quick: bool) -> tuple[Experiment, ...]:
    """Return what is evaluated: the trend increases for C and D, and is uniform for E and F.

    Args:
        reference: concentration above which a zone is a hotspot.
        quick: only σ 20 and 80.
    """

    def chosen(sigmas: Iterable[int]) -> list[int]:
        return [s for s in sigmas if not quick or s in {20, 80}]

    c = [Setting(f"C {s}", "zones", s, {"zones": _detectors(s)}) for s in chosen(C_SIGMAS)]
    d = [Setting(f"D {s}", "city-map", s, {"city-map": _map(s)}) for s in chosen(SIGMAS)]
    e = [Setting(f"E {s}", "hotspots", s, {"hotspots": _zones(s)}) for s in chosen(E_SIGMAS)]
    both = [
        Setting(f"C+E {s}", "hotspots", s, {"zones": _detectors(s), "hotspots": _zones(s)})
        for s in chosen(E_SIGMAS)
    ]
    f = [Setting(f"F {s}", "index", s, {"index": _index(s, reference)}) for s in chosen(SIGMAS)]
    every_update = [
        Setting(f"F-updates {s}", "index", s, {"index": _index(s, reference, distinct=False)})
        for s in chosen(SIGMAS)
    ]
    everything = [
        Setting(
            f"all {s}",
            "index",
            s,
            {
                "zones": _detectors(s),
                "city-map": _map(s),
                "hotspots": _zones(s),
                "index": _index(s, reference),
            },
        )
        for s in chosen(SIGMAS)
    ]
    return (
        Experiment(Trend.INCREASING, (*c, *d), "", frozenset({"hotspots", "index"})),
        Experiment(Trend.UNIFORM, (*e, *both, *f, *every_update, *everything), "all 80"),
    )


def f_settings(reference: float, *, distinct: bool = True) -> tuple[Setting, ...]:
    """Return those of step F that the paper gives executions for."""
    return tuple(
        Setting(f"F {s}", "index", s, {"index": _index(s, reference, distinct=distinct)})
        for s in PAPER_F
    )


def _detectors(sigma: int) -> dict[str, Any]:
    return {"detectors": {"sequence": f"{sigma}%"}}


def _map(sigma: int) -> dict[str, Any]:
    return {"detectors": {"sequence": f"{sigma}%", "value": {"relative": MAP_LIMIT}}}


def _zones(sigma: int) -> dict[str, Any]:
    return {"zones": {"sequence": f"{sigma}%"}}


def _index(sigma: int, reference: float, *, distinct: bool = True) -> dict[str, Any]:
    # "Percentage of changed hotspots": one that changes in every wave is one changed hotspot.
    counted: Any = {"limit": f"{sigma}%", "count": "distinct"} if distinct else f"{sigma}%"
    # One percent more hotspots is 0.1 points and changes the column by 1 % of the reference, so its
    # divergence against a tenth of the reference is points.
    divergence = {"against": reference / 10, "limit": f"{100 * INDEX_LIMIT:g}%"}
    return {"hotspots": {"sequence": counted, "value": divergence}}


def without(text: str, steps: Iterable[str]) -> str:
    """Return a dataflow file's text without some steps, which no other follows."""
    tree = yaml.safe_load(text)
    for step in steps:
        del tree["actions"][step]
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


def with_bounds(synchronous: str, setting: Setting) -> str:
    """Return the text of a dataflow file without bounds with those of a setting."""
    tree = yaml.safe_load(synchronous)
    for action, bounds in setting.when.items():
        tree["actions"][action]["when"] = bounds
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


def shown(outputs: Series, runs: Sequence[int]) -> Series:
    """Return what people saw after each wave of a step that ran in these waves (from 1).

    Args:
        outputs: synchronous outputs, one for each wave along the first axis.
        runs: the waves, ascending. Before the first the output is 0: nothing was there.
    """
    seen = np.zeros_like(outputs)
    ran = set(runs)
    for wave in range(len(outputs)):
        if wave + 1 in ran:
            seen[wave] = outputs[wave]
        elif wave:
            seen[wave] = seen[wave - 1]
    return seen


def executions(runs: Sequence[int], waves: int) -> float:
    """Return runs in percent of the waves."""
    return 100.0 * len(runs) / waves


def expected_executions(sigma: float) -> float:
    """Return the executions in percent where U(0, 1) of the detectors change in each wave.

    The updates of n waves stay below σ with probability σⁿ/n!, so a run comes every e^σ waves on
    average. For σ up to 100 %.
    """
    return 100.0 * math.exp(-sigma / 100)


def relative_errors(exact: Series, seen: Series) -> Series:
    """Return Σ|x−x′| / Σ|x| of each wave, 0/0 = 0."""
    axes = tuple(range(1, exact.ndim))
    return _quotient(np.abs(exact - seen).sum(axis=axes), np.abs(exact).sum(axis=axes))


def mean_concentration(hotspots: Series) -> Series:
    """Return the mean concentration of each wave's hotspots, 0 where there is none."""
    return _quotient(hotspots.sum(axis=(1, 2)), (hotspots > 0).sum(axis=(1, 2)))


def percentage(hotspots: Series) -> Series:
    """Return the percentage of the zones that are hotspots, of each wave."""
    share: Series = 100.0 * (hotspots > 0).mean(axis=(1, 2))
    return share


def accumulated(index: Series) -> Series:
    """Return the mean of all indices so far (figure 16)."""
    mean: Series = np.cumsum(index) / np.arange(1, len(index) + 1)
    return mean


def _quotient(part: Series, whole: Series) -> Series:
    result: Series = np.zeros(part.shape)
    np.divide(part, whole, out=result, where=whole > 0)
    return result


def figures(waves: Mapping[Trend, Waves], found: Sequence[StepRuns]) -> dict[str, Any]:
    """Return the evaluation's figures, step by step, in the form that is printed as JSON."""
    return {
        "C": {str(f.setting.sigma): _c(waves[Trend.INCREASING], f) for f in _of(found, "C ")},
        "D": {str(f.setting.sigma): _d(waves[Trend.INCREASING], f) for f in _of(found, "D ")},
        "E": {str(f.setting.sigma): _e(waves[Trend.UNIFORM], f) for f in _of(found, "E ")},
        "E with C": {str(f.setting.sigma): _e(waves[Trend.UNIFORM], f) for f in _of(found, "C+E ")},
        "F": {str(f.setting.sigma): _f(waves[Trend.UNIFORM], f) for f in _of(found, "F ")},
        "F, every update counted": {
            str(f.setting.sigma): _f(waves[Trend.UNIFORM], f) for f in _of(found, "F-updates ")
        },
        "output": {str(f.setting.sigma): _f(waves[Trend.UNIFORM], f) for f in _of(found, "all ")},
    }


def f_figures(waves: Waves, found: Iterable[StepRuns]) -> dict[str, dict[str, float | None]]:
    """Return the figures of step F under some settings, by σ."""
    return {str(each.setting.sigma): _f(waves, each) for each in found}


def _of(found: Sequence[StepRuns], prefix: str) -> list[StepRuns]:
    return [f for f in found if f.setting.name.startswith(prefix)]


def _c(waves: Waves, found: StepRuns) -> dict[str, float | None]:
    sigma, runs = found.setting.sigma, found.runs["zones"]
    seen = shown(waves.zones, runs)
    return {
        "executions_percent": executions(runs, len(waves.changed)),
        "expected_percent": expected_executions(sigma),
        "paper_percent": PAPER_C.get(sigma),
        "max_error_units": float(np.abs(waves.zones - seen).max()),
        "max_error_of_mean_units": float(
            np.abs(waves.zones.mean(axis=(1, 2)) - seen.mean(axis=(1, 2))).max()
        ),
        "mean_error_relative": float(relative_errors(waves.zones, seen).mean()),
    }


def _d(waves: Waves, found: StepRuns) -> dict[str, float]:
    runs = found.runs["city-map"]
    errors = relative_errors(waves.maps, shown(waves.maps, runs))
    return {
        "executions_percent": executions(runs, len(waves.changed)),
        "max_difference_percent": 100 * float(errors.max()),
    }


def _e(waves: Waves, found: StepRuns) -> dict[str, float]:
    runs = found.runs["hotspots"]
    seen = shown(waves.hotspots, runs)
    apart = np.abs(mean_concentration(waves.hotspots) - mean_concentration(seen))
    return {
        "executions_percent": executions(runs, len(waves.changed)),
        "max_error_units": float(apart.max()),
        "max_hotspots_difference_percent": float(
            np.abs(percentage(waves.hotspots) - percentage(seen)).max()
        ),
    }


def _f(waves: Waves, found: StepRuns) -> dict[str, float | None]:
    runs = found.runs["index"]
    seen = shown(waves.index, runs)
    relative = relative_errors(waves.index[:, None], seen[:, None])
    return {
        "executions_percent": executions(runs, len(waves.changed)),
        "paper_percent": (
            PAPER_F.get(found.setting.sigma) if found.setting.name.startswith("F ") else None
        ),
        "max_error_points": float(np.abs(waves.index - seen).max()),
        "max_error_of_accumulated_mean_points": float(
            np.abs(accumulated(waves.index) - accumulated(seen)).max()
        ),
        "mean_error_points": float(np.abs(waves.index - seen).mean()),
        "max_error_relative": float(relative.max()),
        "mean_error_relative": float(relative.mean()),
    }
