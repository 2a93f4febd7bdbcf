"""Facts of PySpark that one would not guess: those of docs/reference/hbase-semantics.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

BIG = 2**53 + 1


def test_a_batch_source_without_partitions_is_read_once(spark: SparkSession) -> None:
    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return []

        def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
            yield (f"partition {partition.value}",)

    class Nothing(DataSource):
        @classmethod
        def name(cls) -> str:
            return "nothing"

        def schema(self) -> str:
            return "row string"

        def reader(self, schema: object) -> Reader:
            return Reader()

    spark.dataSource.register(Nothing)
    assert [row.row for row in spark.read.format("nothing").load().collect()] == ["partition None"]


def test_a_source_rounds_what_does_not_fit_its_column(spark: SparkSession) -> None:
    class Reader(DataSourceReader):
        def read(self, partition: InputPartition) -> Iterator[tuple[float]]:
            yield (1.5,)

    class Fractions(DataSource):
        @classmethod
        def name(cls) -> str:
            return "fractions"

        def schema(self) -> str:
            return "n bigint"

        def reader(self, schema: object) -> Reader:
            return Reader()

    spark.dataSource.register(Fractions)
    assert [row.n for row in spark.read.format("fractions").load().collect()] == [1]


def test_map_in_arrow_takes_columns_by_position(spark: SparkSession) -> None:
    def swapped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.select(["high", "low"])

    frame = spark.createDataFrame([(1, 10)], "low int, high int")
    (row,) = frame.mapInArrow(swapped, frame.schema).collect()
    assert (row.low, row.high) == (10, 1)


def test_a_null_changes_large_integers_of_its_group(spark: SparkSession) -> None:
    rows = [("with a null", BIG), ("with a null", None), ("alone", BIG)]
    frame = spark.createDataFrame(rows, "k string, n bigint")
    same = frame.groupBy("k").applyInPandas(lambda group: group, frame.schema)
    found = {row.k: row.n for row in same.collect() if row.n is not None}
    assert found == {"with a null": BIG - 1, "alone": BIG}


def test_casts_take_the_spellings_of_java(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(text,) for text in ("5d", "0x1p3", " 5 ", "1_000")], "t string")
    cast = frame.selectExpr("try_cast(t AS double) AS n").collect()
    assert [row.n for row in cast] == [5.0, 8.0, 5.0, None]


def test_a_source_is_never_told_an_or(spark: SparkSession, tmp_path: Path) -> None:
    told = tmp_path / "told"

    class Reader(DataSourceReader):
        def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's
            told.write_text(" ".join(type(each).__name__ for each in filters))
            return filters

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            yield from ((1,), (2,), (3,))

    class Numbers(DataSource):
        @classmethod
        def name(cls) -> str:
            return "numbers"

        def schema(self) -> str:
            return "n int"

        def reader(self, schema: object) -> Reader:
            return Reader()

    spark.dataSource.register(Numbers)
    pushed = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(pushed, "true")
    try:
        found = {}
        for condition in ("n = 1", "n = 1 OR n > 2"):
            told.unlink(missing_ok=True)
            kept = spark.read.format("numbers").load().where(condition).collect()
            assert [row.n for row in kept] == ([1] if "OR" not in condition else [1, 3])
            found[condition] = told.read_text() if told.exists() else None
    finally:
        spark.conf.unset(pushed)
    assert found == {"n = 1": "IsNotNull EqualTo", "n = 1 OR n > 2": None}
