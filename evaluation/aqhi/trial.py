"""The air quality index on running services: which steps ran in a wave, and what they showed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from aqhi.grid import Grid
from aqhi.outputs import read_output
from aqhi.readings import Readings
from aqhi.variants import DATAFLOW_FILE, SENSORS_TABLE, City
from msgspec.structs import replace

from evaluation.aqhi.figures import Series
from headgate.cli import SettledWave, Stand, Submission, Wave

Output = tuple[str, str]
"""A dataflow and one of its actions."""


class CityTrial:
    """Dataflows over the same waves.

    Args:
        city: of the waves; charts go where the services have their files.
        texts: returns the dataflow files by dataflow.
        readings: of each wave.
        outputs: that are read after each wave.
        label: what people call the waves.

    Attributes:
        ran: by dataflow and action, the waves, from 1, in which it has run.
        changed: by wave, the part of the detectors that reported, 0 to 1.
    """

    def __init__(
        self,
        city: City,
        texts: Callable[[City], Mapping[str, str]],
        readings: Sequence[Readings],
        outputs: Collection[Output],
        label: str,
    ) -> None:
        self.ran: dict[str, dict[str, list[int]]] = {}
        self.changed = [len(wave.detectors) / city.side**2 for wave in readings]
        self._city = city
        self._texts = texts
        self._readings = readings
        self._label = label
        self._shown: dict[Output, list[Series]] = {output: [] for output in outputs}

    def dataflows(self, folder: Path) -> Sequence[Submission]:
        """Return the dataflows."""
        texts = self._texts(replace(self._city, charts=folder / "charts"))
        self.ran = {name: {} for name in texts}
        return [Submission(text, DATAFLOW_FILE) for text in texts.values()]

    def feed(self, _: Stand) -> Iterator[Wave]:
        """Yield what the detectors report."""
        grid = Grid(self._city.side)
        for readings in self._readings:
            yield Wave(readings.label, {SENSORS_TABLE: readings.puts(grid)})

    def measure(self, wave: SettledWave, stand: Stand) -> Iterable[str]:
        """Note what has run; read the outputs."""
        for name, runs in wave.runs.items():
            for run in runs:
                self.ran[name].setdefault(run.action, []).append(wave.number)
        for (name, action), squares in self._shown.items():
            squares.append(read_output(stand.tables, name, action, self._city.side))
        place = f"wave {wave.number} of {len(self._readings)}"
        return [f"{self._label}, {place}: {wave.seconds:.1f} s"]

    def shown(self, name: str, action: str) -> Series:
        """Return what an action's output was after each wave; 0 where nothing was written yet.

        Returns:
            Shape (waves, m, n), with m and n as ``read_output`` has them; (0, 1, 1) for an output
            that was not read.
        """
        squares = self._shown.get((name, action), [])
        return np.nan_to_num(np.array(squares)) if squares else np.zeros((0, 1, 1))

    def index(self, name: str) -> Series:
        """Return the index that a dataflow showed after each wave, shape (waves,)."""
        return self.shown(name, "index")[:, 0, 0]
