"""A dataflow of a file over tables in memory: what testers of steps and of stages share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headgate.client import Thrift2Connection
from headgate.events import GONE, key_text, updates_topic
from headgate.flows import Dataflow, load_dataflow
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


class TestedDataflow:
    """A dataflow whose tables are in memory.

    Args:
        spark: the session of the test.
        dataflow: the file, or what was read of it.
        profile: profile whose bounds count, where the file has several.

    Attributes:
        tables: all tables that the dataflow names; a test may look at bytes there.

    Raises:
        DataflowErrors: the file is not in order.
    """

    __test__ = False  # for pytest: it is no test itself

    def __init__(
        self, spark: SparkSession, dataflow: Dataflow | Path | str, profile: str | None = None
    ) -> None:
        if not isinstance(dataflow, Dataflow):
            dataflow = load_dataflow(dataflow, profile)
        self.dataflow = dataflow
        self._spark = spark
        self._runs = 0
        self.tables = MemoryTables()
        for watched in dataflow.spec.containers:
            for item in watched.container.items:
                family = () if item.family is None else (key_text(item.family),)
                self.tables.create(item.table, family)

    def write(
        self, container: str, rows: Iterable[Mapping[str, Any]] | pa.Table | DataFrame
    ) -> None:
        """Write rows to a container as anybody outside the dataflow does.

        Args:
            container: its name.
            rows: each with its key as ``row`` and values by the names of columns, as in
                ``Run.write``.

        Raises:
            ViewError: no such container, or a column that has no place in it.
            UnwritableValue: the codec has no bytes for a value.
        """
        with self.attempt(_WRITER) as run:
            run.write(_frame(rows), container)

    def delete(self, container: str, rows: Sequence[str | bytes]) -> None:
        """Delete rows of a container as anybody outside the dataflow does."""
        with self.attempt(_WRITER) as run:
            run.delete(rows, container)

    def read(self, container: str, **named: Any) -> list[dict[str, Any]]:
        """Return the rows of a container as ``Run.read`` shows them, in the order of their keys.

        Args:
            container: its name.
            named: as of ``Run.read``.
        """
        with self.attempt(_WRITER) as run:
            found: list[dict[str, Any]] = run.read_arrow(container, **named).to_pylist()
        return found

    def begin_run(self) -> str:
        """Return the name of a new run."""
        self._runs += 1
        return f"test-{self._runs}"

    def beginning(self) -> dict[str, tuple[int, ...]]:
        """Return the offsets before the first update of each table."""
        return {updates_topic(table): (GONE,) for table in self.tables.updates}

    def end(self) -> dict[str, tuple[int, ...]]:
        """Return the offsets behind the last update of each table."""
        return {updates_topic(table): (len(all_),) for table, all_ in self.tables.updates.items()}

    @contextmanager
    def attempt(self, action: str, **request: Any) -> Iterator[Run]:
        """Yield a run's attempt, of which the driver reads and writes everything.

        Args:
            action: its name.
            request: fields of ``StepRequest``, where they are not those of the dataflow.
        """
        conf, tables, dataflow = self._spark.conf, self.tables, self.dataflow
        asked = StepRequest(
            dataflow=dataflow.name,
            action=action,
            run=f"test-{self._runs}",
            attempt=1,
            token=self._runs,
            entry=request.pop("entry", ""),
            hbase=Thrift2Address("(memory)", 0),
            kafka="(memory)",
            containers=dataflow.in_tables,
            on_undecodable=dataflow.on_undecodable,
            keys=dataflow.keys,
            **request,
        )
        servers = Servers(
            lambda: cast("Thrift2Connection", tables), lambda: _Updates(tables).lent()
        )
        before = {key: conf.get(key, None) for key in _BY_DRIVER}
        for key, value in _BY_DRIVER.items():
            conf.set(key, value)
        try:
            yield Run(self._spark, asked, servers, cancelled=lambda: False)
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
