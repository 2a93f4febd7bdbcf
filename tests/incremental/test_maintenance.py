"""Maintenance: other files and the same state, whoever is killed, and whoever comes first."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mortal_files import Killed, Lives, MortalStore
from scripted_runs import ScriptedFlow
from stages_of_tests import counter
from tests.incremental.state.states import STAGE, batches_of, written
from tests.seeds import seeds

from headgate.incremental import WHOLLY, StageError, Upkeep, maintain, maintain_stage, upkeep_due
from headgate.incremental.running import StageRun
from headgate.incremental.state import (
    WHOLE,
    Bucket,
    BucketReader,
    BucketState,
    FileRef,
    FileStore,
    Manifest,
    Match,
    Run,
    Writer,
    key_value,
    read_manifest,
    split,
    write_manifest,
)
from headgate.incremental.state.compaction import TIERS
from headgate.spark import Run as StepRun
from headgate.spark import decode_result

KEYED = pa.schema({"key": pa.int64(), "n": pa.int64()})
WRITER = Writer(STAGE, "maintenance", 1, "host")
GROUPS = st.lists(
    st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.none() | st.integers(0, 9), max_size=12),
    min_size=1,
    max_size=5,
)
"""Runs, the oldest first: by hash a value, or none where the group is gone."""


def ref_of(length: int, marks: tuple[int, ...] = (0,)) -> FileRef:
    return FileRef(f"f{length}", length, b"", 1, min(marks), max(marks), marks)


def bucket_of(base: int, *runs: int, marks: tuple[int, ...] = (-1, 0)) -> BucketState:
    return BucketState(WHOLE, ref_of(base, marks), tuple(ref_of(n, marks) for n in runs))


@pytest.mark.parametrize(
    "state",
    [
        BucketState(WHOLE),
        bucket_of(100),
        bucket_of(100, 99),
        bucket_of(1000, marks=(5, 5, 5, 5)),
        bucket_of(1000, marks=(-1, *range(9))),
    ],
)
def test_mostly_nothing_is_needed(state: BucketState) -> None:
    assert upkeep_due([state], largest=200) == []


def test_a_base_is_due_when_its_runs_are_as_large() -> None:
    assert upkeep_due([bucket_of(100, 60, 40)]) == [Upkeep(WHOLE, (WHOLE,))]


def test_the_most_urgent_comes_first() -> None:
    low, high = split(WHOLE)
    states = [
        BucketState(low, ref_of(10), (ref_of(20),)),
        BucketState(high, ref_of(1), (ref_of(9),)),
    ]
    assert [upkeep.bucket for upkeep in upkeep_due(states)] == [high, low]


def test_what_is_too_large_is_split() -> None:
    assert upkeep_due([bucket_of(201)], largest=200) == [Upkeep(WHOLE, split(WHOLE))]


def test_a_bucket_of_the_most_bits_is_not_split() -> None:
    narrow = Bucket(32, 7)
    marks = (narrow.first, narrow.last)
    assert upkeep_due([BucketState(narrow, ref_of(201, marks))], largest=200) == []


def state_of(store: FileStore, name: str) -> list[tuple[int, int]]:
    """Hashes and values of what is in force, by hash."""
    found = []
    for state in read_manifest(store, name).buckets:
        runs = [Run(store, ref, STAGE) for ref in state.files]
        if runs:
            for batch in BucketReader(runs, Match.GROUP, state.bucket).everything():
                found += [(row["_hash"], row["value"]) for row in batch.to_pylist()]
    return sorted(found)


def begun(store: FileStore, groups: list[dict[int, int | None]]) -> tuple[str, list[Any]]:
    """Write a state of one bucket; return its manifest's name and what is in force."""
    refs = [
        written(store, [(hash_, b"k", b"", value) for hash_, value in each.items()])
        for each in groups
    ]
    name = WRITER.manifest_name()
    bucket = BucketState(WHOLE, refs[0], tuple(refs[1:]))
    cursors = {"in": b"here"}
    manifest = Manifest(
        STAGE, "1", 7, Match.GROUP, (bucket,), cursors=cursors, outputs={"o": (*refs,)}
    )
    write_manifest(store, name, manifest)
    now: dict[int, int | None] = {}
    for each in groups:
        now |= each
    return name, sorted((h, v) for h, v in now.items() if v is not None)


