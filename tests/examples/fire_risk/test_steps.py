"""The steps of the fire risk's dataflow: frames in, frame out."""

import json

import pyarrow as pa
import pytest
from fire_risk import fwi, steps
from fire_risk.chart import draw_map

WEATHER = ("hour", *fwi.WEATHER)
FLOOR = ("hour", "temperature", "wind", *fwi.CODES, *fwi.BEFORE)
WINDY = {"wind": 20.0, "dmc": 30.0, "dc": 100.0}
DRY = {"temperature": 30.0, "humidity": 20.0, "wind": 10.0, "rain": 0.0, "daylight": 1.0}


@pytest.fixture
def frame(spark):
    def make(columns, rows):
        """Return a frame of {row: {column: value}}; what is missing is null."""
        schema = pa.schema([("row", pa.string()), *((column, pa.float64()) for column in columns)])
        values = [{"row": row} | {c: cells.get(c) for c in columns} for row, cells in rows.items()]
        return spark.createDataFrame(pa.Table.from_pylist(values, schema))

    return make


def rows(frame):
    found = frame.toArrow().to_pylist()
    assert len({row["row"] for row in found}) == len(found), "a row is written twice"
    return {row.pop("row"): row for row in found}


def floor_after(frame, hour, floor, **weather):
    sensors = frame(WEATHER, {"r000c000": {"hour": float(hour), **DRY, **weather}})
    return rows(steps.floor_frame(sensors, frame(FLOOR, floor), fwi.START))


def test_a_season_begins_with_the_codes_of_spring(frame):
    floor = floor_after(frame, 0, {})["r000c000"]
    before = {code: floor[f"before_{code}"] for code in fwi.CODES}
    assert before == fwi.START
    assert all(floor[code] > fwi.START[code] for code in ("ffmc", "dmc", "dc"))


def test_an_attempt_that_is_repeated_dries_no_fuel_twice(frame):
    first = floor_after(frame, 0, {})
    second = floor_after(frame, 1, first)
    assert second["r000c000"]["ffmc"] > first["r000c000"]["ffmc"]
    assert second["r000c000"]["before_dc"] == first["r000c000"]["dc"]
    assert floor_after(frame, 1, second) == second


def test_fuel_beside_a_fire_is_bone_dry_and_no_drier(frame):
    floor = floor_after(frame, 0, {}, temperature=95.0)
    assert floor["r000c000"]["ffmc"] == pytest.approx(101.0)
    area = frame(("ffmc", "wind", "dmc", "dc"), {"a": {"ffmc": 101.0000001, **WINDY}})
    assert 20 < rows(steps.risk_frame(area))["a"]["fwi"] < 200


def test_an_area_has_the_heat_of_its_hottest_sensor_and_the_mean_of_the_rest(frame):
    columns = ("temperature", "wind", "ffmc", "dmc", "dc")
    sensors = {
        "r002c002": (20.0, 4.0, 80.0, 5.0, 10.0),
        "r002c000": (70.0, 8.0, 90.0, 7.0, 30.0),
        "r003c002": (10.0, 1.0, 50.0, 1.0, 1.0),
    }
    floor = frame(columns, {k: dict(zip(columns, v, strict=True)) for k, v in sensors.items()})
    areas = rows(steps.areas_frame(floor, 3))
    assert areas["r000c000"] == {"hottest": 70, "wind": 6, "ffmc": 85, "dmc": 6, "dc": 20}
    assert set(areas) == {"r000c000", "r001c000"}


def test_hot_is_written_where_it_became_another(frame):
    hottest = {"a": 70.0, "b": 30.0, "c": 30.0, "d": 70.0}
    measured = frame(("hottest",), {row: {"hottest": t} for row, t in hottest.items()})
    before = frame(("hot",), {"b": {"hot": 0.0}, "c": {"hot": 60.0}, "d": {"hot": 70.0}})
    assert rows(steps.hot_frame(measured, before, 55.0)) == {"a": {"hot": 70.0}, "c": {"hot": 0.0}}


def test_risky_areas_that_touch_are_one_group(frame):
    risk = {"r000c000": 20.0, "r001c001": 12.0, "r000c001": 1.0, "r003c003": 15.0, "r003c001": 2.0}
    hot = frame(("hot",), {"r003c001": {"hot": 80.0}, "r000c001": {"hot": 0.0}})
    found = rows(
        steps.groups_frame(frame(("fwi",), {r: {"fwi": v} for r, v in risk.items()}), hot, 11.0)
    )
    group = {row: cells["group"] for row, cells in found.items()}
    assert group == {"r000c000": 1, "r001c001": 1, "r000c001": 0, "r003c003": 3, "r003c001": 2}


def test_the_forest_has_the_mean_of_its_areas(frame):
    grouped = {
        "a": {"fwi": 20.0, "group": 1.0},
        "b": {"fwi": 2.0, "group": 0.0},
        "c": {"fwi": 11.0, "group": 2.0},
        "d": {"fwi": 3.0, "group": 0.0},
    }
    forest = rows(steps.forest_frame(frame(("fwi", "group"), grouped)))
    assert forest == {"now": {"fwi": 9.0, "percentage": 50.0, "groups": 2.0}}


def test_an_order_needs_enough_burning_pixels(spark):
    pictures = {"a": [300, 330, 500, 600], "b": [300, 329, 500, 600], "c": [300] * 4}
    images = spark.createDataFrame(
        [(row, json.dumps(pixels)) for row, pixels in pictures.items()], "row string, value string"
    )
    assert rows(steps.orders_frame(images, 330.0, 3)) == {"a": {"burning": 3.0}}


def test_the_map_is_drawn_where_it_is_asked_for(tmp_path):
    warm = pa.table({"row": ["r000c000", "r001c001"], "temperature": [10.0, 50.0]})
    draw_map(warm, tmp_path / "charts" / "map.png")
    assert (tmp_path / "charts" / "map.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in (tmp_path / "charts").iterdir()] == ["map.png"]
