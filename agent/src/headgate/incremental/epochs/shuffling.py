"""What an epoch shuffles: rows packed by ranges of hashes, so that Spark handles few large rows.

Spark takes 10 µs of a processor to turn a row into its own form, sort it and turn it back, more
than all else that is done with it. Packed, it is moved as bytes; Spark sorts and spills the packs
by their ranges, and each range, or several small ones, is sorted where it is translated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
from msgspec import Struct

from headgate.incremental.epochs.bucket import Increments
from headgate.incremental.epochs.spilling import SpilledParts
from headgate.incremental.state.buckets import Bucket
from headgate.incremental.state.rows import HASH, KEY, ORDER, sort_rows

BUCKET: Final = "_bucket"
RANGE: Final = "_range"
_FLOW: Final = "_flow"
_ROWS: Final = "_rows"
SHUFFLED: Final = f"{BUCKET} int, {RANGE} int, {_FLOW} int, {_ROWS} binary"
"""The columns of packs, in Spark's words."""
_SCHEMA: Final = pa.schema(
    [(BUCKET, pa.int32()), (RANGE, pa.int32()), (_FLOW, pa.int32()), (_ROWS, pa.binary())]
)
_PLACE: Final = ((HASH, pa.int64()), (KEY, pa.binary()), (ORDER, pa.binary()))

_RANGES: Final = 64
"""Of a bucket: a range is in memory as a whole, so a bucket's increment may be some tens of times
that. More of them would make small packs of usual increments."""
_NO_RANGE: Final = -1
"""Of what is of all groups: it sorts first."""
_NO_FLOW: Final = -1
_PACKED_ROWS: Final = 1 << 16
"""That are sorted and packed at a time."""
_PACKED_BYTES: Final = 1 << 25
"""Likewise, of wide rows; and of what is translated at a time."""


class _Cut(Struct, frozen=True):
    """Where a range begins."""

    first: int
    bucket: int
    range: int


