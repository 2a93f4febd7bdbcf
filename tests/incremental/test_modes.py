"""Whatever the mode, and by Spark as in the driver, a stage is what its functions say."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filed_stage import SparkStage
from pyspark.sql import SparkSession
from reference import ReferenceStage, bag
from stages_of_tests import by_stream, counter, forwarding, history, limited, pages, splitting
from test_equals_the_paper import KEYED, FiledStage, tables

from headgate.engine import FilesSpec
from headgate.incremental import Outer, Stage
from headgate.incremental.arrivals import Arrivals
from headgate.incremental.epochs.modes import Mode
from headgate.incremental.sources import read_files
from headgate.incremental.stages.carried import CarriedRows
from headgate.incremental.state.files import FileStore

PAGES = pa.schema({"key": pa.string(), "url": pa.string(), "n": pa.int64()})
TIMES = pa.schema({"key": pa.string(), "time": pa.int64(), "value": pa.int64()})
STAGES: dict[str, tuple[Stage, dict[str, pa.Schema]]] = {
    "counter": (counter(), {"in": KEYED}),
    "counter, by tables": (counter(tables=True), {"in": KEYED}),
    "counter, by streams": (by_stream(counter()), {"in": KEYED}),
    "history": (history(Outer.FULL), {"in": TIMES}),
    "history, by streams": (by_stream(history(Outer.FULL)), {"in": TIMES}),
    "pages": (pages(Outer.RIGHT), {"in": PAGES}),
    "pages, by streams": (by_stream(pages(Outer.RIGHT)), {"in": PAGES}),
    "forwarding": (forwarding(), {"in": KEYED}),
    "forwarding, by streams": (by_stream(forwarding()), {"in": KEYED}),
    "splitting": (splitting(), {"in": KEYED, "k": pa.schema({"k": pa.int64()})}),
    "limited": (limited(Outer.RIGHT), {"in": KEYED, "k": pa.schema({"k": pa.int64()})}),
    "limited, by streams": (
        by_stream(limited(Outer.RIGHT)),
        {"in": KEYED, "k": pa.schema({"k": pa.int64()})},
    ),
}
PLAIN = {
    "counter, by tables": counter(),
    "counter, by streams": counter(),
    "history, by streams": history(Outer.FULL),
    "pages, by streams": pages(Outer.RIGHT),
    "forwarding, by streams": forwarding(),
    "limited, by streams": limited(Outer.RIGHT),
}
"""What the reference is given, which knows one form only."""


@pytest.fixture(scope="module", autouse=True)
def _settings(spark: SparkSession) -> Iterator[None]:
    # Spark's Python processes do not find the modules of tests.
    spark.sparkContext.addPyFile(str(Path(__file__).with_name("stages_of_tests.py")))
    # Several batches a task, so that groups go on from one to the next.
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(name, "7")
    yield
    spark.conf.unset(name)


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
    plain = PLAIN.get(name, stage)
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


@pytest.mark.parametrize("make", [lambda stage: stage, by_stream])
def test_with_landmarks_there_is_no_state_and_all_that_came_gives_the_same(
    make: Callable[[Stage], Stage], spark: SparkSession, tmp_path: Path
) -> None:
    stage, chance = make(counter()), random.Random(2)
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


def test_files_of_others_are_read_by_tasks_as_by_the_driver(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [{"key": n % 3, "n": n} for n in range(90)]
    for number in range(4):
        table = pa.Table.from_pylist(rows[number::4], KEYED)
        pq.write_table(table, tmp_path / f"f{number}")
    spec = FilesSpec(str(tmp_path), columns={"key": "int64", "n": "int64"})
    store = FileStore.at(tmp_path)
    files, _ = Arrivals("in", spec, store).since(None, 0)
    by_driver: Any = SimpleNamespace(spark=None, driver_rows=90)
    by_tasks: Any = SimpleNamespace(spark=spark, driver_rows=89)

    carried = read_files(by_tasks, store, spec, files)
    assert isinstance(carried, CarriedRows)
    assert bag(carried.arrow().to_pylist()) == bag(rows)
    read = read_files(by_driver, store, spec, files)
    assert isinstance(read, pa.Table)
    assert bag(read.to_pylist()) == bag(rows)

    (tmp_path / "f3").write_bytes(b"x" * files[3].length)
    with pytest.raises(Exception, match="f3 is not Parquet"):
        carried.arrow()
