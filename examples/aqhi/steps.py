"""Steps B to F as Headgate runs them: PySpark over HBase tables.

Containers have the names of ``aqhi.yaml``. Every function that ends in ``_frame`` is pure: frames
in, frame out; the steps themselves only read and write.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as sql

from aqhi.chart import draw_city
from aqhi.model import (
    INDEX_PER_PERCENT,
    INDEX_PER_UNIT,
    SENSOR_WEIGHTS,
    SENSORS,
    ZONE_REACH,
    ZONE_RESOLUTION,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from headgate.spark import Run


def combine(run: Run) -> None:
    """Step B: the combined concentration of each detector that reported."""
    changed = run.changes("sensors").select("row")
    run.write(combined_frame(run.read("sensors"), changed), "detectors")


def zones(run: Run) -> None:
    """Step C: the zones around changed detectors whose concentration is another now."""
    changed = run.changes("detectors").select("row").distinct()
    around = zones_frame(run.read("detectors"), changed, int(run.parameters["side"]))
    run.write(differing_frame(around, run.read("zones"), "concentration"), "zones")


def city_map(run: Run) -> None:
    """Step D: the points between detectors, stored and drawn to the parameter ``chart``."""
    side = int(run.parameters["side"])
    points = points_frame(run.read("detectors"), side).toArrow()
    run.write(points.select(["row", "concentration"]), "map")
    square = np.full((side - 1, side - 1), np.nan)
    square[points["y"], points["x"]] = points["concentration"]
    draw_city(square, Path(run.parameters["chart"]), f"run {run.id}")


def hotspots(run: Run) -> None:
    """Step E: the changed zones that are hotspots now, and those that no longer are."""
    changed = run.changes("zones").select("row")
    concentration = run.read("zones").join(sql.broadcast(changed), "row", "left_semi")
    hot = hotspots_frame(concentration, float(run.parameters["reference"]))
    run.write(differing_frame(hot, run.read("hotspots"), "hotspots"), "hotspots")


def index(run: Run) -> None:
    """Step F: the index of the city, in row ``now`` and in a row of this run."""
    once = index_frame(run.read("hotspots"))
    names = sql.explode(sql.array(sql.lit("now"), sql.lit(f"run {run.id}")))
    run.write(once.select(names.alias("row"), "*"), "index")


def combined_frame(sensors: DataFrame, changed: DataFrame) -> DataFrame:
    """Return (row, concentration): the weighted mean of the sensors that have reported.

    Args:
        sensors: row, o3, pm25, no2; null where a sensor never reported.
        changed: row of each changed sensor.
    """
    return (
        sensors.join(sql.broadcast(changed), "row", "left_semi")
        .where(sql.coalesce(*SENSORS).isNotNull())
        .select("row", combined_value().alias("concentration"))
    )


def combined_value() -> Column:
    """Return the weighted mean of the sensors that are not null."""
    weighted: Column = sql.lit(0.0)
    weight: Column = sql.lit(0.0)
    for sensor, share in zip(SENSORS, SENSOR_WEIGHTS, strict=True):
        weighted += sql.coalesce(sql.col(sensor) * share, sql.lit(0.0))
        weight += sql.when(sql.col(sensor).isNotNull(), share).otherwise(0.0)
    return weighted / weight


def zones_frame(detectors: DataFrame, changed: DataFrame, side: int) -> DataFrame:
    """Return (row, concentration) of the zones around the changed detectors.

    Every detector gives its share to each zone that it lies in; a zone none of whose detectors
    changed is left out. One pass, one shuffle. Concentrations in steps of ``ZONE_RESOLUTION``.

    Args:
        detectors: row, concentration (0 to 100) of all detectors.
        changed: row, each once.
        side: detectors along each side of the city.
    """
    marked = changed.withColumn("changed", sql.lit(1))
    around = spread(
        detectors.join(sql.broadcast(marked), "row", "left"),
        range(-ZONE_REACH, ZONE_REACH + 1),
        side,
        "concentration",
        "changed",
    )
    return (
        around.groupBy("y", "x")
        .agg(zone_value().alias("concentration"), sql.max("changed").alias("changed"))
        .where("changed = 1")
        .select(_cell_key("y", "x").alias("row"), "concentration")
    )


def zone_value() -> Column:
    """Return the aggregate of a zone's detectors, in steps of ``ZONE_RESOLUTION``."""
    concentration = sql.expm1(sql.avg(sql.log1p("concentration")))
    return sql.bround(concentration / ZONE_RESOLUTION) * ZONE_RESOLUTION


