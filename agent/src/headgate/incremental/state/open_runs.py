"""Runs that stay open from one epoch to the next, the newest of them searched as if one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from threading import Lock

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headgate.incremental.state.buckets import Bucket
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.hashing import hashes
from headgate.incremental.state.rows import KEY, ORDER, Match, hash_array, index_array
from headgate.incremental.state.runs import Asked, Hit, Positions, Run, newest, spread

_OPEN = 256
"""Runs that stay open: each has a file descriptor, of which a process often has 1,024."""
_BITS = 17
_INDEXED = 1 << _BITS
"""Rows that an index is of, which takes 12 bytes for each: the runs of a dozen epochs of 10,000
rows. A run beyond them is so large that its own search is little beside what made it."""
_PLACE = np.int64(_INDEXED - 1)
"""The bits of an entry that say where a row is; those above are of its print."""
_MIXED = np.uint64(0x9E3779B97F4A7C15)
"""By which the hash of a key is multiplied, so that an order that is the key is not taken away."""


class OpenBucket(Struct, frozen=True, eq=False):
    """The runs of a bucket, open."""

    runs: tuple[Run, ...]
    """The newest last."""
    index: RunIndex | None = None
    """Of the newest of them; none where the bucket is read for the first time."""


class OpenRuns:
    """Runs that stay open from one epoch to the next, of the buckets that were read last.

    To open one takes as long as to search it, and a page that was mapped is there. Files that are
    read by ranges are opened each time: their batches would stay in memory. Of a bucket only those
    runs are kept that it had when it was read last, so that disks get the room of others back.
    A bucket that is read again has an index of its newest runs. Threads may share it.

    Args:
        most: runs that are kept.
    """

    def __init__(self, most: int = _OPEN) -> None:
        self._most = most
        self._kept: dict[tuple[str, str, Bucket, Match], OpenBucket] = {}
        self._lock = Lock()

    def of(
        self,
        store: FileStore,
        stage: str,
        bucket: Bucket,
        refs: Iterable[FileRef],
        match: Match = Match.GROUP,
    ) -> OpenBucket:
        """Return the runs of a bucket in the order of their files.

        Args:
            store: where they are.
            stage: whose they should be.
            bucket: that they are of.
            refs: what the manifest says of them, the newest last.
            match: of the stage.

        Raises:
            DamagedState: one is missing, cut short, no Arrow file, or of something else.
            NewerState: a newer program wrote one.
        """
        place = (store.path(""), stage, bucket, match)
        with self._lock:
            before = self._kept.pop(place, None)
        known = {} if before is None else {run.ref: run for run in before.runs}
        runs = []
        for ref in refs:
            run = known.get(ref)
            if run is None:
                run = Run(store, ref, stage)
            else:
                store.check(ref)
            runs.append(run)
        index = None
        if before is not None:
            index, small = before.index, _small(runs)
            if index is None or index.runs != small:
                index = RunIndex(small, match, index)
        with self._lock:
            mapped = tuple(run for run in runs if run.is_mapped)
            self._kept[place] = OpenBucket(mapped, index)
            while len(self) > self._most:
                del self._kept[next(iter(self._kept))]
        return OpenBucket(tuple(runs), index)

    def __len__(self) -> int:
        return sum(len(each.runs) for each in self._kept.values())


def _small(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return the newest runs, as many as an index is of."""
    rows = count = 0
    for run in reversed(runs):
        rows += run.ref.rows
        if rows > _INDEXED or len(run.ref.marks) > 1 or not run.is_mapped:
            break
        count += 1
    return tuple(runs[len(runs) - count :])


