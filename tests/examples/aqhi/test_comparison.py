"""Waves through scripted dataflows that compute with the formulas, at once or late."""

import numpy as np
import pytest
from aqhi import model
from aqhi.comparison import Comparing, FinishedRun, Followed
from aqhi.generator import Trend, generate
from aqhi.grid import Grid
from aqhi.results import STEPS

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
        self.runs: dict[str, list[FinishedRun]] = {"prompt": [], "late": []}
        self.tables = {}

    def feed(self, readings):
        self.city[readings.detectors] = readings.values

    def end_wave(self, names):
        for name in names:
            if name == "prompt" or self.waves % 2 == 0:
                self.run(name)
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
            self.runs[name].append(FinishedRun(len(self.runs[name]), step.action, 0.5))

    def put(self, table, column, square):
        rows = self.tables.setdefault(table, {})
        for (y, x), value in np.ndenumerate(square):
            rows.setdefault(b"r%03dc%03d" % (y, x), {})[column] = repr(float(value)).encode()

    def finished(self, name, after):
        return self.runs[name][after + 1 :]

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


@pytest.fixture
def comparing():
    flows = ScriptedFlows()
    return Comparing(GRID, WAYS, flows.feed, flows, flows)


def waves(count):
    return generate(GRID, count, seed=4, trend=Trend.INCREASING)


def test_a_wave_tells_which_steps_ran(comparing):
    told = [comparing.wave(readings) for readings in waves(3)]
    assert [one.ran["prompt"] for one in told] == [["B", "C", "D", "E", "F"]] * 3
    assert [bool(one.ran["late"]) for one in told] == [True, False, True]
    assert [one.number for one in told] == [1, 2, 3]


def test_a_dataflow_that_waits_shows_what_it_wrote_last(comparing):
    told = [comparing.wave(readings) for readings in waves(2)]
    assert told[1].index["late"] == told[0].index["late"]


def test_errors_are_measured_after_every_wave_against_the_synchronous_outputs(comparing):
    for readings in waves(4):
        comparing.wave(readings)
    late = comparing.result("a test", []).bounded[0]
    for step in STEPS:
        epsilons = [error.epsilon for error in late.errors[step.action]]
        assert epsilons[0] == epsilons[2] == 0
    assert late.errors["combine"][1].epsilon > 0
    assert late.mean_error("zones") > 0
    assert late.worst_error("zones") >= late.mean_error("zones")


def test_runs_are_counted_by_step_and_wave(comparing):
    for readings in waves(4):
        comparing.wave(readings)
    result = comparing.result("a test", [("machine", "none")])
    assert result.synchronous.runs["zones"] == [0, 1, 2, 3]
    assert result.bounded[0].runs["zones"] == [0, 2]
    assert result.bounded[0].saved("zones", result.synchronous) == 50
    assert result.bounded[0].seconds["zones"] == 1.0


def test_the_synchronous_outputs_are_checked_against_the_formulas(comparing):
    for readings in waves(2):
        comparing.wave(readings)
    assert comparing.formulas_apart < 1e-9
