"""Runs: sorted rows of state in a file, written as a stream and searched where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headgate.incremental.state.batches import BatchFile, write_batches
from headgate.incremental.state.buckets import WHOLE, Bucket
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.rows import (
    HASH,
    KEY,
    ORDER,
    Match,
    check_sorted,
    hash_array,
    index_array,
    stored_as_state,
)

Positions = npt.NDArray[np.int64]

_SIFTED = 1 << 16
"""Rows of a run that has a sieve: it takes at most a megabyte."""
_SLOTS = 8
"""Of a sieve, for each row, and at most twice as many: of a hash that is not there one in eight
passes."""
_APART = 128
"""Rows from one fence to the next: what is near is in memory by then, and few pages."""
_WORTH_FENCES = 4096
"""Rows for each that is looked for at once, at most, of a run that gets fences. To read them all
takes as long as to look for so many without."""


def write_run(
    store: FileStore,
    name: str,
    rows: pa.Table | Iterable[pa.RecordBatch],
    stage: str,
    *,
    schema: pa.Schema | None = None,
    match: Match = Match.GROUP,
) -> FileRef:
    """Write a run and return what to know it by; it may be larger than memory.

    Args:
        store: where it goes.
        name: of the file, which no file has yet.
        rows: of state, sorted by hash, key and order.
        stage: whose they are.
        schema: of the rows; has to be given unless they are a table.
        match: of the stage. Under ``Match.ROW`` a (hash, key, order) comes once.

    Raises:
        UnsortedRows: the rows are not sorted, or one comes twice that must not.
        UnwrittenFile: the file could not be written, or there is one of that name.
    """
    if isinstance(rows, pa.Table):
        schema = rows.schema
        rows = rows.to_batches()
    if schema is None:
        message = "batches of rows need a schema beside them: there may be none of them"
        raise ValueError(message)
    return write_batches(store, name, stage, schema.remove_metadata(), _checked(rows, match))


def _checked(batches: Iterable[pa.RecordBatch], match: Match) -> Iterator[pa.RecordBatch]:
    last: pa.RecordBatch | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        ends = [batch.slice(0, 1)] if last is None else [last, batch.slice(0, 1)]
        check_sorted(_ordering(ends), match)
        check_sorted(batch, match)
        last = batch.slice(batch.num_rows - 1)
        yield batch


def _ordering(rows: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return what rows are ordered by, in one batch."""
    columns = [HASH, KEY, ORDER]
    table = pa.Table.from_batches([one.select(columns) for one in rows])
    [batch] = table.combine_chunks().to_batches()
    return batch


class Asked(Struct, frozen=True, eq=False):
    """Groups or, with orders, rows that are looked for: sorted, each once."""

    hashes: npt.NDArray[np.int64]
    keys: pa.Array
    orders: pa.Array | None = None


class Hit(Struct, frozen=True, eq=False):
    """What was asked for, where it was found: two arrays of one length."""

    batch: pa.RecordBatch
    rows: Positions
    """Positions in the batch."""
    asked: Positions
    """Which of what was asked for each row is of."""


class Searched(Protocol):
    """What rows are looked for in: a run, or what is as good as several."""

    def find(self, asked: Asked, wanted: Positions) -> Iterator[Hit]:
        """Yield the rows, deleted ones too, of what is asked for; each is of one run."""


def newest(searched: Iterable[Searched], asked: Asked, wanted: Positions) -> Iterator[Hit]:
    """Yield the rows, deleted ones too, of the newest run that has any of what is asked for.

    Args:
        searched: one after another, the newest first.
        asked: groups or rows.
        wanted: indices of those of them that are looked for, ascending.
    """
    absent = np.zeros(len(asked.hashes), np.bool_)
    absent[wanted] = True
    for each in searched:
        if not len(wanted):
            return
        found = list(each.find(asked, wanted))
        if found:
            yield from found
            for hit in found:
                absent[hit.asked] = False
            wanted = np.nonzero(absent)[0]


