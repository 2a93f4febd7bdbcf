"""The data cube's stages as a worker runs them: their own state files, manifests and flows.

What the worker would be given by agent, HBase and Kafka is given here: requests, and the rows and
queries that come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
from msgspec import Struct
from pyspark.sql import SparkSession

from evaluation.incremental.cube_dataflow import OUTPUTS, QUERIES, ROWS, SOURCES, Ran
from headgate.engine import Launch, WatchedContainer
from headgate.events import Container, Cut, Item, updates_topic
from headgate.incremental import Stage
from headgate.incremental.library import (
    Aggregate,
    Function,
    cube_update,
    data_cube,
    input_split,
    query_preprocessor,
    result,
)
from headgate.incremental.state.batches import BatchFile
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.manifest import read_manifest
from headgate.spark import (
    Increment,
    Run,
    StageRequest,
    StepRequest,
    Thrift2Address,
    decode_result,
)
from headgate.spark.containers import servers_of

DIMENSIONS: Final = {"day": "int64", "hour": "int64", "shop": "int64"}
MEASURES: Final = {"price": "int64"}
OF: Final = {
    "number": Aggregate(Function.COUNT, "price", "int64"),
    "total": Aggregate(Function.SUM, "price", "int64"),
}
VALUES: Final = {"day": 7, "hour": 24, "shop": 50}
"""Of each dimension: cells of all cuboids are some 10,000, and all are there after some epochs."""
_NOWHERE: Final = Thrift2Address("localhost", 0)


class Sizes(Struct, frozen=True):
    """What comes at a time."""

    rows: int = 5_000
    """Paper: section 5.2."""
    queries: int = 1_000
    """Paper: section 5.2; of any cuboid, each as often as the others."""
    width: int = 3
    """Values of each dimension that a query asks for."""


class Feed:
    """Increments of rows and queries without end: the same ones by the same numbers.

    Args:
        sizes: of increments.
    """

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes

    def table(self, container: str, number: int) -> pa.Table:
        """Return an increment."""
        random = np.random.default_rng([number, container == ROWS])
        return self._rows(random) if container == ROWS else self._queries(random, number)

    def _rows(self, random: np.random.Generator) -> pa.Table:
        count = self._sizes.rows
        columns = {name: random.integers(values, size=count) for name, values in VALUES.items()}
        return pa.table({**columns, "price": random.integers(1, 100, size=count)})

    def _queries(self, random: np.random.Generator, number: int) -> pa.Table:
        count = self._sizes.queries
        first = number * count
        cuboids = random.integers(2 ** len(VALUES), size=count)
        columns: dict[str, Any] = {"query": np.arange(first, first + count)}
        for bit, (name, values) in enumerate(VALUES.items()):
            width = min(self._sizes.width, values)
            start = random.integers(values - width + 1, size=count)
            absent = cuboids >> bit & 1 == 0
            columns[f"{name}_from"] = pa.array(start, mask=absent)
            columns[f"{name}_to"] = pa.array(start + width - 1, mask=absent)
        return pa.table(columns)


class _Settings:
    """Stands for a Spark session where the driver does it all: only a setting is asked for."""

    conf: Mapping[str, str] = {}


def _no_reader(_: StepRequest) -> AbstractContextManager[Any]:
    message = "nothing is read from Kafka here"
    raise LookupError(message)


class _FedRun(Run):
    """A run whose containers are fed by ``Feed``."""

    def __init__(
        self,
        request: StepRequest,
        table: Callable[[str, int], pa.Table],
        spark: SparkSession | None,
    ) -> None:
        session = spark or cast(SparkSession, _Settings())
        super().__init__(session, request, servers_of(request, _no_reader), lambda: False)
        self._table = table

    def increment(
        self,
        container: str,
        *,
        table: str | None = None,
        since: Cut | None = None,
        whole: bool = False,
    ) -> Increment:
        """Return what was fed between two cuts."""
        topic = updates_topic(container)
        known = () if since is None or whole else since.offsets.get(topic, ())
        numbers = range(known[0] if known else 0, self.cut.offsets[topic][0])
        return Increment(
            pa.concat_tables([self._table(container, number) for number in numbers]), whole=whole
        )


def stages() -> dict[str, Stage]:
    """Return the stages by action."""
    return {
        "split": input_split(DIMENSIONS, MEASURES),
        "update": cube_update(DIMENSIONS, OF),
        "preprocess": query_preprocessor(DIMENSIONS),
        "cube": data_cube(DIMENSIONS, OF),
        "result": result(DIMENSIONS, OF),
    }


class FiledStages:
    """Carries runs out by stages on files, as a session's driver does, or as Spark jobs.

    Args:
        folder: of the files.
        table: returns the increment of a container with a number.
        spark: of jobs: whatever has a row is one, if the session's settings leave the driver none.
    """

    def __init__(
        self,
        folder: Path,
        table: Callable[[str, int], pa.Table],
        spark: SparkSession | None = None,
    ) -> None:
        self._folder = folder
        self._spark = spark
        self._table = table
        self._stages = stages()
        self._containers = tuple(
            WatchedContainer(Container(one, (Item(one, b"f"),))) for one in SOURCES.values()
        )

    def carry_out(self, launch: Launch, needed: frozenset[str]) -> Ran:
        """Return what a run has made, and its seconds; see ``Carrier``.

        They are the driver's processor's, or by the clock where Spark's processes take part.
        """
        increments = {
            flow: tuple(one.name for one in taken.read) for flow, taken in launch.work.taken.items()
        }
        run = _FedRun(self._request(launch, increments, needed), self._table, self._spark)
        clock = time.process_time if self._spark is None else time.perf_counter
        before = clock()
        self._stages[launch.action](run)
        seconds = clock() - before
        made = decode_result(run.result)
        assert made is not None
        return Ran(seconds, made.produced, run.result)

    def _request(
        self, launch: Launch, increments: dict[str, tuple[str, ...]], needed: frozenset[str]
    ) -> StepRequest:
        spec = self._stages[launch.action].spec
        read = {
            flow: increments.get(flow, ()) for flow in spec.inputs if flow not in {ROWS, QUERIES}
        }
        return StepRequest(
            dataflow="cube",
            action=launch.action,
            run=launch.run,
            attempt=launch.attempt,
            token=launch.attempt,
            entry="",
            hbase=_NOWHERE,
            kafka="",
            containers=self._containers,
            cut=launch.cut,
            since=launch.since,
            previous=launch.previous,
            stage=StageRequest(
                str(self._folder), read, (OUTPUTS[launch.action],), tuple(sorted(needed))
            ),
        )

    def rows_of(self, ran: str, flow: str) -> list[dict[str, Any]]:
        """Return what a run with this result has put out."""
        store, made = FileStore.at(self._folder), decode_result(ran)
        assert made is not None
        manifest = read_manifest(store, made.manifest)
        files = [BatchFile(store, ref, manifest.stage) for ref in manifest.outputs[flow]]
        return [row for file in files for batch in file.batches() for row in batch.to_pylist()]
