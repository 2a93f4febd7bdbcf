"""Steps 1 to 5b as Headgate runs them: PySpark over HBase tables.

Containers have the names of ``linear_road.yaml``. Every function that ends in ``_frame`` is pure:
frames in, frame out; the steps themselves only read and write. Each step computes its whole output
from its input, so that what a skipped run would have shown comes with the next one, and an attempt
may be repeated. Segments have keys such as ``x00d1s042``: expressway, direction, mile.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from pyarrow import compute
from pyspark.sql import functions as sql
from pyspark.sql.window import Window

from linear_road import model
from linear_road.records import Field, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

    from headgate.spark import Run

_TEXT = "string"
_MINUTES = range(model.WINDOW)
_HISTORY = {f"minute{slot}": _TEXT for slot in _MINUTES}
"""Columns of a car's history, by the minute modulo five."""
_REPORT = ("time", "speed", "expressway", "lane", "direction", "segment", "position")
"""Fields of a report in the history, in this order."""
_JOURNEY = ("kind", "time", "expressway", "start", "end")
_KEPT_SECONDS = 60 * model.WINDOW
"""For which queries and their answers are kept."""


def split(run: Run) -> None:
    """Step 1: store position reports by car, and queries apart."""
    sent = records_frame(run.changes("input", kind=_TEXT).where("not deleted")).cache()
    reports = recent_frame(sent.where(sql.col("kind") == Kind.POSITION)).cache()
    # A frame has the columns of one minute: a null in another would delete that minute's reports.
    for slot in _numbers(reports.select((sql.col("minute") % model.WINDOW).alias("slot"))):
        run.write(history_frame(reports, slot), "history")
    run.write(latest_frame(reports), "latest")
    gone = _keys(gone_frame(run.read("latest")))
    for container in ("latest", "history"):
        _delete(run, gone, container)
    queries = sent.where(sql.col("kind") != Kind.POSITION)
    run.write(queries_frame(queries), "queries")
    _delete(run, _keys(expired_frame(run.read("queries"))), "queries")
    reports.unpersist()
    sent.unpersist()


def positions(run: Run) -> None:
    """Step 2a: store where each car is, what each minute saw of each segment, and who stands."""
    reports = recent_frame(reports_frame(run.read("history", types=_HISTORY))).cache()
    _replace(run, positions_frame(reports), "positions")
    _replace(run, minutes_frame(reports), "minutes")
    _replace(run, standing_frame(reports), "standing")
    reports.unpersist()


def speeds(run: Run) -> None:
    """Step 3a: the average speed of each segment over the last five minutes."""
    _replace(run, speeds_frame(run.read("minute-speeds")), "speeds")


def cars(run: Run) -> None:
    """Step 3b: the number of cars in a minute in each segment, over the last five minutes."""
    _replace(run, cars_frame(run.read("minute-cars")), "cars")


def accidents(run: Run) -> None:
    """Step 3c: the accidents in each segment within the last five minutes."""
    _replace(run, accidents_frame(run.read("standing")), "accidents")


def congestion(run: Run) -> None:
    """Step 4: the level of congestion and the toll of each segment."""
    levels = levels_frame(run.read("speeds"), run.read("cars"), run.read("accidents"))
    _replace(run, levels, "levels")


def areas(run: Run) -> None:
    """Step 5a: the class of each area's congestion."""
    _replace(run, areas_frame(run.read("congestion")), "areas")


def rank(run: Run) -> None:
    """Step 2b: rank the queries that have come, the one whose answer is due first before all."""
    new = run.changes("queries").select("row").distinct()
    asked = run.read("queries").join(sql.broadcast(new), "row", "left_semi")
    run.write(ranked_frame(asked), "ranked")
    _delete(run, _keys(expired_frame(run.read("ranked"))), "ranked")


def answer(run: Run) -> None:
    """Step 5b: estimate time and cost of the journeys that were asked for."""
    new = run.changes("ranked").select("row").distinct()
    asked = run.read("ranked").join(sql.broadcast(new), "row", "left_semi")
    run.write(answers_frame(asked, run.read("speeds"), run.read("tolls")), "answers")
    _delete(run, _keys(expired_frame(run.read("answers"))), "answers")


# -- 1 -------------------------------------------------------------------------------------------


def records_frame(lines: DataFrame) -> DataFrame:
    """Return the fields of records as whole numbers, by their names in lower case.

    Args:
        lines: value, the text of a record.
    """
    fields = sql.split("value", ",")
    return lines.select(
        *(fields.getItem(field.value).cast("int").alias(field.name.lower()) for field in Field)
    )


