"""Merging of sorted runs: newest wins, in memory that is bounded by batches and not by groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.incremental.state.batches import BATCH_ROWS, one_batch
from headgate.incremental.state.rows import (
    DELETED,
    HASH,
    KEY,
    ORDER,
    Match,
    compare,
    hash_array,
    index_array,
    sorted_positions,
)


def merged(runs: Sequence[Iterable[pa.RecordBatch]], match: Match) -> Iterator[pa.RecordBatch]:
    """Yield what is in force of the rows of runs, in order, those that are deleted included.

    Args:
        runs: each sorted, the newest last.
        match: what of a newer run replaces what of an older one.
    """
    heads = [head for head in map(_Head, runs) if not head.ended]
    while heads:
        quota = max(BATCH_ROWS // len(heads), 1)
        lowest = min(head.hash for head in heads)
        cut = min(head.reach(quota) for head in heads)
        if cut > lowest:
            yield resolved([part for head in heads for part in head.below(cut)], match)
        else:
            yield from _one_hash(heads, lowest, match)
        heads = [head for head in heads if not head.ended]


def alive(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows that are not deleted."""
    deleted = rows.column(DELETED)
    if deleted.true_count == 0:
        return rows
    return rows.filter(pc.invert(deleted))


def resolved(parts: list[pa.RecordBatch], match: Match) -> pa.RecordBatch:
    """Return what is in force of parts of runs, in order, those that are deleted included.

    Args:
        parts: one or more; each sorted, the newest last. They have all rows of their groups.
        match: what of a newer part replaces what of an older one.
    """
    if len(parts) == 1:
        return parts[0]
    rows = one_batch(parts)
    source = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
    by = (KEY,) if match is Match.GROUP else (KEY, ORDER)
    order = sorted_positions(rows, by)
    kept = order[_in_force(rows, source, order, match, by)]
    if len(kept) == len(order) and (kept == np.arange(len(kept))).all():
        return rows
    return rows.take(index_array(kept))


def _in_force(
    rows: pa.RecordBatch,
    source: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    match: Match,
    by: tuple[str, ...],
) -> npt.NDArray[np.bool_]:
    """Return which rows, in their order, no newer one replaces; equal ones are oldest first."""
    hashes = hash_array(rows)[order]
    tied = np.nonzero(hashes[1:] == hashes[:-1])[0]
    same = tied[compare(rows, order[tied], order[tied + 1], by) == 0]
    if match is Match.ROW:
        last = np.ones(len(order), bool)
        last[same] = False
        return last
    begins = np.ones(len(order), bool)
    begins[same + 1] = False
    starts = np.nonzero(begins)[0]
    newest = np.maximum.reduceat(source[order], starts)
    kept: npt.NDArray[np.bool_] = source[order] == newest[np.cumsum(begins) - 1]
    return kept


class _Head:
    """The rows of a run that are not merged yet, a batch at a time."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self.ended = False
        """Whether there are no more of them."""
        self._next()

    def _next(self) -> None:
        for batch in self._batches:
            if batch.num_rows:
                self._rows = batch
                return
        self.ended = True

    def take(self, count: int) -> pa.RecordBatch:
        """Return as many of the next rows, all of them here, and go on to those after them."""
        rows = self._rows
        if count == rows.num_rows:
            self._next()
            return rows
        self._rows = rows.slice(count)
        return rows.slice(0, count)

    @property
    def hash(self) -> int:
        """Of the next row."""
        return int(self._rows.column(HASH)[0].as_py())

    @property
    def key(self) -> bytes:
        """Of the next row."""
        return bytes(self._rows.column(KEY)[0].as_py())

    def reach(self, quota: int) -> int:
        """Return the hash below which all rows are here, and no more than a quota."""
        last = min(quota, self._rows.num_rows) - 1
        return int(self._rows.column(HASH)[last].as_py())

    def below(self, cut: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of lower hashes as one batch, if there are any; they are all here."""
        count = int(np.searchsorted(hash_array(self._rows), cut, "left"))
        if count:
            yield self.take(count)

    def at(self, hash_: int, key: bytes) -> bool:
        """Return whether the next row is of a group."""
        return not self.ended and self.hash == hash_ and self.key == key

    def group(self, hash_: int, key: bytes) -> pa.RecordBatch:
        """Return those of the rows here that are of the group that the next row is of."""
        count = int(np.searchsorted(hash_array(self._rows), hash_, "right"))
        keys = self._rows.column(KEY).slice(0, count)
        return self._rows.slice(0, pc.sum(pc.equal(keys, pa.scalar(key, keys.type))).as_py())

    def rest(self, hash_: int, key: bytes) -> Iterator[pa.RecordBatch]:
        """Yield all rows of a group that are left, however many."""
        while self.at(hash_, key):
            yield self.take(self.group(hash_, key).num_rows)


def _one_hash(heads: list[_Head], hash_: int, match: Match) -> Iterator[pa.RecordBatch]:
    """Yield what is in force of the rows of one hash, which may be more than fit into memory."""
    while here := [head for head in heads if not head.ended and head.hash == hash_]:
        key = min(head.key for head in here)
        having = [head for head in here if head.key == key]
        if match is Match.ROW:
            yield from _by_order(having, hash_, key)
            continue
        for head in having[:-1]:
            for _ in head.rest(hash_, key):
                pass  # a newer run has the group
        yield from having[-1].rest(hash_, key)


def _by_order(heads: list[_Head], hash_: int, key: bytes) -> Iterator[pa.RecordBatch]:
    """Yield what is in force of the rows of one group, by their order."""
    while len(heads := [head for head in heads if head.at(hash_, key)]) > 1:
        groups = [head.group(hash_, key) for head in heads]
        cut = min(group.column(ORDER)[-1].as_py() for group in groups)
        parts = []
        for head, group in zip(heads, groups, strict=True):
            order = group.column(ORDER)
            count = pc.sum(pc.less_equal(order, pa.scalar(cut, order.type))).as_py()
            if count:
                parts.append(head.take(count))
        yield resolved(parts, Match.ROW)
    for head in heads:
        yield from head.rest(hash_, key)
