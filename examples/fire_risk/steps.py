"""Steps 1 to 5 as Headgate runs them: PySpark over HBase tables.

Containers have the names of ``fire_risk.yaml``. Every function that ends in ``_frame`` is pure:
frames in, frame out; the steps themselves only read and write. Sensors and areas have keys such as
``r012c007``: their row and column from the south-west.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from pyspark.sql import functions as sql
from scipy import ndimage

from fire_risk import fwi
from fire_risk.chart import draw_map

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from headgate.spark import Run

_AROUND = [[1, 1, 1], [1, 1, 1], [1, 1, 1]]
"""Areas that touch each other, at a corner too, are contiguous."""


def measure(run: Run) -> None:
    """Step 1: take each sensor's measures, and bring its moisture codes up to this hour."""
    start = fwi.START | dict(run.parameters)
    floor = run.read("floor", columns=[f"f:{name}" for name in ("hour", *fwi.CODES, *fwi.BEFORE)])
    run.write(floor_frame(run.read("weather"), floor, start), "floor")


def areas(run: Run) -> None:
    """Step 2a: combine the measures of all sensors in each area."""
    run.write(areas_frame(run.read("floor"), int(run.parameters["size"])), "areas")


def thermal_map(run: Run) -> None:
    """Step 2b: store the thermal map, and draw it into the folder ``charts``."""
    temperatures = run.read("floor").select("row", "temperature").toArrow()
    run.write(temperatures, "map")
    draw_map(temperatures, Path(run.parameters["charts"]) / f"{run.dataflow}.png")


def risk(run: Run) -> None:
    """Step 3: the fire weather index of each area, and the areas that are very hot."""
    measured = run.read("areas")
    run.write(risk_frame(measured), "risk")
    run.write(hot_frame(measured, run.read("hot"), float(run.parameters["hot"])), "hot")


def forest(run: Run) -> None:
    """Step 4a: the risk of the whole forest, and the groups of areas at higher risk."""
    grouped = groups_frame(run.read("risk"), run.read("hot"), float(run.parameters["risky"]))
    grouped = grouped.cache()  # computed once, for the groups and for the forest
    run.write(grouped.select("row", "group"), "groups")
    run.write(forest_frame(grouped), "forest")
    grouped.unpersist()


def pictures(run: Run) -> None:
    """Step 4b: gather the satellite's pictures of very hot areas."""
    hot = run.read("hot").where("hot > 0").select("row")
    run.write(run.read("satellite").join(sql.broadcast(hot), "row", "left_semi"), "images")


def order(run: Run) -> None:
    """Step 5: order the fire department to where a picture confirms a fire."""
    changed = run.changes("images", kind="string").where("not deleted").select("row", "value")
    limits = float(run.parameters["burning"]), int(run.parameters["pixels"])
    run.write(orders_frame(changed, *limits), "orders")


def floor_frame(weather: DataFrame, floor: DataFrame, start: Mapping[str, float]) -> DataFrame:
    """Return each sensor's measures and moisture codes at the end of its latest hour.

    The codes continue from those of the hour before. A run may be repeated after it has written, so
    the codes that it started from (``before_``) are kept beside the new ones: it starts from
    those again, and dries no fuel twice.

    Args:
        weather: row, hour (counted), temperature, humidity, wind, rain, daylight.
        floor: what this function returned for earlier hours; it may have no rows.
        start: codes of a sensor that is not on the floor yet.

    Returns:
        row, hour, temperature, wind, the codes, and the codes before.
    """
    known = floor.select("row", sql.col("hour").alias("known"), *fwi.CODES, *fwi.BEFORE)
    continues = sql.col("known") < sql.col("hour")
    before = {
        kept: sql.coalesce(
            sql.when(continues, sql.col(code)).otherwise(sql.col(kept)), sql.lit(start[code])
        )
        for code, kept in zip(fwi.CODES, fwi.BEFORE, strict=True)
    }
    measured = weather.join(known, "row", "left").withColumns(before).drop("known", *fwi.CODES)
    return fwi.next_codes(measured).drop("humidity", "rain", "daylight")