@given(GROUPS, st.integers(200, 4000), st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_state_is_the_same_and_there_is_an_end(
    tmp_path_factory: pytest.TempPathFactory,
    groups: list[dict[int, int | None]],
    largest: int,
    wholly: bool,
) -> None:
    store = FileStore.at(tmp_path_factory.mktemp("state"))
    tiers = WHOLLY if wholly else TIERS
    with batches_of(2):
        name, expected = begun(store, groups)
        for _ in range(60):
            done = maintain(store, WRITER, name, largest=largest, tiers=tiers)
            if done is None:
                break
            before, after = read_manifest(store, name), read_manifest(store, done.manifest)
            assert (after.previous, after.outputs) == (name, {"o": ()})
            assert (after.epoch, after.cursors) == (before.epoch, before.cursors)
            name = done.manifest
            assert state_of(store, name) == expected
        else:
            pytest.fail("maintenance has no end")
    buckets = read_manifest(store, name).buckets
    assert upkeep_due(buckets, largest, tiers) == []
    if wholly:
        assert all(not state.runs for state in buckets)


def test_one_hot_hash_is_not_split_for_ever(tmp_path: Path) -> None:
    store = FileStore.at(tmp_path)
    with batches_of(2):
        rows = [(5, f"{at:03}".encode(), b"", at) for at in range(100)]
        ref = written(store, [(-9, b"a", b"", 1), *rows, (2**62, b"z", b"", 2)])
        name = WRITER.manifest_name()
        bucket = BucketState(WHOLE, ref)
        write_manifest(store, name, Manifest(STAGE, "1", 1, Match.GROUP, (bucket,)))
        assert maintain(store, WRITER, name, largest=100) is None


def test_a_kill_at_any_write_leaves_the_state_of_before(tmp_path: Path) -> None:
    name, expected = begun(FileStore.at(tmp_path), [{1: 1, -2: 2}, {1: None, 2**62: 3}])
    points = 0
    while True:
        try:
            done = maintain(
                MortalStore(tmp_path, Lives(points)), WRITER, name, largest=1, tiers=WHOLLY
            )
        except Killed:
            points += 1
            assert state_of(FileStore.at(tmp_path), name) == expected
            continue
        break
    assert done is not None
    assert points >= 10
    assert state_of(FileStore.at(tmp_path), done.manifest) == expected


class Head:
    """Which result an action has last committed, moved by compare-and-set alone."""

    def __init__(self) -> None:
        self.result = ""

    def commit(self, run: Any) -> bool:
        if not run.result or run.previous != self.result:
            return False
        self.result = run.result
        return True


class World:
    """Epochs and maintenance of one stage, from the same state at once."""

    def __init__(self, folder: Path) -> None:
        self.flow = ScriptedFlow(folder, ["in"], KEYED)
        self.head = Head()
        self.sums: dict[int, int] = {}
        self.committed = 0

    def attempt(self) -> Any:
        self.flow.results["action"] = self.head.result
        return self.flow.attempt("action", self.flow.request(out=["counts"]))

    def epoch(self) -> Any:
        run = self.attempt()
        StageRun(counter().spec, run, run.stage, FileStore.at(self.flow.path)).carry_out()
        return run

    def maintenance(self) -> Any:
        run = self.attempt()
        maintain_stage(cast(StepRun, run), tiers=WHOLLY)
        return run

    def add(self, key: int, n: int) -> None:
        self.flow.containers["in"].append({"key": key, "n": n})
        self.sums[key] = self.sums.get(key, 0) + n

    def check(self) -> None:
        result = decode_result(self.head.result)
        assert result is not None
        store = FileStore.at(self.flow.path)
        found: dict[Any, int] = {}
        for state in read_manifest(store, result.manifest).buckets:
            runs = [Run(store, ref, "flow/action") for ref in state.files]
            if runs:
                for batch in BucketReader(runs, Match.GROUP, state.bucket).everything():
                    found |= {key_value(row["_key"]): row["n"] for row in batch.to_pylist()}
        assert found == {key: n for key, n in self.sums.items() if n}


@pytest.mark.parametrize("seed", seeds(2, 8))
def test_an_epoch_and_maintenance_at_once_lose_nothing(seed: int, tmp_path: Path) -> None:
    drawn = random.Random(seed)
    world = World(tmp_path)
    maintained = 0
    for _ in range(40):
        for _ in range(drawn.randrange(5)):
            world.add(drawn.randrange(9), drawn.randrange(-2, 4))
        if drawn.random() < 0.5:
            epoch, other = world.epoch(), world.maintenance()
        else:
            other, epoch = world.maintenance(), world.epoch()
        order = [epoch, other] if drawn.random() < 0.5 else [other, epoch]
        first, second = (world.head.commit(run) for run in order)
        assert not (first and second), "both began with one state"
        maintained += order[0] is other and first
        if not (order[0] is epoch or not first):
            assert world.head.commit(world.epoch())
        world.check()
    assert maintained, "maintenance never came first"


def test_maintenance_puts_nothing_out_and_the_next_epoch_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    for key in range(7):
        world.add(key, 1)
        assert world.head.commit(world.epoch())
    run = world.maintenance()
    assert world.head.commit(run)
    result = decode_result(run.result)
    assert result is not None
    assert result.produced == ()
    world.check()
    world.add(1, 5)
    assert world.head.commit(world.epoch())
    world.check()


def test_where_nothing_is_needed_the_run_names_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.maintenance().result == ""
    world.add(1, 1)
    assert world.head.commit(world.epoch())
    files = FileStore.at(tmp_path).names()
    assert world.maintenance().result == ""
    assert FileStore.at(tmp_path).names() == files


def test_an_action_that_is_no_stage_is_told(tmp_path: Path) -> None:
    flow = ScriptedFlow(tmp_path, ["in"], KEYED)
    with pytest.raises(StageError, match="no stage"):
        maintain_stage(cast(StepRun, flow.attempt("action")))
