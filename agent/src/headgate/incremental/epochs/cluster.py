"""An epoch as one Spark job: what came is shuffled to the buckets, the state stays where it is.

A task writes its files itself and returns their names only: one that is repeated, or runs twice,
leaves files that nobody names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Final

import msgspec
import pyarrow as pa
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headgate.incremental.epochs.bucket import Increments, reads_all_state, translate_units
from headgate.incremental.epochs.increments import with_waiting
from headgate.incremental.epochs.modes import Mode, translate_in_mode
from headgate.incremental.epochs.outcome import BucketOutcome
from headgate.incremental.epochs.shuffling import (
    BUCKET,
    RANGE,
    SHUFFLED,
    Packer,
    ShuffledIncrements,
    called,
    gathered,
)
from headgate.incremental.epochs.writing import reader_of, write_outcome, write_waiting
from headgate.incremental.stages.carried import (
    CarriedRows,
    TaskRows,
    in_spark_types,
    read_by_tasks,
)
from headgate.incremental.stages.errors import TaskFailed, causes_noted, raised_in_task
from headgate.incremental.stages.fusing import entering, entering_columns
from headgate.incremental.stages.routing import routed
from headgate.incremental.stages.specification import STATE, StageSpec
from headgate.incremental.state.batches import BatchFile, with_columns
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.manifest import BucketState
from headgate.incremental.state.names import Writer
from headgate.incremental.state.rows import sort_rows

_OUTCOME: Final = "outcome binary"


def translate_by_spark(
    stage: StageSpec,
    store: FileStore,
    writer: Writer,
    buckets: Sequence[BucketState],
    increments: Mapping[str, TaskRows],
    whole: frozenset[str] = frozenset(),
    mode: Mode = Mode.DIRECT,
    waiting: Increments | None = None,
) -> list[BucketOutcome]:
    """Translate increments and return what has become of each bucket; see ``translate_in_driver``.

    Args:
        stage: that translates them.
        store: where its files are, for every executor too.
        writer: the attempt, by which new files are named.
        buckets: the state.
        increments: units by input flow; all flows are there.
        whole: those of which it is everything.
        mode: whether the state stays where it is.
        waiting: by flow, units of all groups that no group was given so far.

    Raises:
        TaskFailed: the job failed, in words of what a task raised.
    """
    came = {name: rows.columns for name, rows in increments.items()}
    if stage.is_by_unit:
        return _translated_units(stage, store, writer, increments, came)
    flows = {name: entering_columns(stage, name, columns) for name, columns in came.items()}
    if mode.shuffles_state and stage.state is not None:
        flows[STATE] = stage.state.columns
    places = tuple(state.bucket for state in buckets)
    packers = {flow: Packer(n, places, columns) for n, (flow, columns) in enumerate(flows.items())}
    parts = [
        rows.mapped(partial(packed, stage=stage, flow=flow, packer=packers[flow]), SHUFFLED)
        for flow, rows in increments.items()
    ]
    [spark] = {rows.session for rows in increments.values()}
    numbers = spark.range(0, len(buckets), 1, len(buckets))
    if STATE in flows:
        read = partial(
            _stored, stage=stage, store=store, buckets=tuple(buckets), packer=packers[STATE]
        )
        parts.append(numbers.mapInArrow(read, SHUFFLED))
    if reads_all_state(stage, whole):
        # Spark calls no function for a partition without rows.
        parts.append(numbers.mapInArrow(_called, SHUFFLED))
    rows = reduce(DataFrame.unionByName, parts).repartitionById(len(buckets), BUCKET)
    task = partial(
        _task,
        stage=stage,
        store=store,
        writer=writer,
        buckets=mode.left_of(buckets),
        flows=flows,
        whole=whole,
        mode=mode,
        waiting=waiting or {},
    )
    return _outcomes(rows.sortWithinPartitions(RANGE).mapInArrow(task, _OUTCOME))


def _translated_units(
    stage: StageSpec,
    store: FileStore,
    writer: Writer,
    increments: Mapping[str, TaskRows],
    flows: Mapping[str, pa.Schema],
) -> list[BucketOutcome]:
    """Translate units one by one, where they are: nothing is shuffled."""
    parts = [
        rows.mapped(
            partial(_unit_task, stage=stage, store=store, writer=writer, flow=flow, flows=flows),
            _OUTCOME,
        )
        for flow, rows in increments.items()
    ]
    return _outcomes(reduce(DataFrame.unionByName, parts))


def _outcomes(told: DataFrame) -> list[BucketOutcome]:
    """Run a job and return what its tasks tell."""
    try:
        column = told.toArrow().column("outcome")
    except PySparkException as error:
        raise TaskFailed(raised_in_task(str(error))) from error
    return [msgspec.msgpack.decode(data, type=BucketOutcome) for data in column.to_pylist()]


def _told(outcome: BucketOutcome) -> pa.RecordBatch:
    """Return an outcome as a task tells it."""
    data = pa.array([msgspec.msgpack.encode(outcome)], pa.binary())
    return pa.RecordBatch.from_arrays([data], ["outcome"])


def _unit_task(
    batches: Iterable[pa.RecordBatch],
    *,
    stage: StageSpec,
    store: FileStore,
    writer: Writer,
    flow: str,
    flows: Mapping[str, pa.Schema],
) -> Iterator[pa.RecordBatch]:
    """Translate the units of a partition of one flow and yield what has become of them."""
    nothing = {name: schema.empty_table() for name, schema in flows.items()}
    pieces = (
        translate_units(stage, {**nothing, flow: pa.Table.from_batches([batch])})
        for batch in batches
    )
    with causes_noted():
        yield _told(write_outcome(stage, store, writer, 0, pieces))


def rows_of_files(
    spark: SparkSession,
    store: FileStore,
    stage: str,
    refs: Sequence[FileRef],
    schema: pa.Schema,
) -> CarriedRows:
    """Return the rows of files, of which each is read by a task."""
    named = map(msgspec.msgpack.encode, refs)
    task = partial(_rows, store=store, stage=stage, schema=schema)
    return read_by_tasks(spark, named, task, schema)


def frame_of(
    spark: SparkSession,
    store: FileStore,
    stage: str,
    refs: Sequence[FileRef],
    schema: pa.Schema,
) -> DataFrame:
    """Return the rows of files as a frame in Spark's types, whose tasks read a file each."""
    rows = rows_of_files(spark, store, stage, refs, schema)
    task, columns = in_spark_types(schema)
    return rows.mapped(task, columns)


