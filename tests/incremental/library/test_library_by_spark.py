"""A Spark job makes of a stage's increments what the driver does, of whole ones too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from filed_stage import FiledStage
from reference import bag

from headgate.incremental import Stage
from headgate.incremental.epochs.cluster import translate_by_spark
from headgate.incremental.epochs.epoch import finished
from headgate.incremental.library import differences, distinct, histogram, join, top_k
from headgate.incremental.stages.carried import PlainRows
from headgate.incremental.state.names import Writer


class SparkStage(FiledStage):
    """A stage whose epochs are Spark jobs, on files."""

    buckets: Any

    def __init__(self, stage: Stage, folder: Path, bits: int, spark: Any) -> None:
        super().__init__(stage, folder, bits)
        self.spark = spark

    def epoch(self, increments: Any, whole: Any = ()) -> dict[str, list[dict[str, Any]]]:
        self.runs += 1
        writer = Writer(self.spec.name, f"r{self.runs}", 1, "holder")
        frames = {
            flow: PlainRows(self.spark.createDataFrame(rows)) for flow, rows in increments.items()
        }
        outcomes = translate_by_spark(
            self.spec, self.store, writer, self.buckets, frames, frozenset(whole)
        )
        done = finished(self.spec, self.store, writer, self.buckets, outcomes)
        self.buckets = done.buckets
        return self.rows_of(done)


def cells(**values: bytes | None) -> pa.Table:
    rows = [(row, "f:v", value, value is None) for row, value in values.items()]
    names = ("row", "column", "value", "deleted")
    schema = pa.schema(
        list(zip(names, (pa.string(), pa.string(), pa.binary(), pa.bool_()), strict=True))
    )
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)


def numbers(*rows: tuple[int, int]) -> pa.Table:
    return pa.table({"value": [row[0] for row in rows], "weight": [row[1] for row in rows]})


def pairs(name: str, *rows: tuple[int, str]) -> pa.Table:
    keys, values = zip(*rows, strict=True)
    return pa.table({"key": keys, name: values, "weight": [1] * len(rows)})


def over_open() -> Stage:
    """``differences`` of a container with columns that it does not declare."""
    stage = differences()
    assert stage.spec.over_open is not None
    stage.spec = stage.spec.over_open
    return stage


def gone(row: str) -> pa.Table:
    return pa.Table.from_pylist(
        [{"row": row, "column": "", "value": None, "deleted": True}], cells().schema
    )


ODD = ("pm2.5", "a`b", "temp (C)", "A", "a")
"""Names that Spark would take for expressions, or for one name."""


def odd(*rows: tuple[int, int]) -> pa.Table:
    columns = [pa.array([number + at for number, _ in rows]) for at in range(len(ODD))]
    return pa.table([*columns, pa.array([n for _, n in rows])], [*ODD, "weight"])


Epochs = list[tuple[dict[str, pa.Table], set[str]]]
SHAPES: dict[str, tuple[Callable[[], Stage], Epochs]] = {
    "differences": (
        differences,
        [
            ({"source": cells(a=b"1", b=b"2", c=b"3")}, {"source"}),
            ({"source": cells(a=b"1", b=b"4", c=None)}, set()),
            ({"source": cells(d=b"5", b=b"4")}, {"source"}),
        ],
    ),
    "differences of open rows": (
        over_open,
        [
            ({"source": cells(a=b"1", b=b"2", c=b"3")}, set()),
            ({"source": pa.concat_tables([gone("a"), cells(b=b"4"), gone("c")])}, set()),
            ({"source": cells(d=b"5", b=b"4")}, {"source"}),
        ],
    ),
    "odd names": (
        lambda: distinct(dict.fromkeys(ODD, "int64")),
        [({"source": odd((1, 1), (2, 1))}, set()), ({"source": odd((1, -1), (3, 1))}, set())],
    ),
    "join": (
        lambda: join(
            "key",
            "key",
            left={"key": "int64", "left": "string"},
            right={"key": "int64", "right": "string"},
        ),
        [
            ({"left": pairs("left", (1, "a"), (2, "b")), "right": pairs("right", (1, "x"))}, set()),
            ({"left": pairs("left", (1, "c")), "right": pairs("right", (2, "y"))}, {"left"}),
        ],
    ),
    "histogram": (
        lambda: histogram(10),
        [
            ({"numbers": numbers((3, 1), (14, 2), (-1, 1))}, set()),
            ({"numbers": numbers((14, -1), (15, 1))}, set()),
            ({"numbers": numbers((3, 1))}, {"numbers"}),
        ],
    ),
    "top_k": (
        lambda: top_k((), "n", 1, columns={"n": "int64"}, parameter="k"),
        [
            (
                {
                    "source": pa.table({"n": [4, 6, 5], "weight": [1] * 3}),
                    "k": pa.table({"k": [2]}),
                },
                set(),
            ),
            ({"source": pa.table({"n": [6], "weight": [-1]}), "k": pa.table({"k": [1]})}, set()),
        ],
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_spark_job_is_what_the_driver_does(shape: str, spark: Any, tmp_path: Path) -> None:
    make, epochs = SHAPES[shape]
    by_driver = FiledStage(make(), tmp_path / "driver", 1)
    by_spark = SparkStage(make(), tmp_path / "spark", 1, spark)
    for increments, whole in epochs:
        wanted = by_driver.epoch(increments, whole)
        found = by_spark.epoch(increments, whole)
        assert {flow: bag(rows) for flow, rows in found.items()} == {
            flow: bag(rows) for flow, rows in wanted.items()
        }
        assert any(map(len, wanted.values())), "an epoch that shows something"
        assert {key: bag(rows) for key, rows in by_spark.state.items()} == {
            key: bag(rows) for key, rows in by_driver.state.items()
        }
