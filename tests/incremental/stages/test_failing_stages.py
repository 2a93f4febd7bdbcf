"""Translations that raise, or return what is not theirs: told with stage, key and increment."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from scripted_runs import ScriptedFlow

from headgate.incremental import GROUP, InputFlow, Stage, StateFlow

READ = pa.schema({"key": pa.string(), "n": pa.int64()})


def _raises(key: Any, flows: Any) -> Any:
    if key == "bad":
        raise ZeroDivisionError(f"nothing of {key}")
    return {"state": []}


def _wrong_type(key: Any, flows: Any) -> Any:
    return {"state": [{"n": "many" if key == "bad" else 1}]}


def _fraction(key: Any, flows: Any) -> Any:
    return {"out": [{"n": 1}, {"n": 1.9 if key == "bad" else 2.0}]}


def _adds(key: Any, flows: Any) -> Any:
    return {"state": [{"n": sum(row["n"] for row in flows["state"]) + 0.6}]}


def _surrogate(key: Any, flows: Any) -> Any:
    return {"text": [{"t": "\ud800" if key == "bad" else "ä"}]}


def _table_of(column: pa.Array) -> Any:
    return lambda groups: {"out": pa.table({"n": column})}


def _stream(rows: Any) -> Any:
    return lambda key, flows: iter([("out", rows)])


def _wrong_column(key: Any, flows: Any) -> Any:
    return {"out": [{"m": 1}] if key == "bad" else []}


def _no_mapping(key: Any, flows: Any) -> Any:
    return [1] if key == "bad" else {}


def _tables(groups: Any) -> Any:
    if "bad" in groups.keys.to_pylist():
        raise ZeroDivisionError("nothing of bad")
    return {"state": pa.table({GROUP: pa.array([], pa.int64()), "n": pa.array([], pa.int64())})}


def stage(
    translate: Any = None, translate_tables: Any = None, translate_stream: Any = None
) -> Stage:
    return Stage(
        "failing",
        inputs={"pages": InputFlow("key")},
        outputs={"out": {"n": "int64"}, "text": {"t": "string"}},
        translate=translate,
        translate_stream=translate_stream,
        translate_tables=translate_tables,
        state=StateFlow(pa.schema({"n": pa.int64()})),
    )


@pytest.fixture
def quiet_spark(spark: SparkSession) -> Iterator[SparkSession]:
    # Spark's workers do not find the modules of tests.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.sparkContext.setLogLevel("ERROR")
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def told(flow: ScriptedFlow, failing: Stage) -> tuple[str, str]:
    """Return the reason for which a run fails, and its traceback, as a worker reports them."""
    flow.containers["pages"] = [{"key": key, "n": 1} for key in ("a", "bad", "z")]
    with pytest.raises(Exception, match=r".") as raised:
        flow.run("count", failing, flow.request())
    error = raised.value
    assert flow.results == {}
    return f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error))


CASES = [
    (stage(_raises), "stage `flow/count`, group 'bad': ZeroDivisionError: nothing of bad"),
    (stage(_wrong_type), "group 'bad': flow `state` has to be n int64, and is not"),
    (stage(_wrong_column), "group 'bad': flow `out` has no column m; it is n int64"),
    (stage(_no_mapping), "group 'bad': it returned list"),
    (stage(None, _tables), "ZeroDivisionError: nothing of bad"),
]
INEXACT = [
    (stage(_fraction), "group 'bad': flow `out` has to be n int64, and is not: 1.9 is no whole"),
    (stage(_adds), "flow `state` has to be n int64, and is not: 0.6 is no whole number"),
    (stage(_surrogate), "group 'bad': flow `text` has to be t string, and is not"),
    (stage(None, _table_of(pa.array([1.0, 1.9]))), "in row 1, {'n': 1.9}"),
    (stage(None, _table_of(pa.array([True]))), "column n is of bool, not of int64"),
    (stage(None, _table_of(pa.array(["5"]))), "column n is of string, not of int64"),
    (stage(None, None, _stream({"n": 1.9})), "1.9 is no whole number"),
    (stage(None, None, _stream({"n": True})), "True is no int64"),
    (stage(None, None, _stream(pa.table({"n": [0.5]}))), "in row 0, {'n': 0.5}"),
    (stage(None, None, _stream(pa.table({"n": ["5"]}))), "column n is of string, not of int64"),
]


@pytest.mark.parametrize(("failing", "words"), [*CASES, *INEXACT])
def test_the_driver_tells_stage_key_and_increment(
    tmp_path: Path, failing: Stage, words: str
) -> None:
    reason, detail = told(ScriptedFlow(tmp_path, ("pages",), READ), failing)
    assert words in reason
    assert "TranslationFailed" in reason
    assert "increment of run count-1, stage `flow/count`: `pages`: everything (3 rows)" in detail


@pytest.mark.parametrize(
    ("failing", "words", "where"),
    [(*CASES[0], "in _raises"), (*CASES[1], "in _table"), (*CASES[4], "in _tables")],
)
def test_a_spark_job_tells_the_same(
    tmp_path: Path, quiet_spark: SparkSession, failing: Stage, words: str, where: str
) -> None:
    flow = ScriptedFlow(tmp_path, ("pages",), READ)
    flow.spark, flow.driver_rows = quiet_spark, 0
    reason, detail = told(flow, failing)
    assert words in reason
    assert "TranslationFailed" in reason
    assert "stage `flow/count`: `pages`: everything" in detail
    assert where in detail, "the traceback of the task, with what caused it"


def test_many_groups_at_once_are_told_by_the_first_and_the_last(tmp_path: Path) -> None:
    reason, _ = told(ScriptedFlow(tmp_path, ("pages",), READ), stage(None, _tables))
    assert "one of 2 groups, in the order of their hashes from" in reason or "group 'bad'" in reason


def test_a_key_of_a_megabyte_is_not_told_whole(tmp_path: Path) -> None:
    flow = ScriptedFlow(tmp_path, ("pages",), READ)

    def fail(key: Any, flows: Any) -> Any:
        raise ValueError

    flow.containers["pages"] = [{"key": "x" * 1_000_000, "n": 1}]
    with pytest.raises(Exception, match="group 'xxx") as raised:
        flow.run("count", stage(fail), flow.request())
    assert len(str(raised.value)) < 400