def _rows(
    batches: Iterable[pa.RecordBatch], *, store: FileStore, stage: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for data in batch.column("name").to_pylist():
            file = BatchFile(store, msgspec.msgpack.decode(data, type=FileRef), stage)
            for rows in file.batches():
                if rows.schema.equals(schema):
                    yield rows
                else:
                    yield from with_columns(pa.Table.from_batches([rows]), schema).to_batches()


def packed(
    batches: Iterable[pa.RecordBatch], *, stage: StageSpec, flow: str, packer: Packer
) -> Iterator[pa.RecordBatch]:
    """Yield packs of a flow's units, as they are shuffled; of those of all groups one a bucket.

    Args:
        batches: of the units, as they come.
        stage: whose flow it is.
        flow: its name.
        packer: of the flow.

    Raises:
        StageError: the flow is routed by a column that is not there.
        TranslationFailed: a function of the flow, or a stage that is fused with it, failed.
    """
    if flow in stage.before:
        # Before they are gathered: it may make many units of one, or drop nearly all.
        tables = (entering(stage, flow, pa.Table.from_batches([batch])) for batch in batches)
        batches = (batch for table in tables for batch in table.to_batches())
    with causes_noted():
        for rows in gathered(batches):
            found = routed(stage.name, flow, stage.inputs[flow], rows)
            if len(found.rows):
                yield packer.placed(sort_rows(found.rows))
            if len(found.everywhere):
                yield packer.everywhere(found.everywhere)


def _stored(
    batches: Iterable[pa.RecordBatch],
    *,
    stage: StageSpec,
    store: FileStore,
    buckets: Sequence[BucketState],
    packer: Packer,
) -> Iterator[pa.RecordBatch]:
    """Yield packs of the state of buckets, whose numbers come."""
    for number in (number for batch in batches for number in batch.column(0).to_pylist()):
        reader = reader_of(stage, store, buckets[number])
        for rows in gathered(() if reader is None else reader.everything()):
            yield packer.placed(rows)


def _called(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield an empty pack for each bucket, whose numbers come."""
    for batch in batches:
        yield called(batch.column(0).to_pylist())


def _task(
    batches: Iterable[pa.RecordBatch],
    *,
    stage: StageSpec,
    store: FileStore,
    writer: Writer,
    buckets: Sequence[BucketState],
    flows: Mapping[str, pa.Schema],
    whole: frozenset[str],
    mode: Mode,
    waiting: Increments,
) -> Iterator[pa.RecordBatch]:
    """Translate one bucket and yield what has become of it, if it is concerned."""
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - in a task of Spark's
    number = context.partitionId()
    came = ShuffledIncrements(flows, batches)
    outcome = BucketOutcome(number, (), (), {}, 0)
    if reads_all_state(stage, whole) or came.any:
        reader = reader_of(stage, store, buckets[number])
        came_in = came.pieces() if stage.translate_stream is None else came.spilled_pieces()
        everywhere = with_waiting(came.everywhere, waiting)
        pieces = translate_in_mode(mode, stage, reader, came_in, everywhere, whole)
        with causes_noted():
            outcome = write_outcome(stage, store, writer, number, pieces)
    if number == 0 and not outcome.groups:
        # Every bucket is given these units: the first has them wait where no other has a group.
        left = write_waiting(stage, store, writer, came.everywhere)
        outcome = replace(outcome, waiting=left)
    yield _told(outcome)
