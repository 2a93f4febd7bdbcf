"""What a run reads of a topic: by the driver where it is little, otherwise by Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

import msgspec
import pyarrow as pa

from headgate.engine import TopicSpec
from headgate.incremental.stages.carried import CarriedRows, read_by_tasks
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
) -> pa.Table | CarriedRows:
    """Return what is unread of a topic, in the declared columns; by tasks where it is much.

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
        return _by_tasks(run, source, spec, ranges)
    found: dict[int, list[TopicMessage]] = {one.partition: [] for one in ranges}
    size = 0
    for message in source.messages(ranges):
        found[message.partition].append(message)
        size += len(message.key or b"") + len(message.value or b"")
        if size > _DRIVER_BYTES:
            return _by_tasks(run, source, spec, ranges)
    in_order = (message for one in found.values() for message in one)
    return pa.Table.from_batches(batches_of(spec, in_order), schema_of(spec.columns))


def _by_tasks(
    run: Run, source: TopicSource, spec: TopicSpec, ranges: list[OffsetRange]
) -> CarriedRows:
    """Return rows of messages, of which each range is read by a task."""
    named = [msgspec.msgpack.encode(part) for one in ranges for part in _parts(one)]
    read = partial(_task, source=source, spec=spec)
    return read_by_tasks(run.spark, named, read, schema_of(spec.columns))


def _parts(one: OffsetRange) -> Iterator[OffsetRange]:
    for start in range(one.start, one.stop, _TASK_OFFSETS):
        stop = min(one.stop, start + _TASK_OFFSETS)
        yield OffsetRange(one.topic, one.partition, start, stop)


def _task(
    batches: Iterable[pa.RecordBatch], *, source: TopicSource, spec: TopicSpec
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for data in batch.column("name").to_pylist():
            part = msgspec.msgpack.decode(data, type=OffsetRange)
            yield from batches_of(spec, source.messages([part]))