class Run:
    """A run that was opened. Whoever asks again should keep it: a mapped page is paid for once.

    Args:
        store: where it is.
        ref: what the manifest says of it.
        stage: whose it should be.

    Raises:
        DamagedState: it is missing, cut short, no Arrow file, or of something else.
        NewerState: a newer program wrote it.
    """

    def __init__(self, store: FileStore, ref: FileRef, stage: str) -> None:
        self._file = BatchFile(store, ref, stage)
        self.ref = ref
        self.stage = stage
        self.schema: pa.Schema = stored_as_state(self._file.schema)
        """Of the rows."""
        self._as_written = self._file.schema.equals(self.schema)
        self._marks = np.array(ref.marks, np.int64)
        self._fenced: dict[int, pa.Array] = {}

    @property
    def is_mapped(self) -> bool:
        """Whether it can stay open without holding memory."""
        return self._file.is_mapped

    def _batch(self, number: int) -> pa.RecordBatch:
        batch = self._file.batch(number)
        if self._as_written:
            return batch
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def verify(self) -> None:
        """Check the whole content.

        Raises:
            DamagedState: the file was altered.
        """
        self._file.verify()

    def batches(self, bucket: Bucket = WHOLE) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a bucket in order, without those batches that have none of it."""
        for number in self._numbers(bucket.first, bucket.last):
            batch = self._batch(number)
            hashes = hash_array(batch)
            start = int(np.searchsorted(hashes, bucket.first, "left"))
            end = int(np.searchsorted(hashes, bucket.last, "right"))
            if start < end:
                yield batch.slice(start, end - start)

    def _numbers(self, first: int, last: int) -> range:
        """Return which batches may have hashes from the first to the last one."""
        start = max(int(np.searchsorted(self._marks, first, "left")) - 1, 0)
        return range(start, int(np.searchsorted(self._marks, last, "right")))

    def group(self, hash_: int, key: bytes) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one group in order, deleted ones too, however many: none is copied."""
        if not self.ref.first <= hash_ <= self.ref.last:
            return
        for number in self._numbers(hash_, hash_):
            batch = self._batch(number)
            hashes = hash_array(batch)
            start = int(np.searchsorted(hashes, hash_, "left"))
            count = int(np.searchsorted(hashes, hash_, "right")) - start
            keys = batch.column(KEY).slice(start, count)
            same = pc.equal(keys, pa.scalar(key, keys.type))
            if same.true_count:
                first = start + pc.index(same, True).as_py()
                yield batch.slice(first, same.true_count)

    def counts(self, hashes: npt.NDArray[np.int64]) -> Positions:
        """Return how many rows there are of each of some hashes, which rise."""
        found = np.zeros(len(hashes), np.int64)
        for number in self._numbers(int(hashes[0]), int(hashes[-1])) if len(hashes) else ():
            own = hash_array(self._batch(number))
            found += np.searchsorted(own, hashes, "right") - np.searchsorted(own, hashes, "left")
        return found

    @cached_property
    def _sieve(self) -> _Sieve:
        numbers = range(len(self.ref.marks))
        return _Sieve(self.ref, [hash_array(self._batch(number)) for number in numbers])

    def find(self, asked: Asked, wanted: Positions) -> Iterator[Hit]:
        """Yield the rows, deleted ones too, of what is asked for, batch by batch.

        Args:
            asked: groups or rows.
            wanted: indices of those of them that are looked for here, ascending.
        """
        hashes = asked.hashes[wanted]
        start = int(np.searchsorted(hashes, self.ref.first, "left"))
        end = int(np.searchsorted(hashes, self.ref.last, "right"))
        if start >= end:
            return
        hashes, wanted = hashes[start:end], wanted[start:end]
        if self.is_mapped and self.ref.rows <= _SIFTED:
            near = self._sieve.near(hashes)
            hashes, wanted = hashes[near], wanted[near]
        if len(self._marks) == 1:
            found = [_ranges(self._batch(0), 0, hashes, wanted)]
        else:
            ends = np.append(np.searchsorted(hashes, self._marks[1:], "right"), len(hashes))
            starts = np.append(0, np.searchsorted(hashes, self._marks[1:], "left"))
            found = [
                _ranges(self._batch(number), number, hashes[start:end], wanted[start:end])
                for number, (start, end) in enumerate(zip(starts, ends, strict=True))
                if start < end
            ]
        there = [ranges for ranges in found if len(ranges.wanted)]
        if there:
            yield from _hits(there, asked, self._fences)

    def _fences(self, found: list[_Ranges]) -> _Column | None:
        """Return the order of every ``_APART``th row of batches.

        None where too little is asked, and of small runs, which have a sieve. They are copied out
        of the file, of which they are less than a hundredth, and kept.
        """
        asked = sum(len(ranges.wanted) for ranges in found)
        rows = sum(ranges.batch.num_rows for ranges in found)
        small = self.ref.rows <= _SIFTED
        if small or not self.is_mapped or asked * _WORTH_FENCES < rows:
            return None
        for ranges in found:
            if ranges.number not in self._fenced:
                every = np.arange(0, ranges.batch.num_rows, _APART)
                self._fenced[ranges.number] = ranges.batch.column(ORDER).take(index_array(every))
        return _Column([self._fenced[ranges.number] for ranges in found])