class Packer:
    """Packs rows of one flow.

    Args:
        number: of the flow.
        buckets: a partition of the hash space.
        columns: of the flow.
    """

    def __init__(self, number: int, buckets: Sequence[Bucket], columns: pa.Schema) -> None:
        self._number = number
        self._buckets = len(buckets)
        self._columns = columns
        self._cuts = sorted(
            (
                _Cut(bucket.first + at * ((bucket.last - bucket.first + 1) // _RANGES), n, at)
                for n, bucket in enumerate(buckets)
                for at in range(_RANGES)
            ),
            key=lambda cut: cut.first,
        )
        self._firsts = np.array([cut.first for cut in self._cuts], np.int64)

    def placed(self, rows: pa.Table) -> pa.RecordBatch:
        """Return packs of rows with places, sorted by hash."""
        hashes = rows.column(HASH).to_numpy()
        ends = np.append(np.searchsorted(hashes, self._firsts[1:], "left"), len(hashes)).tolist()
        batch = _one(rows, placed_schema(self._columns))
        packs, begin = [], 0
        for cut, end in zip(self._cuts, ends, strict=True):
            if begin < end:
                packs.append((cut.bucket, cut.range, batch.slice(begin, end - begin)))
            begin = end
        return self._batch(packs)

    def everywhere(self, rows: pa.Table) -> pa.RecordBatch:
        """Return packs of rows of all groups: one for each bucket."""
        batch = _one(rows, self._columns)
        return self._batch([(at, _NO_RANGE, batch) for at in range(self._buckets)])

    def _batch(self, packs: Sequence[tuple[int, int, pa.RecordBatch]]) -> pa.RecordBatch:
        columns = [
            pa.array([bucket for bucket, _, _ in packs], pa.int32()),
            pa.array([at for _, at, _ in packs], pa.int32()),
            pa.array([self._number] * len(packs), pa.int32()),
            pa.array([rows.serialize().to_pybytes() for _, _, rows in packs], pa.binary()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def called(numbers: Sequence[int]) -> pa.RecordBatch:
    """Return an empty pack for each of some buckets: Spark calls nothing where no row comes."""
    count = len(numbers)
    columns = [
        pa.array(numbers, pa.int32()),
        pa.array([_NO_RANGE] * count, pa.int32()),
        pa.array([_NO_FLOW] * count, pa.int32()),
        pa.array([b""] * count, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def placed_schema(columns: pa.Schema) -> pa.Schema:
    """Return a flow's columns and those of the places of its rows."""
    return pa.schema([*columns, *(pa.field(*place) for place in _PLACE)])


def gathered(
    batches: Iterable[pa.RecordBatch],
    most_rows: int = _PACKED_ROWS,
    most_bytes: int = _PACKED_BYTES,
) -> Iterator[pa.Table]:
    """Yield rows in tables that have at least so many rows or bytes, but for the last one."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= most_rows or size >= most_bytes:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(waiting)


class _Pack(Struct, frozen=True):
    range: int
    flow: int
    rows: pa.Buffer


class ShuffledIncrements:
    """What has come for one bucket, unpacked.

    Args:
        flows: columns by flow, in the order of their numbers.
        batches: of packs, sorted by range.
    """

    def __init__(self, flows: Mapping[str, pa.Schema], batches: Iterable[pa.RecordBatch]) -> None:
        self._names = tuple(flows)
        self._placed = {flow: placed_schema(columns) for flow, columns in flows.items()}
        self._packs = _packs(batches)
        self._first: _Pack | None = None
        everywhere: list[_Pack] = []
        for pack in self._packs:
            if pack.range != _NO_RANGE:
                self._first = pack
                break
            everywhere.append(pack)
        self.everywhere: Increments = {
            flow: _unpacked(everywhere, number, columns)
            for number, (flow, columns) in enumerate(flows.items())
        }

    @property
    def any(self) -> bool:
        """Whether anything came for a group."""
        return self._first is not None

    def pieces(self) -> Iterator[Increments]:
        """Yield whole groups, rising, some at a time; one piece without rows where nothing came."""
        if self._first is None:
            yield self._piece(())
            return
        waiting: list[_Pack] = []
        size = 0
        for pack in chain((self._first,), self._packs):
            if size >= _PACKED_BYTES and waiting[-1].range != pack.range:
                yield self._piece(waiting)
                waiting, size = [], 0
            waiting.append(pack)
            size += pack.rows.size
        yield self._piece(waiting)

    def spilled_pieces(self) -> Iterator[Increments]:
        """Yield the same pieces; those of a range that is larger than memory are on the disk.

        Raises:
            UnwrittenFile: there is no room for them.
        """
        if self._first is None:
            yield self._piece(())
            return
        waiting: list[_Pack] = []
        spilling: SpilledParts | None = None
        size, last = 0, self._first.range
        for pack in chain((self._first,), self._packs):
            if size >= _PACKED_BYTES:
                if last != pack.range:
                    yield self._piece(waiting) if spilling is None else spilling.tables()
                    waiting, spilling, size = [], None, 0
                elif spilling is None:
                    spilling = SpilledParts(self._placed)
                    for each in waiting:
                        self._spill(spilling, each)
                    waiting = []
            if spilling is None:
                waiting.append(pack)
            else:
                self._spill(spilling, pack)
            size, last = size + pack.rows.size, pack.range
        yield self._piece(waiting) if spilling is None else spilling.tables()

    def _spill(self, spilling: SpilledParts, pack: _Pack) -> None:
        flow = self._names[pack.flow]
        spilling.write(flow, ipc.read_record_batch(pack.rows, self._placed[flow]))

    def _piece(self, packs: Sequence[_Pack]) -> Increments:
        return {
            flow: sort_rows(_unpacked(packs, number, placed))
            for number, (flow, placed) in enumerate(self._placed.items())
        }


def _packs(batches: Iterable[pa.RecordBatch]) -> Iterator[_Pack]:
    for batch in batches:
        ranges, flows = (batch.column(name).to_pylist() for name in (RANGE, _FLOW))
        rows = batch.column(_ROWS)
        for at, (of_range, flow) in enumerate(zip(ranges, flows, strict=True)):
            yield _Pack(of_range, flow, rows[at].as_buffer())


def _unpacked(packs: Iterable[_Pack], number: int, schema: pa.Schema) -> pa.Table:
    mine = [ipc.read_record_batch(pack.rows, schema) for pack in packs if pack.flow == number]
    return pa.Table.from_batches(mine, schema)


def _one(rows: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows, of which there are some, in one batch of a schema."""
    [batch] = rows.select(schema.names).cast(schema).combine_chunks().to_batches()
    return batch
