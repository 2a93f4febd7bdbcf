"""``headgate demo fire-risk``: a forest's risk of fire, under bounds and without."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from headgate.cli.demo.comparison import (
    Cells,
    SynchronousComparison,
    WaveInput,
    print_steps,
    read_example,
    summary,
)
from headgate.cli.demo.narration import HomeOption, JsonOption, Narrator, example_file, outcome
from headgate.cli.demo.services import DemoServices

if TYPE_CHECKING:
    from fire_risk.forest import Forest
    from fire_risk.weather import Hour

_WAVES = 24
_SIDE = 30  # 900 sensors, 100 areas
_START = datetime.fromisoformat("2007-05-23T08:00")  # two days to the summer's highest index


def fire_risk(
    *,
    waves: Annotated[int, typer.Option(min=1, help="Hours of weather.")] = _WAVES,
    grid: Annotated[int, typer.Option(min=6, max=999, help="Sensors along each side.")] = _SIDE,
    seed: Annotated[int, typer.Option(help="Of the forest, its fire, and the weather.")] = 1,
    data: Annotated[
        Path | None,
        typer.Option(
            help="PRF2007_standard_hourly_FWI.csv.gz: a recorded summer, instead of the generator."
        ),
    ] = None,
    start: Annotated[
        datetime, typer.Option(formats=["%Y-%m-%dT%H:%M"], help="First hour, with --data.")
    ] = _START,
    home: HomeOption = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave tables, logs and thermal maps behind.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Follow a forest's risk of fire hour by hour, under bounds and synchronously; compare."""
    console = Console(stderr=as_json)
    file = example_file("fire_risk")
    from fire_risk.forest import AREA, Forest
    from fire_risk.weather import WeatherDataError, generated, recorded

    began = time.monotonic()
    with outcome(console, WeatherDataError), Narrator(console, waves) as narrator:
        before, season = recorded(data, start, waves) if data else (None, generated(waves, seed))
        forest = Forest(grid - grid % AREA, seed)
        with DemoServices(home, keep=keep, on_progress=narrator.progress) as services:

            def change(tree: dict[str, Any]) -> None:
                tree["actions"]["measure"]["parameters"] = before or {}
                charts = {"charts": str(services.folder / "charts")}
                tree["actions"]["thermal-map"]["parameters"] = charts

            comparison = SynchronousComparison(read_example(file, change), file, services, narrator)
            comparison.send(_waves(forest, season))
        if keep:
            narrator.say(f"kept: {services.folder}")
    fires = _fires(comparison)
    record = _against_record(comparison.output("measure"), forest, season)
    if as_json:
        found = {"fires": fires, "largest difference from the record": record}
        typer.echo(json.dumps(summary(comparison) | found, indent=1))
        return
    print_steps(console, comparison)
    console.print(f"Very hot: {', '.join(fires['hot'])}; fires: {', '.join(fires['orders'])}.")
    if record is not None:
        console.print(
            "Moisture codes at the station after the last hour, against the record's own: "
            f"largest difference {record:.1g}."
        )
    console.print(
        f"{time.monotonic() - began:.0f} s in all; everything that was started has ended."
    )


def _waves(forest: Forest, season: Sequence[Hour]) -> Iterator[WaveInput]:
    for hour in forest.hours(season):
        yield WaveInput(
            hour.label, {"fire-satellite": hour.satellite, "fire-sensors": hour.sensors}
        )


def _fires(comparison: SynchronousComparison) -> dict[str, list[str]]:
    """Return the areas of which pictures were gathered, and those that orders name."""
    return {
        "hot": sorted({row.decode() for row, _ in comparison.output("pictures")}),
        "orders": sorted({row.decode() for row, _ in comparison.output("order")}),
    }


def _against_record(floor: Cells, forest: Forest, season: Sequence[Hour]) -> float | None:
    """Return the largest difference of a moisture code at the station from the record's."""
    codes = season[-1].codes
    if codes is None:
        return None
    names = ("ffmc", "dmc", "dc")
    return max(abs(float(floor[forest.station, b"f:" + n.encode()]) - codes[n]) for n in names)
