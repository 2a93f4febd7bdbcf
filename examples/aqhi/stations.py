"""Real input: the record of a city's stations, interpolated to the grid of detectors.

The files are those of the UCI set "Beijing Multi-Site Air Quality": one gzipped CSV per station,
hourly, micrograms per cubic metre, ``NA`` where a value is missing.

Mapping. The stations' bounding box, with a margin, becomes the square city. A detector's sensor
reads the mean of all stations' last known values, weighted by one over the squared distance. It
reports when the reading has moved by :data:`NOTICEABLE` units since its last report (that is what
"perceives a change" means here), and only while its nearest station has a value: a missing one is
no update. Concentrations become sensor units 0 to 100 by :data:`FULL_SCALE`.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from aqhi.grid import SIDE_UNITS, Grid
from aqhi.model import SENSORS
from aqhi.readings import RESOLUTION, Readings

STATIONS = {
    "Aotizhongxin": (39.982, 116.397),
    "Changping": (40.217, 116.230),
    "Dingling": (40.292, 116.220),
    "Dongsi": (39.929, 116.417),
    "Guanyuan": (39.929, 116.339),
    "Gucheng": (39.914, 116.184),
    "Huairou": (40.328, 116.628),
    "Nongzhanguan": (39.937, 116.461),
    "Shunyi": (40.127, 116.655),
    "Tiantan": (39.886, 116.407),
    "Wanliu": (39.987, 116.287),
    "Wanshouxigong": (39.878, 116.352),
}
"""Latitude and longitude of each station in degrees."""

EXTRACT = Path(__file__).with_name("beijing")
"""The folder of what comes along: the first hours from 2015-11-27 on, see its README."""

EXTRACT_HOURS = 8 * 7 * 24

FULL_SCALE = {"O3": 250.0, "PM2.5": 350.0, "NO2": 160.0}
"""Micrograms per cubic metre that read 100: about the record's 99th percentile; cut off above."""

NOTICEABLE = 2.0
"""Units that a sensor's reading must move before the detector reports it."""

REFERENCE = 35.0
"""The hotspot reference for this input: its concentrations are lower than the generator's."""

_MARGIN = 5.0
"""Units between the outermost stations and the city's edge."""

_NEAR = 4.0
"""Square units added to squared distances: beside a station a detector nearly takes its value."""


class StationDataError(Exception):
    """The folder does not hold the stations' record, or not the hours that were asked for."""


class StationRecord(Struct, frozen=True):
    """What the stations measured in consecutive hours."""

    hours: tuple[datetime, ...]
    values: NDArray[np.float64]
    """Sensor units 0 to 100, shape (hours, 12 stations, 3 sensors); NaN where missing."""


def read_stations(folder: Path, start: datetime, hours: int) -> StationRecord:
    """Read ``hours`` hours of all stations from ``start`` on.

    Args:
        folder: holds ``STATION.csv.gz`` for every station in :data:`STATIONS`.
        start: the first hour, in the record's own local time.
        hours: how many.

    Raises:
        StationDataError: a file is missing or does not hold those hours.
    """
    times: tuple[datetime, ...] = ()
    columns = []
    for station in STATIONS:
        path = folder / f"{station}.csv.gz"
        if not path.is_file():
            raise StationDataError(
                f"{path}: not found; --data must name the folder with the 12 STATION.csv.gz files"
            )
        times, values = _read_station(path, start, hours)
        columns.append(values)
    return StationRecord(times, np.stack(columns, axis=1))


def _read_station(
    path: Path, start: datetime, hours: int
) -> tuple[tuple[datetime, ...], NDArray[np.float64]]:
    times = []
    rows = []
    with gzip.open(path, "rt", encoding="ascii", newline="") as file:
        for line in csv.DictReader(file):
            time = datetime(  # noqa: DTZ001 -- the record states local time without a zone
                int(line["year"]), int(line["month"]), int(line["day"]), int(line["hour"])
            )
            if time < start:
                continue
            times.append(time)
            rows.append([_reading(line, column) for column in FULL_SCALE])
            if len(rows) == hours:
                return tuple(times), np.array(rows)
    raise StationDataError(
        f"{path}: only {len(rows)} of {hours} hours from {start:%Y-%m-%d %H:00} on; "
        "choose an earlier --start or fewer --waves"
    )


def _reading(line: dict[str, str], column: str) -> float:
    text = line[column]
    return float("nan") if text == "NA" else min(100.0 * float(text) / FULL_SCALE[column], 100.0)


def places() -> NDArray[np.float64]:
    """Return the stations' x and y in the city, in units, shape (12, 2); north is up."""
    degrees = np.array(list(STATIONS.values()))
    low, high = degrees.min(axis=0), degrees.max(axis=0)
    scaled = _MARGIN + (degrees - low) / (high - low) * (SIDE_UNITS - 2 * _MARGIN)
    return np.stack([scaled[:, 1], scaled[:, 0]], axis=1)


def replay(grid: Grid, record: StationRecord) -> Iterator[Readings]:
    """Yield one wave for each hour of the record, mapped to the detectors as the module says.

    In the first wave every detector reports what is known; a sensor without any station's value
    stays silent.
    """
    x, y = grid.positions()
    offsets = np.stack([x.ravel(), y.ravel()], axis=1)[:, None, :] - places()[None, :, :]
    squared = (offsets**2).sum(axis=2)
    weights = 1.0 / (squared + _NEAR)
    nearest = squared.argmin(axis=1)
    known = np.full(record.values.shape[1:], np.nan)
    reported = np.full((grid.detectors, len(SENSORS)), np.nan)
    for hour, values in zip(record.hours, record.values, strict=True):
        present = ~np.isnan(values)
        known = np.where(present, values, known)
        reading = np.round(_interpolated(weights, known) / RESOLUTION) * RESOLUTION
        first = np.isnan(reported)
        moved = np.abs(reading - reported) >= NOTICEABLE
        due = ~np.isnan(reading) & (first | (moved & present[nearest]))
        detectors = np.flatnonzero(due.any(axis=1))
        news = np.where(due, reading, np.nan)
        reported = np.where(due, reading, reported)
        yield Readings(f"{hour:%Y-%m-%d %H:00}", detectors, news[detectors])


def _interpolated(weights: NDArray[np.float64], known: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weighted mean of the stations that have a value, shape (detectors, sensors)."""
    has = (~np.isnan(known)).astype(float)
    total = weights @ has
    result: NDArray[np.float64] = np.divide(
        weights @ np.nan_to_num(known), total, out=np.full(total.shape, np.nan), where=total > 0
    )
    return result
