"""Outputs of the synchronous dataflow in every wave, computed by Spark in one job.

The expressions are those of the steps; where a step groups by place, this groups by wave and place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from aqhi import steps
from aqhi.grid import Grid
from aqhi.model import SENSORS, ZONE_REACH
from aqhi.readings import Readings
from pyspark.sql import functions as sql
from pyspark.sql.window import Window

from evaluation.aqhi.figures import Series, Waves

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def all_waves(
    spark: SparkSession, readings: Iterable[Readings], grid: Grid, reference: float
) -> tuple[Waves, Series]:
    """Return what every step shows after each wave, and the detectors' concentrations.

    Args:
        spark: a session.
        readings: of each wave.
        grid: where the detectors stand.
        reference: concentration above which a zone is a hotspot.

    Returns:
        The outputs of C to F, and that of B with shape (waves, side, side); NaN where nothing is
        known yet.
    """
    reported, parts = _reported(readings)
    detectors = _detectors(spark, reported, len(parts), grid).cache()
    around = steps.spread(
        detectors, range(-ZONE_REACH, ZONE_REACH + 1), grid.side, "wave", "concentration"
    )
    zones = (
        around.groupBy("wave", "y", "x")
        .agg(steps.zone_value().alias("concentration"))
        .withColumn("hotspots", steps.hotspot_value(reference))
        .cache()
    )
    corners = steps.spread(detectors, range(-1, 1), grid.side - 1, "wave", "concentration")
    maps = corners.groupBy("wave", "y", "x").agg(sql.avg("concentration").alias("concentration"))
    totals = zones.groupBy("wave").agg(
        *(value.alias(name) for name, value in steps.hotspot_totals().items())
    )
    index = totals.select(
        "wave", sql.lit(0).alias("y"), sql.lit(0).alias("x"), steps.index_value().alias("index")
    )
    places = detectors.select(
        "wave",
        sql.substring("row", 2, 3).cast("int").alias("y"),
        sql.substring("row", 6, 3).cast("int").alias("x"),
        "concentration",
    )
    count, side = len(parts), grid.side
    try:
        shown = Waves(
            changed=np.array(parts) / grid.detectors,
            zones=_square(zones, "concentration", count, side),
            maps=_square(maps, "concentration", count, side - 1),
            hotspots=_square(zones, "hotspots", count, side),
            index=_square(index, "index", count, 1)[:, 0, 0],
        )
        return shown, _square(places, "concentration", count, side)
    finally:
        zones.unpersist()
        detectors.unpersist()


def _reported(readings: Iterable[Readings]) -> tuple[pa.Table, list[int]]:
    """Return (wave, detector, o3, pm25, no2) as reported, null for silence, and how many each."""
    waves, detectors, values = [], [], []
    for number, wave in enumerate(readings):
        waves.append(np.full(len(wave.detectors), number, dtype=np.int32))
        detectors.append(wave.detectors.astype(np.int32))
        values.append(wave.values)
    every = np.concatenate(values)
    columns = {
        "wave": pa.array(np.concatenate(waves)),
        "detector": pa.array(np.concatenate(detectors)),
        **{name: pa.array(every[:, i], from_pandas=True) for i, name in enumerate(SENSORS)},
    }
    return pa.table(columns), list(map(len, waves))


def _detectors(spark: SparkSession, reported: pa.Table, waves: int, grid: Grid) -> DataFrame:
    """Return (wave, row, concentration): of each sensor the last reading so far."""
    keys = [key.decode() for key in grid.rows()]
    places = pa.table({"detector": pa.array(range(len(keys)), pa.int32()), "row": pa.array(keys)})
    every = spark.range(waves).select(sql.col("id").cast("int").alias("wave"))
    so_far = Window.partitionBy("detector").orderBy("wave")
    return (
        every.crossJoin(sql.broadcast(spark.createDataFrame(places)))
        .join(spark.createDataFrame(reported), ["wave", "detector"], "left")
        .select(
            "wave",
            "row",
            *(sql.last(name, ignorenulls=True).over(so_far).alias(name) for name in SENSORS),
        )
        .where(sql.coalesce(*SENSORS).isNotNull())
        .select("wave", "row", steps.combined_value().alias("concentration"))
    )


def _square(frame: DataFrame, column: str, waves: int, side: int) -> Series:
    """Return a column in shape (waves, side, side), NaN where there is no row."""
    found = frame.select("wave", "y", "x", column).toArrow()
    square = np.full((waves, side, side), np.nan)
    square[found["wave"], found["y"], found["x"]] = found[column]
    return square
