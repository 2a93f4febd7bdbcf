"""The record that a synchronous dataflow leaves behind, made from its outputs.

With the outputs of all waves at hand, what an observer and an agent would have recorded follows:
each wave's input, then a run of every step with the cells that it writes. So a year can be replayed
that never ran.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from aqhi.grid import Grid, cell_key
from aqhi.readings import Readings
from pyspark.sql import SparkSession

from evaluation.aqhi.all_waves import all_waves
from evaluation.aqhi.figures import Series, Waves
from headgate.agent import POLICIES
from headgate.engine import ActionRole, DataflowSpec, DecisionKind
from headgate.events import (
    VERSION,
    Cut,
    Origin,
    Outcome,
    RequestPart,
    UpdateBatch,
    UpdateKind,
    updates_topic,
)
from headgate.replay import (
    Candidate,
    RecordedUpdate,
    Recording,
    ReplayedDecision,
    ReplayReport,
    replay,
)

_HOUR = 3600.0
_COLUMN = {
    "detectors": b"c:concentration",
    "zones": b"c:concentration",
    "map": b"c:concentration",
    "hotspots": b"c:hotspots",
    "index": b"c:index",
}
Cells = list[tuple[bytes, bytes, bytes]]
"""Row, column and value."""


@contextmanager
def local_spark() -> Iterator[SparkSession]:
    """Have a Spark session of this process."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[*]")
        .appName("all waves")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "3g")
        .config("spark.sql.shuffle.partitions", "8")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def computed_by_spark(
    readings: Sequence[Readings], grid: Grid, reference: float
) -> tuple[Waves, Series]:
    """Return the outputs of all waves, and the detectors' concentrations: see ``all_waves``."""
    with local_spark() as spark:
        return all_waves(spark, readings, grid, reference)


class SynchronousRecord:
    """A synchronous AQHI dataflow's past, one wave an hour.

    Args:
        spec: the dataflow without bounds.
        grid: where the detectors stand.
        readings: of each wave.
        concentrations: of the detectors after each wave; NaN where nothing is known.
        shown: what the other steps show.
    """

    def __init__(
        self,
        spec: DataflowSpec,
        grid: Grid,
        readings: Sequence[Readings],
        concentrations: Series,
        shown: Waves,
    ) -> None:
        self._spec = spec
        self._grid = grid
        self._readings = readings
        self._concentrations = concentrations
        self._shown = shown
        self._tables: dict[str, str] = {
            str(watched.id): watched.container.tables[0] for watched in spec.containers
        }
        self._inputs = tuple(a.name for a in spec.actions if a.role is ActionRole.INPUT)
        self._keys = grid.rows()

    def replay(self, candidates: Sequence[Candidate]) -> ReplayReport:
        """Replay the record under the bounds of the candidates."""
        decisions = tuple(event for event in self._events() if isinstance(event, ReplayedDecision))
        partitions = {updates_topic(table): 1 for table in self._tables.values()}
        recording = Recording(self._spec.name, decisions)
        return replay(recording, self._events(), partitions, candidates, POLICIES)

    def _events(self) -> Iterator[RecordedUpdate | ReplayedDecision]:
        """Yield all that happened, in order."""
        log = _Log()
        yield ReplayedDecision(0.0, DecisionKind.SUBMITTED, "")
        before: dict[str, Series] = {}
        for wave, readings in enumerate(self._readings):
            time = (wave + 1) * _HOUR
            fed = [
                (row, column, value)
                for row, cells in readings.puts(self._grid)
                for column, value in cells.items()
            ]
            yield from log.write(time, self._tables["sensors"], fed, None)
            yield ReplayedDecision(
                time, DecisionKind.WAVE_ENDED, "", cut=log.cut, wave=wave + 1, inputs=self._inputs
            )
            for action, containers in self._written(wave, readings, before).items():
                run = f"{action}-{wave + 1}"
                yield ReplayedDecision(
                    time, DecisionKind.LAUNCHED, "", action=action, run=run, cut=log.cut
                )
                origin = Origin(self._spec.name, action, run, 1)
                for container, cells in containers.items():
                    yield from log.write(time, self._tables[container], cells, origin)
                yield ReplayedDecision(
                    time, DecisionKind.FINISHED, "", action=action, run=run, cut=log.cut
                )

    def _written(
        self, wave: int, readings: Readings, before: dict[str, Series]
    ) -> dict[str, dict[str, Cells]]:
        """Return by action and container what each step's run of a wave writes."""
        shown, concentration = self._shown, self._concentrations[wave]
        known = [d for d in readings.detectors.tolist() if not math.isnan(concentration.flat[d])]
        now = {"zones": shown.zones[wave], "hotspots": shown.hotspots[wave]}
        cells = {name: self._differing(name, square, before) for name, square in now.items()}
        before.update(now)
        value = b"%r" % float(shown.index[wave])
        return {
            "combine": {"detectors": self._cells("detectors", concentration, known)},
            "zones": {"zones": cells["zones"]},
            "city-map": {"map": self._map(shown.maps[wave])},
            "hotspots": {"hotspots": cells["hotspots"]},
            "index": {
                "index": [(row, b"c:index", value) for row in (b"now", b"run %d" % (wave + 1))]
            },
        }

    def _differing(self, container: str, square: Series, before: dict[str, Series]) -> Cells:
        known = ~np.isnan(square)
        if container in before:
            known &= square != before[container]
        return self._cells(container, square, np.flatnonzero(known).tolist())

    def _cells(self, container: str, square: Series, places: Sequence[int]) -> Cells:
        values = square.ravel()[places].tolist() if places else []
        column = _COLUMN[container]
        return [
            (self._keys[place], column, b"%r" % value)
            for place, value in zip(places, values, strict=True)
        ]

    def _map(self, square: Series) -> Cells:
        return [
            (cell_key(y, x), _COLUMN["map"], b"%r" % value)
            for y, values in enumerate(square.tolist())
            for x, value in enumerate(values)
            if not math.isnan(value)
        ]


class _Log:
    """Topics of one partition each, as far as they were written."""

    def __init__(self) -> None:
        self.cut = Cut()
        self._intents = 0

    def write(
        self, time: float, table: str, cells: Cells, origin: Origin | None
    ) -> Iterator[RecordedUpdate]:
        """Yield the message of one request; nothing if it writes nothing."""
        if not cells:
            return
        topic = updates_topic(table)
        offset = self.cut.position(topic, 0)
        self.cut = self.cut.moved(topic, 0, offset + 1)
        self._intents += 1
        rows, columns, values = zip(*cells, strict=True)
        request = RequestPart(
            self._intents, "mutateRows", Outcome.APPLIED, time, len(cells), origin=origin
        )
        batch = UpdateBatch(
            version=VERSION,
            observer="record",
            epoch=1,
            sequence=offset,
            watermark=self._intents,
            table=table,
            requests=(request,),
            kinds=bytes([UpdateKind.PUT]) * len(cells),
            rows=rows,
            columns=columns,
            timestamps=(-1,) * len(cells),
            values=values,
        )
        yield RecordedUpdate(topic, 0, offset, time, batch)
