"""``headgate demo``: a whole example, from nothing to a report."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headgate.cli.demo.beijing import beijing
from headgate.cli.demo.crawl import crawl
from headgate.cli.demo.crawl_queue import crawl_queue
from headgate.cli.demo.dataflows import AgentDataflows
from headgate.cli.demo.evaluation import evaluation
from headgate.cli.demo.fire_risk import fire_risk
from headgate.cli.demo.hbase import FreshTables, create_tables, feeder
from headgate.cli.demo.linear_road import linear_road
from headgate.cli.demo.narration import HomeOption, JsonOption, Narrator, find_examples, outcome
from headgate.cli.demo.services import DemoServices

if TYPE_CHECKING:
    from aqhi.comparison import Comparing, Followed
    from aqhi.grid import Grid
    from aqhi.readings import Readings
    from aqhi.results import Comparison

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Run a whole example and report on it.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,
)

_WAVES = 24
_WEEK = 168  # hourly waves
_SIDE = 50  # 2,500 detectors
_REAL_SIDE = 20  # 12 stations say no more than 400 interpolated detectors can show
_SIGMAS = (20.0, 80.0)  # per cent: the ends of the paper's range
_REAL_SIGMAS = (20.0,)  # one alone: a week of waves is long
_START = datetime.fromisoformat("2015-11-27")  # a week from hardly any to the worst pollution
_SYNCHRONOUS = "aqhi-synchronous"
_POOL = "aqhi"
"""Of all dataflows: the plans of their steps are the same, and are compiled once for all."""


@app.callback()
def _demo() -> None:
    """Run a whole example and report on it."""


app.command()(evaluation)
app.command()(beijing)
app.command("fire-risk")(fire_risk)
app.command()(crawl)
app.command("crawl-queue")(crawl_queue)
app.command("linear-road")(linear_road)


@app.command()
def aqhi(
    *,
    waves: Annotated[
        int | None,
        typer.Option(min=1, help="Waves of input. Default: 24; with --data, 168 hours."),
    ] = None,
    grid: Annotated[
        int | None,
        typer.Option(
            min=5, max=999, help="Detectors along each side. Default: 50; with --data, 20."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the generator.")] = 1,
    trend: Annotated[
        Literal["increasing", "decreasing", "uniform"],
        typer.Option(help="The pollution's tendency, of the generator."),
    ] = "uniform",
    weather: Annotated[
        Literal["drifting", "calm", "weekly"],
        typer.Option(
            help="How the generator's fields behave: hills that cross the city, hills that hardly "
            "move under noisy sensors, or hours and weekends with hills and noise."
        ),
    ] = "drifting",
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the 12 STATION.csv.gz of Beijing, instead of the generator."
        ),
    ] = None,
    start: Annotated[
        datetime, typer.Option(formats=["%Y-%m-%d"], help="First day, with --data.")
    ] = _START,
    sigma: Annotated[
        list[float] | None,
        typer.Option(
            min=0.1,
            help="Step C runs when so many percent of the detectors have changed. Repeat it to "
            "compare several bounds. Default: 20 and 80; with --data, 20.",
        ),
    ] = None,
    report: Annotated[Path, typer.Option(help="Where to write the page.")] = Path(
        "aqhi-report.html"
    ),
    home: HomeOption = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave tables, logs and charts behind.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compute a city's air quality index after every wave, and under bounds; compare the two."""
    console = Console(stderr=as_json)
    find_examples()
    sigmas = sorted(set(sigma or (_REAL_SIGMAS if data else _SIGMAS)))
    city = _Input(waves, grid, seed, trend, weather, data, start)
    began = time.monotonic()
    from aqhi.stations import StationDataError

    with outcome(console, StationDataError), Narrator(console, city.waves) as narrator:
        readings = city.readings()
        with DemoServices(home, keep=keep, on_progress=narrator.progress) as services:
            comparison = _compare(city, readings, sigmas, services, narrator, began)
        if keep:
            narrator.say(f"kept: {services.folder}")
    from aqhi.report import write_report

    page = write_report(comparison, report)
    if as_json:
        typer.echo(json.dumps(_summary(comparison, page), indent=1))
        return
    for table in _tables(comparison):
        console.print(table)
    console.print("ε = Σ|x−x′| / Σmax(|x|, |x′|) of the step's whole output, after each wave.")
    console.print(f"Report: [bold]{escape(str(page))}[/bold]", soft_wrap=True)
    console.print(
        f"{time.monotonic() - began:.0f} s in all; everything that was started has ended."
    )


class _Input:
    """Where the waves come from."""

    def __init__(
        self,
        waves: int | None,
        side: int | None,
        seed: int,
        trend: str,
        weather: str,
        data: Path | None,
        start: datetime,
    ) -> None:
        self.waves = waves or (_WEEK if data else _WAVES)
        self.side = side or (_REAL_SIDE if data else _SIDE)
        self._seed = seed
        self._trend = trend
        self._weather = weather
        self._data = data
        self._start = start

    @property
    def grid(self) -> Grid:
        from aqhi.grid import Grid

        return Grid(self.side)

    @property
    def reference(self) -> float:
        from aqhi import model, stations

        return stations.REFERENCE if self._data else model.HOTSPOT_REFERENCE

    @property
    def source(self) -> str:
        if self._data:
            return (
                f"hourly record of 12 stations in Beijing from {self._start:%Y-%m-%d}, interpolated"
            )
        return f"seeded generator (seed {self._seed}, trend {self._trend}, weather {self._weather})"

    def readings(self) -> Iterator[Readings]:
        """Return the waves; what cannot be read is found out now, before anything is started."""
        from aqhi.generator import WEATHERS, Trend, generate
        from aqhi.stations import read_stations, replay

        if self._data:
            return replay(self.grid, read_stations(self._data, self._start, self.waves))
        weather = WEATHERS[self._weather]
        return generate(self.grid, self.waves, self._seed, Trend(self._trend), weather)


