"""Runs of stages that others are fused with: one run, one state, no files in between."""

from __future__ import annotations

import re
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

from headgate.engine import FilesSpec, OnChange
from headgate.incremental import InputFlow, PublishedIncrements, Stage, StateFlow
from headgate.incremental.state.errors import ChangedStage
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.manifest import read_manifest
from headgate.spark import decode_result

DOCS = Path(__file__).parents[3] / "docs"
READ = pa.schema({"key": pa.string(), "n": pa.int64()})


def _sum(key: Any, flows: Any) -> dict[str, list[dict[str, Any]]]:
    n = sum(row["n"] for name in flows for row in flows[name])
    return {"state": [{"n": n}], "sums": [{"key": key, "n": n}]}


def _parse(key: Any, flows: Any) -> dict[str, list[dict[str, Any]]]:
    [page] = flows["pages"]
    if page["key"] == "bad":
        raise ZeroDivisionError("nothing of bad")
    return {"even": [page] if page["n"] % 2 == 0 else []}


def _shown(key: Any, flows: Any) -> dict[str, list[dict[str, Any]]]:
    return {"shown": [{"row": row["key"], "v": str(row["n"])} for row in flows["sums"] if row["n"]]}


def parse(version: str = "1") -> Stage:
    return Stage(
        "parse",
        inputs={"pages": InputFlow()},
        outputs={"even": READ},
        translate=_parse,
        version=version,
    )


SHOW = Stage(
    "show",
    inputs={"sums": InputFlow()},
    outputs={"shown": {"row": "string", "v": "string"}},
    translate=_shown,
)


def count(version: str = "1", parsing: str = "1", **more: Any) -> Stage:
    """Sums of even numbers by key, as text, but for those that are 0."""
    stage = Stage(
        "count",
        inputs={"pages": InputFlow("key")},
        outputs={"sums": READ},
        translate=_sum,
        state=StateFlow(pa.schema({"n": pa.int64()})),
        version=version,
        **more,
    )
    return stage.fused(before={"pages": parse(parsing)}, after={"sums": SHOW})


@pytest.fixture
def flow(tmp_path: Path) -> ScriptedFlow:
    return ScriptedFlow(tmp_path, ("pages", "sums"), READ)


def write(flow: ScriptedFlow, *numbers: tuple[str, int]) -> None:
    flow.containers["pages"] += [{"key": key, "n": n} for key, n in numbers]


def test_one_run_writes_its_state_and_what_leaves_it_and_nothing_in_between(
    flow: ScriptedFlow,
) -> None:
    write(flow, ("a", 2), ("a", 4), ("b", 3), ("c", 0))
    made = flow.run("count", count(), flow.request(out=("sums",)))
    result = decode_result(flow.results["count"])
    assert result is not None
    assert result.rows == {"sums": 1}
    assert flow.outputs == {"sums": [{"row": "a", "v": "6"}]}

    store = FileStore.at(flow.path)
    manifest = read_manifest(store, result.manifest)
    written = {str(path.relative_to(flow.path)) for path in flow.path.rglob("*") if path.is_file()}
    assert written == {result.manifest, *manifest.names}
    assert {part: [ref.rows for ref in refs] for part, refs in manifest.outputs.items()} == {
        "sums": [1]
    }
    assert sum(ref.rows for bucket in manifest.buckets for ref in bucket.files) == 2

    reader = Stage(
        "reader",
        inputs={"sums": InputFlow("row")},
        outputs={"seen": {"v": "string"}},
        translate=lambda _key, flows: {"seen": [{"v": row["v"]} for row in flows["sums"]]},
    )
    flow.containers["seen"] = []
    flow.run("reader", reader, flow.request({"sums": (made["sums"],)}))
    assert flow.outputs["seen"] == [{"v": "6"}]


