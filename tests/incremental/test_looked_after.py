"""States that people look after: read, rebuilt, compacted, and found damaged."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from scripted_runs import ScriptedFlow, ScriptedRun

from headgate.engine import RunPurpose
from headgate.incremental import (
    Comparison,
    DamagedState,
    DifferentColumns,
    InputFlow,
    NoState,
    Stage,
    StateFlow,
    StoredState,
    Tiers,
    compare_states,
    comparing,
)
from headgate.incremental import stored as stored_states
from headgate.incremental.epochs import epoch
from headgate.incremental.state import batches
from headgate.incremental.state.compaction import plan
from headgate.incremental.state.errors import ChangedStage
from headgate.spark import Run, decode_result

READ = pa.schema({"key": pa.string(), "n": pa.int64()})
REBUILD, COMPACT, UPKEEP = RunPurpose.REBUILD, RunPurpose.COMPACT, RunPurpose.UPKEEP


def _sum(key: Any, flows: Any) -> dict[str, list[dict[str, Any]]]:
    n = sum(row["n"] for name in flows for row in flows[name])
    kept = [{"n": n}] if n else []
    return {"state": kept, "sums": [{"key": str(key), "n": n}]}


def count(*flows: str, route_by: Any = "key") -> Stage:
    """Sums up by key what it reads; of a sum of 0 nothing stays."""
    return Stage(
        "count",
        inputs={flow: InputFlow(route_by) for flow in flows or ("pages",)},
        outputs={"sums": READ},
        translate=_sum,
        state=StateFlow(pa.schema({"n": pa.int64()})),
    )


@pytest.fixture
def flow(tmp_path: Path) -> ScriptedFlow:
    return ScriptedFlow(tmp_path, ("pages", "sums"), READ)


def write(flow: ScriptedFlow, **numbers: int) -> None:
    flow.containers["pages"] += [{"key": key, "n": n} for key, n in numbers.items()]


def counted(flow: ScriptedFlow, purpose: RunPurpose = RunPurpose.ADVANCE) -> dict[str, str]:
    return flow.run("count", count(), flow.request(out=("sums",), purpose=purpose))


def begun(flow: ScriptedFlow) -> ScriptedRun:
    """Return an attempt of an epoch that has not done anything yet."""
    return flow.attempt("count", flow.request(out=("sums",)))


def stored(flow: ScriptedFlow) -> StoredState:
    result = decode_result(flow.results["count"])
    assert result is not None
    return StoredState(str(flow.path), "flow", "count", result.manifest)


def known(flow: ScriptedFlow) -> dict[Any, int]:
    return {row["_key"]: row["n"] for row in stored(flow).arrow().to_pylist()}


# -- read ----------------------------------------------------------------------------------------


def test_a_state_is_read_with_its_keys_what_is_gone_left_out(flow: ScriptedFlow) -> None:
    write(flow, a=1, b=2, c=3)
    counted(flow)
    write(flow, a=-1, b=5)
    counted(flow)
    assert known(flow) == {"b": 7, "c": 3}
    frame = stored(flow).pandas()
    assert sorted(zip(frame["_key"], frame["n"], strict=True)) == [("b", 7), ("c", 3)]


def test_groups_are_found_by_their_keys_alone(flow: ScriptedFlow) -> None:
    write(flow, **{f"k{n}": n + 1 for n in range(200)})
    counted(flow)
    found = stored(flow).arrow(["k7", "k199", "none", "k7"])
    assert sorted(found.to_pylist(), key=str) == [
        {"_key": "k199", "n": 200},
        {"_key": "k7", "n": 8},
    ]


@pytest.mark.parametrize(
    ("route_by", "keys"),
    [
        (lambda unit: unit["n"], [1, 2]),
        (lambda unit: (unit["key"], unit["n"]), ["('a', 1)", "('b', 2)"]),
        (lambda unit: unit["n"] if unit["n"] == 1 else unit["key"], ["'b'", "1"]),
        (lambda unit: None if unit["n"] == 1 else unit["key"], [None, "b"]),
    ],
)
def test_keys_have_their_type_where_it_is_one(
    flow: ScriptedFlow, route_by: Any, keys: list[Any]
) -> None:
    write(flow, a=1, b=2)
    flow.run("count", count(route_by=route_by), flow.request())
    assert sorted(known(flow), key=str) == sorted(keys, key=str)


def test_a_state_is_read_in_pieces_of_one_schema(
    flow: ScriptedFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second run's key is of another type, so that no piece alone knows what holds all.
    write(flow, **{f"k{n}": n + 1 for n in range(20)})
    mixed = count(route_by=lambda unit: 7 if unit["key"] == "other" else unit["key"])
    flow.run("count", mixed, flow.request(out=("sums",)))
    write(flow, other=0)
    flow.containers["pages"][-1]["n"] = 5
    flow.run("count", mixed, flow.request(out=("sums",)))
    monkeypatch.setattr(stored_states, "_PIECE", 4)
    pieces = list(stored(flow).pieces())
    assert {piece.schema for piece in pieces} == {
        pa.schema([("_key", pa.string()), ("n", pa.int64())])
    }
    assert max(map(len, pieces)) == 4
    assert pa.concat_tables(pieces) == stored(flow).arrow()
    assert known(flow) == {repr(f"k{n}"): n + 1 for n in range(20)} | {"7": 5}


@pytest.mark.parametrize("limit", [1, 4, 5, 19, 20, 100])
def test_a_limit_is_met_across_pieces(
    flow: ScriptedFlow, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    write(flow, **{f"k{n}": n + 1 for n in range(20)})
    counted(flow)
    monkeypatch.setattr(stored_states, "_PIECE", 4)
    assert stored(flow).arrow(limit=limit) == stored(flow).arrow().slice(0, limit)


def test_without_a_name_the_newest_state_is_read(flow: ScriptedFlow) -> None:
    for n in (1, 2, 3):
        write(flow, a=n)
        counted(flow)
    assert StoredState(str(flow.path), "flow", "count").manifest.epoch == 3


def test_a_place_without_a_state_has_none(flow: ScriptedFlow) -> None:
    with pytest.raises(NoState, match="has no state of `flow/count`"):
        StoredState(str(flow.path), "flow", "count")


# -- rebuilt and compacted -----------------------------------------------------------------------


def test_a_rebuild_begins_with_nothing_and_reads_everything(flow: ScriptedFlow) -> None:
    write(flow, a=1, b=2)
    counted(flow)
    write(flow, a=1)
    counted(flow)
    del flow.containers["pages"][0]  # what an update of it has replaced
    counted(flow, REBUILD)
    assert known(flow) == {"a": 1, "b": 2}
    assert stored(flow).manifest.epoch == 1


def test_a_rebuild_does_not_need_what_it_replaces(flow: ScriptedFlow) -> None:
    write(flow, a=1)
    counted(flow)
    shutil.rmtree(flow.path / "flow%2Fcount")
    counted(flow, REBUILD)
    counted(flow, COMPACT)
    write(flow, a=2)
    counted(flow)
    assert known(flow) == {"a": 3}


def test_a_rebuild_over_a_flow_that_does_not_come_whole_is_refused(flow: ScriptedFlow) -> None:
    write(flow, a=1)
    counted(flow)
    write(flow, a=2)
    name = counted(flow)["sums"]
    request = flow.request({"units": (name,)}, purpose=REBUILD)
    flow.run("next", count("units"), flow.request({"units": (name,)}))
    with pytest.raises(ChangedStage, match="what was read of `units` is not kept"):
        flow.run("next", count("units"), request)


def test_a_rebuild_with_its_source_comes_to_what_it_would_from_scratch(flow: ScriptedFlow) -> None:
    for n in (1, 2):
        write(flow, a=n, b=1)
        units = counted(flow)["sums"]
        flow.run("next", count("units"), flow.request({"units": (units,)}))
    whole = counted(flow, REBUILD)["sums"]
    flow.run("next", count("units"), flow.request({"units": (whole,)}, purpose=REBUILD))
    result = decode_result(flow.results["next"])
    assert result is not None
    after = StoredState(str(flow.path), "flow", "next", result.manifest).arrow().to_pylist()
    assert {row["_key"]: row["n"] for row in after} == {"a": 3, "b": 2}


def test_a_compaction_leaves_the_rows_and_one_file_a_bucket(flow: ScriptedFlow) -> None:
    write(flow, **{f"k{n}": 5 for n in range(500)})
    counted(flow)
    write(flow, a=2, k1=-5)
    counted(flow)
    before, rows = known(flow), stored(flow)
    assert any(bucket.runs for bucket in rows.manifest.buckets)
    write(flow, a=100)  # which waits
    names = counted(flow, COMPACT)
    assert names == {}, "it makes no increments"
    after = stored(flow)
    assert known(flow) == before
    assert all(len(bucket.files) <= 1 for bucket in after.manifest.buckets)
    assert sum(ref.rows for b in after.manifest.buckets for ref in b.files) == len(before)
    assert after.manifest.cursors == rows.manifest.cursors
    counted(flow)
    assert known(flow)["a"] == before["a"] + 100


def test_a_compaction_that_nobody_commits_changes_nothing(flow: ScriptedFlow) -> None:
    for n in (1, 2):
        write(flow, a=n)
        counted(flow)
    lost = flow.attempt("count", flow.request(out=("sums",), purpose=COMPACT))
    write(flow, a=3)
    counted(flow)
    count()(cast(Run, lost))
    write(flow, a=4)
    counted(flow)
    assert known(flow) == {"a": 10}
    assert list(stored(flow).damaged()) == []


# -- damaged -------------------------------------------------------------------------------------


def _missing(path: Path) -> None:
    path.unlink()


def _short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _of_another(path: Path) -> None:
    others = path.parent.parent / "flow%2Fother"
    [other] = [one for one in others.iterdir() if one.stat().st_size == path.stat().st_size]
    path.write_bytes(other.read_bytes())


@pytest.mark.parametrize("damage", [_missing, _short, _of_another])
def test_a_run_over_a_damaged_state_names_the_file_and_the_cure(
    flow: ScriptedFlow, damage: Callable[[Path], None]
) -> None:
    write(flow, a=1)
    counted(flow)
    flow.run("other", count(), flow.request())
    [ref] = [ref for bucket in stored(flow).manifest.buckets for ref in bucket.files]
    path = flow.path / ref.name
    damage(path)
    [found] = stored(flow).damaged()
    assert found.file == str(path)
    write(flow, a=2)
    before = flow.results["count"]
    with pytest.raises(DamagedState) as raised:
        counted(flow)
    assert str(path) in str(raised.value)
    assert str(raised.value).endswith("headgate stage rebuild flow count --with-sources")
    assert flow.results["count"] == before
    counted(flow, REBUILD)
    assert known(flow) == {"a": 3}


def test_a_lost_manifest_is_no_empty_state(flow: ScriptedFlow) -> None:
    write(flow, a=1)
    counted(flow)
    shutil.rmtree(flow.path / "flow%2Fcount")
    with pytest.raises(DamagedState, match=r"is missing; .*headgate stage rebuild flow count"):
        counted(flow)


# -- upkeep, and attempts that come too late -------------------------------------------------------


def test_an_epoch_says_when_files_need_upkeep_and_a_run_of_upkeep_is_enough(
    flow: ScriptedFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = Tiers(small=0)  # as if each base were too large for an epoch to merge
    monkeypatch.setattr(epoch, "plan", lambda base, runs: plan(base, runs, large))
    asked = []
    for n in range(12):
        write(flow, **{f"k{key}": n + 1 for key in range(40)})
        counted(flow)
        result = decode_result(flow.results["count"])
        while result is not None and result.upkeep:
            asked.append(n)
            before = known(flow)
            assert counted(flow, UPKEEP) == {}
            result = decode_result(flow.results["count"])
            assert known(flow) == before
    assert asked
    assert len(set(asked)) < 12, "not after each epoch"
    assert known(flow) == {f"k{key}": 78 for key in range(40)}


def test_an_attempt_that_is_too_late_takes_nothing_from_those_after_it(flow: ScriptedFlow) -> None:
    for n in range(7):
        write(flow, **{f"k{key}": 1 for key in range(n + 5)})
        counted(flow)
    late = begun(flow)
    for _ in range(2):
        write(flow, k1=1)
        counted(flow)
    count()(cast(Run, late))  # its epoch is one of those that collect
    write(flow, k1=1)
    counted(flow)
    assert known(flow)["k1"] == 10
    assert list(stored(flow).damaged()) == []


def test_an_attempt_takes_nothing_from_a_later_one_of_its_run(flow: ScriptedFlow) -> None:
    for _ in range(7):
        write(flow, a=1)
        counted(flow)
    late = begun(flow)
    folder = next(flow.path.iterdir())
    writing = folder / f"{late.id}.2.other.1.arrow"
    writing.touch()
    garbage = folder / "count-1.1.other.1.arrow"
    garbage.touch()
    count()(cast(Run, late))
    assert writing.exists()
    assert not garbage.exists()


# -- compared ------------------------------------------------------------------------------------


def compared(flow: ScriptedFlow, **options: Any) -> Comparison:
    now = stored(flow)
    return compare_states(now, now.at(now.manifest.previous), **options)


def test_a_rebuilt_state_is_the_one_that_its_increments_made(flow: ScriptedFlow) -> None:
    write(flow, **{f"k{n}": n + 1 for n in range(50)})
    counted(flow)
    write(flow, k0=4, k3=-4)
    counted(flow)
    counted(flow, REBUILD)
    assert compared(flow) == Comparison(49, 0, [])  # the group that is gone was drawn, too


def test_groups_of_which_rows_differ_are_named_with_both(flow: ScriptedFlow) -> None:
    write(flow, a=1, b=2, c=3, d=4)
    counted(flow)
    flow.containers["pages"] = []
    write(flow, a=1, b=5, c=3, e=6)
    counted(flow, REBUILD)
    found = compared(flow)
    assert (found.groups, found.different) == (5, 3)
    assert sorted((each.key, each.rows, each.other) for each in found.examples) == [
        ("b", [{"n": 5}], [{"n": 2}]),
        ("d", [], [{"n": 4}]),
        ("e", [{"n": 6}], []),
    ]
    assert len(compared(flow, examples=2).examples) == 2


def test_of_large_states_so_many_groups_are_drawn_from_both(
    flow: ScriptedFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "_AT_ONCE", 7)
    monkeypatch.setattr(batches, "BATCH_ROWS", 5)
    write(flow, **{f"k{n}": n + 1 for n in range(400)})
    counted(flow)
    flow.containers["pages"] = []
    write(flow, **{f"k{n}": n + 2 for n in range(200, 600)})
    counted(flow, REBUILD)
    found = compared(flow, sample=100, examples=1000, seed=1)
    assert 80 < found.groups <= 100
    assert found.different == found.groups == len(found.examples)
    drawn = [int(str(each.key)[1:]) for each in found.examples]
    assert min(drawn) < 200, "of the one"
    assert max(drawn) >= 400, "of the other"
    assert compared(flow, sample=100, seed=2).examples != found.examples
    assert compared(flow).groups == 600


@pytest.mark.parametrize(
    ("rows", "others", "alike"),
    [
        ([{"n": 0.1 + 0.2}], [{"n": 0.3}], True),
        ([{"n": 0.3}], [{"n": 0.3001}], False),
        ([{"n": math.nan}], [{"n": math.nan}], True),
        ([{"n": math.nan}], [{"n": 1.0}], False),
        ([{"n": 1}, {"n": 2}], [{"n": 2}, {"n": 1}], True),
        ([{"n": 1}, {"n": 1}], [{"n": 1}], False),
        ([{"n": None}], [{"n": 0}], False),
    ],
)
def test_rows_are_compared_in_any_order_and_floating_numbers_nearly(
    rows: list[Any], others: list[Any], *, alike: bool
) -> None:
    assert comparing._alike(rows, others) is alike


def test_states_of_other_columns_are_not_compared(flow: ScriptedFlow) -> None:
    write(flow, a=1)
    counted(flow)
    columns = pa.schema({"n": pa.int64(), "m": pa.int64()})
    wider = Stage(
        "count",
        inputs={"pages": InputFlow("key")},
        outputs={"sums": READ},
        translate=lambda key, flows: {"state": [{"n": 1, "m": 2}]},
        state=StateFlow(columns),
    )
    flow.run("count", wider, flow.request(out=("sums",), purpose=REBUILD))
    with pytest.raises(DifferentColumns, match="m int64"):
        compared(flow)
