"""When runs are merged, and what that costs."""

import math
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
    """Sizes of a bucket's files, as merges of rows that are all different leave them.

    Where ``updates`` is true each run is of rows that the base has already, drawn anew.
    """

    base: float
    runs: list[float] = field(default_factory=list)
    written: float = 0
    base_merges: list[float] = field(default_factory=list)
    most: int = 0
    updates: bool = False

    def add(self, size: int) -> None:
        self.runs.append(size)
        self.written += size
        while (merge := plan(int(self.base), [int(run) for run in self.runs])) is not None:
            self._carry_out(merge)
        self.most = max(self.most, len(self.runs))

    def maintain(self) -> None:
        if base_is_due(int(self.base), [int(run) for run in self.runs]):
            self._carry_out(Merge(0, len(self.runs), base=True))

    def size_of(self, runs: list[float]) -> float:
        """Of what is in force of runs."""
        if not self.updates:
            return sum(runs)
        return self.base * (1 - math.prod(1 - min(run / self.base, 1) for run in runs))

    def _carry_out(self, merge: Merge) -> None:
        taken = self.runs[merge.first : merge.end]
        if merge.base:
            if self.base:
                self.base_merges.append(sum(taken) / self.base)
            self.base += 0 if self.updates else sum(taken)
            self.runs = []
            self.written += self.base
        else:
            size = self.size_of(taken)
            self.runs[merge.first : merge.end] = [size]
            self.written += size

    @property
    def due(self) -> float:
        """Bytes of the next merge of the base that what is there has caused already."""
        return min(sum(self.runs) / (TIERS.share * self.base), 1) * self.base


@given(st.integers(1, 1 << 30), st.integers(201, 10_000))
@settings(max_examples=40)
def test_equal_increments_are_written_at_most_five_times_in_a_hundred_epochs(delta, epochs):
    bucket = Bucketful(base=delta * epochs)

    for _ in range(100):
        bucket.add(delta)

    assert bucket.written <= 5 * 100 * delta
    assert bucket.base_merges == []


@given(
    delta=st.integers(10_000, 1 << 24),
    ratio=st.integers(1, 2500),
    epochs=st.integers(100, 800),
    maintained=st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_updates_are_written_at_most_five_times_with_their_share_of_the_base(
    delta, ratio, epochs, maintained
):
    bucket = Bucketful(base=delta * ratio, updates=True)

    for _ in range(epochs):
        bucket.add(delta)
        if maintained:
            bucket.maintain()

    assert bucket.written + bucket.due <= 5 * epochs * delta
    assert bucket.most <= TIERS.most


@given(st.integers(100_000, 1 << 24), st.integers(100, 600))
@settings(max_examples=20, deadline=None)
def test_a_state_that_doubles_again_and_again_is_written_at_most_six_times(delta, epochs):
    bucket = Bucketful(base=delta)

    for _ in range(epochs):
        bucket.add(delta)
        bucket.maintain()

    assert bucket.written <= 6 * epochs * delta


def test_a_large_base_is_left_to_maintenance_until_that_is_overdue():
    base = TIERS.small + 1
    due, overdue = int(TIERS.share * base), int(TIERS.overdue * base)

    assert base_is_due(base, [due])
    assert plan(base, [due]) is None
    assert plan(base, [overdue]) == Merge(0, 1, base=True)
    assert plan(base - 1, [due]) == Merge(0, 1, base=True)


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
    if bucket.base <= TIERS.small:
        assert not base_is_due(int(bucket.base), [int(run) for run in bucket.runs])
    else:
        assert sum(bucket.runs) < TIERS.overdue * bucket.base


def test_the_first_base_is_made_of_a_few_runs():
    assert plan(0, [5] * (TIERS.fan - 1)) is None
    assert plan(0, [5] * TIERS.fan) == Merge(0, TIERS.fan, base=True)


def test_nothing_is_merged_where_there_is_nothing():
    assert plan(100, []) is None
    assert plan(0, []) is None


def test_equal_runs_are_merged_and_larger_older_ones_are_not():
    assert plan(10**9, [1000, *([10] * TIERS.fan)]) == Merge(1, 1 + TIERS.fan)
    assert plan(10**9, [100_000, 10_000, 1000, 100, 10, 1, 1, 1]) is None


@pytest.mark.parametrize(
    "wrong",
    [{"fan": 1}, {"factor": 9}, {"factor": 1}, {"most": 7}, {"share": 0.0}, {"overdue": 0.5}],
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
