"""A step in a process of its own: under spark-submit, or on a Spark Connect server.

Whoever starts the process has claimed the run, and commits it when the process ends with status 0.
What the step names for the commit is kept in HBase until then: no other place is reached from
wherever a cluster, or Airflow, has the process run.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from pyspark import SparkFiles
from pyspark.sql import SparkSession

from headgate.client import Thrift2Connection
from headgate.spark.containers import servers_of
from headgate.spark.ledger import NamedResults, until_answered
from headgate.spark.messages import StepRequest
from headgate.spark.run import Run
from headgate.spark.source.registration import register_sources
from headgate.spark.worker.identities import file_digests
from headgate.spark.worker.readers import ReaderPool
from headgate.spark.worker.steps import StepCode

RUN_VARIABLE: Final = "HEADGATE_RUN"
"""Names the file with the run, in the environment of what an agent launches."""

SESSION_SETTINGS: Final = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
"""As in warm sessions, so that a step finds the same wherever it runs, unless set otherwise."""


class NoRun(Exception):
    """There is no run to be found: nothing that an agent launched."""


def current_run(
    spark: SparkSession,
    described: Mapping[str, Any] | None = None,
    *,
    kafka_properties: Mapping[str, str | int | float | bool] | None = None,
) -> Run:
    """Return the run that an agent launched this program, or this task, for.

    A program's end with status 0 commits the run, that of a DAG with success.

    Args:
        spark: the program's own session; headgate's data sources become known to it.
        described: in a task of Airflow, ``headgate`` of the DAG run's ``conf``.
        kafka_properties: librdkafka's own, over those that the agent passed on. It gives none to
            Airflow, which shows what it is given: a Kafka that asks for them gets them from here.

    Raises:
        NoRun: no agent launched the program.
    """
    if described is not None:
        request = msgspec.convert(described, StepRequest)
    elif (path := os.environ.get(RUN_VARIABLE)) is not None:
        request = _request(path)
    else:
        message = f"no variable {RUN_VARIABLE}: this program was not launched by a headgate agent"
        raise NoRun(message)
    properties = {**request.kafka_properties, **(kafka_properties or {})}
    return _run(spark, replace(request, kafka_properties=properties))


def _run(spark: SparkSession, request: StepRequest, code: Mapping[str, str] | None = None) -> Run:
    # In a cluster the files of the agent's host are not there.
    there = {name: path for name, path in request.depends.items() if Path(path).is_file()}
    register_sources(spark)
    pool = ReaderPool()
    return Run(
        spark,
        request,
        servers_of(request, pool.lent),
        cancelled=lambda: False,
        code=code,
        files=file_digests(there),
        on_named=lambda result: until_answered(lambda: _keep(request, result)),
    )


def _keep(request: StepRequest, result: str) -> None:
    """Keep what the run names, for whoever commits it."""
    with Thrift2Connection(request.hbase.host, request.hbase.port) as connection:
        results = NamedResults(connection, request.ledger, request.result_proof)
        results.name(request.key, request.token, result)


def _request(named: str) -> StepRequest:
    # In a cluster the file lies in the working directory, or where Spark puts files.
    name = Path(named).name
    places = [Path(named), Path.cwd() / name]
    if SparkSession.getActiveSession() is not None and not os.environ.get("SPARK_REMOTE"):
        places.append(Path(SparkFiles.get(name)))
    for place in places:
        if place.exists():
            return msgspec.json.decode(place.read_bytes(), type=StepRequest)
    message = f"the run's file {name} is in none of {', '.join(map(str, places))}"
    raise NoRun(message)


def main(arguments: Sequence[str] | None = None) -> None:
    """Carry out the step of one run."""
    parser = argparse.ArgumentParser(
        prog="python -m headgate.spark.driver",
        description="Runs one step for an agent, which starts it; not meant to be run by hand.",
    )
    parser.add_argument("request", help="the file with the run")
    parser.add_argument("--remote", help="a Spark Connect server, sc://host:port")
    parser.add_argument("--name", default="headgate", help="of the session on the server")
    parser.add_argument("--code", type=Path, help="the file in which to note the code's hash")
    options = parser.parse_args(arguments)
    if options.remote:
        # A session of its own: what another step sets or registers is not seen here.
        builder = SparkSession.builder.remote(options.remote).appName(options.name)
        spark = builder.create()
        for name, value in SESSION_SETTINGS.items():
            spark.conf.set(name, value)
        request = msgspec.json.decode(Path(options.request).read_bytes(), type=StepRequest)
    else:
        spark = SparkSession.builder.getOrCreate()
        configured = spark.sparkContext.getConf()
        for name, value in SESSION_SETTINGS.items():
            if not configured.contains(name):
                spark.conf.set(name, value)
        request = _request(options.request)
    try:
        here = [directory for directory in request.python_path if Path(directory).is_dir()]
        code = StepCode()
        step = code.load(request.entry, here)
        _note(options.code, code)
        try:
            step(_run(spark, request, code.identity(request.entry)))
        finally:
            _note(options.code, code)  # what it has imported meanwhile is part of it
    finally:
        spark.stop()


def _note(file: Path | None, code: StepCode) -> None:
    if file is not None:
        file.write_text(code.hash)


if __name__ == "__main__":
    main()
