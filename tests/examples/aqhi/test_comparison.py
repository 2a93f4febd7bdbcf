"""Waves through scripted dataflows that compute with the formulas, at once or late."""

import numpy as np
import pytest
from aqhi import model
from aqhi.comparison import Comparing, Followed
from aqhi.generator import Trend, generate
from aqhi.grid import Grid
from aqhi.results import STEPS

from headgate.cli import CommittedRun

GRID = Grid(6)
REFERENCE = 50.0
WAYS = [
    Followed("prompt", "synchronous", "", REFERENCE),
    Followed("late", "every second wave", "zones: every second wave", REFERENCE),
]


class ScriptedFlows:
    """Runs all steps of ``prompt`` in every wave, and those of ``late`` in every second one."""

    def __init__(self):
        self.city = np.full((GRID.detectors, 3), np.nan)
        self.waves = 0
        self.runs: dict[str, list[CommittedRun]] = {}
        self.tables = {}

    def take(self, readings):
        self.city[readings.detectors] = readings.values
        self.runs = {"prompt": [], "late": []}
        self.run("prompt")
        if self.waves % 2 == 0:
            self.run("late")
        self.waves += 1

    def run(self, name):
        concentration = model.combined(self.city).reshape(GRID.side, GRID.side)
        zones = model.stored(model.zones(concentration))
        hotspots = model.hotspots(zones, REFERENCE)
        self.put(f"{name}-detectors", b"c:concentration", concentration)
        self.put(f"{name}-zones", b"c:concentration", zones)
        self.put(f"{name}-zones", b"c:hotspots", hotspots)
        self.put(f"{name}-map", b"c:concentration", model.city_map(concentration))
        self.tables[f"{name}-index"] = {b"now": {b"c:index": str(model.index(hotspots)).encode()}}
        for step in STEPS:
            self.runs[name].append(CommittedRun(0, step.action, "", 1.0, 1.5))

    def put(self, table, column, square):
        rows = self.tables.setdefault(table, {})
        for (y, x), value in np.ndenumerate(square):
            rows.setdefault(b"r%03dc%03d" % (y, x), {})[column] = repr(float(value)).encode()

    def table(self, name):
        return ScriptedTable(self.tables.get(name, {}))


class ScriptedTable:
    def __init__(self, rows):
        self.rows = rows

    def scan(self, *, columns, batch_size):
        for row, cells in self.rows.items():
            yield row, {column: cells[column] for column in columns}

    def row(self, row):
        return self.rows.get(row, {})


class Scene:
    """A comparison of the scripted dataflows."""

    def __init__(self):
        self.flows = ScriptedFlows()
        self.comparing = Comparing(GRID, WAYS)

    def wave(self, readings):
        self.flows.take(readings)
        return self.comparing.wave(readings, self.flows.runs, self.flows)


@pytest.fixture
def scene():
    return Scene()


def waves(count):
    return generate(GRID, count, seed=4, trend=Trend.INCREASING)


def test_a_wave_tells_which_steps_ran(scene):
    told = [scene.wave(readings) for readings in waves(3)]
    assert [one.ran["prompt"] for one in told] == [["B", "C", "D", "E", "F"]] * 3
    assert [bool(one.ran["late"]) for one in told] == [True, False, True]


def test_a_dataflow_that_waits_shows_what_it_wrote_last(scene):
    told = [scene.wave(readings) for readings in waves(2)]
    assert told[1].index["late"] == told[0].index["late"]


def test_errors_are_measured_after_every_wave_against_the_synchronous_outputs(scene):
    for readings in waves(4):
        scene.wave(readings)
    late = scene.comparing.result("a test", []).bounded[0]
    for step in STEPS:
        epsilons = [error.epsilon for error in late.errors[step.action]]
        assert epsilons[0] == epsilons[2] == 0
    assert late.errors["combine"][1].epsilon > 0
    assert late.mean_error("zones") > 0
    assert late.worst_error("zones") >= late.mean_error("zones")


def test_runs_are_counted_by_step_and_wave(scene):
    for readings in waves(4):
        scene.wave(readings)
    result = scene.comparing.result("a test", [("machine", "none")])
    assert result.synchronous.runs["zones"] == [0, 1, 2, 3]
    assert result.bounded[0].runs["zones"] == [0, 2]
    assert result.bounded[0].saved("zones", result.synchronous) == 50
    assert result.bounded[0].seconds["zones"] == 1.0


def test_the_synchronous_outputs_are_checked_against_the_formulas(scene):
    for readings in waves(2):
        scene.wave(readings)
    assert scene.comparing.formulas_apart < 1e-9