class _Sieve:
    """What says of most hashes that a small run does not have them, in a quarter of a search.

    An epoch looks into each of the runs that the ones before it have written, mostly in vain.

    Args:
        ref: of the run.
        hashes: of all its rows.
    """

    def __init__(self, ref: FileRef, hashes: list[npt.NDArray[np.int64]]) -> None:
        width = (ref.last - ref.first).bit_length()
        self._first = np.int64(ref.first)
        self._shift = np.uint64(max(width - (_SLOTS * ref.rows).bit_length(), 0))
        self._slots = np.zeros(((ref.last - ref.first) >> int(self._shift)) + 1, np.bool_)
        for some in hashes:
            self._slots[self._of(some)] = True

    def _of(self, hashes: npt.NDArray[np.int64]) -> Positions:
        # A difference beyond 63 bits is right as an unsigned one.
        return ((hashes - self._first).view(np.uint64) >> self._shift).view(np.int64)

    def near(self, hashes: npt.NDArray[np.int64]) -> Positions:
        """Return which of hashes within the run's may be there."""
        return np.nonzero(self._slots[self._of(hashes)])[0]


class _Ranges(Struct, frozen=True, eq=False):
    """Rows of a batch that have the hash of something that is asked for: arrays of one length."""

    batch: pa.RecordBatch
    number: int
    """Of the batch in its run."""
    low: Positions
    high: Positions
    """The positions after them."""
    wanted: Positions
    """What is asked for."""


def _ranges(
    batch: pa.RecordBatch, number: int, hashes: npt.NDArray[np.int64], wanted: Positions
) -> _Ranges:
    own = hash_array(batch)
    low = np.searchsorted(own, hashes, "left")
    there = np.nonzero(own[np.minimum(low, len(own) - 1)] == hashes)[0]
    low, wanted = low[there], wanted[there]
    high = low + 1
    more = np.nonzero(own[np.minimum(high, len(own) - 1)] == hashes[there])[0]
    more = more[high[more] < len(own)]
    high[more] = np.searchsorted(own, hashes[there[more]], "right")
    return _Ranges(batch, number, low, high, wanted)


def _hits(
    found: list[_Ranges], asked: Asked, fences: Callable[[list[_Ranges]], _Column | None]
) -> Iterator[Hit]:
    """Yield the rows of ranges, at least one, that are what is asked for.

    What is compared is so for all batches at once: of a large run that has many, each has few.
    """
    low, high, wanted = (
        np.concatenate([getattr(ranges, name) for ranges in found])
        for name in ("low", "high", "wanted")
    )
    of = np.repeat(np.arange(len(found)), [len(ranges.wanted) for ranges in found])
    keys = _Column([ranges.batch.column(KEY) for ranges in found])
    known = np.zeros(len(of), np.bool_)
    if asked.orders is not None:
        orders = _Column([ranges.batch.column(ORDER) for ranges in found])
        wide = np.nonzero(high - low > 1)[0]
        if len(wide):
            ends = low[wide], high[wide] - 1
            # Rows are sorted by key, so that a range whose ends have a key has no other one.
            alone = all(_equal(keys, of[wide], at, asked.keys, wanted[wide]).all() for at in ends)
            known[wide] = alone
            low[wide], high[wide] = _narrowed(
                _Wide(of[wide], low[wide], high[wide], wanted[wide]),
                asked,
                orders,
                None if alone else keys,
                fences(found) if alone else None,
            )
    rows, which = spread(low, high)
    of, wanted, known = of[which], wanted[which], known[which]
    same = known.copy()
    open_ = np.nonzero(~known)[0]
    same[open_] = _equal(keys, of[open_], rows[open_], asked.keys, wanted[open_])
    if asked.orders is not None:
        same &= _equal(orders, of, rows, asked.orders, wanted)
    if not same.all():
        of, rows, wanted = of[same], rows[same], wanted[same]
    parts = np.searchsorted(of, np.arange(len(found) + 1)).tolist()
    for ranges, (start, end) in zip(found, pairwise(parts), strict=True):
        if start < end:
            yield Hit(ranges.batch, rows[start:end], wanted[start:end])


