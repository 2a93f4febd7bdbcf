"""``headgate demo fire-risk``: a forest's risk of fire, under bounds and without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
import yaml

from fire_risk.forest import AREA, Forest
from fire_risk.weather import Hour, WeatherDataError, generated, recorded
from headgate.cli import (
    Cells,
    Example,
    Report,
    SettledWave,
    Stand,
    Submission,
    SynchronousComparison,
    Times,
    Wave,
    demonstration,
)

FILE = Path(__file__).with_name("fire_risk.yaml")
_WAVES = 24
_SIDE = 30  # 900 sensors, 100 areas
_START = datetime.fromisoformat("2007-05-23T08:00")  # two days to the summer's highest index


@demonstration(WeatherDataError)
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
) -> Example:
    """Follow a forest's risk of fire hour by hour, under bounds and synchronously; compare."""
    before, season = recorded(data, start, waves) if data else (None, generated(waves, seed))
    return FireRisk(Forest(grid - grid % AREA, seed), season, before or {})


class FireRisk:
    """The risk of a forest's areas over some hours, beside the one that is always computed.

    Args:
        forest: what sensors and a satellite see.
        season: the hours.
        before: moisture codes with which the first hour begins; the dataflow's own where empty.
    """

    def __init__(self, forest: Forest, season: Sequence[Hour], before: Mapping[str, float]) -> None:
        self.waves = len(season)
        self._forest = forest
        self._season = season
        self._tree = yaml.safe_load(FILE.read_text(encoding="utf-8"))
        self._tree["actions"]["measure"]["parameters"] = before
        hours = (
            Wave(hour.label, {"fire-satellite": hour.satellite, "fire-sensors": hour.sensors})
            for hour in forest.hours(season)
        )
        self._beside = SynchronousComparison(self._tree, FILE, hours)

    def dataflows(self, folder: Path) -> Sequence[Submission]:
        """Return the dataflow without and with its bounds; both draw thermal maps."""
        self._tree["actions"]["thermal-map"]["parameters"] = {"charts": str(folder / "charts")}
        return self._beside.dataflows(folder)

    def feed(self, stand: Stand) -> Iterator[Wave]:
        """Yield what sensors and the satellite see, hour by hour."""
        return self._beside.feed(stand)

    def measure(self, wave: SettledWave, stand: Stand) -> Iterable[str]:
        """Compare both outputs of each step."""
        return self._beside.measure(wave, stand)

    def report(self, _: Times) -> Report:
        """Return what was left out, where it burned, and how far codes are from a record."""
        fires = {
            "hot": self._areas("pictures"),
            "orders": self._areas("order"),
        }
        record = against_record(self._beside.output("measure"), self._forest, self._season)
        found = {"fires": fires, "largest difference from the record": record}
        words = [f"Very hot: {', '.join(fires['hot'])}; fires: {', '.join(fires['orders'])}."]
        if record is not None:
            words.append(
                "Moisture codes at the station after the last hour, against the record's own: "
                f"largest difference {record:.1g}."
            )
        return Report(self._beside.document() | found, [*self._beside.shown(), *words])

    def _areas(self, step: str) -> list[str]:
        """Return the areas that a step has written."""
        return sorted({row.decode() for row, _ in self._beside.output(step)})


def against_record(floor: Cells, forest: Forest, season: Sequence[Hour]) -> float | None:
    """Return the largest difference of a moisture code at the station from the record's."""
    codes = season[-1].codes
    if codes is None:
        return None
    names = ("ffmc", "dmc", "dc")
    return max(abs(float(floor[forest.station, b"f:" + n.encode()]) - codes[n]) for n in names)
