#!/usr/bin/env bash
# PySpark 4.3.0, measured 2026-11-28.
#
# createDataFrame refuses 1.5 in a bigint column. A Python data source that yields the tuple (1.5,) for the same column
# is expected to fail likewise. Seen: the frame has 1, without an error or a warning.
. "$(dirname "$0")/servers/spark.sh"

run_with_spark <<'PY'
from pyspark.errors import PySparkTypeError
from pyspark.sql.datasource import DataSource, DataSourceReader


class Reader(DataSourceReader):
    def read(self, partition):
        yield (1.5,)


class Fractions(DataSource):
    @classmethod
    def name(cls):
        return "fractions"

    def schema(self):
        return "n bigint"

    def reader(self, schema):
        return Reader()


spark.dataSource.register(Fractions)
try:
    spark.createDataFrame([(1.5,)], "n bigint")
    refused = False
except PySparkTypeError:
    refused = True
read = [row.n for row in spark.read.format("fractions").load().collect()]
print(f"createDataFrame refuses 1.5 for bigint: {refused}; a data source's 1.5 is read as {read}")
raise SystemExit(not (refused and read == [1]))
PY