def areas_frame(floor: DataFrame, size: int) -> DataFrame:
    """Return (row, hottest, wind, ffmc, dmc, dc): the highest temperature, and means.

    Args:
        floor: row, temperature, wind, ffmc, dmc, dc of each sensor.
        size: sensors along each side of an area.
    """
    area = sql.concat(
        *(
            part
            for letter, start in (("r", 2), ("c", 6))
            for part in (sql.lit(letter), _padded(sql.substring("row", start, 3), size))
        )
    )
    return floor.groupBy(area.alias("row")).agg(
        sql.max("temperature").alias("hottest"),
        *(sql.avg(name).alias(name) for name in ("wind", "ffmc", "dmc", "dc")),
    )


def _padded(number: Column, size: int) -> Column:
    return sql.lpad(sql.floor(number.cast("int") / size).cast("string"), 3, "0")


def risk_frame(areas: DataFrame) -> DataFrame:
    """Return (row, fwi): the fire weather index of each area.

    Args:
        areas: row, wind, ffmc, dmc, dc.
    """
    spread = fwi.spread_index(sql.col("ffmc"), sql.col("wind"))
    buildup = fwi.buildup_index(sql.col("dmc"), sql.col("dc"))
    return areas.select("row", fwi.fire_weather_index(spread, buildup).alias("fwi"))


def hot_frame(areas: DataFrame, before: DataFrame, reference: float) -> DataFrame:
    """Return (row, hot) of the areas whose entry is another than before.

    An area's entry is its highest temperature, or 0 up to the reference.

    Args:
        areas: row, hottest (degrees).
        before: row, hot as stored.
        reference: degrees above which something must be on fire.
    """
    hot = sql.when(sql.col("hottest") > reference, sql.col("hottest")).otherwise(0.0)
    return (
        areas.select("row", hot.alias("hot"))
        .join(before.select("row", sql.col("hot").alias("before")), "row", "left")
        .where(~sql.col("hot").eqNullSafe(sql.col("before")))
        .select("row", "hot")
    )


def groups_frame(risk: DataFrame, hot: DataFrame, risky: float) -> DataFrame:
    """Return (row, fwi, group): groups of contiguous risky areas, numbered from 1; 0 is none.

    Args:
        risk: row, fwi of each area.
        hot: row, hot: above 0 where the area is very hot, which is risky too.
        risky: fire weather index from which on an area is at higher risk.
    """
    marked = risk.join(hot, "row", "left").select(
        "row",
        "fwi",
        sql.substring("row", 2, 3).cast("int").alias("y"),
        sql.substring("row", 6, 3).cast("int").alias("x"),
        ((sql.col("fwi") >= risky) | (sql.coalesce("hot", sql.lit(0.0)) > 0)).alias("risky"),
    )
    # Who belongs together is hard to say in SQL: the one step with a function in Python.
    return marked.groupBy().applyInPandas(_label, "row string, fwi double, `group` double")


def _label(areas: pd.DataFrame) -> pd.DataFrame:
    y, x = areas["y"].to_numpy(), areas["x"].to_numpy()
    square = np.zeros((y.max() + 1, x.max() + 1), dtype=bool)
    square[y, x] = areas["risky"]
    labels, _ = ndimage.label(square, structure=_AROUND)
    return areas[["row", "fwi"]].assign(group=labels[y, x].astype(float))


def forest_frame(grouped: DataFrame) -> DataFrame:
    """Return one row ``now``: fwi (mean), percentage (of areas at higher risk) and groups.

    Args:
        grouped: row, fwi, group.
    """
    return grouped.agg(
        sql.avg("fwi").alias("fwi"),
        (100 * sql.avg((sql.col("group") > 0).cast("int"))).alias("percentage"),
        sql.max("group").alias("groups"),
    ).select(sql.lit("now").alias("row"), "*")


def orders_frame(images: DataFrame, burning: float, pixels: int) -> DataFrame:
    """Return (row, burning) of the areas whose picture confirms a fire: their burning pixels.

    Args:
        images: row, value: the pixels' temperatures in kelvin, as a JSON array.
        burning: kelvin from which on a pixel burns.
        pixels: so many of them confirm a fire.
    """
    seen = sql.from_json("value", "array<double>")
    count = sql.size(sql.filter(seen, lambda kelvin: kelvin >= burning)).cast("double")
    return images.select("row", count.alias("burning")).where(sql.col("burning") >= pixels)
