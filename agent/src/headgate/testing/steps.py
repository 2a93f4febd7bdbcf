"""Steps of a dataflow file over tables in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headgate.client import Thrift2Connection
from headgate.events import GONE, Cut, key_text, updates_topic
from headgate.flows import Dataflow, StepLauncher, load_dataflow
from headgate.spark import (
    DRIVER_BYTES_KEY,
    DRIVER_ROWS_KEY,
    OffsetRange,
    Record,
    Run,
    Servers,
    StepRequest,
    Thrift2Address,
    UpdateReader,
)
from headgate.testing.tables import MemoryTables

_BY_DRIVER: Final = {DRIVER_ROWS_KEY: str(2**31 - 2), DRIVER_BYTES_KEY: str(2**100)}
"""Nothing is too large for the driver: tasks cannot see these tables."""
_WRITER: Final = "(a test)"

Step = Callable[[Run], object]


class StepTester:
    """Runs a step of a dataflow file as an agent would, over tables in memory.

    Containers, codecs, names of columns, parameters and what becomes of undecodable values are
    those of the file. Each run sees the changes since the last one that did not raise. There are
    no older versions of cells, no times to live, and no tasks of Spark that read or write: the
    driver does all of that.

    Args:
        spark: the session of the test.
        dataflow: the file, or what was read of it.
        action: the name of the step.
        profile: profile whose bounds count, where the file has several.

    Attributes:
        tables: all tables that the dataflow names; a test may look at bytes there.

    Raises:
        DataflowErrors: the file is not in order.
        LookupError: it has no such step.
    """

    def __init__(
        self,
        spark: SparkSession,
        dataflow: Dataflow | Path | str,
        action: str,
        profile: str | None = None,
    ) -> None:
        if not isinstance(dataflow, Dataflow):
            dataflow = load_dataflow(dataflow, profile)
        steps = {n: one for n, one in dataflow.launchers.items() if isinstance(one, StepLauncher)}
        if action not in steps:
            known = ", ".join(steps) or "none"
            message = f"{dataflow.file} has no step {action!r}; it has: {known}"
            raise LookupError(message)
        self._spark = spark
        self._dataflow = dataflow
        self._action = action
        self._launcher = steps[action]
        self._runs = 0
        self._result = ""
        self._since: dict[str, tuple[int, ...]] = {}
        self.tables = MemoryTables()
        for watched in dataflow.spec.containers:
            for item in watched.container.items:
                family = () if item.family is None else (key_text(item.family),)
                self.tables.create(item.table, family)
                self._since[updates_topic(item.table)] = (GONE,)

    def write(
        self, container: str, rows: Iterable[Mapping[str, Any]] | pa.Table | DataFrame
    ) -> None:
        """Write rows to a container as anybody else than the step does.

        Args:
            container: its name.
            rows: each with its key as ``row`` and values by the names of columns, as in
                ``Run.write``.

        Raises:
            ViewError: no such container, or a column that has no place in it.
            UnwritableValue: the codec has no bytes for a value.
        """
        self._as_stranger(lambda run: run.write(_frame(rows), container))

    def delete(self, container: str, rows: Sequence[str | bytes]) -> None:
        """Delete rows of a container as anybody else than the step does."""
        self._as_stranger(lambda run: run.delete(rows, container))

    def read(self, container: str, **named: Any) -> list[dict[str, Any]]:
        """Return the rows of a container as ``Run.read`` shows them, in the order of their keys.

        Args:
            container: its name.
            named: as of ``Run.read``.
        """
        found: list[dict[str, Any]] = []
        self._as_stranger(lambda run: found.extend(run.read_arrow(container, **named).to_pylist()))
        return found

    def run(self, step: Step, **parameters: Any) -> Run:
        """Run the step once and commit, unless it raises.

        Args:
            step: the function.
            parameters: instead of those of the same names in the file.

        Returns:
            The run, with what it has counted and named.

        Raises:
            Exception: what the step raises; the next run then sees its changes too.
        """
        self._runs += 1
        updates = self.tables.updates
        cut: dict[str, tuple[int, ...]] = {updates_topic(t): (len(updates[t]),) for t in updates}
        request = self._request(
            self._action,
            parameters={**self._launcher.parameters, **parameters},
            cut=Cut(cut),
            since=Cut(dict(self._since)),
            previous=self._result,
        )
        with self._by_driver():
            run = self._run(request)
            step(run)
            run.follow_commit()
        self._since = cut
        self._result = run.result or self._result
        return run

    def _as_stranger(self, work: Callable[[Run], object]) -> None:
        with self._by_driver():
            work(self._run(self._request(_WRITER)))

    def _run(self, request: StepRequest) -> Run:
        tables = self.tables
        servers = Servers(
            lambda: cast("Thrift2Connection", tables), lambda: _Updates(tables).lent()
        )
        return Run(self._spark, request, servers, cancelled=lambda: False)

    def _request(self, action: str, **more: Any) -> StepRequest:
        dataflow = self._dataflow
        return StepRequest(
            dataflow=dataflow.name,
            action=action,
            run=f"test-{self._runs}",
            attempt=1,
            token=self._runs,
            entry=self._launcher.step,
            hbase=Thrift2Address("(memory)", 0),
            kafka="(memory)",
            containers=dataflow.in_tables,
            on_undecodable=dataflow.on_undecodable,
            keys=dataflow.keys,
            **more,
        )

    @contextmanager
    def _by_driver(self) -> Iterator[None]:
        """Have the driver read and write whatever size things have."""
        conf = self._spark.conf
        before = {key: conf.get(key, None) for key in _BY_DRIVER}
        for key, value in _BY_DRIVER.items():
            conf.set(key, value)
        try:
            yield
        finally:
            for key, former in before.items():
                if former is None:
                    conf.unset(key)
                else:
                    conf.set(key, former)


class _Updates:
    """The updates of tables in memory, read as from Kafka."""

    def __init__(self, tables: MemoryTables) -> None:
        self._by_topic = {updates_topic(t): known for t, known in tables.updates.items()}

    @contextmanager
    def lent(self) -> Iterator[UpdateReader]:
        """Lend it for the time of a read."""
        yield cast("UpdateReader", self)

    def there(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """Return the ranges: nothing is ever deleted."""
        return list(ranges)

    def read(self, ranges: Sequence[OffsetRange]) -> Iterator[Record]:
        """Yield the updates of ranges of one topic."""
        for one in ranges:
            for offset in range(one.start, one.stop):
                yield Record(one.partition, offset, self._by_topic[one.topic][offset])


def _frame(rows: Iterable[Mapping[str, Any]] | pa.Table | DataFrame) -> pa.Table | DataFrame:
    if isinstance(rows, pa.Table | DataFrame):
        return rows
    return pa.Table.from_pylist([dict(row) for row in rows])