def recent_frame(reports: DataFrame) -> DataFrame:
    """Return the reports of the last five minutes, that of the latest included, with the minute.

    Args:
        reports: time (seconds), and other columns.
    """
    numbered = reports.withColumn("minute", sql.floor(sql.col("time") / 60).cast("int"))
    return numbered.join(
        sql.broadcast(numbered.agg(sql.max("minute").alias("now"))),
        sql.col("minute") > sql.col("now") - model.WINDOW,
    )


def history_frame(reports: DataFrame, slot: int) -> DataFrame:
    """Return (row, minuteN): what each car reported in a minute, fields as text, in their order.

    Args:
        reports: what :func:`recent_frame` returns of records.
        slot: N, the minute modulo five.
    """
    text = sql.concat_ws(",", *(sql.col(name).cast(_TEXT) for name in _REPORT))
    sent_by_time = sql.sort_array(sql.collect_set(sql.struct("time", text.alias("text"))))
    return (
        reports.where(sql.col("minute") % model.WINDOW == slot)
        .groupBy(_car_key().alias("row"))
        .agg(sql.concat_ws(";", sent_by_time["text"]).alias(f"minute{slot}"))
    )


def latest_frame(reports: DataFrame) -> DataFrame:
    """Return (row, position, time) of each car: its latest report.

    Args:
        reports: car, time, position.
    """
    return reports.groupBy(_car_key().alias("row")).agg(
        sql.max_by("position", "time").cast("double").alias("position"),
        sql.max("time").cast("double").alias("time"),
    )


def gone_frame(latest: DataFrame) -> DataFrame:
    """Return (row) of the cars that have not reported in the last five minutes.

    Args:
        latest: row, time of each car.
    """
    minute = sql.floor(sql.col("time") / 60)
    newest = latest.agg(sql.max(minute).alias("now"))
    gone = minute <= sql.col("now") - model.WINDOW
    return latest.join(sql.broadcast(newest), gone).select("row")


def queries_frame(records: DataFrame) -> DataFrame:
    """Return (row, kind, time, expressway, start, end) of queries."""
    key = sql.concat(sql.lit("q"), _padded(sql.col("query"), 10))
    return records.select(
        key.alias("row"), *(sql.col(name).cast("double").alias(name) for name in _JOURNEY)
    ).dropDuplicates(["row"])


def expired_frame(queries: DataFrame) -> DataFrame:
    """Return (row) of queries, or answers, five minutes or more older than the newest.

    Args:
        queries: row, time (seconds).
    """
    newest = queries.agg(sql.max("time").alias("now"))
    expired = sql.col("time") <= sql.col("now") - _KEPT_SECONDS
    return queries.join(sql.broadcast(newest), expired).select("row")


# -- 2a ------------------------------------------------------------------------------------------


def reports_frame(history: DataFrame) -> DataFrame:
    """Return (row, time, speed, expressway, lane, direction, segment, position) of all reports.

    Args:
        history: row (the car) and a text for each minute, as :func:`history_frame` writes them.
    """
    reports = sql.split(sql.concat_ws(";", *_HISTORY), ";")
    fields = sql.split("report", ",")
    return history.select("row", sql.explode(reports).alias("report")).select(
        "row", *(fields.getItem(at).cast("int").alias(name) for at, name in enumerate(_REPORT))
    )


def positions_frame(reports: DataFrame) -> DataFrame:
    """Return (row, position) in feet of the cars that have reported in the last minute.

    Args:
        reports: row, time, position, minute, now: of the last five minutes.
    """
    present = reports.where("minute = now").groupBy("row")
    return present.agg(sql.max_by("position", "time").cast("double").alias("position"))


def minutes_frame(reports: DataFrame) -> DataFrame:
    """Return (row, speed0..speed4, cars0..cars4) of each segment that had cars, by minute modulo 5.

    A car counts once in a segment and minute, with its mean speed there (Linear Road's measures).

    Args:
        reports: row, speed, expressway, direction, segment, minute: of the last five minutes.
    """
    slot = sql.col("minute") % model.WINDOW
    of_cars = reports.groupBy(_segment_key().alias("segment"), slot.alias("slot"), "row").agg(
        sql.avg("speed").alias("speed")
    )
    return of_cars.groupBy(sql.col("segment").alias("row")).agg(
        *(
            sql.avg(sql.when(sql.col("slot") == number, sql.col("speed"))).alias(f"speed{number}")
            for number in _MINUTES
        ),
        *(
            sql.sum(sql.when(sql.col("slot") == number, 1.0)).alias(f"cars{number}")
            for number in _MINUTES
        ),
    )


