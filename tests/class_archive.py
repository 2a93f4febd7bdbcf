"""Writes archives of the classes that the tests' JVMs load: a start then takes half the time.

``make test`` has them written once. Spark's is below ``.cache``; ``tests/conftest.py`` shows it to
every Spark, and one that another Java or another PySpark wrote is passed over by the JVM. Those of
the local stack it records itself, where its jars are, as it is ended in order; tests kill theirs.
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


def _record_the_stack() -> None:
    from headgate.local import Lifetime, LocalStack, LocalStackError

    with tempfile.TemporaryDirectory() as home:
        try:
            with LocalStack(Path(home), "classes", lifetime=Lifetime.WITH_CALLER):
                pass
        except LocalStackError as error:
            print(f"the local stack starts without archives of classes: {error}", file=sys.stderr)


def main() -> None:
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")  # as tests/conftest.py
    _record_the_stack()
    ARCHIVE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as name:
        written = Path(name) / ARCHIVE.name
        options = f'-Xlog:disable -XX:ArchiveClassesAtExit="{written}"'
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