def _compare(
    city: _Input,
    readings: Iterator[Readings],
    sigmas: Sequence[float],
    services: DemoServices,
    narrator: Narrator,
    began: float,
) -> Comparison:
    """Send the waves through all dataflows of running services."""
    from aqhi import variants
    from aqhi.comparison import Comparing

    place = variants.City(city.side, city.reference, services.folder / "charts")
    ways, texts = _followed(place, sigmas)
    dataflows = AgentDataflows(services.api)
    host, port = services.thrift1
    try:
        narrator.say("tables: creating")
        create_tables(host, port, [way.dataflow for way in ways])
        directory = variants.DATAFLOW_FILE.parent
        narrator.say(f"dataflows: submitting {', '.join(way.dataflow for way in ways)}")
        with ThreadPoolExecutor(len(texts)) as pool:
            list(pool.map(lambda text: dataflows.submit(text, directory), texts))
        narrator.say("Spark: starting the session of all dataflows")
        dataflows.wait_warm([way.dataflow for way in ways])
        hbase = FreshTables(host, port)
        comparing = Comparing(city.grid, ways, feeder(hbase, city.grid), dataflows, hbase)
        started = time.monotonic()
        for wave in readings:
            narrator.wave(comparing.wave(wave), ways)
        took = time.monotonic() - started
        return comparing.result(city.source, _conditions(comparing, ways, began, took))
    finally:
        dataflows.close()


def _followed(place: Any, sigmas: Sequence[float]) -> tuple[list[Followed], list[str]]:
    """Return the dataflows, the synchronous one first, and their files' texts."""
    from aqhi.comparison import Followed
    from aqhi.variants import bounds_in_words, dataflow

    texts = [dataflow(_SYNCHRONOUS, place, None, _POOL)]
    ways = [Followed(_SYNCHRONOUS, "synchronous", "none", place.reference)]
    for sigma in sigmas:
        name = f"aqhi-{sigma:g}".replace(".", "_")
        texts.append(dataflow(name, place, sigma, _POOL))
        words = bounds_in_words(texts[-1])
        ways.append(Followed(name, f"σ {sigma:g} %", words, place.reference))
    return ways, texts


def _conditions(
    comparing: Comparing, ways: Sequence[Followed], began: float, took: float
) -> list[tuple[str, str]]:
    started = time.monotonic() - began - took
    versions = ", ".join(
        f"{name} {number}"
        for name, number in (
            ("Python", platform.python_version()),
            ("PySpark", version("pyspark")),
            ("headgate", version("headgate")),
        )
    )
    check = (
        "largest difference of any synchronous output, computed by Spark, from the formulas, "
        f"computed by NumPy: {comparing.formulas_apart:.1e}"
    )
    times = f"waves {took:.0f} s, start of HBase, Kafka, proxy, agent and Spark {started:.0f} s"
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, {versions}"
    return [
        *((f"bounds, {way.label}", way.bounds) for way in ways),
        ("check", check),
        ("times", times),
        ("machine", machine),
        ("command", " ".join(["headgate", *sys.argv[1:]])),
    ]


def _tables(comparison: Comparison) -> Iterator[Table]:
    from aqhi.results import STEPS

    for way in comparison.bounded:
        table = Table(title=way.name, title_justify="left", title_style="bold")
        table.add_column("step")
        for title in (
            "runs\nsync.",
            "runs\nbounds",
            "saved",
            "mean\nerror ε",
            "max\nerror ε",
            "max",
        ):
            table.add_column(title, justify="right")
        for step in STEPS:
            action = step.action
            unit = "points" if action == "index" else "units"
            table.add_row(
                f"{step.letter} {action}",
                str(len(comparison.synchronous.runs[action])),
                str(len(way.runs[action])),
                f"{way.saved(action, comparison.synchronous):.0f} %",
                f"{100 * way.mean_error(action):.2f} %",
                f"{100 * way.worst_error(action):.2f} %",
                f"{way.largest_error(action):.2f} {unit}",
            )
        yield table


def _summary(comparison: Comparison, page: Path) -> dict[str, Any]:
    from aqhi.results import STEPS

    return {
        "report": str(page),
        "source": comparison.source,
        "detectors": comparison.side**2,
        "waves": len(comparison.labels),
        "conditions": dict(comparison.conditions),
        "ways": [
            {
                "name": way.name,
                "bounds": way.bounds,
                "steps": {
                    step.action: {
                        "runs_synchronous": len(comparison.synchronous.runs[step.action]),
                        "runs": len(way.runs[step.action]),
                        "saved_percent": way.saved(step.action, comparison.synchronous),
                        "mean_error": way.mean_error(step.action),
                        "max_error": way.worst_error(step.action),
                        "max_difference": way.largest_error(step.action),
                    }
                    for step in STEPS
                },
                "seconds": way.seconds,
            }
            for way in comparison.bounded
        ],
        "seconds_synchronous": comparison.synchronous.seconds,
    }
