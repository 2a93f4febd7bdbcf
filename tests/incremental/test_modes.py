"""Whatever the mode, and by Spark as in the driver, a stage is what its functions say."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from reference import ReferenceStage, bag
from stages_of_tests import counter, forwarding, history, limited, pages, splitting
from test_equals_the_paper import KEYED, FiledStage, tables

from headgate.incremental import Outer, Stage
from headgate.incremental.epochs.cluster import translate_by_spark
from headgate.incremental.epochs.epoch import finished
from headgate.incremental.epochs.modes import Mode
from headgate.incremental.state.manifest import BucketState
from headgate.incremental.state.names import Writer

PAGES = pa.schema({"key": pa.string(), "url": pa.string(), "n": pa.int64()})
TIMES = pa.schema({"key": pa.string(), "time": pa.int64(), "value": pa.int64()})
STAGES: dict[str, tuple[Stage, dict[str, pa.Schema]]] = {
    "counter": (counter(), {"in": KEYED}),
    "counter, by tables": (counter(tables=True), {"in": KEYED}),
    "history": (history(Outer.FULL), {"in": TIMES}),
    "pages": (pages(Outer.RIGHT), {"in": PAGES}),
    "forwarding": (forwarding(), {"in": KEYED}),
    "splitting": (splitting(), {"in": KEYED, "k": pa.schema({"k": pa.int64()})}),
    "limited": (limited(Outer.RIGHT), {"in": KEYED, "k": pa.schema({"k": pa.int64()})}),
}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    pytest.MonkeyPatch().setenv("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        # Several batches a task, so that groups go on from one to the next.
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
        .getOrCreate()
    )
    session.sparkContext.addPyFile(str(Path(__file__).with_name("stages_of_tests.py")))
    yield session
    session.stop()


class SparkStage(FiledStage):
    """A stage whose epochs are Spark's."""

    buckets: tuple[BucketState, ...]

    def __init__(self, stage: Stage, folder: Path, spark: SparkSession, mode: Mode) -> None:
        super().__init__(stage, folder, bits=1)
        self.spark = spark
        self.mode = mode

    def epoch(self, increments: Any) -> dict[str, list[dict[str, Any]]]:
        self.runs += 1
        writer = Writer(self.spec.name, f"r{self.runs}", 1, "holder")
        frames = {flow: self.spark.createDataFrame(rows) for flow, rows in increments.items()}
        outcomes = translate_by_spark(
            self.spec, self.store, writer, self.buckets, frames, mode=self.mode
        )
        left = self.mode.left_of(self.buckets)
        done = finished(self.spec, self.store, writer, left, outcomes)
        self.buckets = done.buckets
        return self.rows_of(done)


def some(schema: pa.Schema, random: random.Random, rows: int) -> list[tuple[Any, ...]]:
    def value(field: pa.Field) -> Any:
        if pa.types.is_string(field.type):
            return random.choice(["", "a", "b\x00", "ä"])
        return random.randint(0, 6)

    return [tuple(value(field) for field in schema) for _ in range(rows)]


@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("mode", [Mode.DIRECT, Mode.BLACK_BOX])
def test_a_stage_with_its_state_is_what_its_functions_say(
    mode: Mode, name: str, spark: SparkSession, tmp_path: Path
) -> None:
    stage, schemas = STAGES[name]
    plain = counter() if name == "counter, by tables" else stage
    by_spark, expected, chance = (
        SparkStage(stage, tmp_path, spark, mode),
        ReferenceStage(plain),
        random.Random(1),
    )
    for size in (40, 0, 9, 25):
        rows = {flow: some(schema, chance, size) for flow, schema in schemas.items()}
        increments = tables(plain, rows, schemas)
        made = by_spark.epoch(increments)
        wanted = expected.epoch({flow: table.to_pylist() for flow, table in increments.items()})
        assert {flow: bag(found) for flow, found in made.items()} == {
            flow: bag(found) for flow, found in wanted.items()
        }
        assert {key: bag(found) for key, found in by_spark.state.items()} == {
            key: bag(found) for key, found in expected.state.items()
        }


def test_with_landmarks_there_is_no_state_and_all_that_came_gives_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    stage, chance = counter(), random.Random(2)
    by_spark = SparkStage(stage, tmp_path / "landmark", spark, Mode.LANDMARK)
    known = FiledStage(counter(), tmp_path / "direct", bits=1)
    so_far: list[tuple[Any, ...]] = []
    counts: dict[str, int] = {}
    for _ in range(3):
        rows = some(KEYED, chance, 30)
        so_far += rows
        came = known.epoch(tables(stage, {"in": rows}, {"in": KEYED}))
        counts |= {row["key"]: row["n"] for row in came["counts"]}
        made = by_spark.epoch(tables(stage, {"in": so_far}, {"in": KEYED}))
        assert {row["key"]: row["n"] for row in made["counts"]} == counts
        assert not by_spark.state