def standing_frame(reports: DataFrame) -> DataFrame:
    """Return (row, cars) of each place where cars stand: four reports from there without speed.

    Args:
        reports: row, speed, expressway, lane, direction, segment, position: of five minutes.
    """
    lane = sql.concat(sql.lit("l"), sql.col("lane").cast(_TEXT))
    place = sql.concat(_segment_key(), lane, sql.lit("p"), _padded(sql.col("position"), 6))
    halts = reports.where("speed = 0").groupBy(place.alias("place"), "row").count()
    return (
        halts.where(sql.col("count") >= model.REPORTS_TO_STAND)
        .groupBy(sql.col("place").alias("row"))
        .agg(sql.count("*").cast("double").alias("cars"))
    )


# -- 3 to 5a -------------------------------------------------------------------------------------


def speeds_frame(minutes: DataFrame) -> DataFrame:
    """Return (row, speed): the mean of the minutes that have one.

    Args:
        minutes: row, speed0..speed4 of each segment.
    """
    seen = [sql.col(f"speed{slot}") for slot in _MINUTES]
    total = _total(sql.coalesce(speed, sql.lit(0.0)) for speed in seen)
    known = _total(sql.when(speed.isNotNull(), 1.0).otherwise(0.0) for speed in seen)
    return minutes.select("row", sql.try_divide(total, known).alias("speed"))


def cars_frame(minutes: DataFrame) -> DataFrame:
    """Return (row, cars): the mean over five minutes, none in a minute that has no number.

    Args:
        minutes: row, cars0..cars4 of each segment.
    """
    seen = (sql.coalesce(f"cars{slot}", sql.lit(0.0)) for slot in _MINUTES)
    return minutes.select("row", (_total(seen) / model.WINDOW).alias("cars"))


def accidents_frame(standing: DataFrame) -> DataFrame:
    """Return (row, accidents): in each segment that has any, the places where two or more stand.

    Args:
        standing: row (segment, lane and feet), cars.
    """
    return (
        standing.where(sql.col("cars") >= model.CARS_TO_CRASH)
        .groupBy(sql.substring("row", 1, 9).alias("row"))
        .agg(sql.count("*").cast("double").alias("accidents"))
    )


def levels_frame(speeds: DataFrame, cars: DataFrame, accidents: DataFrame) -> DataFrame:
    """Return (row, congestion, toll): :func:`linear_road.model.congestion` and ``tolls``.

    Args:
        speeds: row, speed.
        cars: row, cars.
        accidents: row, accidents.
    """
    reach = sql.explode(sql.sequence(sql.lit(0), sql.lit(model.NEARBY)))
    road, mile = sql.substring("row", 1, 6), sql.substring("row", 7, 3).cast("int")
    westbound = sql.substring("row", 5, 1) == "1"
    near = (
        accidents.where("accidents > 0")
        .select(road.alias("road"), mile.alias("mile"), westbound.alias("west"), reach.alias("up"))
        .select("road", sql.expr("if(west, mile + up, mile - up)").alias("mile"))
        .select(sql.concat("road", _padded(sql.col("mile"), 3)).alias("row"))
        .distinct()
        .withColumn("more", sql.lit(model.ACCIDENT_LEVEL))
    )
    slowness = model.STANDSTILL - sql.col("speed") / model.FREE_SPEED
    level = sql.greatest(sql.col("cars") / model.CARS_OF_LEVEL * slowness, sql.lit(0.0))
    slow, crowded = sql.col("speed") < model.TOLL_SPEED, sql.col("cars") > model.TOLL_CARS
    above = sql.col("cars") - model.TOLL_CARS
    return (
        speeds.join(cars, "row")
        .join(sql.broadcast(near), "row", "left")
        .select(
            "row",
            (level + sql.coalesce("more", sql.lit(0.0))).alias("congestion"),
            sql.when(
                slow & crowded & sql.col("more").isNull(), model.CENTS_PER_SQUARE * above * above
            )
            .otherwise(0.0)
            .alias("toll"),
        )
    )


def areas_frame(congestion: DataFrame) -> DataFrame:
    """Return (row, class) of each area: :func:`linear_road.model.areas`.

    Args:
        congestion: row, congestion of each segment.
    """
    area = sql.floor(sql.substring("row", 7, 3).cast("int") / model.AREA)
    key = sql.concat(sql.substring("row", 1, 5), sql.lit("a"), _padded(area, 2))
    mean = sql.sum("congestion") / model.AREA
    kind = (
        sql.when(mean >= model.HIGH, model.Congestion.HIGH.value)
        .when(mean >= model.MEDIUM, model.Congestion.MEDIUM.value)
        .otherwise(model.Congestion.LOW.value)
    )
    return congestion.groupBy(key.alias("row")).agg(kind.cast("double").alias("class"))


