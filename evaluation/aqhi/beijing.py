"""``headgate demo beijing``: bounds on a year of real air, of which two weeks run for real.

Spark computes what the synchronous dataflow would show in every hour of the year. The record that
it would have left is replayed under bounds. The first hours run for real under one of them, on a
services of their own, and must agree.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from aqhi import stations
from aqhi.grid import Grid
from aqhi.model import risk
from aqhi.readings import Readings
from aqhi.variants import City, dataflow
from rich.console import Console

from evaluation.aqhi.figures import Series, relative_errors, shown
from evaluation.aqhi.record import SynchronousRecord, computed_by_spark
from evaluation.aqhi.synchronous import synchronous
from evaluation.aqhi.trial import CityTrial
from headgate.cli import DemoServices, HomeOption, Narrator, machine_in_words, outcome, send
from headgate.flows import parse_dataflow
from headgate.replay import Candidate, Replayed

_YEAR = 8760  # hours
_TWO_WEEKS = 336
_SIDE = 12  # 144 detectors between 12 stations
_START = datetime.fromisoformat("2015-11-27")  # hardly any pollution, the worst within days
_SIGMAS = (20.0, 40.0, 60.0, 80.0)
_SYNCHRONOUS = "synchronous"
_REAL = "aqhi-beijing"


def beijing(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Holds the 12 STATION.csv.gz of Beijing. Default: eight weeks that come along.",
            show_default=False,
        ),
    ] = None,
    *,
    start: Annotated[datetime, typer.Option(formats=["%Y-%m-%d"], help="First day.")] = _START,
    hours: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Hours that are replayed. Default: a year, 8760; of what comes along all, 1344.",
            show_default=False,
        ),
    ] = None,
    real_hours: Annotated[
        int, typer.Option(min=0, help="The first of them, which run for real too.")
    ] = _TWO_WEEKS,
    grid: Annotated[int, typer.Option(min=5, max=999, help="Detectors along each side.")] = _SIDE,
    sigma: Annotated[
        list[float] | None,
        typer.Option(
            min=0.1,
            help="Bound of step C in percent of the detectors, beside the bounds of aqhi.yaml. "
            "Repeat it; the first runs for real. Default: 20, 40, 60 and 80.",
        ),
    ] = None,
    home: HomeOption = None,
) -> None:
    """Replay bounds over a year of Beijing's air, and run the first two weeks for real."""
    console = Console(stderr=True)
    sigmas = sigma or list(_SIGMAS)
    hours = hours or (_YEAR if folder else stations.EXTRACT_HOURS)
    began = time.monotonic()
    city = City(grid, stations.REFERENCE, Path("charts"))
    with (
        outcome(console, stations.StationDataError),
        Narrator(console, min(real_hours, hours)) as narrator,
    ):
        narrator.say(f"reading {hours} hours of 12 stations")
        record = stations.read_stations(folder or stations.EXTRACT, start, hours)
        readings = list(stations.replay(Grid(grid), record))
        year = _Year(city, readings, sigmas, narrator)
        real: dict[str, Any] = {}
        if real_hours:
            with DemoServices(home, keep=False, on_progress=narrator.progress) as services:
                bounded = {_REAL: sigmas[0]}
                trial = CityTrial(
                    city,
                    lambda place: {name: dataflow(name, place, s) for name, s in bounded.items()},
                    readings[:real_hours],
                    {(_REAL, "index")},
                    "Beijing",
                )
                took = send(trial, services, narrator)
                real = year.compare(trial.ran[_REAL], trial.index(_REAL), took)
    result = {
        "hours": hours,
        "from": f"{start:%Y-%m-%d}",
        "detectors": grid * grid,
        "bounds": year.figures(),
        "real": real,
        "checks": year.checks,
        "machine": machine_in_words(),
        "seconds": round(time.monotonic() - began, 1),
    }
    typer.echo(json.dumps(result, indent=1, ensure_ascii=False))
    if real.get("disagreement"):
        console.print("[red]headgate demo:[/red] replay and real run do not agree; see real")
        raise typer.Exit(1)