def points_frame(detectors: DataFrame, side: int) -> DataFrame:
    """Return (row, y, x, concentration) of the points between four detectors each.

    Args:
        detectors: row, concentration (0 to 100) of all detectors.
        side: detectors along each side of the city; there are side - 1 points along it.
    """
    shares = spread(detectors, range(-1, 1), side - 1, "concentration")
    return (
        shares.groupBy("y", "x")
        .agg(sql.avg("concentration").alias("concentration"))
        .select(_cell_key("y", "x").alias("row"), "y", "x", "concentration")
    )


def hotspots_frame(zones: DataFrame, reference: float) -> DataFrame:
    """Return (row, hotspots) of the changed zones; 0 is no hotspot.

    Args:
        zones: row, concentration of the changed zones.
        reference: a zone above it is a hotspot.
    """
    return zones.select("row", hotspot_value(reference).alias("hotspots"))


def hotspot_value(reference: float) -> Column:
    """Return a zone's concentration above the reference, 0 below."""
    concentration = sql.col("concentration")
    return sql.when(concentration > reference, concentration).otherwise(0.0)


def differing_frame(computed: DataFrame, stored: DataFrame, column: str) -> DataFrame:
    """Return the computed (row, column) that are not stored so; those that are would be no news.

    Args:
        computed: row and the column.
        stored: row and the column, before the run.
        column: its name.
    """
    before = stored.select("row", sql.col(column).alias("before"))
    return (
        computed.join(before, "row", "left")
        .where(~sql.col(column).eqNullSafe(sql.col("before")))
        .select("row", column)
    )


def index_frame(hotspots: DataFrame) -> DataFrame:
    """Return one row: index, percentage of hotspots and their mean concentration.

    Args:
        hotspots: row, hotspots of all zones.
    """
    return hotspots.agg(*(value.alias(name) for name, value in hotspot_totals().items())).select(
        index_value().alias("index"), "percentage", "mean"
    )


def hotspot_totals() -> dict[str, Column]:
    """Return the aggregates of all zones' entries by name: percentage of hotspots, their mean."""
    hot = sql.col("hotspots") > 0
    return {
        "percentage": sql.coalesce(100.0 * sql.count_if(hot) / sql.count("hotspots"), sql.lit(0.0)),
        "mean": sql.coalesce(sql.avg(sql.when(hot, sql.col("hotspots"))), sql.lit(0.0)),
    }


def index_value() -> Column:
    """Return the index of columns percentage and mean."""
    return 1.0 + INDEX_PER_PERCENT * sql.col("percentage") + INDEX_PER_UNIT * sql.col("mean")


def spread(cells: DataFrame, reach: range, side: int, *values: Column | str) -> DataFrame:
    """Return (y, x, values): each cell once for every place around it inside the city."""
    around = sql.array(
        *(
            sql.struct(sql.lit(up).alias("up"), sql.lit(right).alias("right"))
            for up in reach
            for right in reach
        )
    )
    return (
        cells.select(
            sql.substring("row", 2, 3).cast("int").alias("row_y"),
            sql.substring("row", 6, 3).cast("int").alias("row_x"),
            *values,
            sql.explode(around).alias("to"),
        )
        .withColumn("y", sql.col("row_y") + sql.col("to.up"))
        .withColumn("x", sql.col("row_x") + sql.col("to.right"))
        .where(sql.col("y").between(0, side - 1) & sql.col("x").between(0, side - 1))
        .drop("row_y", "row_x", "to")
    )


def _cell_key(y: str, x: str) -> Column:
    """Return the key of :func:`aqhi.grid.cell_key` for two columns."""
    return sql.concat(
        sql.lit("r"),
        sql.lpad(sql.col(y).cast("string"), 3, "0"),
        sql.lit("c"),
        sql.lpad(sql.col(x).cast("string"), 3, "0"),
    )
