#!/usr/bin/env bash
# PySpark 4.3.0, measured 2026-11-29.
#
# Spark keeps a daemon that forks Python workers, and shares it among all jobs of a session whose workers have the same
# environment. Expected: a session with one interpreter and one environment has one. Seen: two, one for functions of SQL
# and one for functions of RDDs, for only the former are given SPARK_SIMPLIFIED_TRACEBACK; each imports pandas and
# pyarrow of its own. With spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled=false there is one.
. "$(dirname "$0")/servers/spark.sh"

run_with_spark <<'PY'
import os
from pathlib import Path

from pyspark.sql.functions import udf


def daemons():
    """Count the daemons below this process; the workers that they fork are not counted."""
    commands, parents = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            commands[int(place.name)] = (place / "cmdline").read_bytes().split(b"\0")
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue

    def above(process):
        while process in parents:
            process = parents[process]
            yield process

    found = [process for process, words in commands.items() if b"pyspark.daemon" in words]
    return sum(os.getpid() in above(one) and parents[one] not in found for one in found)


def both(simplified):
    spark.conf.set("spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled", simplified)
    spark.sparkContext.parallelize([1], 1).map(lambda one: one + 1).collect()
    spark.range(1).select(udf(lambda one: one, "long")("id")).collect()
    return daemons()


one, two = both("false"), both("true")
print(f"daemons after functions of SQL and of RDDs: {one} without the simplified traceback, {two} with it")
raise SystemExit((one, two) != (1, 2))
PY
