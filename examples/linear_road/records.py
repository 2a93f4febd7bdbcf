"""What vehicles send: Linear Road's records of 15 numbers, minute by minute, and their reader.

The format is that of the benchmark (Arasu et al., "Linear Road: A Stream Data Management
Benchmark", VLDB 2004): a text line with 15 fields and commas between, -1 where a field is unused.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path

import numpy as np
import pyarrow as pa
from msgspec import Struct
from numpy.typing import NDArray
from pyarrow import csv

from linear_road.model import SEGMENTS

Records = NDArray[np.int32]
"""Records by row, fields by column, shape (n, 15)."""

SLOTS = 10
"""Minutes after which the rows of the input are written over: twice what any step looks back."""


class Kind(IntEnum):
    """The type of a record."""

    POSITION = 0
    BALANCE = 2
    """Query of a vehicle's account."""
    EXPENDITURE = 3
    """Query of what a vehicle has spent on a day."""
    TRAVEL = 4
    """Query of time and cost of a journey."""


class Field(IntEnum):
    """The fields of a record, in the benchmark's order."""

    KIND = 0
    TIME = 1
    """Seconds from the start."""
    CAR = 2
    SPEED = 3
    """Miles per hour."""
    EXPRESSWAY = 4
    LANE = 5
    """0 for entry, 1 to 3 for travel, 4 for exit."""
    DIRECTION = 6
    """0 eastbound, 1 westbound."""
    SEGMENT = 7
    """The mile, 0 to 99 from the west, in both directions."""
    POSITION = 8
    """Feet from the west."""
    QUERY = 9
    """The query's own number."""
    START = 10
    """First segment of a journey."""
    END = 11
    """Last segment of a journey."""
    DAY_OF_WEEK = 12
    MINUTE_OF_DAY = 13
    DAY = 14


class RecordDataError(Exception):
    """The file is not there, or it does not hold Linear Road's records."""


class Minute(Struct, frozen=True, eq=False):
    """One wave: all that vehicles send in a minute, by time."""

    number: int
    """Minutes from the start."""
    records: Records

    @property
    def label(self) -> str:
        """What people call the wave."""
        return f"minute {self.number}"

    @property
    def reports(self) -> Records:
        """Position reports alone."""
        reports: Records = self.records[self.records[:, Field.KIND] == Kind.POSITION]
        return reports

    @property
    def queries(self) -> Records:
        """Queries alone."""
        queries: Records = self.records[self.records[:, Field.KIND] != Kind.POSITION]
        return queries

    def puts(self, column: str = "i:record") -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        """Yield (row, cells) of each record as text; rows return after ``SLOTS`` minutes."""
        name = column.encode()
        for at, record in enumerate(self.records.tolist()):
            row = b"%d-%06d" % (self.number % SLOTS, at)
            yield row, {name: ",".join(map(str, record)).encode()}


def minutes_of(records: Records) -> Iterator[Minute]:
    """Yield the minutes from that of the first record to that of the last, empty ones too.

    Args:
        records: at least one, in any order.
    """
    ordered = records[np.argsort(records[:, Field.TIME], kind="stable")]
    number = ordered[:, Field.TIME] // 60
    first, last = int(number[0]), int(number[-1])
    edges = np.searchsorted(number, np.arange(first, last + 2))
    for at, minute in enumerate(range(first, last + 1)):
        yield Minute(minute, ordered[edges[at] : edges[at + 1]])


def recorded(path: Path) -> Iterator[Minute]:
    """Yield the minutes of a recorded file, plain or gzipped; records may be out of order.

    Raises:
        RecordDataError: the file is not there, is empty, or a line is no record; named with its
            number in the file.
    """
    if not path.is_file():
        raise RecordDataError(
            f"{path}: not found; name a file of Linear Road's input, such as datafile20seconds.dat"
        )
    names = [field.name for field in Field]
    reading = csv.ReadOptions(column_names=names, use_threads=False)
    parsing = csv.ParseOptions(ignore_empty_lines=False)
    converting = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.int32()), null_values=[])
    try:
        with pa.input_stream(path, compression="detect") as stream:
            table = csv.read_csv(stream, reading, parsing, converting)
    except (pa.ArrowInvalid, OSError) as error:
        raise RecordDataError(
            f"{path}: {error}; expected lines of {len(names)} whole numbers with commas between"
        ) from error
    records = np.stack([column.to_numpy() for column in table.columns], axis=1)
    _check(path, records)
    yield from minutes_of(records)


def _check(path: Path, records: Records) -> None:
    kinds = records[:, Field.KIND]
    report, travel = kinds == Kind.POSITION, kinds == Kind.TRAVEL
    wrong = {
        f"type must be one of {', '.join(str(kind.value) for kind in Kind)}": ~np.isin(
            kinds, list(Kind)
        ),
        "time must not be negative": records[:, Field.TIME] < 0,
        "expressway, speed and position of a report must not be negative": report
        & (records[:, [Field.EXPRESSWAY, Field.SPEED, Field.POSITION]] < 0).any(1),
        "direction of a report must be 0 or 1": report
        & ~np.isin(records[:, Field.DIRECTION], (0, 1)),
        f"segment of a report must be 0 to {SEGMENTS - 1}": report
        & _off_road(records[:, Field.SEGMENT]),
        f"a journey must be on an expressway, within segments 0 to {SEGMENTS - 1}": travel
        & (
            (records[:, Field.EXPRESSWAY] < 0)
            | _off_road(records[:, Field.START])
            | _off_road(records[:, Field.END])
        ),
    }
    for cure, lines in wrong.items():
        if lines.any():
            at = int(np.argmax(lines))
            line = ",".join(map(str, records[at].tolist()))
            raise RecordDataError(f"{path}: line {at + 1}, {line!r}: {cure}")


def _off_road(segment: NDArray[np.int32]) -> NDArray[np.bool_]:
    return (segment < 0) | (segment >= SEGMENTS)
