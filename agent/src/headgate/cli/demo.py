"""``headgate demo``: a whole example, from nothing to a report."""

from __future__ import annotations

import importlib
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import happybase
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from thriftpy2.thrift import TException

from headgate.cli.demo_dataflows import AgentDataflows, DemoError
from headgate.cli.demo_stand import DemoStand, StandError
from headgate.local import LocalStackError, Progress

if TYPE_CHECKING:
    from aqhi.comparison import Comparing, Followed, WaveDone
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

_INTERRUPTED = 130  # what shells give a command that Ctrl-C ended
_WAVES = 24
_WEEK = 168  # hourly waves
_SIDE = 50  # 2,500 detectors
_REAL_SIDE = 20  # 12 stations say no more than 400 interpolated detectors can show
_SIGMAS = (20.0, 80.0)  # per cent: the ends of the paper's range
_REAL_SIGMAS = (20.0,)  # one alone: a week of waves is long
_BATCH = 1000  # rows of one mutateRows
_START = datetime.fromisoformat("2015-11-27")  # a week from hardly any to the worst pollution
_SYNCHRONOUS = "aqhi-synchronous"


@app.callback()
def _demo() -> None:
    """Run a whole example and report on it."""


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
    home: Annotated[
        Path | None,
        typer.Option(
            help="Folder for all that runs. Default: $HEADGATE_HOME, else the user's data folder.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave tables, logs and charts behind.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one JSON document.")
    ] = False,
) -> None:
    """Compute a city's air quality index after every wave, and under bounds; compare the two."""
    console = Console(stderr=as_json)
    _find_examples()
    sigmas = sorted(set(sigma or (_REAL_SIGMAS if data else _SIGMAS)))
    city = _Input(waves, grid, seed, trend, data, start)
    began = time.monotonic()
    with _outcome(console), _Narrator(console, city.waves) as narrator:
        readings = city.readings()
        with DemoStand(home, keep=keep, tell=narrator.progress) as stand:
            comparison = _compare(city, readings, sigmas, stand, narrator, began)
        if keep:
            narrator.say(f"kept: {stand.folder}")
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
        data: Path | None,
        start: datetime,
    ) -> None:
        self.waves = waves or (_WEEK if data else _WAVES)
        self.side = side or (_REAL_SIDE if data else _SIDE)
        self._seed = seed
        self._trend = trend
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
        return f"seeded generator (seed {self._seed}, trend {self._trend})"

    def readings(self) -> Iterator[Readings]:
        """Return the waves; what cannot be read is found out now, before anything is started."""
        from aqhi.generator import Trend, generate
        from aqhi.stations import read_stations, replay

        if self._data:
            return replay(self.grid, read_stations(self._data, self._start, self.waves))
        return generate(self.grid, self.waves, self._seed, Trend(self._trend))


