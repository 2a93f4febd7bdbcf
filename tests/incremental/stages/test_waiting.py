"""Units of all groups (``Route.ALL``) that come when there is no group are not lost."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from reference import ReferenceStage
from scripted_runs import ScriptedFlow
from stages_of_tests import limited
from tests.seeds import seeds

from headgate.engine import RunPurpose
from headgate.incremental import InputFlow, Outer, Route, Stage, StateFlow
from headgate.incremental.state.manifest import Manifest, read_manifest
from headgate.spark import decode_result

ROWS = pa.schema({"key": pa.int64(), "n": pa.int64(), "k": pa.int64()})


@pytest.fixture
def flow(tmp_path: Path) -> ScriptedFlow:
    return ScriptedFlow(tmp_path, ("in", "k", "out"), ROWS)


def come(flow: ScriptedFlow, *units: tuple[int, int], k: tuple[int, ...] = ()) -> None:
    flow.containers["in"] += [{"key": key, "n": n, "k": None} for key, n in units]
    flow.containers["k"] += [{"key": None, "n": None, "k": one} for one in k]


def ran(flow: ScriptedFlow, stage: Stage, **request: Any) -> list[tuple[str, int, int]]:
    """Output of a run: by group its sum, and how many parameters it was given."""
    flow.outputs.clear()
    flow.run("limited", stage, flow.request(**request))
    return sorted((row["key"], row["n"], row["limits"]) for row in flow.outputs["out"])


def manifest(flow: ScriptedFlow) -> Manifest:
    result = decode_result(flow.results["limited"])
    assert result is not None
    return read_manifest(flow.store, result.manifest)


@pytest.mark.parametrize("outer", Outer)
def test_a_parameter_that_comes_alone_waits_for_the_first_groups(
    flow: ScriptedFlow, outer: Outer
) -> None:
    come(flow, k=(10,))
    assert ran(flow, limited(outer)) == []
    come(flow, k=(5,))
    assert ran(flow, limited(outer)) == []
    come(flow, (1, 30))
    assert ran(flow, limited(outer)) == [("1", 10, 2), ("2", 10, 2)]
    come(flow, (1, 30))
    assert ran(flow, limited(outer)) == [("1", 40, 0), ("2", 40, 0)], "given once"


def test_by_default_a_parameter_waits_for_groups_that_come_though_the_state_has_others(
    flow: ScriptedFlow,
) -> None:
    come(flow, (1, 30))
    ran(flow, limited(Outer.RIGHT))
    come(flow, k=(10,))
    assert ran(flow, limited(Outer.RIGHT)) == []
    come(flow, (1, 1))
    assert ran(flow, limited(Outer.RIGHT)) == [("1", 10, 1), ("2", 10, 1)]


@pytest.mark.parametrize("seed", seeds(8, 60))
def test_whatever_comes_alone_each_parameter_is_given_as_the_paper_says(
    flow: ScriptedFlow, seed: int
) -> None:
    drawn = random.Random(seed)
    stage = limited(drawn.choice(list(Outer)))
    expected = ReferenceStage(stage)
    for _ in range(12):
        units: list[tuple[int, int]] = []
        ks: tuple[int, ...] = ()
        if drawn.random() < 0.5:
            # A 9 is for all groups, a 0 for none.
            units = [(drawn.randrange(5), drawn.choice((0, 1, 2, 9))) for _ in range(2)]
        if drawn.random() < 0.6:
            ks = tuple(drawn.sample(range(1, 40), drawn.randint(1, 2)))
        come(flow, *units, k=ks)
        if drawn.random() < 0.3:
            lost: Any = flow.attempt("limited", flow.request())
            stage(lost)  # an attempt that nobody commits
        if drawn.random() < 0.1:
            expected = ReferenceStage(stage)
            read = {name: flow.containers[name] for name in ("in", "k")}
            wanted = expected.epoch(read)["out"]
            made = ran(flow, stage, purpose=RunPurpose.REBUILD)
        else:
            read = {
                "in": [{"key": key, "n": n} for key, n in units],
                "k": [{"k": one} for one in ks],
            }
            wanted = expected.epoch(read)["out"]
            made = ran(flow, stage)
        assert made == sorted((row["key"], row["n"], row["limits"]) for row in wanted)


def test_what_waits_is_a_file_or_few_however_long_it_waits(flow: ScriptedFlow) -> None:
    for k in range(40):
        come(flow, k=(k,))
        ran(flow, limited(Outer.RIGHT))
    [units] = [manifest(flow).waiting["k"]]
    assert sum(each.rows for each in units) == 40
    assert sum(len(each.files) for each in units) <= 16
    come(flow, (1, 30))
    assert ran(flow, limited(Outer.RIGHT)) == [("1", 30, 40), ("2", 30, 40)]
    assert manifest(flow).waiting == {}


def test_increments_that_are_read_again_do_not_wait_besides(flow: ScriptedFlow) -> None:
    """A table to look things up in (``runnable: {lookup: k}``) stays and is read each time."""
    columns = {"k": "int64"}
    pass_on = Stage(
        "pass_on",
        inputs={"k": InputFlow()},
        outputs={"ks": columns},
        translate=lambda _, flows: {"ks": [{"k": row["k"]} for row in flows["k"]]},
    )
    come(flow, k=(10,))
    made = flow.run("pass_on", pass_on, flow.request(out=("ks",)))
    reads = Stage(
        "limited",
        inputs={"in": InputFlow("key"), "ks": InputFlow(Route.ALL)},
        outputs={"out": {"key": "string", "n": "int64", "limits": "int64"}},
        translate=lambda key, flows: {
            "out": [{"key": str(key), "n": len(flows["in"]), "limits": len(flows["ks"])}]
        },
        state=StateFlow(pa.schema({"n": pa.int64()})),
    )
    for _ in range(2):
        assert ran(flow, reads, reads={"ks": (made["ks"],)}) == []
    come(flow, (1, 1))
    assert ran(flow, reads, reads={"ks": (made["ks"],)}) == [("1", 1, 1)]


def test_a_waiting_parameter_survives_a_merge_of_the_state_and_many_runs(
    flow: ScriptedFlow,
) -> None:
    come(flow, (1, 1))
    ran(flow, limited(Outer.RIGHT))
    come(flow, k=(10,))
    ran(flow, limited(Outer.RIGHT))
    flow.run("limited", limited(Outer.RIGHT), flow.request(purpose=RunPurpose.COMPACT))
    for _ in range(20):  # garbage is collected meanwhile
        ran(flow, limited(Outer.RIGHT))
    come(flow, (1, 30))
    assert ran(flow, limited(Outer.RIGHT)) == [("1", 10, 1), ("2", 10, 1)]


def test_a_stage_without_a_state_waits_likewise(flow: ScriptedFlow) -> None:
    by_group = Stage(
        "limited",
        inputs={"in": InputFlow("key"), "k": InputFlow(Route.ALL)},
        outputs={"out": {"key": "string", "n": "int64", "limits": "int64"}},
        translate=lambda key, flows: {
            "out": [{"key": str(key), "n": len(flows["in"]), "limits": len(flows["k"])}]
        },
    )
    come(flow, k=(10,))
    assert ran(flow, by_group) == []
    come(flow, (1, 1))
    assert ran(flow, by_group) == [("1", 1, 1)]
