"""When runs are merged, and what that costs."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.incremental.state.states import WRITER, memory_store, run_of, seen

from headgate.incremental.state import (
    Match,
    Merge,
    Tiers,
    base_is_due,
    merge_runs,
    plan,
    plan_runs,
    split,
)
from headgate.incremental.state.buckets import WHOLE
from headgate.incremental.state.compaction import TIERS

SIZES = st.integers(0, 1 << 40)


@dataclass
class Bucketful:
    """Sizes of a bucket's files, as merges of rows that are all different leave them."""

    base: int
    runs: list[int] = field(default_factory=list)
    written: int = 0
    base_merges: list[float] = field(default_factory=list)

    def add(self, size: int) -> None:
        self.runs.append(size)
        self.written += size
        while (merge := plan(self.base, self.runs)) is not None:
            self._carry_out(merge)

    def _carry_out(self, merge: Merge) -> None:
        size = sum(self.runs[merge.first : merge.end])
        if merge.base:
            if self.base:
                self.base_merges.append(size / self.base)
            self.base, self.runs = self.base + size, []
            self.written += self.base
        else:
            self.runs[merge.first : merge.end] = [size]
            self.written += size


@given(st.integers(1, 1 << 30), st.integers(201, 10_000))
@settings(max_examples=40)
def test_equal_increments_are_written_at_most_five_times_in_a_hundred_epochs(delta, epochs):
    bucket = Bucketful(base=delta * epochs)

    for _ in range(100):
        bucket.add(delta)

    assert bucket.written <= 5 * 100 * delta
    assert bucket.base_merges == []


@given(st.lists(SIZES, max_size=120), SIZES)
def test_runs_of_a_bucket_stay_below_a_bound(sizes, base):
    bucket = Bucketful(base)

    for size in sizes:
        bucket.add(size)
        assert len(bucket.runs) <= TIERS.most


@given(st.lists(SIZES, max_size=60))
def test_few_runs_of_a_tier_are_left(sizes):
    runs: list[int] = []
    for size in sizes:
        runs.append(size)
        while (merge := plan_runs(runs)) is not None:
            assert not merge.base
            assert merge.end - merge.first >= 2
            runs[merge.first : merge.end] = [sum(runs[merge.first : merge.end])]

    largest = max(runs, default=0)
    tiers = 1
    while largest >= TIERS.factor**tiers:
        tiers += 1
    assert len(runs) <= (TIERS.fan - 1) * tiers


@given(st.lists(SIZES, max_size=60), st.integers(1, 1 << 40))
def test_the_base_is_merged_only_when_the_runs_have_reached_its_share(sizes, base):
    bucket = Bucketful(base)

    for size in sizes:
        bucket.add(size)

    assert all(share >= TIERS.share for share in bucket.base_merges)
    assert not base_is_due(bucket.base, bucket.runs)


def test_the_first_base_is_made_of_a_few_runs():
    assert plan(0, [5] * (TIERS.fan - 1)) is None
    assert plan(0, [5] * TIERS.fan) == Merge(0, TIERS.fan, base=True)


def test_nothing_is_merged_where_there_is_nothing():
    assert plan(100, []) is None
    assert plan(0, []) is None


def test_equal_runs_are_merged_and_larger_older_ones_are_not():
    assert plan(10**9, [1000, 10, 10, 10, 10]) == Merge(1, 5)
    assert plan(10**9, [1000, 100, 10, 1]) is None


@pytest.mark.parametrize(
    "wrong", [{"fan": 1}, {"factor": 5}, {"factor": 1}, {"most": 3}, {"share": 0.0}]
)
def test_tiers_that_could_not_work_are_refused(wrong):
    with pytest.raises(ValueError, match="do not hold"):
        Tiers(**wrong)


def test_tombstones_stay_while_there_is_something_older_to_hide():
    store = memory_store()
    old = run_of(store, [(1, b"a", b"", 1), (1, b"b", b"", 2)])
    new = run_of(store, [(1, b"a", b"", None), (2, b"c", b"", 3)])

    kept, dropped = (
        merge_runs(store, WRITER.rows_name(), [old, new], Match.GROUP, drop_tombstones=drop)
        for drop in (False, True)
    )

    live = [(1, b"b", b"", 2), (2, b"c", b"", 3)]
    files = [type(old)(store, ref, old.stage) for ref in (kept, dropped)]
    assert seen(files[0].batches()) == [(1, b"a", b"", None), *live]
    assert seen(files[1].batches()) == live


def test_a_merge_of_rows_that_are_all_gone_is_an_empty_run():
    store = memory_store()
    old = run_of(store, [(1, b"a", b"", 1)])
    new = run_of(store, [(1, b"a", b"", None)])

    ref = merge_runs(store, WRITER.rows_name(), [old, new], Match.GROUP, drop_tombstones=True)

    assert (ref.rows, ref.first > ref.last) == (0, True)
    assert seen(type(old)(store, ref, old.stage).batches()) == []


def test_a_split_is_two_slices():
    store = memory_store()
    rows = [(-5, b"a", b"", 1), (-1, b"b", b"", 2), (0, b"c", b"", 3), (9, b"d", b"", 4)]
    run = run_of(store, rows)

    found = {}
    for half in split(WHOLE):
        ref = merge_runs(
            store, WRITER.rows_name(), [run], Match.GROUP, drop_tombstones=True, bucket=half
        )
        found[half.prefix] = seen(type(run)(store, ref, run.stage).batches())

    assert found == {0: rows[2:], 1: rows[:2]}
