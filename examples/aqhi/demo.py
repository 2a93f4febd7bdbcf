"""``headgate demo aqhi``: a city's air quality index without bounds, and under several."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from msgspec import Struct
from rich.table import Table

from aqhi import model, stations
from aqhi.comparison import Comparing, Followed
from aqhi.generator import WEATHERS, Trend, generate
from aqhi.grid import Grid
from aqhi.readings import Readings
from aqhi.report import write_report
from aqhi.results import STEPS, Comparison
from aqhi.variants import DATAFLOW_FILE, SENSORS_TABLE, City, bounds_in_words, dataflow
from headgate.cli import (
    Example,
    Report,
    SettledWave,
    Stand,
    Submission,
    Times,
    Wave,
    demonstration,
    machine_in_words,
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
"""The pool of all dataflows: the plans of their steps are the same, and are compiled once."""


@demonstration(stations.StationDataError)
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
) -> Example:
    """Compute a city's air quality index after every wave, and under bounds; compare the two."""
    sigmas = sorted(set(sigma or (_REAL_SIGMAS if data else _SIGMAS)))
    if data:
        side, count = grid or _REAL_SIDE, waves or _WEEK
        return AirQuality(recorded(data, start, side, count), sigmas, report)
    side, count = grid or _SIDE, waves or _WAVES
    return AirQuality(drawn(seed, trend, weather, side, count), sigmas, report)


class Input(Struct, frozen=True):
    """The waves and their origin."""

    source: str
    """Origin of the waves in words."""
    grid: Grid
    """Places of the detectors."""
    reference: float
    """Concentration above which a zone is a hotspot."""
    waves: int
    readings: Iterator[Readings]
    """Readings of each wave."""


def recorded(folder: Path, start: datetime, side: int, waves: int) -> Input:
    """Return hours of 12 stations in Beijing, between which detectors are interpolated.

    Raises:
        StationDataError: the folder does not have them.
    """
    grid = Grid(side)
    readings = stations.replay(grid, stations.read_stations(folder, start, waves))
    source = f"hourly record of 12 stations in Beijing from {start:%Y-%m-%d}, interpolated"
    return Input(source, grid, stations.REFERENCE, waves, readings)


def drawn(seed: int, trend: str, weather: str, side: int, waves: int) -> Input:
    """Return waves of the seeded generator."""
    grid = Grid(side)
    readings = generate(grid, waves, seed, Trend(trend), WEATHERS[weather])
    source = f"seeded generator (seed {seed}, trend {trend}, weather {weather})"
    return Input(source, grid, model.HOTSPOT_REFERENCE, waves, readings)


class AirQuality:
    """The index of a city, computed after every wave and under bounds of step C.

    Args:
        given: the waves.
        sigmas: a dataflow is bound by each, in percent of the detectors.
        page: where the report is written.
    """

    def __init__(self, given: Input, sigmas: Sequence[float], page: Path) -> None:
        self.waves = given.waves
        self._given = given
        self._page = page
        self._sigmas: dict[str, float | None] = {_SYNCHRONOUS: None}
        self._sigmas |= {f"aqhi-{sigma:g}".replace(".", "_"): sigma for sigma in sigmas}
        self._ways = [
            Followed(
                name,
                "synchronous" if sigma is None else f"σ {sigma:g} %",
                bounds_in_words(self._text(name, Path())) or "none",
                given.reference,
            )
            for name, sigma in self._sigmas.items()
        ]
        self._comparing = Comparing(given.grid, self._ways)
        self._fed: Readings | None = None

    def dataflows(self, folder: Path) -> Sequence[Submission]:
        """Return the synchronous dataflow, and one for each bound; all draw charts."""
        charts = folder / "charts"
        return [Submission(self._text(name, charts), DATAFLOW_FILE) for name in self._sigmas]

    def feed(self, _: Stand) -> Iterator[Wave]:
        """Yield what the detectors report."""
        for readings in self._given.readings:
            self._fed = readings
            yield Wave(readings.label, {SENSORS_TABLE: readings.puts(self._given.grid)})

    def measure(self, wave: SettledWave, stand: Stand) -> Iterable[str]:
        """Compare all outputs with the synchronous ones; return which steps ran."""
        assert self._fed is not None  # noqa: S101 - a wave is fed before it is measured
        done = self._comparing.wave(self._fed, wave.runs, stand.tables)
        parts = [
            f"{way.label} {''.join(done.ran[way.dataflow]) or '-':5} "
            f"index {done.index[way.dataflow]:5.2f}"
            for way in self._ways
        ]
        words = f"{done.reported} detectors changed; {'; '.join(parts)}"
        return [f"{wave.label}: {words}; {wave.seconds:.1f} s"]

    def report(self, times: Times) -> Report:
        """Write the page; return what was saved and how far outputs were off."""
        comparison = self._comparing.result(self._given.source, self._conditions(times))
        page = write_report(comparison, self._page)
        words = "ε = Σ|x−x′| / Σmax(|x|, |x′|) of the step's whole output, after each wave."
        return Report(_summary(comparison, page), [*_tables(comparison), words], page)

    def _text(self, name: str, charts: Path) -> str:
        city = City(self._given.grid.side, self._given.reference, charts)
        return dataflow(name, city, self._sigmas[name], _POOL)

    def _conditions(self, times: Times) -> list[tuple[str, str]]:
        check = (
            "largest difference of any synchronous output, computed by Spark, from the formulas, "
            f"computed by NumPy: {self._comparing.formulas_apart:.1e}"
        )
        took = (
            f"waves {times.waves:.0f} s, start of HBase, Kafka, proxy, agent and Spark "
            f"{times.starting:.0f} s"
        )
        versions = f"PySpark {version('pyspark')}, headgate {version('headgate')}"
        return [
            *((f"bounds, {way.label}", way.bounds) for way in self._ways),
            ("check", check),
            ("times", took),
            ("machine", f"{machine_in_words()}, {versions}"),
            ("command", " ".join(["headgate", *sys.argv[1:]])),
        ]


def _tables(comparison: Comparison) -> Iterator[Table]:
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