def test_files_for_everybody_and_framing_have_the_rows_that_leave(flow: ScriptedFlow) -> None:
    write(flow, ("a", 2), ("b", 4), ("c", 4))
    place = str(flow.path / "published")
    stage = count(framing={"sums": lambda row: row["v"]})
    flow.run("count", stage, flow.request(out=("sums",), sinks={"sums": FilesSpec(place)}))
    rows = PublishedIncrements(place).arrow().select(["row", "v"]).to_pylist()
    assert sorted(row["row"] + row["v"] for row in rows) == ["a2", "b4", "c4"]
    result = decode_result(flow.results["count"])
    assert result is not None
    assert [(one.key, one.rows) for one in result.produced] == [("2", 1), ("4", 2)]


@pytest.mark.parametrize("stage", [count(version="2"), count(parsing="2"), count().fused()])
def test_another_version_of_what_is_fused_is_another_stage(
    flow: ScriptedFlow, stage: Stage
) -> None:
    write(flow, ("a", 2))
    flow.run("count", count(), flow.request())
    write(flow, ("a", 4))
    if stage.spec.code == count().spec.code:
        flow.run("count", stage, flow.request())
    else:
        with pytest.raises(ChangedStage, match=r"its version was .*`parse`.even \(1\).* and is "):
            flow.run("count", stage, flow.request())
        flow.run("count", stage, flow.request(on_change=OnChange.KEEP))
    assert flow.outputs["sums"][-1] == {"row": "a", "v": "6"}


def test_a_stage_that_is_fused_from_now_on_is_another_stage(flow: ScriptedFlow) -> None:
    alone = Stage(
        "count",
        inputs={"pages": InputFlow("key")},
        outputs={"sums": READ},
        translate=_sum,
        state=StateFlow(pa.schema({"n": pa.int64()})),
    )
    write(flow, ("a", 1))
    flow.run("count", alone, flow.request())
    with pytest.raises(ChangedStage, match=r"was '1' and is '1, `pages` from `parse`.even \(1\), "):
        flow.run("count", alone.fused(before={"pages": [parse(), parse()]}), flow.request())


@pytest.fixture
def quiet_spark(spark: SparkSession) -> Iterator[SparkSession]:
    # Spark's workers do not find the modules of tests.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.sparkContext.setLogLevel("ERROR")
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


WORDS = (
    "TranslationFailed: stage `flow/count`: before input flow `pages`: stage `parse`: "
    "unit {'key': 'bad', 'n': 2}: ZeroDivisionError: nothing of bad"
)


def told(flow: ScriptedFlow) -> str:
    """What a worker reports of a run that fails."""
    write(flow, ("a", 2), ("bad", 2))
    with pytest.raises(Exception, match=r".") as raised:
        flow.run("count", count(), flow.request())
    assert WORDS in f"{type(raised.value).__name__}: {raised.value}"
    assert flow.results == {}
    return "".join(traceback.format_exception(raised.value))


def test_a_fused_stage_that_fails_is_told_with_unit_and_increment_and_nothing_counts(
    flow: ScriptedFlow,
) -> None:
    detail = told(flow)
    assert "increment of run count-1, stage `flow/count`: `pages`: everything (2 rows)" in detail
    assert "in _parse" in detail


def test_a_task_tells_the_same(flow: ScriptedFlow, quiet_spark: SparkSession) -> None:
    flow.spark, flow.driver_rows = quiet_spark, 0
    detail = told(flow)
    assert "increment of run count-1, stage `flow/count`: `pages`: everything" in detail
    assert "in _parse" in detail


def test_the_stages_of_the_documentation_are_one(tmp_path: Path) -> None:
    text = (DOCS / "stages.md").read_text(encoding="utf-8")
    section = text.partition("### Stages by unit as parts of others\n")[2].partition("\n##")[0]
    [example] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names: dict[str, Any] = {"pa": pa, "InputFlow": InputFlow, "Stage": Stage}
    names["StateFlow"] = StateFlow
    exec(example, names)
    cells = pa.schema({"row": pa.string(), "value": pa.binary()})
    flow = ScriptedFlow(tmp_path, ("links", "counts"), cells)
    for value in (b"a/1 a/2 b/1", b"b/2 c/1"):
        flow.containers["links"].append({"row": "p", "value": value})
        flow.run("sites", names["sites"], flow.request())
    assert flow.outputs["counts"] == [{"row": "a", "n": 2}, {"row": "b", "n": 2}]