class RunIndex:
    """Where the rows of several runs are: one search, however many runs there are.

    It is of prints: under ``Match.GROUP`` hashes, under ``Match.ROW`` hashes of (hash, order). It
    never changes, so that threads may share it: of runs that come and go another one is made.

    Args:
        runs: of one bucket, the newest last; of at most one batch each, and ``_INDEXED`` rows.
        match: of the stage.
        before: of runs of which some are among these: what it knows is not read again.
    """

    def __init__(self, runs: tuple[Run, ...], match: Match, before: RunIndex | None = None) -> None:
        self.runs = runs
        self._match = match
        kept = () if before is None else tuple(run for run in before.runs if run in runs)
        if kept != runs[: len(kept)]:
            kept = ()  # what was merged has come before them
        known = _NOTHING if before is None or not kept else before.known_of(kept)
        fresh = [_entries(run, match) for run in runs[len(kept) :]]
        self._batches = (*known.batches, *(each for one in fresh for each in one.batches))
        sizes = [0 if batch is None else batch.num_rows for batch in self._batches]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        """Of the runs, in places, and the end: rows are counted through all of them."""
        starts = self._starts[len(kept) : -1]
        every = [one.entries + start for one, start in zip(fresh, starts, strict=True)]
        # Sorted parts are merged: an eighth of what sorting would take.
        self._entries = np.sort(np.concatenate([known.entries, *every]), kind="stable")
        """A print with the place of its first row in the low bits; of a run each print once."""
        self._counts = np.concatenate([known.counts, *(one.counts for one in fresh)])
        """By place: rows of this hash in this run from there on; under ``Match.ROW`` always 1."""

    def known_of(self, kept: tuple[Run, ...]) -> _Known:
        """Return what it knows of some of its runs, as if there were no others."""
        if kept == self.runs:
            return _Known(self._batches, self._entries, self._counts)
        stays = np.array([run in kept for run in self.runs])
        sizes = np.diff(self._starts)
        gone = np.cumsum(np.where(stays, 0, sizes))
        numbers = np.repeat(np.arange(len(sizes)), sizes)
        places = self._entries & _PLACE
        here = stays[numbers[places]]
        return _Known(
            tuple(batch for batch, stay in zip(self._batches, stays, strict=True) if stay),
            self._entries[here] - gone[numbers[places[here]]],
            self._counts[stays[numbers]],
        )

    def find(self, asked: Asked, wanted: Positions) -> Iterator[Hit]:
        """Yield the rows, deleted ones too, of the newest run that has any of what is asked for.

        Args:
            asked: groups or, under ``Match.ROW``, rows.
            wanted: indices of those of them that are looked for here, ascending.
        """
        if not len(self._entries):
            return
        last = self._prints(asked, wanted) | _PLACE
        if self._match is Match.ROW:
            order = np.argsort(last)  # in order they are found in a third of the time
            last, wanted = last[order], wanted[order]
        # What is before all entries meets the last one, and is not of its print.
        entries = self._entries[np.searchsorted(self._entries, last, "right") - 1]
        there = np.flatnonzero(entries | _PLACE == last)
        places, wanted = entries[there] & _PLACE, wanted[there]
        order = np.argsort(places, kind="stable")
        places, wanted = places[order], wanted[order]
        missing = np.zeros(len(asked.hashes), np.bool_)
        missing[wanted] = True
        rows, which = spread(places, places + self._counts[places])
        for hit in self._at(rows, wanted[which], asked):
            missing[hit.asked] = False
            yield hit
        # Something else of the same print is in a newer run.
        yield from newest(reversed(self.runs), asked, np.flatnonzero(missing))

    def _prints(self, asked: Asked, wanted: Positions) -> npt.NDArray[np.int64]:
        if self._match is Match.GROUP:
            return asked.hashes[wanted]
        assert asked.orders is not None  # noqa: S101 - see BucketReader
        whole = len(wanted) == len(asked.orders)
        orders = asked.orders if whole else asked.orders.take(index_array(wanted))
        return _prints(asked.hashes[wanted], orders)

    def _at(self, places: Positions, wanted: Positions, asked: Asked) -> Iterator[Hit]:
        """Yield the rows at places that are what is asked for; places rise from run to run."""
        ends = np.searchsorted(places, self._starts)
        parts = []
        for number, batch in enumerate(self._batches):
            part = slice(int(ends[number]), int(ends[number + 1]))
            if batch is not None and part.start < part.stop:
                rows = places[part] - self._starts[number]
                parts.append((batch, rows, wanted[part]))
        if not parts:
            return
        # One key has one hash, so that this has not to be compared.
        which = index_array(wanted)
        same = _same(KEY, parts, asked.keys.take(which))
        if asked.orders is not None:
            same &= _same(ORDER, parts, asked.orders.take(which))
        every = bool(same.all())
        first = 0
        for batch, rows, mine in parts:
            mine_same = same[first : first + len(rows)]
            first += len(rows)
            if every:
                yield Hit(batch, rows, mine)
            elif mine_same.any():
                yield Hit(batch, rows[mine_same], mine[mine_same])


def _same(
    name: str, parts: Sequence[tuple[pa.RecordBatch, Positions, Positions]], asked: pa.Array
) -> npt.NDArray[np.bool_]:
    columns = [batch.column(name).take(index_array(rows)) for batch, rows, _ in parts]
    mine = columns[0] if len(columns) == 1 else pa.concat_arrays(columns)
    return np.asarray(pc.equal(mine, asked).to_numpy(zero_copy_only=False))


def _prints(hashes_: npt.NDArray[np.int64], orders: pa.Array) -> npt.NDArray[np.int64]:
    mixed = hashes_.view(np.uint64) * _MIXED + hashes(orders).view(np.uint64)
    return mixed.view(np.int64)


class _Known(Struct, frozen=True, eq=False):
    """What is known of runs: see the fields of ``RunIndex``."""

    batches: tuple[pa.RecordBatch | None, ...]
    """Of each run; None where it has no rows."""
    entries: npt.NDArray[np.int64]
    """Sorted."""
    counts: npt.NDArray[np.int32]


_NOTHING = _Known((), np.zeros(0, np.int64), np.zeros(0, np.int32))


def _entries(run: Run, match: Match) -> _Known:
    """Return what there is to know of a run, as if it were the first."""
    batch = next(run.batches(), None)
    if batch is None:
        return _Known((None,), _NOTHING.entries, _NOTHING.counts)
    own = hash_array(batch)
    rows = np.arange(len(own))
    counts = np.ones(len(own), np.int32)
    if match is Match.ROW:
        prints = _prints(own, batch.column(ORDER))
        return _Known((batch,), np.sort(prints & ~_PLACE | rows), counts)
    first = np.append(True, own[1:] != own[:-1])
    if not first.all():
        rows = np.flatnonzero(first)
        counts[rows] = np.diff(rows, append=len(own))
    # Sorted as they are: hashes rise, and those that are alike in front have places that rise.
    return _Known((batch,), own[rows] & ~_PLACE | rows, counts)
