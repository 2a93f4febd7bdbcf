#!/usr/bin/env bash
# PySpark 4.3.0, measured 2026-11-28.
#
# A Python data source (pyspark.sql.datasource) says by partitions() which parts there are to read; read() is called for
# each. Expected: a source with nothing to read returns [] and yields no rows. Seen: for an empty list a batch reader's
# read() is called once all the same, with an InputPartition whose value is None, and what it yields is in the frame.
. "$(dirname "$0")/servers/spark.sh"

run_with_spark <<'PY'
from pyspark.sql.datasource import DataSource, DataSourceReader


class Reader(DataSourceReader):
    def partitions(self):
        return []

    def read(self, partition):
        yield (f"read of {partition.value!r}",)


class Nothing(DataSource):
    @classmethod
    def name(cls):
        return "nothing"

    def schema(self):
        return "row string"

    def reader(self, schema):
        return Reader()


spark.dataSource.register(Nothing)
rows = [row.row for row in spark.read.format("nothing").load().collect()]
print(f"rows of a source without partitions: {rows}")
raise SystemExit(rows != ["read of None"])
PY
