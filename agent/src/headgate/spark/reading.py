"""Containers as frames: small ones are read by the driver, large ones by Spark's tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headgate.client import ScanRange
from headgate.engine import OnUndecodable
from headgate.events import KeyForm, key_bytes, key_text, printable_key
from headgate.spark.column_names import ColumnNames
from headgate.spark.containers import StepContainers
from headgate.spark.remote import is_remote
from headgate.spark.source.tables import (
    PAGE,
    ROW,
    ColumnMapping,
    ScannedColumns,
    range_texts,
    to_batch,
)
from headgate.spark.source.undecodable import UndecodedValues
from headgate.spark.source.values import ValueType, natural_type
from headgate.spark.views import ContainerView

_LEAVES_KEY: Final = "spark.sql.leafNodeDefaultParallelism"
_REMOTE_PARTITIONS: Final = 8
"""Of a large container, on a Connect server whose settings do not say how many."""

SQL_TYPES: Final = {
    ValueType.STRING: "string",
    ValueType.BINARY: "binary",
    ValueType.DOUBLE: "double",
    ValueType.LONG: "bigint",
    ValueType.BOOLEAN: "boolean",
}
"""Types of columns, in the words of Spark's schemas."""

ROW_TYPES: Final = {KeyForm.TEXT: ValueType.STRING, KeyForm.BINARY: ValueType.BINARY}
"""The type of rows, and of what names columns, by a container's form of keys."""


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
        names = self._containers.column_names(view, None if columns is None else wanted)
        typed = names.typed(types)
        found = wanted
        if found is None:
            found = tuple(dict.fromkeys((*view.declared, *sorted(cells.columns()), *typed)))
        mappings = _mappings(view, names, found, typed)
        batch = to_batch(cells, mappings, ROW_TYPES[view.keys], policy, self._undecoded)
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
        names = self._containers.column_names(view, None if columns is None else wanted)
        mappings = _mappings(view, names, wanted, names.typed(types))
        frame = self.numbered(view, mappings, policy)
        return frame.toDF(ROW, *(mapping.name for mapping in mappings))

    def numbered(
        self, view: ContainerView, mappings: Sequence[ColumnMapping], policy: OnUndecodable
    ) -> DataFrame:
        """Return columns of a container as a frame that tasks read in parallel.

        Columns are called by their places, for names are any text, and Spark takes some of them for
        expressions: ``row``, ``c0``, ``c1`` and so on.
        """
        places = {f"c{at}": mapping for at, mapping in enumerate(mappings)}
        fields = "".join(f", {place} {SQL_TYPES[m.kind]}" for place, m in places.items())
        reader = (
            self._spark.read.format("headgate")
            .schema(f"{ROW} {SQL_TYPES[ROW_TYPES[view.keys]]}{fields}")
            .options(**self._containers.address(view.table, view.codec))
            .option("columns", json.dumps({p: key_text(m.column) for p, m in places.items()}))
            .option("start", printable_key(view.extent.start))
            .option("partitions", self._parallelism())
            .option("on_undecodable", policy.value)
        )
        if view.extent.stop is not None:
            reader = reader.option("stop", printable_key(view.extent.stop))
        if not view.uniform:
            ranges = {place: range_texts(view.ranges(m.column)) for place, m in places.items()}
            reader = reader.option("ranges", json.dumps(ranges))
        return reader.load()

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
        return tuple(dict.fromkeys(map(key_bytes, columns)))
    return view.declared if view.complete else None


def _mappings(
    view: ContainerView, names: ColumnNames, columns: Iterable[bytes], types: Mapping[bytes, str]
) -> list[ColumnMapping]:
    natural = natural_type(view.codec)
    return [
        ColumnMapping(
            name, column, view.codec, ValueType(types[column]) if column in types else natural
        )
        for name, column in names.names(columns).items()
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
