"""Epochs of a stage on files, each measured: by the driver, and as Spark jobs in any mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from evaluation.incremental.counting import FLOW
from evaluation.incremental.spending import Spent, by_process, by_tree
from headgate.incremental.epochs.cluster import rows_of_files, translate_by_spark
from headgate.incremental.epochs.driver import translate_in_driver
from headgate.incremental.epochs.epoch import finished
from headgate.incremental.epochs.modes import Mode
from headgate.incremental.epochs.outcome import BucketOutcome
from headgate.incremental.stages.specification import StageSpec
from headgate.incremental.state.batches import BatchFile
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.manifest import (
    BucketState,
    Manifest,
    read_manifest,
    write_manifest,
)
from headgate.incremental.state.names import Writer, folder
from headgate.incremental.state.rows import Match


class Flowing(Protocol):
    """An increment, however it comes."""

    @property
    def rows(self) -> pa.Table:
        """All of them, for the driver."""

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return them for Spark."""


class Increment:
    """An increment in memory and, for Spark, in a file.

    Args:
        rows: of it.
        folder: where the file goes.
    """

    def __init__(self, rows: pa.Table, folder: Path) -> None:
        self.rows = rows
        self.path = folder / f"{uuid4().hex}.parquet"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, self.path)

    @property
    def bytes(self) -> int:
        """Of its rows in memory."""
        return int(self.rows.nbytes)

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return its rows for Spark."""
        return spark.read.schema(from_arrow_schema(self.rows.schema)).parquet(str(self.path))


class MadeIncrement:
    """What an epoch of another stage put out, in the files that it wrote.

    Args:
        store: where they are.
        stage: the one that wrote them.
        flow: of its output flows.
        refs: the files.
    """

    def __init__(
        self, store: FileStore, stage: StageSpec, flow: str, refs: Sequence[FileRef]
    ) -> None:
        self._store = store
        self._stage = stage.name
        self._schema = stage.outputs[flow]
        self._refs = refs

    @property
    def rows(self) -> pa.Table:
        """All of them."""
        files = [BatchFile(self._store, ref, self._stage) for ref in self._refs]
        return pa.Table.from_batches([b for file in files for b in file.batches()], self._schema)

    @property
    def bytes(self) -> int:
        """Of its files."""
        return sum(ref.length for ref in self._refs)

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return them for Spark, whose tasks read a file each."""
        return rows_of_files(spark, self._store, self._stage, self._refs, self._schema)


class Epoch(Struct, frozen=True):
    """What an epoch has cost."""

    spent: Spent
    delta: int
    """Bytes of state that the epoch itself has written."""
    written: int
    """Bytes of state, compaction included."""
    shuffled: int | None = None
    """Bytes that Spark says its tasks wrote for the shuffle."""


class _Written(Struct, frozen=True):
    """Bytes of state, see ``Epoch``."""

    delta: int
    written: int


class Chain:
    """Epochs one after another, from a state that stays as it is.

    Args:
        stage: whose they are.
        store: where its files are.
        buckets: the state that the first epoch begins with.
        spark: what runs the jobs; none where the driver does it all.
        mode: of the jobs.
    """

    def __init__(
        self,
        stage: StageSpec,
        store: FileStore,
        buckets: tuple[BucketState, ...],
        spark: SparkSession | None = None,
        mode: Mode = Mode.DIRECT,
    ) -> None:
        self.buckets = buckets
        self._stage = stage
        self._store = store
        self._spark = spark
        self._mode = mode
        self._run = uuid4().hex
        self._epochs = 0
        self._outputs: Mapping[str, Sequence[FileRef]] = {}
        self._match = Match.GROUP if stage.state is None else stage.state.match
        self._manifest = self._writer().manifest_name()
        self._keep()

    def _writer(self) -> Writer:
        return Writer(self._stage.name, f"{self._run}-{self._epochs}", 1, "bench")

    def _keep(self) -> None:
        named = Manifest(
            self._stage.name, self._stage.code, self._epochs, self._match, self.buckets
        )
        write_manifest(self._store, self._manifest, named)

    def epoch(self, came: Flowing | Mapping[str, Flowing]) -> Epoch:
        """Translate increments from reading the manifest to writing the next one.

        A landmark's increment is all so far, and nothing of an epoch is left for the next.

        Args:
            came: by input flow; one alone is of the counter's.
        """
        increment = came if isinstance(came, Mapping) else {FLOW: came}
        self._epochs += 1
        spark = self._spark
        if spark is None:
            made, spent = by_process(lambda: self._finish(lambda w: self._by_driver(w, increment)))
            return Epoch(spent, made.delta, made.written)
        shuffle = Shuffle(spark)
        made, spent = by_tree(lambda: self._finish(lambda w: self._by_spark(spark, w, increment)))
        return Epoch(spent, made.delta, made.written, shuffle.written())

    def made(self, flow: str) -> MadeIncrement:
        """Return what the last epoch put out."""
        return MadeIncrement(self._store, self._stage, flow, self._outputs.get(flow, ()))

    def _by_driver(self, writer: Writer, increment: Mapping[str, Flowing]) -> list[BucketOutcome]:
        came = {flow: each.rows for flow, each in increment.items()}
        return translate_in_driver(self._stage, self._store, writer, self.buckets, came)

    def _by_spark(
        self, spark: SparkSession, writer: Writer, increment: Mapping[str, Flowing]
    ) -> list[BucketOutcome]:
        came = {flow: each.frame(spark) for flow, each in increment.items()}
        return translate_by_spark(
            self._stage, self._store, writer, self.buckets, came, mode=self._mode
        )

    def _finish(self, translate: Callable[[Writer], list[BucketOutcome]]) -> _Written:
        self.buckets = read_manifest(self._store, self._manifest).buckets
        writer = self._writer()
        outcomes = translate(writer)
        left = self._mode.left_of(self.buckets)
        done = finished(self._stage, self._store, writer, left, outcomes)
        self.buckets, self._manifest = done.buckets, writer.manifest_name()
        self._outputs = done.outputs
        self._keep()
        own = sum(ref.length for each in outcomes for ref in each.runs)
        return _Written(own, done.written)

    def forget(self) -> None:
        """Remove the files of its epochs, so that the disk does not fill."""
        for name in self._store.names(f"{folder(self._stage.name)}{self._run}"):
            self._store.remove(name)


class Shuffle:
    """What Spark's tasks write for shuffles, from now on.

    Args:
        spark: the session; nothing else may run in it meanwhile.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext._jsc.sc()
        self._before = self._total()

    def written(self) -> int:
        """Return bytes."""
        return self._total() - self._before

    def _total(self) -> int:
        # Metrics of tasks come by a bus, after the result of the job.
        self._context.listenerBus().waitUntilEmpty()
        executors = self._context.statusStore().executorList(False)
        return sum(executors.apply(at).totalShuffleWrite() for at in range(executors.size()))
