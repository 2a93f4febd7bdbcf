"""``headgate demo evaluation``: the paper's evaluation on services of its own.

One synchronous dataflow for each trend of the input serves all settings: they are replayed over
what it recorded. One setting runs for real beside it and must agree.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from aqhi.generator import CALM, Trend, generate
from aqhi.grid import Grid
from aqhi.model import HOTSPOT_REFERENCE
from aqhi.readings import Readings
from aqhi.variants import City, dataflow
from rich.console import Console

from evaluation.aqhi.all_waves import all_waves
from evaluation.aqhi.figures import (
    Experiment,
    StepRuns,
    Waves,
    experiments,
    figures,
    shown,
    with_bounds,
    without,
)
from evaluation.aqhi.record import SynchronousRecord, computed_by_spark, local_spark
from evaluation.aqhi.report import write_evaluation
from evaluation.aqhi.seeds import f_by_choices, mean_of_seeds
from evaluation.aqhi.trial import CityTrial
from headgate.agent import POLICIES, FlowRecording, FlowReplay, KafkaOptions
from headgate.cli import (
    DemoError,
    DemoServices,
    HomeOption,
    Narrator,
    machine_in_words,
    outcome,
    send,
)
from headgate.flows import parse_dataflow
from headgate.replay import Candidate, Replayed

_WEEK = 168  # hourly waves, as in the paper
_QUICK = 24
_SIDE = 50  # 2,500 detectors
_LOADS = (50, 100, 150, 200)
"""Detectors along each side for figure 19: 2,500 to 40,000."""
_LOAD_WAVES = 24
_SEEDS = 5
_SYNCHRONOUS = "aqhi-synchronous"
_REAL = "aqhi-bounded"
_WHERE = {
    False: "A synchronous dataflow ran every step after every wave on HBase, Kafka and Spark",
    True: "Spark computed at once what a synchronous dataflow would show after every wave",
}
_SHOWN = ("zones", "city-map", "hotspots", "index")
"""Steps whose outputs the figures show."""

Found = tuple[Waves, list[StepRuns], dict[str, Any]]
"""Outputs of the synchronous dataflow, runs under each setting, and checks."""


def evaluation(
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="24 waves, σ 20 and 80 alone, no figure 19.")
    ] = False,
    computed: Annotated[
        bool,
        typer.Option(
            "--computed",
            help="Minutes instead of an hour: one Spark job computes what the synchronous dataflow "
            "shows in all waves, and the record that it would leave is replayed.",
        ),
    ] = False,
    loads: Annotated[
        bool, typer.Option(help="Figure 19 too: larger cities, without bounds.")
    ] = True,
    waves: Annotated[
        int | None, typer.Option(min=2, help="Waves of input. Default: 168, a week of hours.")
    ] = None,
    grid: Annotated[int, typer.Option(min=5, max=999, help="Detectors along each side.")] = _SIDE,
    seed: Annotated[int, typer.Option(help="Of the generator.")] = 1,
    report: Annotated[Path, typer.Option(help="Where to write the page.")] = Path(
        "aqhi-evaluation.html"
    ),
    home: HomeOption = None,
) -> None:
    """Evaluate the bounds of the air quality index as the paper does; print the figures as JSON."""
    console = Console(stderr=True)
    count = waves or (_QUICK if quick else _WEEK)
    began = time.monotonic()
    sent: dict[Any, Waves] = {}
    found: list[StepRuns] = []
    checks: dict[str, Any] = {}
    seconds: dict[int, float] = {}
    with outcome(console), Narrator(console, count) as narrator:
        find: Callable[[Experiment, Sequence[Readings], City, Narrator], Found]
        find = _compute if computed else partial(_run, home)
        city = City(grid, HOTSPOT_REFERENCE, Path("charts"))
        for experiment in experiments(HOTSPOT_REFERENCE, quick=quick):
            readings = list(generate(Grid(grid), count, seed, experiment.trend, CALM))
            sent[experiment.trend], ran, check = find(experiment, readings, city, narrator)
            found += ran
            checks[experiment.trend.value] = check
        narrator.say(f"{_SEEDS} seeds, by the engine alone")
        seeds = mean_of_seeds(Grid(grid), _WEEK, _SEEDS, quick=quick)
        choices: dict[str, Any] = {}
        if not quick:
            narrator.say("step F by other choices of the generator")
            choices = f_by_choices(Grid(grid), _WEEK, _SEEDS)
        if loads and not quick:
            load = _computed_loads if computed else partial(_loads, home)
            seconds = load(seed, narrator)
    result = {
        "outputs": _WHERE[computed],
        "waves": count,
        "detectors": grid * grid,
        "seed": seed,
        "figures": figures(sent, found),
        f"mean of {_SEEDS} seeds of {_WEEK} waves, engine alone": seeds,
        f"F by what the paper leaves open, mean of {_SEEDS} seeds": choices,
        "seconds of 24 waves by detectors": seconds,
        "checks": checks,
        "machine": machine_in_words(),
        "seconds": round(time.monotonic() - began, 1),
    }
    result["report"] = str(write_evaluation(sent, found, result, report))
    typer.echo(json.dumps(result, indent=1))
    if any(check["disagreement"] for check in checks.values()):
        console.print("[red]headgate demo:[/red] a replay and a real run do not agree; see checks")
        raise typer.Exit(1)


def _compute(
    experiment: Experiment, readings: Sequence[Readings], city: City, narrator: Narrator
) -> Found:
    """Have Spark compute what the synchronous dataflow shows; replay all settings over that."""
    count = len(readings)
    narrator.say(f"{experiment.trend}: Spark computes the outputs of {count} waves")
    begin = time.monotonic()
    grid = Grid(city.side)
    waves, concentrations = computed_by_spark(readings, grid, city.reference)
    spark_seconds = time.monotonic() - begin
    text = dataflow(_SYNCHRONOUS, city, None)
    synchronous = parse_dataflow(text, _SYNCHRONOUS).spec
    settings = experiment.settings
    candidates = [
        Candidate(s.name, parse_dataflow(with_bounds(text, s), s.name).spec) for s in settings
    ]
    narrator.say(f"replaying under {len(settings)} sets of bounds")
    begin = time.monotonic()
    record = SynchronousRecord(synchronous, grid, readings, concentrations, waves)
    replays = record.replay([Candidate(_SYNCHRONOUS, synchronous), *candidates]).replays
    disagreement = [
        f"{step.action}: {len(step.runs)} of {count} runs"
        for step in replays[0].steps
        if [run.wave for run in step.runs] != list(range(1, count + 1))
    ]
    checks = {
        "spark_seconds": round(spark_seconds, 1),
        "replayed_settings": len(settings),
        "replay_seconds": round(time.monotonic() - begin, 1),
        "disagreement": disagreement,
    }
    found = [StepRuns(s, _waves_of(r)) for s, r in zip(settings, replays[1:], strict=True)]
    return waves, found, checks


def _run(
    home: Path | None,
    experiment: Experiment,
    readings: Sequence[Readings],
    city: City,
    narrator: Narrator,
) -> Found:
    """Run the synchronous dataflow, and one with bounds; replay all settings over the first."""
    real = next((s for s in experiment.settings if s.name == experiment.real), None)

    def texts(place: City) -> Mapping[str, str]:
        found = {_SYNCHRONOUS: without(dataflow(_SYNCHRONOUS, place, None), experiment.left_out)}
        if real is not None:
            text = without(dataflow(_REAL, place, None), experiment.left_out)
            found[_REAL] = with_bounds(text, real)
        return found

    shown_steps = [action for action in _SHOWN if action not in experiment.left_out]
    outputs = {(_SYNCHRONOUS, action) for action in shown_steps}
    if real is not None:
        outputs.add((_REAL, "index"))
    trial = CityTrial(city, texts, readings, outputs, str(experiment.trend))
    with DemoServices(home, keep=False, on_progress=narrator.progress) as services:
        took = send(trial, services, narrator)
        kafka = KafkaOptions(bootstrap=services.kafka)
        text = texts(city)[_SYNCHRONOUS]
        settings = experiment.settings
        specs = {s.name: parse_dataflow(with_bounds(text, s), s.name).spec for s in settings}
        narrator.say(f"replaying under {len(specs)} sets of bounds")
        begin = time.monotonic()
        replays = FlowRecording(kafka, _SYNCHRONOUS, POLICIES).replay(specs)
        checks: dict[str, Any] = {
            "waves_seconds": round(took, 1),
            "replayed_settings": len(specs),
            "replay_seconds": round(time.monotonic() - begin, 1),
            "disagreement": _disagreement("synchronous", replays),
        }
        by_name = {replayed.label: replayed for replayed in replays.report.replays}
        if real is not None:
            own = FlowRecording(kafka, _REAL, POLICIES).replay({})
            checks["disagreement"] += _disagreement("bounded", own)
            _compare(trial, by_name[real.name], checks)
    waves = Waves(
        changed=np.array(trial.changed),
        zones=trial.shown(_SYNCHRONOUS, "zones"),
        maps=trial.shown(_SYNCHRONOUS, "city-map"),
        hotspots=trial.shown(_SYNCHRONOUS, "hotspots"),
        index=trial.index(_SYNCHRONOUS),
    )
    return waves, [StepRuns(s, _waves_of(by_name[s.name])) for s in settings], checks


def _compare(trial: CityTrial, replayed: Replayed, checks: dict[str, Any]) -> None:
    """Hold a replay against the runs and the index of the same setting that ran for real."""
    predicted = {action: list(waves) for action, waves in _waves_of(replayed).items()}
    ran = trial.ran[_REAL]
    checks["disagreement"] += [
        f"{action}: real waves {ran.get(action, [])}, replayed {waves}"
        for action, waves in predicted.items()
        if waves != ran.get(action, [])
    ]
    index = shown(trial.index(_SYNCHRONOUS), predicted["index"])
    checks |= {
        "real_setting": replayed.label,
        "real_runs": {action: len(waves) for action, waves in ran.items()},
        "replayed_runs": {action: len(waves) for action, waves in predicted.items()},
        "index_apart_points": float(np.abs(index - trial.index(_REAL)).max()),
    }


def _waves_of(replayed: Replayed) -> dict[str, tuple[int, ...]]:
    return {step.action: tuple(run.wave for run in step.runs) for step in replayed.steps}


def _disagreement(name: str, replays: FlowReplay) -> list[str]:
    return [
        f"{name}: {d.action} in wave {d.wave}: {d.recorded} runs, {d.replayed} replayed"
        for d in replays.disagreement
    ]


def _load(side: int, seed: int) -> list[Readings]:
    return list(generate(Grid(side), _LOAD_WAVES, seed, Trend.UNIFORM, CALM))


def _computed_loads(seed: int, narrator: Narrator) -> dict[int, float]:
    """Return by detectors the seconds in which Spark computes 24 waves at once (figure 19)."""
    found = {}
    with local_spark() as spark:
        for side in (_LOADS[0], *_LOADS):  # the first one twice: once to warm up
            grid = Grid(side)
            readings = _load(side, seed)
            begin = time.monotonic()
            all_waves(spark, readings, grid, HOTSPOT_REFERENCE)
            found[grid.detectors] = round(time.monotonic() - begin, 1)
            narrator.say(
                f"{grid.detectors} detectors: {_LOAD_WAVES} waves in {found[grid.detectors]:.0f} s"
            )
    return found


def _loads(home: Path | None, seed: int, narrator: Narrator) -> dict[int, float]:
    """Return by detectors the seconds of 24 waves through the synchronous dataflow (figure 19)."""
    found = {}
    for side in _LOADS:
        label = f"{side * side} detectors"
        city = City(side, HOTSPOT_REFERENCE, Path("charts"))
        trial = CityTrial(city, _without_bounds, _load(side, seed), (), label)
        with DemoServices(home, keep=False, on_progress=narrator.progress) as services:
            try:
                seconds = round(send(trial, services, narrator), 1)
            except DemoError as error:
                narrator.say(f"{label}: {error}")
                seconds = math.nan
            else:
                narrator.say(f"{label}: {_LOAD_WAVES} waves in {seconds:.0f} s")
        found[side * side] = seconds
    return found


def _without_bounds(place: City) -> Mapping[str, str]:
    return {_SYNCHRONOUS: dataflow(_SYNCHRONOUS, place, None)}
