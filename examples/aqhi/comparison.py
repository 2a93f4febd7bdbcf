"""The same waves through several dataflows, compared wave by wave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from aqhi import model
from aqhi.grid import Grid
from aqhi.outputs import Tables, read_output, unwritten
from aqhi.readings import Readings
from aqhi.results import STEPS, Comparison, OutputError, Way, output_error

_DECIMALS = 2  # of the maps that are kept for drawing


class Run(Protocol):
    """A run that has committed."""

    @property
    def action(self) -> str:
        """Return the step's name."""
        ...

    @property
    def seconds(self) -> float:
        """Return the seconds from launch to commit."""
        ...


class Followed(Struct, frozen=True):
    """A dataflow that takes part in the comparison."""

    dataflow: str
    """Name of the dataflow; names of its tables begin with it."""
    label: str
    """Name for people."""
    bounds: str
    """Bounds in words."""
    reference: float
    """Concentration above which a zone is a hotspot."""


class WaveDone(Struct, frozen=True):
    """The result of one wave."""

    reported: int
    """Detectors that had something new to say."""
    ran: dict[str, list[str]]
    """Letters of the steps that ran, by dataflow."""
    index: dict[str, float]
    """Index shown after the wave, by dataflow."""


class Comparing:
    """Takes waves one by one, and keeps what each dataflow shows after each.

    Args:
        grid: where the detectors stand.
        ways: the dataflows; the first is the synchronous one that the others are measured against.
    """

    def __init__(self, grid: Grid, ways: Sequence[Followed]) -> None:
        self._grid = grid
        self._shown = [_Shown(way, grid.side) for way in ways]
        self._city = _City(grid, ways[0].reference)
        self._labels: list[str] = []
        self._changed: list[float] = []

    @property
    def formulas_apart(self) -> float:
        """Largest |x−x′| so far between a synchronous output of Spark and the formulas."""
        return self._city.apart

    def wave(
        self, readings: Readings, runs: Mapping[str, Sequence[Run]], tables: Tables
    ) -> WaveDone:
        """Read what every dataflow shows after a wave, and compare it.

        Args:
            readings: that the wave brought.
            runs: by dataflow, those that the wave has made due.
            tables: hold the outputs.
        """
        for shown in self._shown:
            shown.look(len(self._labels), runs[shown.way.dataflow], tables)
        synchronous, *bounded = self._shown
        for shown in bounded:
            shown.measure(synchronous)
        self._city.take(readings)
        self._city.check(synchronous.outputs)
        self._labels.append(readings.label)
        self._changed.append(len(readings.detectors) / self._grid.detectors)
        letters = {step.action: step.letter for step in STEPS}
        return WaveDone(
            reported=len(readings.detectors),
            ran={
                shown.way.dataflow: [letters[step] for step in letters if step in shown.latest]
                for shown in self._shown
            },
            index={shown.way.dataflow: shown.index[-1] for shown in self._shown},
        )

    def result(self, source: str, conditions: Iterable[tuple[str, str]]) -> Comparison:
        """Return what all waves so far have shown.

        Args:
            source: where the waves came from, in words.
            conditions: whatever else the figures depend on, by name.
        """
        synchronous, *bounded = (shown.result() for shown in self._shown)
        return Comparison(
            source=source,
            side=self._grid.side,
            labels=list(self._labels),
            changed=list(self._changed),
            synchronous=synchronous,
            bounded=bounded,
            conditions=list(conditions),
        )


class _Shown:
    """The outputs of one dataflow as people see them, wave after wave."""

    def __init__(self, way: Followed, side: int) -> None:
        self.way = way
        self.outputs = {step.action: unwritten(step.action, side) for step in STEPS}
        self.latest: set[str] = set()
        self.index: list[float] = []
        self._side = side
        self._runs: dict[str, list[int]] = {step.action: [] for step in STEPS}
        self._seconds = {step.action: 0.0 for step in STEPS}
        self._errors: dict[str, list[OutputError]] = {}
        self._maps: list[list[list[float]]] = []

    def look(self, wave: int, runs: Sequence[Run], tables: Tables) -> None:
        """Note which steps ran in the wave, and read again what they wrote."""
        self.latest = {run.action for run in runs}
        for run in runs:
            self._runs[run.action].append(wave)
            self._seconds[run.action] += run.seconds
        for action in self.latest:
            self.outputs[action] = read_output(tables, self.way.dataflow, action, self._side)
        self.index.append(float(self.outputs["index"][0, 0]))
        self._maps.append(np.round(self.outputs["city-map"], _DECIMALS).tolist())

    def measure(self, synchronous: _Shown) -> None:
        """Note how far every output stands from the synchronous one."""
        for step in STEPS:
            error = output_error(synchronous.outputs[step.action], self.outputs[step.action])
            self._errors.setdefault(step.action, []).append(error)

    def result(self) -> Way:
        """Return all of it."""
        return Way(
            name=self.way.label,
            bounds=self.way.bounds,
            runs=self._runs,
            seconds=self._seconds,
            index=self.index,
            errors=self._errors,
            maps=self._maps,
        )


class _City:
    """The outputs by the formulas, from all readings so far, to check the synchronous ones."""

    def __init__(self, grid: Grid, reference: float) -> None:
        self.apart = 0.0
        self._side = grid.side
        self._reference = reference
        self._readings = np.full((grid.detectors, len(model.SENSORS)), np.nan)

    def take(self, readings: Readings) -> None:
        known = self._readings[readings.detectors]
        self._readings[readings.detectors] = np.where(
            np.isnan(readings.values), known, readings.values
        )

    def check(self, outputs: dict[str, NDArray[np.float64]]) -> None:
        concentration = model.combined(self._readings).reshape(self._side, self._side)
        zones = model.stored(model.zones(concentration))
        hotspots = model.hotspots(zones, self._reference)
        expected = {
            "combine": concentration,
            "zones": zones,
            "city-map": model.city_map(concentration),
            "hotspots": hotspots,
            "index": np.array([[model.index(hotspots)]]),
        }
        for action, square in expected.items():
            self.apart = max(self.apart, output_error(square, outputs[action]).largest)