class _Year:
    """Outputs of the synchronous dataflow in every hour, and those under bounds by replay."""

    def __init__(
        self,
        city: City,
        readings: Sequence[Readings],
        sigmas: Sequence[float],
        narrator: Narrator,
    ) -> None:
        grid = Grid(city.side)
        narrator.say(f"Spark: computing the outputs of {len(readings)} waves")
        begin = time.monotonic()
        self._shown, concentrations = computed_by_spark(readings, grid, city.reference)
        spark_seconds = time.monotonic() - begin
        specs = {
            label: parse_dataflow(dataflow(_REAL, city, sigma), label).spec
            for label, sigma in {_SYNCHRONOUS: None, **{_label(s): s for s in sigmas}}.items()
        }
        narrator.say(f"replaying under {len(specs)} sets of bounds")
        begin = time.monotonic()
        record = SynchronousRecord(specs[_SYNCHRONOUS], grid, readings, concentrations, self._shown)
        report = record.replay([Candidate(label, spec) for label, spec in specs.items()])
        self._replays = {replayed.label: replayed for replayed in report.replays}
        self._first = _label(sigmas[0])
        self._seen = {
            label: shown(self._shown.index, _waves(replayed, "index"))
            for label, replayed in self._replays.items()
        }
        self.checks = {
            "spark_seconds": round(spark_seconds, 1),
            "replay_seconds": round(time.monotonic() - begin, 1),
            "replayed_cells": report.updates,
            "formulas_apart_points": self._formulas_apart(readings, grid, city.reference),
            "warnings": list(report.warnings),
        }

    def _formulas_apart(self, readings: Sequence[Readings], grid: Grid, reference: float) -> float:
        """Return by how much Spark's index and that of the formulas differ at most."""
        exact, _ = synchronous(readings, grid, reference)
        return float(np.abs(exact.index - self._shown.index).max())

    def figures(self) -> dict[str, Any]:
        """Return savings and errors under each set of bounds."""
        return {label: self._figures(replayed) for label, replayed in self._replays.items()}

    def _figures(self, replayed: Replayed) -> dict[str, Any]:
        exact, seen = self._shown.index, self._seen[replayed.label]
        apart = np.abs(exact - seen)
        relative = relative_errors(exact[:, None], seen[:, None])
        classes = [risk(a) is not risk(b) for a, b in zip(exact, seen, strict=True)]
        return {
            "runs": {step.action: len(step.runs) for step in replayed.steps},
            "saved_percent": 100 * replayed.saved,
            "saved_percent_by_step": {step.action: 100 * step.saved for step in replayed.steps},
            "index_mean_error_points": float(apart.mean()),
            "index_99th_percentile_error_points": float(np.quantile(apart, 0.99)),
            "index_max_error_points": float(apart.max()),
            "index_mean_error_relative": float(relative.mean()),
            "waves_with_another_class_percent": 100 * float(np.mean(classes)),
        }

    def compare(self, ran: dict[str, list[int]], seen: Series, seconds: float) -> dict[str, Any]:
        """Hold the replay of the first bounds against what ran for real.

        Args:
            ran: by action the waves, from 1, in which it ran.
            seen: the index after each wave.
            seconds: that it took.
        """
        hours = len(seen)
        replayed = self._replays[self._first]
        predicted = {
            step.action: [w for w in _waves(replayed, step.action) if w <= hours]
            for step in replayed.steps
        }
        differing = {
            action: {
                "only_real": sorted(set(ran.get(action, [])) - set(waves)),
                "only_replayed": sorted(set(waves) - set(ran.get(action, []))),
            }
            for action, waves in predicted.items()
            if waves != ran.get(action, [])
        }
        expected = self._seen[self._first][:hours]
        return {
            "bounds": self._first,
            "hours": hours,
            "runs": {action: len(waves) for action, waves in ran.items()},
            "replayed_runs": {action: len(waves) for action, waves in predicted.items()},
            "disagreement": differing,
            "index_apart_points": float(np.abs(seen - expected).max()),
            "index_mean_error_points": float(np.abs(seen - self._shown.index[:hours]).mean()),
            "index_max_error_points": float(np.abs(seen - self._shown.index[:hours]).max()),
            "seconds": round(seconds, 1),
        }


def _label(sigma: float) -> str:
    return f"σ {sigma:g} %"


def _waves(replayed: Replayed, action: str) -> list[int]:
    return [run.wave for run in replayed.step(action).runs]
