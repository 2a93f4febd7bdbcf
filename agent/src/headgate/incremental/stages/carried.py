"""Rows of flows that are with Spark's tasks, in exactly the types that were declared.

Spark has no unsigned integers, no times but those of microseconds, and no dictionaries, so rows in
columns of its own come out of it as something else, or not at all. It moves Arrow's batches as
bytes instead, and tasks find in them what the driver would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.ipc as ipc
from msgspec import Struct
from pyarrow import types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from headgate.spark import Increment

_BATCH: Final = "batch binary"
_SCHEMA: Final = pa.schema([("batch", pa.binary())])
_ROWS: Final = 1 << 12
"""Maximum number of rows in a batch that the driver gives to tasks."""

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class CarriedRows(Struct, frozen=True, eq=False):
    """Rows that tasks have, or will read."""

    frame: DataFrame
    """A column of batches, each as Arrow streams it."""
    columns: pa.Schema

    @property
    def session(self) -> SparkSession:
        """The session of the frame."""
        return self.frame.sparkSession

    def mapped(self, task: Task, schema: str | StructType) -> DataFrame:
        """Return what a function of batches yields for each partition."""
        return self.frame.mapInArrow(partial(_unpacked, task=task), schema)

    def arrow(self) -> pa.Table:
        """Return all rows, in the driver."""
        packed = self.frame.toArrow().column("batch").to_pylist()
        return pa.Table.from_batches(list(_batches(packed)), self.columns)


class PlainRows(Struct, frozen=True, eq=False):
    """Rows of a container, in columns of Spark's own types."""

    frame: DataFrame

    @property
    def columns(self) -> pa.Schema:
        """The columns as batches have them."""
        return to_arrow_schema(self.frame.schema)

    @property
    def session(self) -> SparkSession:
        """The session of the frame."""
        return self.frame.sparkSession

    def mapped(self, task: Task, schema: str | StructType) -> DataFrame:
        """Return what a function of batches yields for each partition."""
        return _mapped(self.frame, task, schema)


TaskRows = CarriedRows | PlainRows


class FlowIncrement(Struct, frozen=True, eq=False):
    """Rows that came in a flow, held by the driver or by tasks."""

    rows: pa.Table | TaskRows
    whole: bool
    """True if these are all rows of the flow, not only the new ones."""


def of_container(increment: Increment) -> FlowIncrement:
    """Return the increment of a container as that of a flow."""
    rows = increment.rows
    return FlowIncrement(rows if isinstance(rows, pa.Table) else PlainRows(rows), increment.whole)


def read_by_tasks(
    spark: SparkSession, named: Iterable[bytes], read: Task, columns: pa.Schema
) -> CarriedRows:
    """Return rows that tasks read, each what one of the names says.

    Args:
        spark: the session.
        named: what a task is given, one at least.
        read: yields the rows of batches of names, in their column ``name``.
        columns: of the rows.
    """
    names = list(named)
    frame = spark.createDataFrame([(name,) for name in names], "name binary")
    tasks = frame.repartition(max(1, len(names)))
    return CarriedRows(tasks.mapInArrow(partial(_packed, read=read), _BATCH), columns)


def given_to_tasks(spark: SparkSession, rows: pa.Table) -> CarriedRows:
    """Return rows of the driver as rows of tasks."""
    batches = rows.to_batches(max_chunksize=_ROWS) or [_empty(rows.schema)]
    packed = [_stream(batch) for batch in batches]
    table = pa.Table.from_arrays([pa.array(packed, pa.binary())], schema=_SCHEMA)
    return CarriedRows(spark.createDataFrame(table), rows.schema)


def _mapped(frame: DataFrame, function: Task, schema: str) -> DataFrame:
    """Return what a function makes of a frame's batches, whatever its columns are called.

    ``DataFrame.mapInArrow`` takes names for expressions: of ``pm2.5`` it looks for a field.
    """
    numbered = frame.toDF(*(f"c{at}" for at in range(len(frame.columns))))
    named = partial(_with_names, function=function, names=tuple(frame.columns))
    return numbered.mapInArrow(named, schema)


def _with_names(
    batches: Iterable[pa.RecordBatch],
    *,
    function: Task,
    names: tuple[str, ...],
) -> Iterator[pa.RecordBatch]:
    return function(batch.rename_columns(list(names)) for batch in batches)


def in_spark_types(columns: pa.Schema) -> tuple[Task, StructType]:
    """Return a function that casts batches to types that Spark has, and these.

    Unsigned integers become larger signed ones, of 64 bits a decimal; times those of microseconds.
    """
    schema = pa.schema([field.with_type(_spark_type(field.type)) for field in columns])
    in_spark = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    return partial(_cast, schema=to_arrow_schema(in_spark, timezone="UTC")), in_spark


def _spark_type(kind: pa.DataType) -> pa.DataType:
    if kind in _LARGER:
        return _LARGER[kind]
    if types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(_spark_type(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([field.with_type(_spark_type(field.type)) for field in kind])
    return kind


_LARGER: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20),
    pa.date64(): pa.date32(),
}


def _cast(batches: Iterable[pa.RecordBatch], *, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.select(schema.names).cast(schema)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def union(parts: list[CarriedRows]) -> CarriedRows:
    """Return the rows of parts with the same columns, in one."""
    frame = parts[0].frame
    for part in parts[1:]:
        frame = frame.union(part.frame)
    return CarriedRows(frame, parts[0].columns)


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _batches(packed: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    for each in packed:
        with ipc.open_stream(each) as reader:
            yield from reader


def _packed(batches: Iterable[pa.RecordBatch], *, read: Task) -> Iterator[pa.RecordBatch]:
    for batch in read(batches):
        packed = pa.array([_stream(batch)], pa.binary())
        yield pa.RecordBatch.from_arrays([packed], schema=_SCHEMA)


def _unpacked(batches: Iterable[pa.RecordBatch], *, task: Task) -> Iterator[pa.RecordBatch]:
    # One at a time: together they may be all that a task reads.
    one_by_one = (one.as_py() for batch in batches for one in batch.column(0))
    return task(_batches(one_by_one))
