"""Maintenance of a state between epochs: large bases are merged, and large buckets split.

An epoch costs what has changed, and the base of a bucket is most of its state. So it is merged by
an attempt of its own that reads no increment and puts nothing out, one bucket at a time: the state
after it has other files and the same rows. Until it is committed, the files of before stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from headgate.incremental.state.buckets import MOST_BITS, Bucket, split
from headgate.incremental.state.compaction import TIERS, Tiers, base_is_due, merge_runs
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.manifest import (
    BucketState,
    Manifest,
    read_manifest,
    write_manifest,
)
from headgate.incremental.state.names import Writer
from headgate.incremental.state.runs import Run

LARGEST: Final = 1 << 32
"""Bytes of a bucket that is not split: some 100 million rows, which a merge takes minutes for."""
_LEAST: Final = 1 / 8
"""Of a bucket, that its smaller half has where a split is of use. What one key has stays together,
so that a bucket of little else would be split again and again, and written each time."""


class Upkeep(Struct, frozen=True):
    """What a bucket needs: its base merged with its runs."""

    bucket: Bucket
    into: tuple[Bucket, ...]
    """Which buckets have its rows afterwards: itself, or its halves."""


class Maintained(Struct, frozen=True):
    """What an attempt has done; nothing of it counts before its manifest is committed."""

    manifest: str
    """The name of the manifest that it has written."""
    done: Upkeep
    written: int
    """Bytes of state."""
    left: int
    """Buckets that need something still."""


def upkeep_due(
    buckets: Sequence[BucketState], largest: int = LARGEST, tiers: Tiers = TIERS
) -> list[Upkeep]:
    """Return what a state needs by way of maintenance, the most urgent first; mostly nothing.

    After each of them is carried out less is needed, so that it comes to an end.

    Args:
        buckets: the state.
        largest: bytes of a bucket that is not split.
        tiers: how its runs are merged.
    """
    found: list[tuple[float, Upkeep]] = []
    for state in buckets:
        if state.base is None:
            continue
        base, runs = state.base.length, [ref.length for ref in state.runs]
        if base + sum(runs) > largest and _halves(state):
            halves = split(state.bucket)
            found.append(((base + sum(runs)) / largest, Upkeep(state.bucket, halves)))
        elif base_is_due(base, runs, tiers):
            found.append((sum(runs) / max(base, 1), Upkeep(state.bucket, (state.bucket,))))
    return [upkeep for _, upkeep in sorted(found, key=lambda each: each[0], reverse=True)]


def _halves(state: BucketState) -> bool:
    """Return whether both halves of a bucket would have a part of its bytes that is worth it."""
    if state.bucket.bits == MOST_BITS:
        return False
    middle = max(half.first for half in split(state.bucket))
    total = sum(ref.length for ref in state.files)
    above = sum(_share_from(ref, middle) * ref.length for ref in state.files)
    return _LEAST * total <= above <= (1 - _LEAST) * total


def _share_from(ref: FileRef, first: int) -> float:
    """Return which part of a file's batches begins with a hash or a larger one."""
    return sum(mark >= first for mark in ref.marks) / max(len(ref.marks), 1)


def maintain(
    store: FileStore,
    writer: Writer,
    name: str,
    *,
    largest: int = LARGEST,
    tiers: Tiers = TIERS,
) -> Maintained | None:
    """Carry out what a state needs most, for one bucket, and write a manifest that says so.

    What the manifest says of cursors and of the epoch is as before, and it puts nothing out. It is
    the state once it is committed in the place of the one it begins with, and only then: an epoch
    that has begun with the same one and commits first has to win, and this attempt to be refused.

    Args:
        store: where the files of the stage are.
        writer: the attempt, by which new files are named.
        name: of the manifest that is the state now.
        largest: bytes of a bucket that is not split.
        tiers: how runs are merged.

    Returns:
        What was done; None where nothing is needed, and then nothing is written.

    Raises:
        DamagedState: a file of the state is not what it was.
        UnwrittenFile: a file could not be written; the state of before stands.
    """
    before = read_manifest(store, name)
    due = upkeep_due(before.buckets, largest, tiers)
    if not due:
        return None
    after: list[BucketState] = []
    for state in before.buckets:
        after += _merged(store, writer, before, state, due[0]) or (state,)
    written = writer.manifest_name()
    nothing: dict[str, tuple[FileRef, ...]] = dict.fromkeys(before.outputs, ())
    manifest = replace(before, buckets=tuple(after), previous=name, outputs=nothing)
    write_manifest(store, written, manifest)
    made = [state for state in after if state.bucket in due[0].into]
    size = sum(ref.length for state in made for ref in state.files)
    return Maintained(written, due[0], size, len(upkeep_due(after, largest, tiers)))


def _merged(
    store: FileStore, writer: Writer, manifest: Manifest, state: BucketState, upkeep: Upkeep
) -> tuple[BucketState, ...]:
    """Return what a bucket becomes; nothing where the upkeep is of another one."""
    if state.bucket != upkeep.bucket:
        return ()
    runs = [Run(store, ref, manifest.stage) for ref in state.files]
    return tuple(
        BucketState(
            part,
            merge_runs(
                store,
                writer.rows_name(),
                runs,
                manifest.match,
                drop_tombstones=True,
                bucket=part,
            ),
        )
        for part in upkeep.into
    )
