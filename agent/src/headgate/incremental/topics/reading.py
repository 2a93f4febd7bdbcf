"""What a run reads of a topic: by the driver where it is little, otherwise by Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from headgate.engine import TopicSpec
from headgate.incremental.stages.specification import schema_of
from headgate.incremental.topics.cursors import Unread
from headgate.incremental.topics.decoding import TopicMessage, batches_of
from headgate.incremental.topics.kafka import TopicSource
from headgate.spark import OffsetRange, Run

_DRIVER_BYTES: Final = 1 << 28
"""Of messages that the driver reads; of more all are read anew, by tasks."""
_TASK_OFFSETS: Final = 1_000_000
"""That one task reads: some ten seconds."""


def read_unread(
    run: Run, source: TopicSource, spec: TopicSpec, unread: Unread
) -> pa.Table | DataFrame:
    """Return what is unread of a topic, in the declared columns; a frame where it is much.

    Rows of a table are sorted by partition and offset.

    Raises:
        RecordsUnavailable: Kafka does not answer, or has not the messages any more.
        UnusableMessage: a message has not the declared columns.
    """
    ranges = [
        OffsetRange(spec.topic, number, at.start, at.stop)
        for number, at in sorted(unread.partitions.items())
    ]
    if unread.offsets > run.driver_rows:
        return _frame(run, source, spec, ranges)
    found: dict[int, list[TopicMessage]] = {one.partition: [] for one in ranges}
    size = 0
    for message in source.messages(ranges):
        found[message.partition].append(message)
        size += len(message.key or b"") + len(message.value or b"")
        if size > _DRIVER_BYTES:
            return _frame(run, source, spec, ranges)
    in_order = (message for one in found.values() for message in one)
    return pa.Table.from_batches(batches_of(spec, in_order), schema_of(spec.columns))


def _frame(run: Run, source: TopicSource, spec: TopicSpec, ranges: list[OffsetRange]) -> DataFrame:
    """Return a frame whose tasks read a range each."""
    named = [(msgspec.msgpack.encode(part),) for one in ranges for part in _parts(one)]
    frame = run.spark.createDataFrame(named, "range binary").repartition(len(named))
    columns = from_arrow_schema(schema_of(spec.columns), prefer_timestamp_ntz=True)
    schema = to_arrow_schema(columns)
    return frame.mapInArrow(partial(_task, source=source, spec=spec, schema=schema), columns)


def _parts(one: OffsetRange) -> Iterator[OffsetRange]:
    for start in range(one.start, one.stop, _TASK_OFFSETS):
        stop = min(one.stop, start + _TASK_OFFSETS)
        yield OffsetRange(one.topic, one.partition, start, stop)


def _task(
    batches: Iterable[pa.RecordBatch], *, source: TopicSource, spec: TopicSpec, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for data in batch.column("range").to_pylist():
            part = msgspec.msgpack.decode(data, type=OffsetRange)
            for rows in batches_of(spec, source.messages([part])):
                yield rows.cast(schema)
