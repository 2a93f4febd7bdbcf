"""``headgate demo evaluation``: the paper's evaluation on services of its own.

One synchronous dataflow for each trend of the input serves all settings: they are replayed over
what it recorded. One setting runs for real beside it and must agree.
"""

from __future__ import annotations

import json
import math
import os
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from headgate.agent import POLICIES, FlowRecording, FlowReplay, KafkaOptions
from headgate.cli.demo.dataflows import AgentDataflows, DemoError
from headgate.cli.demo.evaluation_seeds import f_by_choices, mean_of_seeds
from headgate.cli.demo.hbase import FreshTables, create_tables, feeder
from headgate.cli.demo.narration import HomeOption, Narrator, find_examples, outcome
from headgate.cli.demo.record import SynchronousRecord, computed_by_spark, local_spark
from headgate.cli.demo.services import DemoServices
from headgate.flows import parse_dataflow
from headgate.replay import Candidate, Replayed

if TYPE_CHECKING:
    from aqhi.grid import Grid
    from evaluation.aqhi.figures import Experiment, StepRuns, Waves

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
    find_examples()
    from aqhi.grid import Grid
    from aqhi.model import HOTSPOT_REFERENCE
    from evaluation.aqhi.figures import experiments, figures
    from evaluation.aqhi.report import write_evaluation

    count = waves or (_QUICK if quick else _WEEK)
    began = time.monotonic()
    sent: dict[Any, Waves] = {}
    found: list[StepRuns] = []
    checks: dict[str, Any] = {}
    seconds: dict[int, float] = {}
    with outcome(console), Narrator(console, count) as narrator:
        for experiment in experiments(HOTSPOT_REFERENCE, quick=quick):
            if computed:
                shown, ran, check = _compute(experiment, Grid(grid), seed, count, narrator)
                sent[experiment.trend], checks[experiment.trend.value] = shown, check
                found += ran
                continue
            with DemoServices(home, keep=False, on_progress=narrator.progress) as services:
                trial = _Trial(experiment, Grid(grid), seed, services, narrator)
                sent[experiment.trend] = trial.send(count)
                found += trial.replay()
                checks[experiment.trend.value] = trial.checks
        narrator.say(f"{_SEEDS} seeds, by the engine alone")
        seeds = mean_of_seeds(Grid(grid), _WEEK, _SEEDS, quick=quick)
        choices: dict[str, Any] = {}
        if not quick:
            narrator.say("step F by other choices of the generator")
            choices = f_by_choices(Grid(grid), _WEEK, _SEEDS)
        if computed and loads and not quick:
            seconds = _computed_loads(seed, narrator)
        for side in _LOADS if loads and not (quick or computed) else ():
            with DemoServices(home, keep=False, on_progress=narrator.progress) as services:
                seconds[side * side] = _load(Grid(side), seed, services, narrator)
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
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}",
        "seconds": round(time.monotonic() - began, 1),
    }
    result["report"] = str(write_evaluation(sent, found, result, report))
    typer.echo(json.dumps(result, indent=1))
    if any(check["disagreement"] for check in checks.values()):
        console.print("[red]headgate demo:[/red] a replay and a real run do not agree; see checks")
        raise typer.Exit(1)


def _compute(
    experiment: Experiment, grid: Grid, seed: int, count: int, narrator: Narrator
) -> tuple[Waves, list[StepRuns], dict[str, Any]]:
    """Return what a trial returns, without services."""
    from aqhi import variants
    from aqhi.generator import CALM, generate
    from aqhi.model import HOTSPOT_REFERENCE
    from evaluation.aqhi.figures import StepRuns, with_bounds

    readings = list(generate(grid, count, seed, experiment.trend, CALM))
    narrator.say(f"{experiment.trend}: Spark computes the outputs of {count} waves")
    begin = time.monotonic()
    waves, concentrations = computed_by_spark(readings, grid, HOTSPOT_REFERENCE)
    spark_seconds = time.monotonic() - begin
    city = variants.City(grid.side, HOTSPOT_REFERENCE, Path("charts"))
    text = variants.dataflow(_SYNCHRONOUS, city, None)
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