class _Narrator:
    """Tells what goes on: a moving bar on a terminal, one line for each thing elsewhere."""

    def __init__(self, console: Console, waves: int) -> None:
        self._console = console
        self._began = time.monotonic()
        self._bar = Bar(
            TextColumn("[progress.description]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=waves)

    def __enter__(self) -> _Narrator:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        """Tell one thing."""
        self._console.print(
            f"{time.monotonic() - self._began:6.1f} s  {escape(text)}",
            highlight=False,
            soft_wrap=True,
        )

    def progress(self, progress: Progress) -> None:
        """Tell what the stand is doing; of what is counted only the end is told line by line."""
        if progress.total and progress.done < progress.total:
            self._bar.update(
                self._task,
                description=f"{progress.subject} {progress.done}/{progress.total}",
            )
            return
        self.say(f"{progress.subject}: {progress.text}")

    def wave(self, done: WaveDone, ways: Sequence[Followed]) -> None:
        """Tell what a wave brought."""
        self._bar.update(self._task, completed=done.number, description="waves")
        parts = [
            f"{way.label} {''.join(done.ran[way.dataflow]) or '-':5} "
            f"index {done.index[way.dataflow]:5.2f}"
            for way in ways
        ]
        self.say(
            f"{done.label}: {done.reported} detectors changed; {'; '.join(parts)}; "
            f"{done.seconds:.1f} s"
        )


def _compare(
    city: _Input,
    readings: Iterator[Readings],
    sigmas: Sequence[float],
    stand: DemoStand,
    narrator: _Narrator,
    began: float,
) -> Comparison:
    """Send the waves through all dataflows of a running stand."""
    from aqhi import variants
    from aqhi.comparison import Comparing

    place = variants.City(city.side, city.reference, stand.folder / "charts")
    ways, texts = _followed(place, sigmas)
    dataflows = AgentDataflows(stand.api)
    host, port = stand.thrift1
    try:
        narrator.say("tables: creating")
        _create_tables(host, port, [way.dataflow for way in ways])
        directory = variants.DATAFLOW_FILE.parent
        narrator.say(f"dataflows: submitting {', '.join(way.dataflow for way in ways)}")
        with ThreadPoolExecutor(len(texts)) as pool:
            list(pool.map(lambda text: dataflows.submit(text, directory), texts))
        narrator.say("Spark: starting a session for each dataflow")
        dataflows.wait_warm([way.dataflow for way in ways])
        hbase = _FreshTables(host, port)
        comparing = Comparing(city.grid, ways, _feeder(hbase, city.grid), dataflows, hbase)
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

    texts = [dataflow(_SYNCHRONOUS, place, None)]
    ways = [Followed(_SYNCHRONOUS, "synchronous", "none", place.reference)]
    for sigma in sigmas:
        name = f"aqhi-{sigma:g}".replace(".", "_")
        texts.append(dataflow(name, place, sigma))
        words = bounds_in_words(texts[-1])
        ways.append(Followed(name, f"σ {sigma:g} %", words, place.reference))
    return ways, texts


def _create_tables(host: str, port: int, dataflows: Sequence[str]) -> None:
    """Create all tables, several at a time: HBase takes about a second for each."""
    from aqhi.variants import tables

    families = {table: names for flow in dataflows for table, names in tables(flow).items()}

    def create(table: str) -> None:
        client = happybase.Connection(host, port)
        try:
            client.create_table(table, {family: {} for family in families[table]})
        finally:
            client.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, families))


class _FreshTables:
    """Tables over a new connection each: the server closes those that are idle for a minute."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._last: Any = None

    def table(self, name: str) -> Any:
        """Return a table, which can be used until the next is asked for."""
        if self._last is not None:
            self._last.close()
        self._last = happybase.Connection(self._host, self._port)
        return self._last.table(name)


def _feeder(hbase: _FreshTables, grid: Grid) -> Callable[[Readings], None]:
    """Return the function that writes a wave through the proxy as any happybase program would."""
    from aqhi.variants import SENSORS_TABLE

    def feed(readings: Readings) -> None:
        with hbase.table(SENSORS_TABLE).batch(batch_size=_BATCH) as batch:
            for row, cells in readings.puts(grid):
                batch.put(row, cells)

    return feed


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


@contextmanager
def _outcome(console: Console) -> Iterator[None]:
    """Turn what goes wrong into one message and an exit code; SIGTERM ends as Ctrl-C does."""
    from aqhi.stations import StationDataError

    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        console.print("interrupted; everything that was started has ended")
        raise typer.Exit(_INTERRUPTED) from None
    except (StationDataError, LocalStackError, StandError, DemoError) as error:
        console.print(f"[red]headgate demo:[/red] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(1) from error
    except TException as error:
        console.print(f"[red]headgate demo:[/red] HBase behind the proxy: {escape(str(error))}")
        raise typer.Exit(1) from error
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_: int, __: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _find_examples() -> None:
    """Make the examples importable: the installed package's, or the checkout's."""
    room = Path(__file__).resolve().parent
    packaged, checkout = room / "examples", room.parents[3] / "examples"
    for folder in (packaged, checkout):
        if (folder / "aqhi" / "steps.py").is_file():
            if str(folder) not in sys.path:
                sys.path.insert(0, str(folder))
            importlib.invalidate_caches()
            return
    typer.echo(
        f"headgate demo: the examples are neither in {packaged} nor in {checkout}; install "
        "headgate again, or restore the folder examples of the checkout",
        err=True,
    )
    raise typer.Exit(1)
