"""Runs of stages: what they read of each other, what becomes of old states, what is removed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from msgspec.structs import replace
from scripted_runs import ScriptedFlow
from tests.seeds import seeds

from headgate.engine import OnChange
from headgate.incremental import GROUP, Groups, InputFlow, Stage, StageError, StateFlow
from headgate.incremental.state.errors import ChangedStage, DamagedState
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.manifest import read_manifest, write_manifest
from headgate.spark import Run, decode_result, parse_increment_name

READ = pa.schema({"key": pa.string(), "n": pa.int64()})
STATE = StateFlow(pa.schema({"n": pa.int64()}))


def _sum(key: Any, flows: Any) -> dict[str, list[dict[str, Any]]]:
    n = sum(row["n"] for name in flows for row in flows[name])
    return {"state": [{"n": n}], "sums": [{"key": key, "n": n}]}


def _pass(key: Any, flows: Any) -> dict[str, list[dict[str, Any]]]:
    rows = flows["pages"]
    return {"state": [{"n": 0}], "even": [r for r in rows if r["n"] % 2 == 0], "all": rows}


def parse(version: str = "1") -> Stage:
    """Passes on what it reads: all of it, and the even numbers."""
    return Stage(
        "parse",
        inputs={"pages": InputFlow("key")},
        outputs={"even": READ, "all": READ},
        translate=_pass,
        state=STATE,
        version=version,
    )


def count(*flows: str, version: str = "1") -> Stage:
    """Sums up by key what it reads."""
    return Stage(
        "count",
        inputs={flow: InputFlow("key") for flow in flows or ("units",)},
        outputs={"sums": READ},
        translate=_sum,
        state=STATE,
        version=version,
    )


@pytest.fixture
def flow(tmp_path: Path) -> ScriptedFlow:
    return ScriptedFlow(tmp_path, ("pages", "sums"), READ)


def write(flow: ScriptedFlow, **numbers: int) -> None:
    flow.containers["pages"] += [{"key": key, "n": n} for key, n in numbers.items()]


def parsed(flow: ScriptedFlow, **request: Any) -> dict[str, str]:
    return flow.run("parse", parse(), flow.request(out=("even", "all"), **request))


def counted(flow: ScriptedFlow, *units: str, **request: Any) -> dict[str, str]:
    return flow.run("count", count(), flow.request({"units": units}, **request))


def sums(flow: ScriptedFlow) -> dict[str, int]:
    return {row["key"]: row["n"] for row in flow.outputs.get("sums", ())}


def test_a_stage_reads_what_another_has_made(flow: ScriptedFlow) -> None:
    write(flow, a=1, b=2)
    counted(flow, parsed(flow)["all"])
    write(flow, a=3)
    counted(flow, parsed(flow)["all"])
    assert sums(flow) == {"a": 4, "b": 2}


def test_several_increments_are_read_as_one(flow: ScriptedFlow) -> None:
    names = []
    for n in range(3):
        write(flow, a=n, b=1)
        names.append(parsed(flow)["all"])
    counted(flow, *names)
    assert sums(flow) == {"a": 3, "b": 3}


def test_each_output_flow_has_an_increment_with_its_rows_though_it_be_empty(
    flow: ScriptedFlow,
) -> None:
    write(flow, a=1, b=3)
    names = parsed(flow)
    result = decode_result(flow.results["parse"])
    assert result is not None
    assert result.rows == {"even": 0, "all": 2}
    counted(flow, names["even"])
    assert sums(flow) == {}


def test_a_flow_that_nobody_may_read_makes_no_increment(flow: ScriptedFlow) -> None:
    write(flow, a=1)
    assert flow.run("parse", parse(), flow.request(out=("all",))).keys() == {"all"}


def test_a_flow_may_be_read_and_written_to_a_container(flow: ScriptedFlow) -> None:
    write(flow, a=1)
    names = counted(flow, parsed(flow)["all"], out=("sums",))
    assert sums(flow) == {"a": 1}
    flow.run("again", count(), flow.request({"units": (names["sums"],)}))


def test_a_flow_of_which_nothing_is_read_has_its_columns(flow: ScriptedFlow) -> None:
    write(flow, a=2)
    names = parsed(flow)
    stage = count("even", "all")
    for reads in ({"even": (), "all": (names["all"],)}, {"even": (names["even"],), "all": ()}):
        flow.run("count", stage, flow.request(reads))
    assert sums(flow) == {"a": 4}


@pytest.mark.parametrize("seed", seeds(6, 20))
def test_sums_over_flows_are_those_over_all_that_was_written(seed: int, tmp_path: Path) -> None:
    drawn = random.Random(seed)
    flow = ScriptedFlow(tmp_path, ("pages", "sums"), READ)
    waiting: list[str] = []
    for _ in range(30):
        if drawn.random() < 0.6:
            write(flow, **{drawn.choice("abcdef"): drawn.randrange(9) for _ in range(4)})
            waiting.append(parsed(flow, needed=tuple(waiting))["all"])
        elif waiting:
            taken = drawn.randint(1, len(waiting))
            counted(flow, *waiting[:taken])
            del waiting[:taken]
        if drawn.random() < 0.2:
            # An attempt of a run that nobody commits leaves files, and nothing else.
            lost = flow.attempt("parse", flow.request(out=("even", "all"), needed=tuple(waiting)))
            parse()(cast(Run, lost))
    counted(flow, *waiting)
    expected: dict[str, int] = {}
    for row in flow.containers["pages"]:
        expected[row["key"]] = expected.get(row["key"], 0) + row["n"]
    assert sums(flow) == expected


# -- garbage -----------------------------------------------------------------------------------


def manifests(flow: ScriptedFlow, action: str) -> list[str]:
    return [n for n in FileStore.at(flow.path).names(f"flow%2F{action}/") if "manifest" in n]


def test_what_others_still_read_and_the_last_two_states_are_kept(flow: ScriptedFlow) -> None:
    names: list[str] = []
    for n in range(24):
        write(flow, a=n)
        names.append(parsed(flow, needed=tuple(names[:1]))["all"])
    kept = manifests(flow, "parse")
    assert len(kept) <= 8 + 2 + 1
    assert parse_increment_name(names[0]).manifest in kept
    counted(flow, names[0])
    assert sums(flow) == {"a": 0}
    assert len(list(flow.path.rglob("*.arrow"))) < 60


def test_of_an_increment_that_is_kept_only_what_is_read_stays(flow: ScriptedFlow) -> None:
    write(flow, a=2)
    name = parsed(flow)["all"]
    for n in range(23):
        write(flow, a=n)
        parsed(flow, needed=(name,))
    counted(flow, name)
    even = name.replace("#all", "#even")
    with pytest.raises(DamagedState):
        counted(flow, even)


def test_an_attempt_that_is_too_late_removes_nothing_of_who_went_on(flow: ScriptedFlow) -> None:
    for n in range(7):
        write(flow, a=n)
        parsed(flow)
    late = flow.attempt("parse", flow.request(out=("all",)))
    on_time: list[str] = []

    def slow(key: Any, flows: Any) -> Any:
        if not on_time:
            on_time.append(parsed(flow)["all"])
            write(flow, a=100)
            on_time.append(parsed(flow, needed=on_time[:1])["all"])
        return _pass(key, flows)

    write(flow, a=7)
    late = flow.attempt("parse", flow.request(out=("all",)))
    slow_parse = Stage(
        "parse",
        inputs={"pages": InputFlow("key")},
        outputs={"even": READ, "all": READ},
        translate=slow,
        state=STATE,
    )
    slow_parse(cast(Run, late))

    counted(flow, *on_time)
    write(flow, a=1)
    counted(flow, parsed(flow)["all"])
    assert sums(flow) == {"a": 108}


# -- other versions ------------------------------------------------------------------------------


def test_a_state_of_another_version_is_refused_until_somebody_says(flow: ScriptedFlow) -> None:
    write(flow, a=1)
    name = parsed(flow)["all"]
    counted(flow, name)
    with pytest.raises(ChangedStage, match=r"was '1' and is '2'.*rebuild .*on_change: keep"):
        flow.run("count", count(version="2"), flow.request({"units": ()}))
    keep = flow.request({"units": (name,)}, on_change=OnChange.KEEP)
    flow.run("count", count(version="2"), keep)
    assert sums(flow) == {"a": 2}


def test_a_state_is_given_as_its_stage_declares_it(flow: ScriptedFlow) -> None:
    declared = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    given = []

    def keep(groups: Groups) -> dict[str, pa.Table]:
        given.append(groups.flows["state"].select(["n"]).schema)
        return {"state": groups.flows["pages"].select(["n", GROUP])}

    stage = Stage(
        "keep",
        inputs={"pages": InputFlow("key")},
        outputs={},
        translate_tables=keep,
        state=StateFlow(declared),
    )
    for _ in range(2):
        write(flow, a=1)
        flow.run("keep", stage, flow.request())
    assert given == [declared, declared]


def test_a_state_of_an_earlier_version_is_gone_on_with(flow: ScriptedFlow) -> None:
    write(flow, a=1)
    parsed(flow)
    result = decode_result(flow.results["parse"])
    assert result is not None
    store = FileStore.at(flow.path)
    manifest = read_manifest(store, result.manifest)
    own = [("_hash", pa.int64()), ("_key", pa.binary()), ("_order", pa.binary())]
    before = pa.schema([*own, ("_deleted", pa.bool_()), *STATE.columns])
    schemas = {**manifest.schemas, "state": before.serialize().to_pybytes()}
    (flow.path / result.manifest).unlink()
    write_manifest(store, result.manifest, replace(manifest, schemas=schemas))
    write(flow, a=2)
    counted(flow, parsed(flow)["all"])


def test_a_stage_over_containers_is_rebuilt_from_all_they_hold(flow: ScriptedFlow) -> None:
    write(flow, a=1)
    flow.run("count", count("pages"), flow.request())
    write(flow, a=2)
    rebuild = flow.request(on_change=OnChange.REBUILD)
    flow.run("count", count("pages", version="2"), rebuild)
    assert sums(flow) == {"a": 3}


def test_a_stage_over_flows_is_rebuilt_only_with_who_makes_them(flow: ScriptedFlow) -> None:
    write(flow, a=1)
    counted(flow, parsed(flow)["all"])
    write(flow, a=2)
    more = parsed(flow)["all"]
    rebuild = flow.request({"units": (more,)}, on_change=OnChange.REBUILD)
    with pytest.raises(ChangedStage, match="what was read of `units` is not kept"):
        flow.run("count", count(version="2"), rebuild)

    whole = flow.request(out=("all",), on_change=OnChange.REBUILD)
    again = flow.run("parse", parse(version="2"), whole)["all"]
    rebuild = flow.request({"units": (again,)}, on_change=OnChange.REBUILD)
    flow.run("count", count(version="2"), rebuild)
    assert sums(flow) == {"a": 3}


def test_a_flow_that_was_a_container_is_another_stage(flow: ScriptedFlow) -> None:
    write(flow, a=1)
    flow.run("count", count("pages"), flow.request())
    name = parsed(flow)["all"]
    keep = flow.request({"pages": (name,)}, on_change=OnChange.KEEP)
    with pytest.raises(ChangedStage, match="`pages` was a container"):
        flow.run("count", count("pages"), keep)


def test_what_a_step_has_named_is_no_state(flow: ScriptedFlow) -> None:
    flow.results["count"] = "my-model-7"
    with pytest.raises(ChangedStage, match="was no stage when it last ran"):
        counted(flow)


# -- what is wrong -------------------------------------------------------------------------------


def test_a_stage_run_as_a_step_is_refused(flow: ScriptedFlow) -> None:
    with pytest.raises(StageError, match="`stage:` instead of `step:`"):
        count()(cast(Run, flow.attempt("count")))


@pytest.mark.parametrize(
    ("reads", "out", "words"),
    [
        ({}, (), "input flow `units` .* neither in `in`"),
        ({"units": (), "links": ()}, (), "names `links` in `in`.* but units"),
        ({"units": ()}, ("links",), "names `links` in `out`.* but sums"),
    ],
)
def test_flows_that_the_stage_does_not_have_are_told(
    reads: dict[str, Any], out: tuple[str, ...], words: str, flow: ScriptedFlow
) -> None:
    with pytest.raises(StageError, match=words):
        flow.run("count", count(), flow.request(reads, out))


def test_an_increment_that_is_gone_is_named(flow: ScriptedFlow) -> None:
    write(flow, a=1)
    name = parsed(flow)["all"]
    for file in flow.path.rglob("*.manifest"):
        file.unlink()
    with pytest.raises(DamagedState, match=r"\.manifest"):
        counted(flow, name)


def test_increments_with_other_columns_are_not_read_as_one(flow: ScriptedFlow) -> None:
    write(flow, a=1)
    name = parsed(flow)["all"]
    other = Stage(
        "parse",
        inputs={"pages": InputFlow("key")},
        outputs={"all": {"key": "string", "n": "double"}},
        translate=lambda _, flows: {"state": [], "all": flows["pages"]},
        state=STATE,
    )
    name = parsed(flow)["all"]
    for _ in range(2):
        another = flow.run("other", other, flow.request(out=("all",)))["all"]
    with pytest.raises(StageError, match="different columns"):
        counted(flow, name, another)