class _Trial:
    """One input through the synchronous dataflow, and through one with bounds."""

    def __init__(
        self,
        experiment: Experiment,
        grid: Grid,
        seed: int,
        services: DemoServices,
        narrator: Narrator,
    ) -> None:
        from aqhi import variants
        from aqhi.model import HOTSPOT_REFERENCE
        from evaluation.aqhi.figures import with_bounds, without

        self._experiment = experiment
        self._grid = grid
        self._seed = seed
        self._services = services
        self._narrator = narrator
        city = variants.City(grid.side, HOTSPOT_REFERENCE, services.folder / "charts")
        text = variants.dataflow(_SYNCHRONOUS, city, None)
        self._text = without(text, experiment.left_out)
        self._texts = {_SYNCHRONOUS: self._text}
        self._real = next((s for s in experiment.settings if s.name == experiment.real), None)
        if self._real is not None:
            text = variants.dataflow(_REAL, city, None)
            self._texts[_REAL] = with_bounds(without(text, experiment.left_out), self._real)
        self._ran: dict[str, list[int]] = {}
        self._seen: list[float] = []
        self._index: list[float] = []
        self.checks: dict[str, Any] = {}

    def send(self, count: int) -> Waves:
        """Send all waves; return what the synchronous dataflow showed."""
        import numpy as np
        from aqhi.generator import CALM, generate
        from aqhi.outputs import read_output
        from evaluation.aqhi.figures import Waves

        hbase, dataflows = _begin(self._texts, self._services, self._narrator)
        feed = feeder(hbase, self._grid)
        left_out = self._experiment.left_out
        outputs: dict[str, list[Any]] = {a: [] for a in _SHOWN if a not in left_out}
        changed = []
        newest = -1
        begin = time.monotonic()
        try:
            for number, wave in enumerate(
                generate(self._grid, count, self._seed, self._experiment.trend, CALM), 1
            ):
                feed(wave)
                dataflows.end_wave(list(self._texts))
                changed.append(len(wave.detectors) / self._grid.detectors)
                for action, squares in outputs.items():
                    squares.append(read_output(hbase, _SYNCHRONOUS, action, self._grid.side))
                if self._real is not None:
                    for run in dataflows.finished(_REAL, newest):
                        newest = max(newest, run.number)
                        self._ran.setdefault(run.action, []).append(number)
                    self._seen.append(float(read_output(hbase, _REAL, "index", 1)[0, 0]))
                self._narrator.say(
                    f"{self._experiment.trend}, wave {number} of {count}: "
                    f"{time.monotonic() - begin:.0f} s"
                )
        finally:
            dataflows.close()
        stacked = {action: np.nan_to_num(np.array(squares)) for action, squares in outputs.items()}
        nothing = np.zeros((0, 1, 1))
        index = stacked.get("index", nothing)[:, 0, 0]
        self._index = index.tolist()
        self.checks["waves_seconds"] = round(time.monotonic() - begin, 1)
        return Waves(
            changed=np.array(changed),
            zones=stacked["zones"],
            maps=stacked["city-map"],
            hotspots=stacked.get("hotspots", nothing),
            index=index,
        )

    def replay(self) -> list[StepRuns]:
        """Replay all settings; compare the real one."""
        from evaluation.aqhi.figures import StepRuns, with_bounds

        kafka = KafkaOptions(bootstrap=self._services.kafka)
        settings = self._experiment.settings
        specs = {s.name: parse_dataflow(with_bounds(self._text, s), s.name).spec for s in settings}
        self._narrator.say(f"replaying under {len(specs)} sets of bounds")
        begin = time.monotonic()
        replays = FlowRecording(kafka, _SYNCHRONOUS, POLICIES).replay(specs)
        self.checks |= {
            "replayed_settings": len(specs),
            "replay_seconds": round(time.monotonic() - begin, 1),
            "disagreement": _disagreement("synchronous", replays),
        }
        by_name = {replayed.label: replayed for replayed in replays.report.replays}
        if self._real is not None:
            self._compare(
                by_name[self._real.name], FlowRecording(kafka, _REAL, POLICIES).replay({})
            )
        return [StepRuns(s, _waves_of(by_name[s.name])) for s in settings]

    def _compare(self, replayed: Replayed, own: FlowReplay) -> None:
        """Hold the replay against the real run's runs and index, and against its own replay."""
        import numpy as np
        from evaluation.aqhi.figures import shown

        predicted = {action: list(waves) for action, waves in _waves_of(replayed).items()}
        differing = [
            f"{action}: real waves {self._ran.get(action, [])}, replayed {waves}"
            for action, waves in predicted.items()
            if waves != self._ran.get(action, [])
        ]
        index = shown(np.array(self._index), predicted["index"])
        self.checks["disagreement"] += [*differing, *_disagreement("bounded", own)]
        self.checks |= {
            "real_setting": replayed.label,
            "real_runs": {action: len(waves) for action, waves in self._ran.items()},
            "replayed_runs": {action: len(waves) for action, waves in predicted.items()},
            "index_apart_points": float(np.abs(index - np.array(self._seen)).max()),
        }


