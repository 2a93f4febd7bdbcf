"""Containers as frames: small ones are read by the driver, large ones by Spark's tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from headgate.client import ScanRange
from headgate.engine import OnUndecodable
from headgate.spark.containers import StepContainers
from headgate.spark.remote import is_remote
from headgate.spark.source.datasource import text_of
from headgate.spark.source.tables import PAGE, ROW, ColumnMapping, ScannedColumns, to_batch
from headgate.spark.source.undecodable import UndecodedValues
from headgate.spark.source.values import ValueType, natural_type
from headgate.spark.views import ContainerView, names_of

_LEAVES_KEY: Final = "spark.sql.leafNodeDefaultParallelism"
_REMOTE_PARTITIONS: Final = 8
"""Of a large container, on a Connect server whose settings do not say how many."""

SQL_TYPES: Final = {
    ValueType.STRING: "string",
    ValueType.BINARY: "binary",
    ValueType.DOUBLE: "double",
    ValueType.LONG: "bigint",
}
"""Types of columns, in the words of Spark's schemas."""


class ContainerReader:
    """Reads containers as they are now.

    Args:
        spark: the session.
        containers: those of the step.
        undecoded: takes note of values that the driver read and that their codec could not.

    Attributes:
        rows_read: rows that the driver handed to the step.
    """

    def __init__(
        self, spark: SparkSession, containers: StepContainers, undecoded: UndecodedValues
    ) -> None:
        self.rows_read = 0
        self._spark = spark
        self._containers = containers
        self._undecoded = undecoded

    def frame(
        self,
        view: ContainerView,
        columns: Sequence[str] | None,
        types: Mapping[str, str],
        policy: OnUndecodable,
        most: int,
    ) -> DataFrame:
        """Return a container as a frame, by way of the driver if it has at most ``most`` rows.

        Raises:
            UndecodableValue: a value does not decode, and that is to fail the step.
        """
        small = self._small(view, columns, types, policy, most)
        if small is not None:
            self.rows_read += small.num_rows
            return self._spark.createDataFrame(small)
        return self.large(view, columns, types, policy)

    def arrow(
        self,
        view: ContainerView,
        columns: Sequence[str] | None,
        types: Mapping[str, str],
        policy: OnUndecodable,
    ) -> pa.Table:
        """Return a container as an Arrow table, whatever its size.

        Raises:
            UndecodableValue: a value does not decode, and that is to fail the step.
        """
        whole = self._small(view, columns, types, policy, None)
        assert whole is not None  # noqa: S101 - without a limit it is always read
        self.rows_read += whole.num_rows
        return whole

    def _small(
        self,
        view: ContainerView,
        columns: Sequence[str] | None,
        types: Mapping[str, str],
        policy: OnUndecodable,
        most: int | None,
    ) -> pa.Table | None:
        wanted = wanted_columns(view, columns)
        extent = view.extent
        cells = ScannedColumns(wanted)
        narrowed = ScanRange(extent.start, extent.stop, wanted or extent.columns)
        with self._containers.connect() as connection:
            for results in connection.pages(view.table, narrowed, PAGE):
                cells.add(results)
                if most is not None and len(cells.rows) > most and wanted is not None:
                    return None
        # A whole table may hold notify cells, which are nobody's data.
        if not view.uniform or (wanted is None and not view.families):
            cells = _inside(view, cells, wanted)
        found = wanted
        if found is None:
            found = tuple(dict.fromkeys((*view.declared, *sorted(cells.columns()))))
            found += view.named(types, found)
        mappings = _mappings(view, found, types)
        batch = to_batch(cells, mappings, ValueType.STRING, policy, self._undecoded)
        return pa.Table.from_batches([batch])

    def large(
        self,
        view: ContainerView,
        columns: Sequence[str] | None,
        types: Mapping[str, str],
        policy: OnUndecodable,
    ) -> DataFrame:
        """Return a container as a frame that tasks read in parallel."""
        wanted = wanted_columns(view, columns) or ()
        mappings = _mappings(view, wanted, types)
        names = {mapping.name: mapping.column.decode() for mapping in mappings}
        fields = ", ".join(f"`{mapping.name}` {SQL_TYPES[mapping.kind]}" for mapping in mappings)
        reader = (
            self._spark.read.format("headgate")
            .schema(f"`{ROW}` string, {fields}")
            .options(**self._containers.address(view.table, view.codec), columns=json.dumps(names))
            .option("start", text_of(view.extent.start))
            .option("partitions", self._parallelism())
            .option("on_undecodable", policy.value)
        )
        if view.extent.stop is not None:
            reader = reader.option("stop", text_of(view.extent.stop))
        frame = reader.load()
        if view.uniform:
            return frame
        for mapping in mappings:
            inside = sql.lit(False)  # noqa: FBT003 - a literal of SQL
            for start, stop in view.ranges(mapping.column):
                part = sql.encode(ROW, "UTF-8") >= sql.lit(start)
                if stop is not None:
                    part &= sql.encode(ROW, "UTF-8") < sql.lit(stop)
                inside |= part
            frame = frame.withColumn(mapping.name, sql.when(inside, sql.col(mapping.name)))
        return frame.dropna("all", subset=[mapping.name for mapping in mappings])

    def _parallelism(self) -> int:
        if is_remote(self._spark):
            return int(self._spark.conf.get(_LEAVES_KEY, None) or _REMOTE_PARTITIONS)
        return int(self._spark.sparkContext.defaultParallelism)


def wanted_columns(view: ContainerView, columns: Sequence[str] | None) -> tuple[bytes, ...] | None:
    """Return the columns to read, ``family:qualifier``; None for all that are there.

    Args:
        view: the container.
        columns: those that the step asks for; None for those that the container names.
    """
    if columns is not None:
        return tuple(column.encode() for column in columns)
    return view.declared if view.complete else None


def _mappings(
    view: ContainerView, columns: Iterable[bytes], types: Mapping[str, str]
) -> list[ColumnMapping]:
    natural = natural_type(view.codec)
    return [
        ColumnMapping(
            name, column, view.codec, ValueType(types[name]) if name in types else natural
        )
        for column, name in names_of(columns).items()
    ]


def _inside(
    view: ContainerView, cells: ScannedColumns, wanted: Sequence[bytes] | None
) -> ScannedColumns:
    """Return the cells that lie in one of the container's items, and the rows that have one."""
    columns = cells.columns()
    kept = ScannedColumns(wanted if wanted is not None else columns)
    for at, row in enumerate(cells.rows):
        present = {
            column: value
            for column, values in columns.items()
            if (value := values[at]) is not None and view.has(row, column)
        }
        if present:
            kept.add_row(row, present)
    return kept
