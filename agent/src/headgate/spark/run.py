"""What a step sees when it runs."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sql

from headgate.client import ScanRange, Thrift2Connection, read_rows
from headgate.engine import Codec, OnUndecodable
from headgate.events import ContainerId, Cut, encode_origin, updates_topic
from headgate.spark.changes import ChangedCells, LatestCells, cell_by_cell
from headgate.spark.messages import StepRequest
from headgate.spark.source.datasource import text_of
from headgate.spark.source.tables import (
    PAGE,
    ROW,
    CellColumns,
    ColumnMapping,
    to_batch,
    write_batch,
)
from headgate.spark.source.undecodable import Decoding, UndecodedValues
from headgate.spark.source.values import ValueType, natural_type, to_arrow
from headgate.spark.updates import UpdateReader, is_broken, ranges_between
from headgate.spark.views import ContainerView, ViewError, names_of, target_columns, view_of

if TYPE_CHECKING:
    import pandas as pd

DRIVER_ROWS: Final = 50_000
"""Rows of a container up to which the driver reads it: about a second, less than starting tasks."""

DRIVER_BYTES: Final = 64 * 1024 * 1024
"""Input of a frame up to which the driver collects and writes it."""

DRIVER_ROWS_KEY: Final = "spark.headgate.driverRows"
DRIVER_BYTES_KEY: Final = "spark.headgate.driverBytes"

_LEAVES_KEY: Final = "spark.sql.leafNodeDefaultParallelism"
_REMOTE_PARTITIONS: Final = 8
"""Of a large container, on a Connect server that was not told how many."""


class RunCancelled(BaseException):
    """The run was cancelled: it may read on, but not write.

    It may be raised at any line of a step, so also inside the gateway to Spark's JVM. That repeats
    a command whose sending an ``Exception`` broke, over another connection, whose jobs bear no tag
    of the attempt any more and could not be cancelled.
    """


class Run:
    """One attempt of one run of a step.

    Small containers are read, and small frames written, by the driver itself: no Spark job, no
    Python worker. Larger ones go through the data source ``headgate`` in parallel. The limits are
    ``spark.headgate.driverRows`` and ``spark.headgate.driverBytes``.

    Args:
        spark: the session.
        request: what to run.
        readers: lends a consumer for the time of a read.
        cancelled: tells whether the run was cancelled.

    Attributes:
        spark: the session.
        rows_read: rows that the driver handed to the step.
        rows_written: rows that the step wrote.
        undecoded: values that the driver read for the step and that their codec could not.
    """

    def __init__(
        self,
        spark: SparkSession,
        request: StepRequest,
        readers: Callable[[], AbstractContextManager[UpdateReader]],
        cancelled: Callable[[], bool],
    ) -> None:
        self.spark = spark
        self.rows_read = 0
        self.rows_written = 0
        self.undecoded = UndecodedValues()
        self._request = request
        self._readers = readers
        self._cancelled = cancelled
        self._containers = {watched.id: watched for watched in request.containers}
        self._driver_rows = int(spark.conf.get(DRIVER_ROWS_KEY, str(DRIVER_ROWS)) or DRIVER_ROWS)
        self._driver_bytes = int(
            spark.conf.get(DRIVER_BYTES_KEY, str(DRIVER_BYTES)) or DRIVER_BYTES
        )

    @property
    def dataflow(self) -> str:
        """Name of the dataflow."""
        return self._request.dataflow

    @property
    def action(self) -> str:
        """Name of the action whose step this is."""
        return self._request.action

    @property
    def id(self) -> str:
        """The run's id, the same in all its attempts."""
        return self._request.run

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._request.attempt

    @property
    def cut(self) -> Cut:
        """Which updates this run consumes."""
        return self._request.cut

    @property
    def since(self) -> Cut:
        """Which updates the action's last committed run had consumed."""
        return self._request.since

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The launcher's parameters in the dataflow file."""
        return self._request.parameters

    # -- reading -----------------------------------------------------------------------------

    def read(
        self,
        container: str,
        *,
        table: str | None = None,
        columns: Sequence[str] | None = None,
        types: Mapping[str, str] | None = None,
        on_undecodable: str | None = None,
    ) -> DataFrame:
        """Return a container as it is now, which includes all updates of the run's cut.

        Args:
            container: its name in the dataflow.
            table: which of its tables, where it has several.
            columns: ``family:qualifier`` of the columns to read, where the container does not
                name them or not all are wanted.
            types: ``string``, ``binary``, ``double`` or ``long`` for columns of the frame that
                are to have another type than the codec's.
            on_undecodable: ``fail``, ``null`` or ``skip`` (leaves the row out): what becomes of a
                value that the codec cannot read; what the dataflow file says of the container
                where not given.

        Returns:
            One row per HBase row that has a cell in the container: ``row`` (string) and a column
            for each qualifier. Null where the row has no such cell or it cannot be decoded. Names
            are qualifiers, or ``family:qualifier`` where two families have one qualifier. Columns
            that the container, ``columns`` or ``types`` name are there even where no row has them.

        Raises:
            ViewError: no such container, or one that needs ``table`` or ``columns``.
            UndecodableValue: a value does not decode, and that is to fail the step.
        """
        view = self._view(container, table)
        policy = self._policy(container, on_undecodable)
        small = self._read_small(view, columns, types or {}, policy, self._driver_rows)
        if small is not None:
            self.rows_read += small.num_rows
            return self.spark.createDataFrame(small)
        return self._read_large(view, columns, types or {}, policy)

    def read_arrow(
        self,
        container: str,
        *,
        table: str | None = None,
        columns: Sequence[str] | None = None,
        types: Mapping[str, str] | None = None,
        on_undecodable: str | None = None,
    ) -> pa.Table:
        """Return the same as ``read`` as an Arrow table in the driver, whatever its size."""
        view = self._view(container, table)
        policy = self._policy(container, on_undecodable)
        whole = self._read_small(view, columns, types or {}, policy, None)
        assert whole is not None  # noqa: S101 - without a limit it is always read
        self.rows_read += whole.num_rows
        return whole

    def _view(self, container: str, table: str | None) -> ContainerView:
        watched = self._containers.get(ContainerId(container))
        if watched is None:
            known = ", ".join(sorted(self._containers)) or "none"
            message = f"step {self.action!r} has no container {container!r}; it has: {known}"
            raise ViewError(message)
        return view_of(watched, table)

    def _policy(self, container: str, asked: str | None) -> OnUndecodable:
        if asked is None:
            return self._request.on_undecodable.get(container, OnUndecodable.NULL)
        try:
            return OnUndecodable(asked)
        except ValueError as error:
            message = f"on_undecodable is {asked!r}; it must be one of {', '.join(OnUndecodable)}"
            raise ViewError(message) from error

    def _connect(self) -> Thrift2Connection:
        # One for each call: the server closes those that are idle while Spark works.
        return Thrift2Connection(self._request.hbase.host, self._request.hbase.port)

    def _wanted(
        self, view: ContainerView, columns: Sequence[str] | None
    ) -> tuple[bytes, ...] | None:
        if columns is not None:
            return tuple(column.encode() for column in columns)
        return view.declared if view.complete else None

    def _mappings(
        self, view: ContainerView, columns: Iterable[bytes], types: Mapping[str, str]
    ) -> list[ColumnMapping]:
        natural = natural_type(view.codec)
        return [
            ColumnMapping(
                name, column, view.codec, ValueType(types[name]) if name in types else natural
            )
            for column, name in names_of(columns).items()
        ]

    def _read_small(
        self,
        view: ContainerView,
        columns: Sequence[str] | None,
        types: Mapping[str, str],
        policy: OnUndecodable,
        most: int | None,
    ) -> pa.Table | None:
        wanted = self._wanted(view, columns)
        extent = view.extent
        cells = CellColumns(wanted)
        narrowed = ScanRange(extent.start, extent.stop, wanted or extent.columns)
        with self._connect() as connection:
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
        mappings = self._mappings(view, found, types)
        batch = to_batch(cells, mappings, ValueType.STRING, policy, self.undecoded)
        return pa.Table.from_batches([batch])

    def _read_large(
        self,
        view: ContainerView,
        columns: Sequence[str] | None,
        types: Mapping[str, str],
        policy: OnUndecodable,
    ) -> DataFrame:
        wanted = self._wanted(view, columns) or ()
        mappings = self._mappings(view, wanted, types)
        names = {mapping.name: mapping.column.decode() for mapping in mappings}
        fields = ", ".join(f"`{mapping.name}` {_SQL_TYPES[mapping.kind]}" for mapping in mappings)
        reader = (
            self.spark.read.format("headgate")
            .schema(f"`{ROW}` string, {fields}")
            .options(**self._address(view.table, view.codec), columns=json.dumps(names))
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
        if _is_remote(self.spark):
            return int(self.spark.conf.get(_LEAVES_KEY, None) or _REMOTE_PARTITIONS)
        return int(self.spark.sparkContext.defaultParallelism)

    def _address(self, table: str, codec: Codec) -> dict[str, str]:
        return {
            "host": self._request.hbase.host,
            "port": str(self._request.hbase.port),
            "table": table,
            "codec": codec.name.value,
            "codec.path": codec.path,
        }

    def changes(
        self,
        container: str,
        *,
        table: str | None = None,
        kind: str | None = None,
        on_undecodable: str | None = None,
    ) -> DataFrame:
        """Return the cells of a container that were written between ``since`` and ``cut``.

        Updates are read from Kafka; a value that they do not tell for certain is read from HBase.
        Where no run of the action has seen the table yet, updates were lost, or the table was
        emptied, all cells of the container are returned, and those that updates tell of and that
        are not there: never too few. A cell that was deleted is missing if its update was lost.

        Args:
            container: its name in the dataflow.
            table: which of its tables, where it has several.
            kind: type of ``value``, as in ``read``; the codec's where not given.
            on_undecodable: as in ``read``; ``skip`` leaves the cell out.

        Returns:
            One row per cell: ``row`` (string), ``column`` (named as in ``read``), ``value``
            (newest; null where deleted or not decodable) and ``deleted``.

        Raises:
            ViewError: no such container, or one that needs ``table``.
            UpdatesUnavailable: Kafka does not answer.
            UndecodableValue: a value does not decode, and that is to fail the step.
        """
        view = self._view(container, table)
        decoding = self._decoding(view, kind, on_undecodable)
        changed = self._changed(view)
        if not changed.everything:
            cells = self._newest(view, changed)
            return self.spark.createDataFrame(self._as_changes(view, cells, decoding))
        wanted = self._wanted(view, None)
        found = self._everything(view, None if wanted is None else self._driver_rows)
        if found is None:
            return self._everything_large(view, decoding, changed)
        cells = changed.with_deleted(found)
        return self.spark.createDataFrame(self._as_changes(view, cells, decoding))

    def changes_arrow(
        self,
        container: str,
        *,
        table: str | None = None,
        kind: str | None = None,
        on_undecodable: str | None = None,
    ) -> pa.Table:
        """Return the same as ``changes`` as an Arrow table."""
        view = self._view(container, table)
        changed = self._changed(view)
        if changed.everything:
            found = self._everything(view, None)
            assert found is not None  # noqa: S101 - without a limit it is always read
            cells = changed.with_deleted(found)
        else:
            cells = self._newest(view, changed)
        return self._as_changes(view, cells, self._decoding(view, kind, on_undecodable))

    def _decoding(
        self, view: ContainerView, kind: str | None, on_undecodable: str | None
    ) -> Decoding:
        decoded = natural_type(view.codec) if kind is None else ValueType(kind)
        return Decoding(view.codec, decoded, self._policy(view.name, on_undecodable))

    def _as_changes(self, view: ContainerView, cells: LatestCells, decoding: Decoding) -> pa.Table:
        names = names_of(dict.fromkeys((*view.declared, *(column for _, column in cells))))
        values = list(cells.values())
        self.rows_read += len(cells)
        places = list(cells)
        value, without = decoding.decode(values, self.undecoded, places.__getitem__)
        changed = pa.table(
            {
                ROW: to_arrow([row for row, _ in cells], Codec(), ValueType.STRING),
                "column": pa.array([names[column] for _, column in cells], pa.string()),
                "value": value,
                "deleted": pa.array([value is None for value in values], pa.bool_()),
            }
        )
        if without:
            changed = changed.take([at for at in range(len(values)) if at not in without])
        return changed

    def _everything(self, view: ContainerView, most: int | None) -> LatestCells | None:
        """Return all cells of a container; None where it has more rows than that."""
        cells: LatestCells = {}
        rows = 0
        with self._connect() as connection:
            for row, columns in connection.scan(view.table, view.extent, PAGE):
                rows += 1
                if most is not None and rows > most:
                    return None
                cells |= {(row, name): v for name, v in columns.items() if view.has(row, name)}
        return cells

    def _everything_large(
        self, view: ContainerView, decoding: Decoding, changed: ChangedCells
    ) -> DataFrame:
        columns = {
            name: column for column, name in names_of(self._wanted(view, None) or ()).items()
        }
        raw = dict.fromkeys(columns, ValueType.BINARY.value)
        frame = self._read_large(view, None, raw, OnUndecodable.NULL)
        value = _SQL_TYPES[decoding.kind]
        schema = f"`{ROW}` string, column string, value {value}, deleted boolean"
        cells = frame.mapInArrow(partial(cell_by_cell, columns=columns, decoding=decoding), schema)
        told = changed.with_deleted({})
        if not told:
            return cells
        gone = self.spark.createDataFrame(self._as_changes(view, told, decoding))
        place = [ROW, "column"]
        left = gone.join(cells.select(*place), place, "left_anti").select(*cells.columns)
        return cells.unionByName(left)

    def _changed(self, view: ContainerView) -> ChangedCells:
        """Return what was written between the two cuts, as far as records tell it."""
        changed = ChangedCells(view)
        topic = updates_topic(view.table)
        ranges = ranges_between(topic, self.since, self.cut)
        changed.everything = is_broken(topic, self.since, self.cut)
        if ranges:
            with self._readers() as reader:
                there = reader.there(ranges)
                changed.everything = changed.everything or there != ranges
                for record in reader.read(there):
                    changed.add(record.message, record.partition)
        return changed

    def _newest(self, view: ContainerView, changed: ChangedCells) -> LatestCells:
        """Return the newest values of cells that changed."""
        unread = changed.unread()
        if unread:
            changed.settle(unread, self._cells_of(view, unread))
        return {cell: v for cell, v in changed.cells.items() if v is None or isinstance(v, bytes)}

    def _cells_of(
        self, view: ContainerView, rows: Sequence[bytes]
    ) -> dict[bytes, dict[bytes, bytes]]:
        with self._connect() as connection:
            return read_rows(connection, view.table, rows, view.extent.columns)

    # -- writing -----------------------------------------------------------------------------

    def write(
        self,
        frame: DataFrame | pa.Table | pd.DataFrame,
        container: str,
        *,
        table: str | None = None,
        timestamp: int | None = None,
    ) -> int:
        """Put a frame's rows into a container and return how many that were.

        Writing the same frame again, as Spark does when it repeats a task and as the next attempt
        of a run does, leaves the table as it is: every cell has the value of the last put. Rows
        are atomic one by one, not together. A null deletes the cell, after the row's values are
        put: leave a column or a row out of the frame where what is stored is to stay.

        Args:
            frame: ``row`` (string, binary or integer) and a column for each HBase column, named
                as ``read`` names them. Text and binary are put as they are, numbers in the
                container's codec.
            container: its name in the dataflow.
            table: which of its tables, where it has several.
            timestamp: of all cells, in milliseconds; the server's clock by default. With one, a
                repetition does not even add versions, but a newer cell hides what is written, and
                what a null deleted stays so for this timestamp and all before.

        Raises:
            ViewError: a column has no place in the container.
            RunCancelled: the run was cancelled.
            RequestRefused: the observer found the run fenced off by a newer attempt, or the
                server refused.
        """
        if self._cancelled():
            message = f"run {self.id} was cancelled; nothing more is written"
            raise RunCancelled(message)
        view = self._view(container, table)
        names = [name for name in _names(frame) if name != ROW]
        if len(names) == len(_names(frame)):
            message = f"the frame for container {container!r} has no column {ROW!r} with its keys"
            raise ViewError(message)
        targets = target_columns(view, names, self._families(view))
        if isinstance(frame, DataFrame):
            collected = self._collected(frame)
            if collected is None:
                return self._write_large(frame, view, targets, timestamp)
            local = collected
        else:
            local = (
                frame
                if isinstance(frame, pa.Table)
                else pa.Table.from_pandas(frame, preserve_index=False)
            )
        with self._connect() as connection:
            written = write_batch(
                connection,
                view.table,
                local,
                {name: (column, view.codec) for name, column in targets.items()},
                self._request.origin,
                timestamp,
            )
        self.rows_written += written
        return written

    def delete(
        self, rows: Iterable[str | bytes], container: str, *, table: str | None = None
    ) -> int:
        """Delete the container's cells of the given rows and return how many rows were named.

        Raises:
            ViewError: no such container, or one that needs ``table``.
            RunCancelled: the run was cancelled.
        """
        if self._cancelled():
            message = f"run {self.id} was cancelled; nothing more is deleted"
            raise RunCancelled(message)
        view = self._view(container, table)
        keys = [row.encode() if isinstance(row, str) else row for row in rows]
        with self._connect() as connection:
            deleted = connection.delete(
                view.table, keys, view.extent.columns, origin=self._request.origin
            )
        self.rows_written += deleted
        return deleted

    def _families(self, view: ContainerView) -> tuple[str, ...]:
        if view.families:
            return view.families
        with self._connect() as connection:
            return tuple(connection.families(view.table))

    def _collected(self, frame: DataFrame) -> pa.Table | None:
        """Return a small frame's rows; None where it is better written in parallel."""
        if not _is_remote(frame):
            return None if self._is_large(frame) else frame.toArrow()
        # A server tells no sizes of a plan's inputs, so the rows are tried.
        rows = frame.limit(self._driver_rows + 1).toArrow()
        return rows if rows.num_rows <= self._driver_rows else None

    def _is_large(self, frame: DataFrame) -> bool:
        # The sizes of a plan's inputs are known; Spark's guesses for joins are products of them.
        leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()  # noqa: SLF001
        sizes = (int(str(leaves.apply(at).stats().sizeInBytes())) for at in range(leaves.size()))
        return sum(sizes) > self._driver_bytes

    def _write_large(
        self,
        frame: DataFrame,
        view: ContainerView,
        targets: Mapping[str, bytes],
        timestamp: int | None,
    ) -> int:
        counted = Observation()
        writer = (
            frame.observe(counted, sql.count(sql.lit(1)).alias("rows"))
            .write.format("headgate")
            .mode("append")
            .options(**self._address(view.table, view.codec))
            .option("columns", json.dumps({name: c.decode() for name, c in targets.items()}))
            .option("origin", base64.b64encode(encode_origin(self._request.origin)).decode())
        )
        if timestamp is not None:
            writer = writer.option("timestamp", timestamp)
        writer.save()
        rows = int(counted.get["rows"])
        self.rows_written += rows
        return rows


_SQL_TYPES: Final = {
    ValueType.STRING: "string",
    ValueType.BINARY: "binary",
    ValueType.DOUBLE: "double",
    ValueType.LONG: "bigint",
}


def _is_remote(one: SparkSession | DataFrame) -> bool:
    """Return whether a session or a frame is one of Spark Connect: it has no JVM here."""
    return type(one).__module__.startswith("pyspark.sql.connect")


def _names(frame: Any) -> list[str]:
    if isinstance(frame, pa.Table):
        return list(frame.column_names)
    return [str(name) for name in frame.columns]


def _inside(view: ContainerView, cells: CellColumns, wanted: Sequence[bytes] | None) -> CellColumns:
    """Return the cells that lie in one of the container's items, and the rows that have one."""
    columns = cells.columns()
    kept = CellColumns(wanted if wanted is not None else columns)
    for at, row in enumerate(cells.rows):
        present = {
            column: value
            for column, values in columns.items()
            if (value := values[at]) is not None and view.has(row, column)
        }
        if present:
            kept.add_row(row, present)
    return kept
