"""Random edits of a stage between its runs: its state is that of the stage begun anew."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from scripted_runs import ScriptedFlow
from tests.seeds import seeds

from headgate.engine import OnChange
from headgate.incremental import InputFlow, Stage, StateFlow, StoredState
from headgate.incremental.library import top_k
from headgate.incremental.state.errors import ChangedStage
from headgate.spark import decode_result

READ = pa.schema({"key": pa.string(), "n": pa.int64()})


def add(key: Any, flows: Any) -> dict[str, list[dict[str, Any]]]:
    n = sum(row["n"] for name in flows for row in flows[name])
    return {"state": [{"n": n}], "sums": [{"key": f"{key}", "n": int(n)}]}


def drawn(chance: random.Random) -> Stage:
    """Return a stage of some groups, columns, order and parameters."""
    if chance.random() < 0.3:
        return top_k("key", "n", chance.randint(1, 3), columns=READ, source="pages", weight=None)
    kind, order = chance.choice((pa.int64(), pa.float64())), chance.choice((None, "n"))
    more = {"m": "int64"} if chance.random() < 0.2 else {}
    return Stage(
        "count",
        inputs={"pages": InputFlow(chance.choice(("key", "n", ("key", "n"))))},
        outputs={"sums": {"key": "string", "n": "int64", **more}},
        translate=add if not more else lambda key, flows: wider(add(key, flows)),
        state=StateFlow(pa.schema({"n": kind}), order_by=order),
        version=chance.choice((None, "1", "2")),
    )


def wider(made: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    return {name: [{**r, "m": 0} if name == "sums" else r for r in made[name]] for name in made}


def state(flow: ScriptedFlow) -> Counter[tuple[tuple[str, Any], ...]]:
    result = decode_result(flow.results["count"])
    assert result is not None
    rows = StoredState(str(flow.path), "flow", "count", result.manifest).arrow().to_pylist()
    return Counter(tuple(sorted(row.items())) for row in rows)


def refused(flow: ScriptedFlow, stage: Stage) -> str:
    """Run a stage; return why it refuses to go on, or nothing."""
    try:
        flow.run("count", stage, flow.request())
    except ChangedStage as error:
        return str(error)
    return ""


def flow_at(path: Path) -> ScriptedFlow:
    made = ScriptedFlow(path, ("pages", "sums"), READ)
    made.strict_rows = True
    made.code, made.described = {"stages": "1"}, {"pages": "1"}
    return made


@pytest.mark.parametrize("seed", seeds(8, 500))
def test_a_stage_that_was_edited_knows_what_one_begun_anew_would(tmp_path: Path, seed: int) -> None:
    """It may refuse to go on, and is rebuilt then; without an edit it never refuses."""
    chance = random.Random(seed)
    flow, stage, edited = flow_at(tmp_path / "edited"), drawn(chance), False
    for turn in range(5):
        flow.containers["pages"] += [
            {"key": chance.choice("abc"), "n": chance.randint(0, 3)}
            for _ in range(chance.randint(1, 4))
        ]
        refusal = refused(flow, stage)
        if refusal:
            assert edited, refusal
            assert "headgate stage rebuild flow count" in refusal
            flow.run("count", stage, flow.request(on_change=OnChange.REBUILD))
        anew = flow_at(tmp_path / f"anew-{turn}")
        anew.containers["pages"] = list(flow.containers["pages"])
        anew.run("count", stage, anew.request())

        assert state(flow) == state(anew), turn
        assert flow.hbase.get("sums", {}) == anew.hbase.get("sums", {}), turn
        edited = chance.random() < 0.5
        if edited:
            stage = drawn(chance)