def _begin(
    texts: dict[str, str], services: DemoServices, narrator: Narrator
) -> tuple[FreshTables, AgentDataflows]:
    from aqhi import variants

    host, port = services.thrift1
    narrator.say("tables: creating")
    create_tables(host, port, list(texts))
    dataflows = AgentDataflows(services.api)
    for text in texts.values():
        dataflows.submit(text, variants.DATAFLOW_FILE.parent)
    narrator.say("Spark: starting a session for each dataflow")
    dataflows.wait_warm(list(texts))
    return FreshTables(host, port), dataflows


def _waves_of(replayed: Replayed) -> dict[str, tuple[int, ...]]:
    return {step.action: tuple(run.wave for run in step.runs) for step in replayed.steps}


def _disagreement(name: str, replays: FlowReplay) -> list[str]:
    return [
        f"{name}: {d.action} in wave {d.wave}: {d.recorded} runs, {d.replayed} replayed"
        for d in replays.disagreement
    ]


def _computed_loads(seed: int, narrator: Narrator) -> dict[int, float]:
    """Return by detectors the seconds in which Spark computes 24 waves at once (figure 19)."""
    from aqhi.generator import CALM, Trend, generate
    from aqhi.grid import Grid
    from aqhi.model import HOTSPOT_REFERENCE
    from evaluation.aqhi.all_waves import all_waves

    found = {}
    with local_spark() as spark:
        for side in (_LOADS[0], *_LOADS):  # the first one twice: once to warm up
            grid = Grid(side)
            readings = list(generate(grid, _LOAD_WAVES, seed, Trend.UNIFORM, CALM))
            begin = time.monotonic()
            all_waves(spark, readings, grid, HOTSPOT_REFERENCE)
            found[grid.detectors] = round(time.monotonic() - begin, 1)
            narrator.say(
                f"{grid.detectors} detectors: {_LOAD_WAVES} waves in {found[grid.detectors]:.0f} s"
            )
    return found


def _load(grid: Grid, seed: int, services: DemoServices, narrator: Narrator) -> float:
    """Return the seconds of 24 waves through the synchronous dataflow (figure 19)."""
    from aqhi import variants
    from aqhi.generator import CALM, Trend, generate
    from aqhi.model import HOTSPOT_REFERENCE

    city = variants.City(grid.side, HOTSPOT_REFERENCE, services.folder / "charts")
    texts = {_SYNCHRONOUS: variants.dataflow(_SYNCHRONOUS, city, None)}
    hbase, dataflows = _begin(texts, services, narrator)
    feed = feeder(hbase, grid)
    try:
        begin = time.monotonic()
        for wave in generate(grid, _LOAD_WAVES, seed, Trend.UNIFORM, CALM):
            feed(wave)
            dataflows.end_wave([_SYNCHRONOUS])
        seconds = time.monotonic() - begin
    except DemoError as error:
        narrator.say(f"{grid.detectors} detectors: {error}")
        return math.nan
    finally:
        dataflows.close()
    narrator.say(f"{grid.detectors} detectors: {_LOAD_WAVES} waves in {seconds:.0f} s")
    return round(seconds, 1)
