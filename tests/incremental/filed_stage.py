"""A stage whose epochs are taken on files, without an agent: in the driver, or by Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from reference import canonical

from headgate.incremental import Stage
from headgate.incremental.epochs.cluster import translate_by_spark
from headgate.incremental.epochs.driver import translate_in_driver
from headgate.incremental.epochs.epoch import finished
from headgate.incremental.epochs.modes import Mode
from headgate.incremental.epochs.outcome import EpochOutcome
from headgate.incremental.epochs.writing import reader_of
from headgate.incremental.stages.carried import given_to_tasks
from headgate.incremental.state.batches import BatchFile
from headgate.incremental.state.buckets import even_buckets
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.keys import key_value
from headgate.incremental.state.manifest import BucketState, WaitingUnits
from headgate.incremental.state.names import Writer
from headgate.incremental.waiting import waiting_rows


class FiledStage:
    """A stage whose epochs are taken in the driver, on files."""

    buckets: tuple[BucketState, ...]

    def __init__(self, stage: Stage, folder: Path, bits: int) -> None:
        self.spec = stage.spec
        self.store = FileStore.at(folder)
        self.buckets = tuple(BucketState(bucket) for bucket in even_buckets(bits))
        self.runs = 0
        self.waiting: dict[str, list[FileRef]] = {}

    def epoch(
        self, increments: Mapping[str, pa.Table], whole: Iterable[str] = ()
    ) -> dict[str, list[dict[str, Any]]]:
        self.runs += 1
        writer = Writer(self.spec.name, f"r{self.runs}", 1, "holder")
        outcomes = translate_in_driver(
            self.spec,
            self.store,
            writer,
            self.buckets,
            increments,
            frozenset(whole),
            self.waited(whole),
        )
        done = finished(self.spec, self.store, writer, self.buckets, outcomes)
        self.buckets = done.buckets
        self.wait(done)
        return self.rows_of(done)

    def waited(self, whole: Iterable[str]) -> dict[str, pa.Table]:
        """Units of all groups that no group was given so far, by flow."""
        for flow in whole:
            self.waiting.pop(flow, None)
        units = {flow: (WaitingUnits(tuple(refs)),) for flow, refs in self.waiting.items()}
        return waiting_rows(self.store, self.spec.name, units)

    def wait(self, done: EpochOutcome) -> None:
        if done.groups:
            self.waiting = {}
        for flow, refs in done.waiting.items():
            self.waiting.setdefault(flow, []).extend(refs)

    def rows_of(self, done: EpochOutcome) -> dict[str, list[dict[str, Any]]]:
        return {
            flow: [
                row
                for ref in refs
                for batch in BatchFile(self.store, ref, self.spec.name).batches()
                for row in batch.to_pylist()
            ]
            for flow, refs in done.outputs.items()
        }

    @property
    def state(self) -> dict[Any, list[dict[str, Any]]]:
        found: dict[Any, list[dict[str, Any]]] = {}
        for bucket in self.buckets if self.spec.state is not None else ():
            reader = reader_of(self.spec, self.store, bucket)
            assert reader is not None
            for batch in reader.everything():
                for row in batch.to_pylist():
                    key = canonical(key_value(row["_key"]))
                    own = {name: v for name, v in row.items() if not name.startswith("_")}
                    found.setdefault(key, []).append(own)
        return found


class SparkStage(FiledStage):
    """A stage whose epochs are Spark's."""

    def __init__(self, stage: Stage, folder: Path, spark: SparkSession, mode: Mode) -> None:
        super().__init__(stage, folder, bits=1)
        self.spark = spark
        self.mode = mode

    def epoch(
        self, increments: Mapping[str, pa.Table], whole: Iterable[str] = ()
    ) -> dict[str, list[dict[str, Any]]]:
        self.runs += 1
        writer = Writer(self.spec.name, f"r{self.runs}", 1, "holder")
        frames = {flow: given_to_tasks(self.spark, rows) for flow, rows in increments.items()}
        outcomes = translate_by_spark(
            self.spec,
            self.store,
            writer,
            self.buckets,
            frames,
            frozenset(whole),
            self.mode,
            self.waited(whole),
        )
        left = self.mode.left_of(self.buckets)
        done = finished(self.spec, self.store, writer, left, outcomes)
        self.buckets = done.buckets
        self.wait(done)
        return self.rows_of(done)
