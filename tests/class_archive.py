"""Writes an archive of the classes that Spark loads: a JVM that maps it starts in half the time.

``make test`` writes it once, below ``.cache``; ``tests/conftest.py`` shows it to every Spark. One
that another Java or another PySpark wrote is passed over by the JVM.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

ARCHIVE = Path(__file__).parent.parent / ".cache" / "spark.jsa"
OPTIONS = '-Xlog:disable -XX:+UseSerialGC -XX:SharedArchiveFile="{}"'
"""Without the log: an archive that does not fit is no news to a step that prints. The collector is
that of the examples, which starts in less time on two cores than the default."""


def _add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _use(folder: Path) -> None:
    """Load what steps load: data frames from Python and files, joins, windows, and Arrow."""
    from pyspark.sql import SparkSession, functions

    settings = {
        "spark.master": "local[1]",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    spark = SparkSession.builder.config(map=settings).getOrCreate()
    frame = spark.createDataFrame([(1, "a", 1.5), (2, "b", 2.5)], "k long, v string, x double")
    frame.write.parquet(str(folder / "frame"))
    stored = spark.read.parquet(str(folder / "frame"))
    sums = stored.groupBy("v").agg(functions.sum("x").alias("s"), functions.max("k"))
    joined = frame.join(sums, "v", "left").where("s > 1").orderBy("k")
    joined.mapInArrow(_add, joined.schema).toPandas()
    doubled = functions.udf(lambda x: 2 * x, "double")
    frame.select(doubled("x")).union(frame.select("x")).distinct().collect()
    java = spark.sparkContext._gateway.proc  # ends, and writes the archive, as its input does
    spark.stop()
    java.stdin.close()
    java.wait()


def main() -> None:
    ARCHIVE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as name:
        written = Path(name) / ARCHIVE.name
        options = f'-Xlog:disable -XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit="{written}"'
        environment = {"SPARK_SUBMIT_OPTS": options, "PYSPARK_PYTHON": sys.executable}
        program = [sys.executable, __file__, name]
        subprocess.run(program, check=False, env={**os.environ, **environment})
        if written.exists():
            written.rename(ARCHIVE)
        else:
            print("this Java writes no archive of classes; Spark starts without", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _use(Path(sys.argv[1]))
    else:
        main()
