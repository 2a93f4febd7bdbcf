"""Workers that Spark forks from headgate's daemon have what they need from the start."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from pyspark.serializers import read_int
from pyspark.sql import SparkSession, functions

MODULE = "headgate.spark.worker.python_daemon"


def test_a_worker_has_arrow_before_it_is_told_anything() -> None:
    daemon = subprocess.Popen(
        [sys.executable, "-m", MODULE, "pyspark.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHON_WORKER_FACTORY_SECRET": "unused"},
    )
    assert daemon.stdin is not None
    assert daemon.stdout is not None
    try:
        port = read_int(daemon.stdout)
        with socket.create_connection(("127.0.0.1", port)) as worker, worker.makefile("rb") as said:
            loaded = Path("/proc", str(read_int(said)), "maps").read_text()
    finally:
        daemon.stdin.close()  # so Spark ends it, and it its workers
        daemon.wait(10)
    assert "libarrow." in loaded


def test_functions_of_sql_and_of_rdds_have_their_workers_from_one_daemon(
    spark: SparkSession,
) -> None:
    daemon_of_sql = functions.udf(lambda _: os.getppid(), "long")
    by_sql = spark.range(2).select(daemon_of_sql("id").alias("daemon")).collect()
    by_rdd = spark.sparkContext.range(2).map(lambda _: os.getppid()).collect()
    assert {row.daemon for row in by_sql} == set(by_rdd)
