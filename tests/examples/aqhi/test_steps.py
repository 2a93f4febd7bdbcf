"""The PySpark steps, on a local session, against the formulas over whole grids."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from aqhi import model, steps
from aqhi.generator import Trend, generate
from aqhi.grid import Grid, filled

SIDE = 9
GRID = Grid(SIDE)
KEYS = [key.decode() for key in GRID.rows()]


class ScriptedRun:
    """What a step uses of a run, over tables in memory: a container is {row: {column: value}}."""

    id = "run-7"

    def __init__(self, spark, tables, **parameters):
        self.spark = spark
        self.tables = tables
        self.parameters = parameters
        self.changed = {}
        self.written = {}

    def read(self, container):
        columns = COLUMNS[container]
        rows = [
            (row, *(float(cells[column]) if column in cells else None for column in columns))
            for row, cells in self.tables[container].items()
        ]
        return self.frame(rows, columns)

    def changes(self, container):
        return self.frame([(row,) for row in self.changed[container]], ())

    def write(self, frame, container):
        rows = (frame if isinstance(frame, pa.Table) else frame.toArrow()).to_pylist()
        assert len({row["row"] for row in rows}) == len(rows), "a row is written twice"
        self.written[container] = {
            row.pop("row"): {name: float(value) for name, value in row.items()} for row in rows
        }
        for row, cells in self.written[container].items():
            assert set(cells) == set(COLUMNS[container])
            self.tables[container][row].update(cells)

    def frame(self, rows, columns):
        schema = pa.schema([("row", pa.string()), *((column, pa.float64()) for column in columns)])
        named = [dict(zip(schema.names, row, strict=True)) for row in rows]
        return self.spark.createDataFrame(pa.Table.from_pylist(named, schema))


COLUMNS = {
    "sensors": ("o3", "pm25", "no2"),
    "detectors": ("concentration",),
    "zones": ("concentration",),
    "map": ("concentration",),
    "hotspots": ("hotspots",),
    "index": ("index", "percentage", "mean"),
}


@pytest.fixture
def run(spark, tmp_path):
    tables: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    return ScriptedRun(
        spark, tables, side=SIDE, reference=52.0, chart=str(tmp_path / "charts" / "city.png")
    )


def feed(run, wave):
    run.changed["sensors"] = []
    for detector, values in zip(wave.detectors, wave.values, strict=True):
        row = KEYS[detector]
        run.changed["sensors"].append(row)
        cells = zip(COLUMNS["sensors"], values, strict=True)
        run.tables["sensors"][row].update(
            {name: value for name, value in cells if not np.isnan(value)}
        )


def square(run, container, column, side=SIDE):
    cells = run.tables[container].items()
    return filled(side, {row.encode(): values[column] for row, values in cells})


def put(run, container, column, values):
    for row, value in zip(KEYS, np.ravel(values), strict=True):
        run.tables[container][row][column] = float(value)


def random_city(seed=3):
    return np.random.default_rng(seed).uniform(0, 100, (SIDE, SIDE))


def test_the_steps_follow_the_formulas_wave_after_wave(run):
    city = np.full((SIDE * SIDE, 3), np.nan)
    for wave in generate(GRID, 3, seed=5, trend=Trend.INCREASING):
        city[wave.detectors] = wave.values
        feed(run, wave)
        steps.combine(run)
        run.changed["detectors"] = list(run.written["detectors"])
        steps.zones(run)
        run.changed["zones"] = list(run.written["zones"])
        steps.city_map(run)
        steps.hotspots(run)
        steps.index(run)

        concentration = model.combined(city).reshape(SIDE, SIDE)
        zones = model.stored(model.zones(concentration))
        hotspots = model.hotspots(zones, 52.0)
        assert square(run, "detectors", "concentration") == pytest.approx(concentration)
        assert square(run, "zones", "concentration") == pytest.approx(zones)
        assert square(run, "map", "concentration", SIDE - 1) == pytest.approx(
            model.city_map(concentration)
        )
        assert square(run, "hotspots", "hotspots") == pytest.approx(hotspots)
        assert run.tables["index"]["now"]["index"] == pytest.approx(model.index(hotspots))


def test_combine_computes_changed_detectors_only(run):
    put(run, "sensors", "o3", random_city())
    run.changed["sensors"] = KEYS[:2]
    steps.combine(run)
    assert set(run.written["detectors"]) == set(KEYS[:2])


def test_combine_uses_the_sensors_that_have_reported(run):
    run.tables["sensors"][KEYS[0]] = {"o3": 10.0, "no2": 40.0}
    run.changed["sensors"] = KEYS[:1]
    steps.combine(run)
    expected = model.combined(np.array([10.0, np.nan, 40.0]))
    assert run.written["detectors"][KEYS[0]]["concentration"] == pytest.approx(expected)


def test_combine_leaves_out_a_detector_whose_sensors_were_deleted(run):
    put(run, "sensors", "o3", random_city())
    run.tables["sensors"][KEYS[0]] = {}
    run.changed["sensors"] = KEYS[:2]
    steps.combine(run)
    assert set(run.written["detectors"]) == {KEYS[1]}


def test_zones_computes_those_up_to_distance_two_of_a_changed_detector(run):
    city = random_city()
    put(run, "detectors", "concentration", city)
    run.changed["detectors"] = ["r000c000", "r004c008"]
    steps.zones(run)
    expected = {
        f"r{row:03d}c{column:03d}"
        for row in range(SIDE)
        for column in range(SIDE)
        if max(row, column) <= 2 or max(abs(row - 4), abs(column - 8)) <= 2
    }
    assert set(run.written["zones"]) == expected
    zones = model.stored(model.zones(city))
    assert run.written["zones"]["r000c000"]["concentration"] == pytest.approx(zones[0, 0])
    assert run.written["zones"]["r004c008"]["concentration"] == pytest.approx(zones[4, 8])


def test_zones_writes_those_that_have_another_concentration_than_before(run):
    city = random_city()
    put(run, "detectors", "concentration", city)
    put(run, "zones", "concentration", model.stored(model.zones(city)))
    run.tables["zones"][KEYS[1]]["concentration"] += model.ZONE_RESOLUTION
    run.changed["detectors"] = KEYS
    steps.zones(run)
    assert set(run.written["zones"]) == {KEYS[1]}


def test_a_detector_that_changed_twice_counts_once(run):
    city = random_city()
    put(run, "detectors", "concentration", city)
    run.changed["detectors"] = ["r004c004", "r004c004"]
    steps.zones(run)
    assert run.written["zones"]["r004c004"]["concentration"] == pytest.approx(
        model.stored(model.zones(city))[4, 4]
    )


def test_the_city_map_is_drawn_where_the_parameters_say(run, tmp_path):
    put(run, "detectors", "concentration", random_city())
    steps.city_map(run)
    assert (tmp_path / "charts" / "city.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in (tmp_path / "charts").iterdir()] == ["city.png"]


def test_hotspots_writes_what_became_another_and_what_no_longer_is_one(run):
    put(run, "hotspots", "hotspots", np.zeros((SIDE, SIDE)))
    run.tables["hotspots"][KEYS[1]]["hotspots"] = 60.0
    run.tables["hotspots"][KEYS[3]]["hotspots"] = 70.0
    for row, value in zip(KEYS, [55.0, 40.0, 30.0, 70.0], strict=False):
        run.tables["zones"][row]["concentration"] = value
    run.changed["zones"] = KEYS[:4]
    steps.hotspots(run)
    assert run.written["hotspots"] == {
        KEYS[0]: {"hotspots": 55.0},
        KEYS[1]: {"hotspots": 0.0},
    }


def test_hotspots_knows_every_zone_after_its_first_run(run):
    put(run, "zones", "concentration", random_city())
    run.changed["zones"] = KEYS
    steps.hotspots(run)
    assert set(run.written["hotspots"]) == set(KEYS)


def test_the_index_is_stored_as_the_present_one_and_under_its_run(run):
    put(run, "hotspots", "hotspots", model.hotspots(random_city(), 55.0))
    steps.index(run)
    assert set(run.written["index"]) == {"now", "run run-7"}
    assert run.written["index"]["now"] == run.written["index"]["run run-7"]


def test_a_city_without_hotspots_has_index_one(run):
    put(run, "hotspots", "hotspots", np.zeros((SIDE, SIDE)))
    steps.index(run)
    assert run.written["index"]["now"] == {"index": 1.0, "percentage": 0.0, "mean": 0.0}


def test_frames_are_computed_without_python_in_the_executors(run):
    """Native operators only: a Python function per row would cost a second a run."""
    frame = run.frame([(key, 50.0) for key in KEYS], ("concentration",))
    changed = frame.select("row")
    for result in (
        steps.zones_frame(frame, changed, SIDE),
        steps.points_frame(frame, SIDE),
        steps.hotspots_frame(frame, 52.0),
        steps.differing_frame(frame, frame, "concentration"),
        steps.index_frame(frame.withColumnRenamed("concentration", "hotspots")),
    ):
        plan = result._jdf.queryExecution().executedPlan().toString()
        assert "Python" not in plan
        assert result.count() >= 0