# -- 2b and 5b -----------------------------------------------------------------------------------


def ranked_frame(queries: DataFrame) -> DataFrame:
    """Return (row, rank, ...): queries ranked from 1 by when their answers are due.

    Args:
        queries: row, kind, time, expressway, start, end.
    """
    allowed = sql.create_map(
        *(sql.lit(float(part)) for pair in model.ALLOWED_SECONDS.items() for part in pair)
    )
    deadline = sql.col("time") + allowed[sql.col("kind")]
    order = Window.orderBy(deadline, "row")
    return queries.select("row", *_JOURNEY, sql.row_number().over(order).alias("rank"))


def answers_frame(queries: DataFrame, speeds: DataFrame, tolls: DataFrame) -> DataFrame:
    """Return (row, rank, time, minutes, cents): :func:`linear_road.model.journey` of each.

    Balances and expenditures are left out: they need accounts, which the dataflow does not keep.

    Args:
        queries: row, rank, kind, time, expressway, start, end.
        speeds: row, speed of each segment.
        tolls: row, toll of each segment.
    """
    way = sql.when(sql.col("end") >= sql.col("start"), "d0s").otherwise("d1s")
    mile = sql.explode(sql.sequence(sql.col("start").cast("int"), sql.col("end").cast("int")))
    segment = sql.concat(
        sql.lit("x"), _padded(sql.col("expressway"), 2), "way", _padded(sql.col("mile"), 3)
    )
    speed = sql.greatest(sql.coalesce("speed", sql.lit(model.FREE_SPEED)), sql.lit(model.SLOWEST))
    return (
        queries.where(sql.col("kind") == Kind.TRAVEL)
        .select("row", "rank", "time", "expressway", way.alias("way"), mile.alias("mile"))
        .withColumn("segment", segment)
        .join(speeds.withColumnRenamed("row", "segment"), "segment", "left")
        .join(tolls.withColumnRenamed("row", "segment"), "segment", "left")
        .groupBy("row", "rank", "time")
        .agg(
            sql.sum(60.0 / speed).alias("minutes"),
            sql.sum(sql.coalesce("toll", sql.lit(0.0))).alias("cents"),
        )
    )


# -- reading and writing -------------------------------------------------------------------------


def differing_frame(computed: DataFrame, stored: DataFrame) -> DataFrame:
    """Return the computed rows that are not stored so, and rows that are stored but not computed.

    Args:
        computed: row, and other columns.
        stored: the same columns, before the run.

    Returns:
        row, the other columns, and ``gone``: true where the row is not computed.
    """
    names = [name for name in computed.columns if name != "row"]
    before = stored.select("row", sql.struct(*names).alias("before"))
    after = computed.select("row", sql.struct(*names).alias("after"))
    return (
        after.join(before, "row", "full")
        .where(~sql.col("after").eqNullSafe(sql.col("before")))
        .select("row", "after.*", sql.col("after").isNull().alias("gone"))
    )


def _replace(run: Run, computed: DataFrame, container: str) -> None:
    """Let a container hold the computed rows and no others; what is stored so is not written."""
    differing = differing_frame(computed, run.read(container)).toArrow()
    gone = differing["gone"]
    run.write(differing.filter(compute.invert(gone)).drop_columns("gone"), container)
    _delete(run, differing.filter(gone)["row"].to_pylist(), container)


def _delete(run: Run, rows: list[str], container: str) -> None:
    if rows:
        run.delete(rows, container)


def _keys(frame: DataFrame) -> list[str]:
    keys: list[str] = frame.select("row").toArrow()["row"].to_pylist()
    return keys


def _numbers(frame: DataFrame) -> list[int]:
    numbers: list[int] = frame.distinct().toArrow().column(0).to_pylist()
    return sorted(numbers)


def _total(terms: Iterable[Column]) -> Column:
    return reduce(add, terms)


def _car_key() -> Column:
    return sql.concat(sql.lit("c"), _padded(sql.col("car"), 10))


def _segment_key() -> Column:
    """Return the key of :func:`linear_road.model.segment_keys` for the columns of a report."""
    return sql.concat(
        sql.lit("x"),
        _padded(sql.col("expressway"), 2),
        sql.lit("d"),
        sql.col("direction").cast(_TEXT),
        sql.lit("s"),
        _padded(sql.col("segment"), 3),
    )


def _padded(number: Column, width: int) -> Column:
    return sql.lpad(number.cast("int").cast(_TEXT), width, "0")
