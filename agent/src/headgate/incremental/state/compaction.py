"""Compaction: few runs per bucket, at a few times the bytes that the increments themselves are.

Runs of similar size are merged, so each row is written again once per tier of sizes. The base is
merged only once the runs have reached a stated share of it, so its cost is in proportion too. A
large base is not merged by an epoch, unless nobody else has done it for long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from msgspec import Struct

from headgate.incremental.state.buckets import WHOLE, Bucket
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.merging import alive, merged
from headgate.incremental.state.readers import one_schema
from headgate.incremental.state.rows import Match
from headgate.incremental.state.runs import Run, write_run


class Tiers(Struct, frozen=True):
    """How runs are merged.

    Raises:
        ValueError: a merge would be of fewer than two runs, or would not be of a higher tier.
    """

    fan: int = 8
    """Runs of one tier that are merged."""
    factor: int = 6
    """Size of a tier against the next lower one. Below ``fan``, so that a merge of similar runs
    leaves their tier though some of their rows are the same."""
    most: int = 24
    """Runs of a bucket: each costs a look-up a search."""
    share: float = 1.0
    """Of the base, that the runs reach before it is merged: a larger one writes less and leaves
    more that is obsolete on the disk."""
    overdue: float = 2.0
    """Share at which an epoch merges a large base, too: maintenance has not come."""
    small: int = 1 << 25
    """Bytes of a base that an epoch merges as soon as it is due: that takes less than to begin a
    run of its own."""

    def __post_init__(self) -> None:
        if not 2 <= self.factor <= self.fan <= self.most or not 0 < self.share <= self.overdue:
            message = f"2 <= factor <= fan <= most and 0 < share <= overdue do not hold of {self}"
            raise ValueError(message)


TIERS = Tiers()
WHOLLY = Tiers(share=1e-12)
"""By which each bucket with a run besides its base is due: nothing obsolete is to be left."""


class Merge(Struct, frozen=True):
    """What to merge next: neighbours, so that newer ones still win."""

    first: int
    """Index of the oldest run that takes part."""
    end: int
    """Index after the newest one."""
    base: bool = False
    """Whether the base takes part too, or, where there is none yet, is made."""


def plan(base: int, runs: Sequence[int], tiers: Tiers = TIERS) -> Merge | None:
    """Return which merge an epoch owes a bucket next, if it owes one.

    Args:
        base: bytes of the base; 0 if there is none.
        runs: bytes of each run, the newest last.
        tiers: how runs are merged.
    """
    if base_is_due(base, runs, tiers) and (
        base <= tiers.small or sum(runs) >= tiers.overdue * base
    ):
        return Merge(0, len(runs), base=True)
    return plan_runs(runs, tiers)


def base_is_due(base: int, runs: Sequence[int], tiers: Tiers = TIERS) -> bool:
    """Return whether the runs have reached their share of the base, or are enough to make one."""
    fewest = 1 if base else tiers.fan
    return len(runs) >= fewest and sum(runs) >= tiers.share * base


def plan_runs(runs: Sequence[int], tiers: Tiers = TIERS) -> Merge | None:
    """Return which runs to merge next without the base, if there is need: a part of an epoch.

    Merged until there is none, at most ``fan - 1`` runs are left per tier, and ``most`` in all.
    """
    levels = [_tier(size, tiers.factor) for size in runs]
    for level in sorted(set(levels)):
        first = _first_of_tail(levels, level)
        end = len(levels) - levels[::-1].index(level)
        if end - first >= tiers.fan:
            return Merge(first, end)
    if len(runs) > tiers.most:
        starts = range(len(runs) - tiers.fan + 1)
        first = min(starts, key=lambda start: sum(runs[start : start + tiers.fan]))
        return Merge(first, first + tiers.fan)
    return None


def _first_of_tail(levels: Sequence[int], level: int) -> int:
    """Return the index from which on no run is of a higher tier."""
    first = len(levels)
    while first and levels[first - 1] <= level:
        first -= 1
    return first


def _tier(size: int, factor: int) -> int:
    tier = 0
    while size >= factor:
        size //= factor
        tier += 1
    return tier


def merge_runs(
    store: FileStore,
    name: str,
    runs: Sequence[Run],
    match: Match,
    *,
    drop_tombstones: bool,
    bucket: Bucket = WHOLE,
) -> FileRef:
    """Write what is in force of neighbouring runs as one run, in memory bounded by their batches.

    All of each run is checked first. A bucket is split by merging its runs once for each half.

    Args:
        store: where the new run goes.
        name: of its file, which no file has yet.
        runs: one or more of one stage, the newest last.
        match: what of a newer run replaces what of an older one.
        drop_tombstones: whether the oldest run of the bucket takes part, so that nothing older is
            left for deleted rows to hide.
        bucket: the rows that are merged.

    Raises:
        DamagedState: a run was altered.
        DifferentColumns: the runs differ in their columns.
        UnwrittenFile: the file could not be written; nothing is left of it.
    """
    schema = one_schema(runs)
    for run in runs:
        run.verify()
    rows = merged([run.batches(bucket) for run in runs], match)
    if drop_tombstones:
        rows = _without_tombstones(rows)
    return write_run(store, name, rows, runs[0].stage, schema=schema, match=match)


def _without_tombstones(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return map(alive, batches)
