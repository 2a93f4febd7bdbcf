"""Random edits of a stage between its runs: its state is that of the stage begun anew."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
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

READ = pa.schema({"key": pa.string(), "other": pa.string(), "n": pa.int64()})


def add(key: Any, flows: Any) -> dict[str, list[dict[str, Any]]]:
    n = sum(row["n"] for name in flows for row in flows[name])
    return {"state": [{"n": n}], "sums": [{"key": f"{key}", "n": int(n)}]}


CHOICES = {
    "k": (None, None, None, 1, 2, 3),
    "type": (pa.int64(), pa.float64()),
    "order": (None, "n"),
    "more": (False, False, True),
    "route": ("key", "other", "n", ("key", "n")),
    "version": (None, "1", "2"),
}


def redrawn(chance: random.Random, names: Iterable[str], said: Mapping[str, Any]) -> dict[str, Any]:
    return {**said, **{name: chance.choice(CHOICES[name]) for name in names}}


def made(said: Mapping[str, Any]) -> Stage:
    """Return a stage of some groups, columns, order and parameters."""
    if said["k"]:
        return top_k("key", "n", said["k"], columns=READ, source="pages", weight=None)
    kind, order = said["type"], said["order"]
    more = {"m": "int64"} if said["more"] else {}
    return Stage(
        "count",
        inputs={"pages": InputFlow(said["route"])},
        outputs={"sums": {"key": "string", "n": "int64", **more}},
        translate=add if not more else lambda key, flows: wider(add(key, flows)),
        state=StateFlow(pa.schema({"n": kind}), order_by=order),
        version=said["version"],
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
    flow = ScriptedFlow(path, ("pages", "sums"), READ)
    flow.strict_rows = True
    flow.code, flow.described = {"stages": "1"}, {"pages": "1"}
    return flow


@pytest.mark.parametrize("seed", seeds(8, 500))
def test_a_stage_that_was_edited_knows_what_one_begun_anew_would(tmp_path: Path, seed: int) -> None:
    """It may refuse to go on, and is rebuilt then; without an edit it never refuses."""
    chance = random.Random(seed)
    said = redrawn(chance, CHOICES, {})
    flow, stage, edited = flow_at(tmp_path / "edited"), made(said), False
    for turn in range(5):
        flow.containers["pages"] += [
            {"key": chance.choice("abc"), "other": chance.choice("ab"), "n": chance.randint(0, 3)}
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
        edited = chance.random() < 0.7
        if edited:
            said = redrawn(chance, chance.sample(list(CHOICES), chance.choice((1, 1, 3))), said)
            stage = made(said)
