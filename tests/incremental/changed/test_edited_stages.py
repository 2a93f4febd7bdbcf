"""State of a stage that was edited: it goes on, is made anew, or the run fails."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from scripted_runs import ScriptedFlow

from headgate.engine import OnChange, RunPurpose
from headgate.incremental import InputFlow, Stage, StateFlow
from headgate.incremental.library import top_k
from headgate.incremental.state.errors import ChangedStage

READ = pa.schema({"key": pa.string(), "n": pa.int64()})
N = pa.schema({"n": pa.int64()})
REBUILD = OnChange.REBUILD
KEEP = OnChange.KEEP


def add(key: Any, flows: Any) -> dict[str, list[dict[str, Any]]]:
    n = sum(row["n"] for name in flows for row in flows[name])
    return {"state": [{"n": n}], "sums": [{"key": str(key), "n": n}]}


def stage(route_by: Any = "key", *, name: str = "pages", **more: Any) -> Stage:
    given: dict[str, Any] = {"state": StateFlow(N), "outputs": {"sums": READ}, **more}
    return Stage("count", inputs={name: InputFlow(route_by)}, translate=add, **given)


def ranking(k: int) -> Stage:
    return top_k("key", "n", k, columns=READ, source="pages", weight=None)


@pytest.fixture
def flow(tmp_path: Path) -> ScriptedFlow:
    made = ScriptedFlow(tmp_path, ("pages", "sums"), READ)
    made.containers["pages"] += [{"key": "a", "n": 1}, {"key": "b", "n": 2}]
    made.code = {"stages": "1"}
    made.described = {"pages": "1"}
    return made


def by_key(row: dict[str, Any]) -> str:
    return str(row["key"])


def by_number(row: dict[str, Any]) -> int:
    return int(row["n"])


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (stage(), stage("n"), r"`route_by` of `pages` was 'key' and is 'n'"),
        (stage(by_key), stage(by_number), "`route_by` of `pages` was a function and is a function"),
        (stage(version="3"), stage("n", version="3"), "`route_by` of `pages` was 'key' and is 'n'"),
        (
            stage(),
            stage(state=StateFlow(N, order_by="n")),
            "`order_by` of the state was None and is 'n'",
        ),
        (
            stage(),
            stage(state=StateFlow(pa.schema({"n": pa.float64()}))),
            "its state: column `n` was int64 and is double",
        ),
        (
            stage(),
            stage(state=StateFlow(pa.schema({"n": pa.int64(), "m": pa.int64()}))),
            "its state: column `m` is new",
        ),
    ],
)
def test_a_state_of_other_groups_or_columns_is_only_made_anew(flow, before, after, words):
    flow.run("count", before, flow.request())
    for said in (OnChange.REFUSE, KEEP):
        with pytest.raises(ChangedStage, match=words) as refused:
            flow.run("count", after, flow.request(on_change=said))
        assert "`headgate stage rebuild flow count`" in str(refused.value)
    flow.run("count", after, flow.request(on_change=REBUILD))
    flow.run("count", after, flow.request())


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (ranking(3), ranking(2), "`k` was 3 and is 2"),
        (
            stage(),
            stage(outputs={"sums": {"key": "string", "n": "int64", "m": "int64"}}),
            "output flow `sums`: column `m` is new",
        ),
        (stage(version="1"), stage(version="2"), "its version was '1' and is '2'"),
    ],
)
def test_a_state_that_may_be_right_is_kept_where_somebody_says_so(flow, before, after, words):
    flow.run("count", before, flow.request())
    with pytest.raises(ChangedStage, match=words) as refused:
        flow.run("count", after, flow.request())
    assert "`on_change: keep`" in str(refused.value)
    flow.run("count", after, flow.request(on_change=KEEP))
    flow.run("count", after, flow.request())


def test_other_code_is_another_version_where_none_is_given(flow):
    flow.run("count", stage(), flow.request())
    flow.code = {"stages": "2", "tools": "1"}
    with pytest.raises(ChangedStage, match=r"its code has changed .`stages`, `tools`"):
        flow.run("count", stage(), flow.request())
    flow.run("count", stage(), flow.request(on_change=KEEP))
    flow.run("count", stage(), flow.request())


def test_another_file_is_another_version_where_none_is_given(flow):
    """Name a file for the first time, which changes nothing, and then edit it."""
    flow.run("count", stage(), flow.request())
    flow.files = {"model.json": "1"}
    flow.run("count", stage(), flow.request())
    flow.files = {"model.json": "2"}
    with pytest.raises(ChangedStage, match=r"`model.json`, on which it depends, has changed"):
        flow.run("count", stage(), flow.request())
    flow.run("count", stage(), flow.request(on_change=KEEP))
    flow.run("count", stage(), flow.request())


def test_other_code_under_a_version_that_was_given_goes_on(flow):
    flow.run("count", stage(version="3"), flow.request())
    flow.code = {"stages": "2"}
    flow.run("count", stage(version="3"), flow.request())


def test_a_container_that_is_another_is_read_anew_or_not_at_all(flow):
    flow.run("count", stage(), flow.request())
    flow.described = {"pages": "2"}
    with pytest.raises(ChangedStage, match="container `pages` had other columns") as refused:
        flow.run("count", stage(), flow.request(on_change=KEEP))
    assert re.search("`headgate stage rebuild flow count`", str(refused.value))
    flow.run("count", stage(), flow.request(purpose=RunPurpose.REBUILD))
    flow.run("count", stage(), flow.request())


def test_the_cure_that_a_reader_of_flows_is_told_works(flow):
    reader = flow.request({"units": (flow.run("a", stage(), flow.request(out=("sums",)))["sums"],)})
    flow.run("count", stage(name="units"), reader)
    flow.containers["pages"].append({"key": "a", "n": 5})
    made = flow.run("a", stage(), flow.request(out=("sums",)))["sums"]
    with pytest.raises(ChangedStage, match="version was '1' and is '2'") as refused:
        flow.run("count", stage(name="units", version="2"), flow.request({"units": (made,)}))
    assert "`headgate stage rebuild flow count --with-sources`" in str(refused.value)
    said = flow.request({"units": (made,)}, on_change=REBUILD)
    with pytest.raises(ChangedStage, match="headgate stage rebuild flow count --with-sources"):
        flow.run("count", stage(name="units", version="2"), said)

    # What the command does: makers first, each beginning with nothing.
    anew = flow.request(out=("sums",), purpose=RunPurpose.REBUILD)
    whole = flow.run("a", stage(), anew)["sums"]
    anew = flow.request({"units": (whole,)}, purpose=RunPurpose.REBUILD)
    flow.run("count", stage(name="units", version="2"), anew)
    assert {row["key"]: row["n"] for row in flow.outputs["sums"]} == {"a": 6, "b": 2}


def test_a_reader_begins_anew_with_a_maker_that_has(flow):
    made = flow.run("a", stage(), flow.request(out=("sums",)))["sums"]
    flow.run("count", stage(name="units"), flow.request({"units": (made,)}))
    again = flow.request(out=("sums",), on_change=REBUILD)
    whole = flow.run("a", stage(version="2"), again)["sums"]
    flow.run("count", stage(name="units"), flow.request({"units": (whole,)}))
    assert {row["key"]: row["n"] for row in flow.outputs["sums"]} == {"a": 1, "b": 2}


def test_of_a_flow_that_is_read_again_and_again_nothing_is_begun_anew(flow):
    made = flow.run("a", stage(), flow.request(out=("sums",)))["sums"]
    for _ in range(2):
        flow.run("count", stage(name="units"), flow.request({"units": (made,)}))
    assert {row["key"]: row["n"] for row in flow.outputs["sums"]} == {"a": 2, "b": 4}


def test_a_rebuild_reads_nothing_of_a_flow_whose_first_frame_is_not_over(flow):
    made = flow.run("a", stage(), flow.request(out=("sums",)))["sums"]
    flow.run("count", stage(name="units"), flow.request({"units": (made,)}))
    anew = flow.request({"units": ()}, purpose=RunPurpose.REBUILD)
    flow.run("count", stage(name="units"), anew)
    flow.run("count", stage(name="units"), flow.request({"units": (made,)}))
    assert {row["key"]: row["n"] for row in flow.outputs["sums"]} == {"a": 1, "b": 2}


def widened(*, name: str = "pages") -> Stage:
    """The same stage with one more output column, beside the others."""
    return stage(name=name, outputs={"sums": {"key": "string", "m": "int64", "n": "int64"}})


@pytest.mark.parametrize("driver_rows", [50_000, 0])
def test_a_new_column_of_a_flow_that_stages_read_needs_no_rebuild(
    flow: ScriptedFlow, spark: Any, driver_rows: int
) -> None:
    first = flow.run("a", stage(), flow.request(out=("sums",)))["sums"]
    flow.containers["pages"].append({"key": "a", "n": 5})
    said = flow.request(out=("sums",))
    with pytest.raises(ChangedStage, match="column `m` is new") as refused:
        flow.run("a", widened(), said)
    assert "`on_change: keep`" in str(refused.value)
    second = flow.run("a", widened(), flow.request(out=("sums",), on_change=KEEP))["sums"]

    # One increment of before and one of now are read together, as they wait.
    flow.spark, flow.driver_rows = spark, driver_rows

    def look(key: Any, flows: Any) -> dict[str, list[dict[str, Any]]]:
        rows = [{"key": key, "m": row["m"], "n": row["n"]} for row in flows["units"]]
        return {"state": [{"n": 0}], "sums": rows}

    columns = {"key": "string", "m": "int64", "n": "int64"}
    reader = Stage(
        "count",
        inputs={"units": InputFlow("key", order_by="n")},
        outputs={"sums": columns},
        translate=look,
        state=StateFlow(N),
    )
    flow.outputs.clear()
    flow.run("count", reader, flow.request({"units": (first, second)}))
    seen = sorted((row["key"], row["m"], row["n"]) for row in flow.outputs["sums"])
    assert seen == [("a", None, 1), ("a", None, 6), ("b", None, 2)]


@pytest.mark.parametrize(
    "columns",
    [
        pa.schema([*READ, pa.field("m", pa.int64(), nullable=False)]),
        pa.schema({"key": pa.string(), "n": pa.float64(), "m": pa.int64()}),
        pa.schema({"key": pa.string()}),
    ],
)
def test_other_columns_of_a_flow_that_stages_read_need_one(
    flow: ScriptedFlow, columns: pa.Schema
) -> None:
    flow.run("a", stage(), flow.request(out=("sums",)))
    with pytest.raises(ChangedStage, match="which cannot be kept"):
        flow.run("a", stage(outputs={"sums": columns}), flow.request(on_change=KEEP, out=("sums",)))
