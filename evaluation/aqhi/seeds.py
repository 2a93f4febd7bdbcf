"""The evaluation over several seeds, without services: the formulas, and the engine alone.

With the other steps synchronous, a step's bound sees what the formulas say that they write; so the
engine decides as it would with services.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import yaml
from aqhi.generator import CALM, Trend, generate
from aqhi.grid import Grid
from aqhi.model import HOTSPOT_REFERENCE
from aqhi.readings import Readings

from evaluation.aqhi.figures import (
    CHOICES,
    Experiment,
    Series,
    Setting,
    StepRuns,
    Waves,
    experiments,
    f_figures,
    f_settings,
    figures,
)
from evaluation.aqhi.synchronous import synchronous
from headgate.engine import DataflowSpec, Engine, EngineTester, launched
from headgate.flows import parse_dataflow

_INPUT = "before"
_COLUMN = b"c:value"


def mean_of_seeds(
    grid: Grid, waves: int, seeds: int, *, quick: bool
) -> dict[str, dict[str, dict[str, float]]]:
    """Return executions and errors by step and σ: means over the seeds, errors the largest too.

    Only settings that bound one step.
    """
    found = []
    for seed in range(1, seeds + 1):
        shown, runs = {}, []
        for experiment in experiments(HOTSPOT_REFERENCE, quick=quick):
            shown[experiment.trend], ran = _decided(experiment, grid, waves, seed)
            runs += ran
        found.append(figures(shown, runs))
    return {
        step: {sigma: _mean([one[step][sigma] for one in found]) for sigma in found[0][step]}
        for step in found[0]
        if found[0][step]
    }


def f_by_choices(grid: Grid, waves: int, seeds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return F's executions and errors by choice and σ, as ``mean_of_seeds`` does."""
    by_choice = {}
    for choices in CHOICES:
        settings = f_settings(HOTSPOT_REFERENCE, distinct=choices.distinct)
        found = []
        for seed in range(1, seeds + 1):
            readings = list(generate(grid, waves, seed, Trend.UNIFORM, choices.weather))
            shown, concentrations = synchronous(readings, grid, resolution=choices.resolution)
            ran = _runs_of(settings, grid, readings, shown, concentrations)
            found.append(f_figures(shown, ran))
        by_choice[choices.name] = {s: _mean([one[s] for one in found]) for s in found[0]}
    return by_choice


def _mean(found: Sequence[Mapping[str, float | None]]) -> dict[str, float]:
    """Return the mean of each figure; of those that are largest ones, the largest."""
    result = {}
    for name in found[0]:
        values = [value for one in found if (value := one[name]) is not None]
        if values:
            result[name] = float(max(values) if name.startswith("max") else np.mean(values))
    return result


def _decided(
    experiment: Experiment, grid: Grid, waves: int, seed: int
) -> tuple[Any, list[StepRuns]]:
    """Return what the synchronous dataflow shows, and the runs under each setting."""
    readings = list(generate(grid, waves, seed, experiment.trend, CALM))
    shown, concentrations = synchronous(readings, grid)
    settings = [setting for setting in experiment.settings if len(setting.when) == 1]
    return shown, _runs_of(settings, grid, readings, shown, concentrations)


def _runs_of(
    settings: Sequence[Setting],
    grid: Grid,
    readings: Sequence[Readings],
    shown: Waves,
    concentrations: Series,
) -> list[StepRuns]:
    """Return in which waves each setting's step runs where the other steps are synchronous."""
    actions = {f"action-{place}": setting for place, setting in enumerate(settings)}
    tester = EngineTester(_specification(actions), check=_unchecked)
    keys = grid.rows()
    watched = {table for setting in settings for table in setting.when[setting.step]}
    before: dict[str, Series] = {}
    runs: dict[str, list[int]] = {action: [] for action in actions}
    for number, wave in enumerate(readings, 1):
        outputs = {"zones": shown.zones[number - 1], "hotspots": shown.hotspots[number - 1]}
        written = {"detectors": wave.detectors}
        for table, square in outputs.items():
            if table in before:
                written[table] = np.flatnonzero(square != before[table])
            else:
                written[table] = np.arange(grid.detectors)
        before = outputs
        outputs = {"detectors": concentrations[number - 1], **outputs}
        for table, places in written.items():
            if table not in watched:
                continue
            values = outputs[table].ravel()[places].tolist()
            if values:
                rows = zip(places.tolist(), values, strict=True)
                tester.write(table, {keys[d]: {_COLUMN: b"%r" % value} for d, value in rows})
        for action in launched(tester.wave(_INPUT)):
            runs[action].append(number)
            tester.finish(action)
    return [
        StepRuns(setting, {setting.step: tuple(runs[action])})
        for action, setting in actions.items()
    ]


def _unchecked(_: Engine) -> None:
    """Check nothing: millions of updates are not a test of the engine."""


def _specification(settings: Mapping[str, Setting]) -> DataflowSpec:
    """Return one dataflow with an action for each setting, under its bounds."""
    containers = ("detectors", "zones", "hotspots")
    tree = {
        "name": "seeds",
        "waves": "mark",
        "containers": {name: f"{name} {_COLUMN.decode()}" for name in containers},
        "actions": {
            _INPUT: {"input": list(containers)},
            **{
                action: {
                    "step": "aqhi.steps:index",
                    "after": _INPUT,
                    "reads": list(setting.when[setting.step]),
                    "when": setting.when[setting.step],
                }
                for action, setting in settings.items()
            },
        },
    }
    return parse_dataflow(yaml.safe_dump(tree, sort_keys=False), "seeds").spec