class _Column:
    """A column of several batches.

    Args:
        parts: of each batch, at least one.
    """

    def __init__(self, parts: list[pa.Array]) -> None:
        self._parts = parts

    def take(self, of: Positions, rows: Positions) -> pa.Array:
        """Return what rows have.

        Args:
            of: the number of the batch of each, rising, shape (n,).
            rows: the position of each in its batch, shape (n,).
        """
        places = index_array(rows)
        if len(self._parts) == 1:
            return self._parts[0].take(places)
        ends = np.searchsorted(of, np.arange(len(self._parts) + 1)).tolist()
        found = [
            part.take(places.slice(start, end - start))
            for part, (start, end) in zip(self._parts, pairwise(ends), strict=True)
            if start < end
        ]
        return pa.concat_arrays(found or [self._parts[0].slice(0, 0)])


def _equal(
    column: _Column, of: Positions, rows: Positions, values: pa.Array, wanted: Positions
) -> npt.NDArray[np.bool_]:
    """Return which rows of a column, see ``take``, have those of the values that are wanted."""
    whole = len(wanted) == len(values) and bool((wanted == np.arange(len(values))).all())
    asked = values if whole else values.take(index_array(wanted))
    return np.asarray(pc.equal(column.take(of, rows), asked).to_numpy(zero_copy_only=False))


class _Wide(Struct, frozen=True, eq=False):
    """Ranges of more than one row, arrays of one length: the batch, the ends, what is wanted."""

    of: Positions
    low: Positions
    high: Positions
    wanted: Positions


def _narrowed(
    wide: _Wide, asked: Asked, orders: _Column, keys: _Column | None, fences: _Column | None
) -> tuple[Positions, Positions]:
    """Return for each row that is looked for the range of the one row, or of none, that may be it.

    A group may have millions of rows: its orders are searched by halves, all at once, and those of
    fences first. A row of the file is a page that nothing has been read of for long.

    Args:
        wide: the ranges.
        asked: with orders.
        orders: of the batches.
        keys: of the batches; None where no range has another key than the one that is asked for.
        fences: orders of every so many rows; None where there are none.
    """
    low, high = wide.low, wide.high
    if fences is not None:
        # One before those of the range stands for its first row.
        first, last = -(-low // _APART), (high - 1) // _APART
        before, after = _halved(wide, first - 1, last + 1, asked, fences, None)
        low, high = np.maximum(low, before * _APART), np.minimum(high, after * _APART)
    return _halved(wide, low, high, asked, orders, keys)


def _halved(
    wide: _Wide,
    low: Positions,
    high: Positions,
    asked: Asked,
    orders: _Column,
    keys: _Column | None,
) -> tuple[Positions, Positions]:
    """Return the last position of each range that is not after what is wanted, and the next one.

    The first position of a range is not looked at. See ``_narrowed``.
    """
    assert asked.orders is not None  # noqa: S101 - see _hits
    low, high = low.copy(), high.copy()
    left = np.nonzero(high - low > 1)[0]
    while len(left):
        of, begin, end = wide.of[left], low[left], high[left]
        which = index_array(wide.wanted[left])
        order = asked.orders.take(which)
        key = None if keys is None else asked.keys.take(which)
        # Small groups are soon done; they are left out once they are half of all.
        wide_yet = end - begin > 1
        while 2 * np.count_nonzero(wide_yet) > len(left):
            middle = np.maximum((begin + end) >> 1, 0)
            found = pc.greater_equal(order, orders.take(of, middle))
            if keys is not None:
                own = keys.take(of, middle)
                found = pc.or_(pc.greater(key, own), pc.and_(pc.equal(key, own), found))
            after = np.asarray(found.to_numpy(zero_copy_only=False))
            begin = np.where(wide_yet & after, middle, begin)
            end = np.where(wide_yet & ~after, middle, end)
            wide_yet = end - begin > 1
        low[left], high[left] = begin, end
        left = left[wide_yet]
    return low, high


def spread(low: Positions, high: Positions) -> tuple[Positions, Positions]:
    """Return all positions of ranges that are not empty, and which range each is of."""
    sizes = high - low
    which = np.arange(len(low))
    if (sizes == 1).all():
        return low, which
    which = np.repeat(which, sizes)
    starts = np.cumsum(sizes) - sizes
    return np.arange(len(which)) - starts[which] + low[which], which
