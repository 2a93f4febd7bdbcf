"""Every type that a flow may have goes through a stage as it is, by the driver and by Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from filed_stage import FiledStage, SparkStage
from pyspark.sql import SparkSession

from headgate.flows.sections.containers.files import COLUMN_TYPES
from headgate.incremental import GROUP, InputFlow, Stage, StageError, StateFlow
from headgate.incremental.epochs.modes import Mode
from headgate.incremental.stages.carried import given_to_tasks, in_spark_types
from headgate.incremental.stages.specification import schema_of

OTHERS = {
    "large_string": pa.large_string(),
    "fixed": pa.binary(3),
    "date64": pa.date64(),
    "time64": pa.time64("us"),
    "duration": pa.duration("ms"),
    "list": pa.list_(pa.timestamp("ms")),
    "struct": pa.struct({"u": pa.uint64(), "t": pa.timestamp("s")}),
}
"""Types that only the code of a stage can declare."""
DECLARED = schema_of(
    {
        **{name: name for name in COLUMN_TYPES},
        "timestamp[us, tz=UTC]": "timestamp[us, tz=UTC]",
        "timestamp[ms, tz=Asia/Tokyo]": "timestamp[ms, tz=Asia/Tokyo]",
        "decimal(20, 2)": "decimal(20, 2)",
    }
)
COLUMNS = pa.schema([pa.field("k", pa.int64()), *DECLARED, *pa.schema(OTHERS)])
NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


def edges(kind: pa.DataType) -> list[Any]:
    """Return values of a type: the least, the greatest, and one between."""
    if pa.types.is_integer(kind):
        bits = kind.bit_width - (not str(kind).startswith("u"))
        return [0 if str(kind).startswith("u") else -(2**bits), 7, 2**bits - 1]
    if pa.types.is_timestamp(kind):
        return [0, 1, -1, 4_102_444_801]
    if pa.types.is_list(kind):
        return [[], [None, 5], [0]]
    if pa.types.is_struct(kind):
        return [{"u": 2**64 - 1, "t": 9}, {"u": None, "t": None}]
    if pa.types.is_decimal(kind):
        return [Decimal("0.01"), Decimal("-123456789012345678.99")]
    others: dict[pa.DataType, list[Any]] = {
        pa.string(): ["", "ä\0", "x" * 50],
        pa.large_string(): ["", "ä"],
        pa.binary(): [b"", b"\xff\0"],
        pa.binary(3): [b"\0\xff\\"],
        pa.bool_(): [True, False],
        pa.float64(): [0.1, -0.0, 1e308, float("inf")],
        pa.float32(): [0.5, -3e38],
        pa.date32(): [date(1, 1, 1), date(9999, 12, 31)],
        pa.date64(): [date(1970, 1, 2)],
        pa.time64("us"): [time(23, 59, 59, 999999)],
        pa.duration("ms"): [timedelta(milliseconds=-1)],
    }
    return others[kind]


def rows(seed: int, count: int = 40) -> pa.Table:
    """Return rows with edges of every type, and nulls."""
    chance = random.Random(seed)
    columns = [pa.array([chance.randrange(5) for _ in range(count)])]
    for field in [*COLUMNS][1:]:
        values = [chance.choice([None, *edges(field.type)]) for _ in range(count)]
        columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=COLUMNS)


def _keeps(groups: Any) -> Mapping[str, pa.Table]:
    came = groups.flows["in"]
    assert came.drop_columns([GROUP]).schema.equals(COLUMNS), came.schema
    known = groups.flows["state"] if "state" in groups.flows else came.slice(0, 0)
    assert known.drop_columns([GROUP]).schema.equals(COLUMNS), known.schema
    both = pa.concat_tables([known, came.select(known.schema.names)])
    return {"out": both.drop_columns([GROUP]), "state": both}


def _keeps_unit(groups: Any) -> Mapping[str, pa.Table]:
    came = groups.flows["in"].drop_columns([GROUP])
    assert came.schema.equals(COLUMNS), came.schema
    return {"out": came}


KEEPS = Stage(
    "keeps",
    inputs={"in": InputFlow("k")},
    outputs={"out": COLUMNS},
    translate_tables=_keeps,
    state=StateFlow(COLUMNS),
)
UNITS = Stage(
    "units", inputs={"in": InputFlow()}, outputs={"out": COLUMNS}, translate_tables=_keeps_unit
)


@pytest.fixture(autouse=True)
def _by_value() -> Iterator[None]:
    import sys

    from pyspark import cloudpickle

    # Spark's workers do not find the modules of tests.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def in_order(found: list[Any]) -> list[str]:
    return sorted(map(repr, found))


@pytest.mark.parametrize(
    ("stage", "mode"),
    [(KEEPS, Mode.DIRECT), (KEEPS, Mode.BLACK_BOX), (KEEPS, Mode.LANDMARK), (UNITS, Mode.DIRECT)],
    ids=["direct", "black-box", "landmark", "units"],
)
def test_spark_makes_of_every_type_what_the_driver_does(
    stage: Stage, mode: Mode, spark: SparkSession, tmp_path: Path
) -> None:
    by_driver = FiledStage(stage, tmp_path / "driver", bits=1)
    by_spark = SparkStage(stage, tmp_path / "spark", spark, mode)
    came = [rows(1), rows(2)]
    for number, increment in enumerate(came):
        if mode is Mode.LANDMARK:
            increment = pa.concat_tables(came[: number + 1])
        made = by_spark.epoch({"in": increment})
        expected = by_driver.epoch({"in": came[number]})
        assert in_order(made["out"]) == in_order(expected["out"])


def test_rows_in_types_of_spark_are_the_same_numbers_and_times(spark: SparkSession) -> None:
    shown = rows(3).drop_columns(["timestamp[ns]"])
    task, columns = in_spark_types(shown.schema)
    found = given_to_tasks(spark, shown).mapped(task, columns).toArrow()
    for name in ("uint8", "uint64", "int64", "decimal(20, 2)", "timestamp[ms]", "string"):
        assert in_order(found.column(name).to_pylist()) == in_order(
            [
                Decimal(one) if one is not None and name == "uint64" else one
                for one in shown.column(name).to_pylist()
            ]
        )


@pytest.mark.parametrize(
    "kind",
    [pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.dictionary(pa.int8(), pa.string()))],
)
def test_a_type_that_cannot_be_stored_is_refused_at_once(kind: pa.DataType) -> None:
    with pytest.raises(StageError, match=r"column c of `out`.*dictionary.*declare"):
        Stage(
            "refused",
            inputs={"in": InputFlow()},
            outputs={"out": {"c": kind}},
            translate_tables=_keeps_unit,
        )
