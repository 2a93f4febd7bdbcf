"""One bucket's part of an epoch whose translation is by streams: no group has to fit into memory.

Groups whose state is small are looked up many at a time, and their new state is compared with the
old one together; of a large one both are read and compared portion by portion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.incremental.epochs.bucket import (
    NO_ORDER,
    Increments,
    Piece,
    found_state,
    reads_all_state,
    stored_schema,
)
from headgate.incremental.epochs.changing import GroupState, OwnRows, SmallStates
from headgate.incremental.epochs.side_by_side import side_by_side
from headgate.incremental.stages.grouping import (
    GroupKeys,
    Numbers,
    first_rows,
    group_numbers,
    keys_of,
)
from headgate.incremental.stages.specification import GROUP, STATE, StageSpec
from headgate.incremental.stages.streams import FlowStream
from headgate.incremental.stages.translating import streamed
from headgate.incremental.state.batches import PORTION_BYTES, PORTION_ROWS, portions
from headgate.incremental.state.readers import BucketReader
from headgate.incremental.state.rows import HASH, KEY, ORDER, Match, sort_rows

_GROUPS: Final = 1 << 12
"""Whose state is looked up at once: what they make waits until all of them are translated."""


def stream_bucket(
    stage: StageSpec,
    reader: BucketReader | None,
    pieces: Iterable[Increments],
    everywhere: Increments,
    whole: frozenset[str] = frozenset(),
) -> Iterator[Piece]:
    """Yield what becomes of a bucket's groups, sorted by hash and key; see ``translate_bucket``.

    In memory are some portions of each flow of one group and of each run of its state, and the keys
    of the groups of a piece.

    Args:
        stage: that translates them, by streams.
        reader: of the bucket's state; None where the stage has none.
        pieces: of the increments, whole groups each, rising; of tables that may be on the disk.
        everywhere: by flow, units that are of all groups.
        whole: input flows of which everything came.

    Raises:
        TranslationFailed: see ``streamed``; or rows of a state are not in their order.
        DamagedState: a file of the state is not what it was.
    """
    full = reads_all_state(stage, whole)
    work: Iterable[tuple[Increments, pa.Table | None]] = ((piece, None) for piece in pieces)
    if full:
        assert reader is not None  # noqa: S101 - a stage with a state has one
        schema = pa.schema([stored_schema(stage).field(name) for name in (HASH, KEY)])
        work = side_by_side(schema, _distinct(reader.keys()), tuple(stage.inputs), pieces)
    made = _Made(stage)
    for increments, stored in work:
        groups = _PieceGroups(stage, reader, increments, stored, everywhere, full=full)
        for _ in groups.translated(made):
            yield made.piece()
    yield made.piece()


def _distinct(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from first_rows(pa.Table.from_batches([batch])).rows.to_batches()


class _Made:
    """What groups have become, until it is enough to be written.

    Args:
        stage: that has translated them.
    """

    def __init__(self, stage: StageSpec) -> None:
        self._stage = stage
        self._forget()

    def _forget(self) -> None:
        self._outputs: dict[str, list[pa.Table]] = {flow: [] for flow in self._stage.outputs}
        self._state: list[pa.Table] = []
        self._remote: list[pa.Table] = []
        self._size = 0
        self.groups = 0

    def put_out(self, flow: str, rows: pa.Table) -> None:
        """Add rows of an output flow."""
        self._outputs[flow].append(rows)
        self._size += rows.nbytes

    def store(self, rows: pa.Table) -> None:
        """Add rows of the state, which come in the order of state."""
        if len(rows):
            self._state.append(rows)
        self._size += rows.nbytes

    def send(self, rows: pa.Table) -> None:
        """Add rows of the state of groups that are translated elsewhere, or another time."""
        self._remote.append(rows)
        self._size += rows.nbytes

    @property
    def is_enough(self) -> bool:
        """Whether it should be written."""
        return self._size >= PORTION_BYTES

    def piece(self) -> Piece:
        """Return and forget all of it."""
        outputs = {flow: pa.concat_tables(rows) for flow, rows in self._outputs.items() if rows}
        state = pa.concat_tables(self._state) if self._state else None
        remote = sort_rows(pa.concat_tables(self._remote)) if self._remote else None
        found = Piece(state, remote, outputs, self.groups)
        self._forget()
        return found


class _PieceGroups:
    """The groups of a piece, translated one after the other.

    Args:
        stage: that translates them.
        reader: of the state.
        increments: of the groups.
        stored: hashes and keys of those of the state, where they are translated too.
        everywhere: by flow, units that are of all groups.
        full: whether a group is given all of its state, whatever is matched.
    """

    def __init__(
        self,
        stage: StageSpec,
        reader: BucketReader | None,
        increments: Increments,
        stored: pa.Table | None,
        everywhere: Increments,
        *,
        full: bool,
    ) -> None:
        self._stage = stage
        self._reader = reader
        self._increments = increments
        self._everywhere = everywhere
        firsts = {flow: first_rows(rows) for flow, rows in increments.items()}
        known = [first.rows for first in firsts.values()]
        self._groups = keys_of([*known, *(() if stored is None else (stored,))])
        self._begins: dict[str, Numbers] = {}
        for flow, first in firsts.items():
            counts = np.zeros(len(self._groups), np.int64)
            counts[group_numbers(first.rows, self._groups)] = np.diff(first.places)
            self._begins[flow] = np.append(0, np.cumsum(counts))
        state = stage.state
        self._by_order = state is not None and state.match is Match.ROW and not full
        limit = PORTION_ROWS
        if reader is not None:
            limit = max(min(limit, PORTION_BYTES // reader.row_bytes), 1)
        self._limit = limit

    def translated(self, made: _Made) -> Iterator[None]:
        """Translate all of them, and yield each time that what they made is enough."""
        sizes = self._sizes()
        for first, end in _runs(sizes, self._limit):
            keys = GroupKeys(
                self._groups.hashes[first:end], self._groups.keys.slice(first, end - first)
            )
            before = None
            if self._reader is not None and int(sizes[first]) <= self._limit:
                before = self._found(keys, first, end)
            yield from self._together(first, SmallStates(self._stage, keys, before), made)

    def _sizes(self) -> Numbers:
        """Return how many rows of state each group is given at most."""
        if self._by_order:
            came = [np.diff(begins) for begins in self._begins.values()]
            return np.asarray(np.sum(came, axis=0) + 1)
        if self._reader is None:
            return np.zeros(len(self._groups), np.int64)
        return self._reader.counts(self._groups.hashes)

    def _found(self, keys: GroupKeys, first: int, end: int) -> pa.Table:
        if self._by_order:
            came = {}
            for flow, begins in self._begins.items():
                begin, after = int(begins[first]), int(begins[end])
                came[flow] = self._increments[flow].slice(begin, after - begin)
            return found_state(self._stage, self._reader, keys, came)
        assert self._reader is not None  # noqa: S101 - asked before
        found = self._reader.find(keys.hashes, keys.keys)
        rows = pa.Table.from_batches([found.rows])
        return rows.append_column(GROUP, pa.array(found.group))

    def _together(self, first: int, small: SmallStates, made: _Made) -> Iterator[None]:
        """Translate neighbouring groups; the new state of small ones is stored after them."""
        for number in range(len(small.keys)):
            made.groups += 1
            yield from self._group(first + number, number, small, made)
        made.store(small.taken(len(small.keys)))
        if made.is_enough:
            yield

    def _group(self, place: int, number: int, small: SmallStates, made: _Made) -> Iterator[None]:
        hash_, key = int(small.keys.hashes[number]), small.keys.keys[number].as_py()
        stored = small.stored(number)
        if stored is None:
            stored = partial(self._large, place, hash_, key)
        given = {flow: self._stream(flow, place) for flow in self._stage.inputs}
        state: GroupState | None = None
        if self._stage.state is not None:
            columns = self._stage.state.columns
            rows = (_declared(batch, columns) for batch in stored())
            given[STATE] = FlowStream(self._where(STATE), columns, rows)
            state = GroupState(small, number, OwnRows(self._stage, hash_, key), stored, self._limit)
        for flow, written in streamed(self._stage, key, given):
            if flow == STATE and state is not None:
                for each in state.add(written):
                    made.store(each)
                    if made.is_enough:
                        yield
                for each in state.sent():
                    made.send(each)
            else:
                made.put_out(flow, written)
            if made.is_enough:
                yield
        for each in () if state is None else state.end():
            made.store(each)
            if made.is_enough:
                yield

    def _stream(self, flow: str, place: int) -> FlowStream:
        own = self._rows_of(flow, place).drop_columns([HASH, KEY, ORDER])
        of_all = self._everywhere[flow].to_batches()
        return FlowStream(self._where(flow), own.schema, portions(chain(of_all, own.to_batches())))

    def _where(self, flow: str) -> str:
        return f"stage `{self._stage.name}`: flow `{flow}`"

    def _rows_of(self, flow: str, place: int) -> pa.Table:
        begin, end = self._begins[flow][place : place + 2].tolist()
        return self._increments[flow].slice(begin, end - begin)

    def _large(self, place: int, hash_: int, key: bytes) -> Iterator[pa.RecordBatch]:
        """Yield what the state has of a group, from its files each time, in portions."""
        if self._reader is None:
            return
        if not self._by_order:
            yield from self._reader.group(hash_, key)
            return
        flows = [self._rows_of(flow, place).column(ORDER).chunks for flow in self._increments]
        for orders in _orders(flows):
            count = len(orders)
            keys = pa.repeat(pa.scalar(key, pa.binary()), count)
            found = self._reader.find(np.full(count, hash_, np.int64), keys, orders)
            if found.rows.num_rows:
                yield found.rows


def _runs(sizes: Numbers, limit: int) -> Iterator[tuple[int, int]]:
    """Yield where neighbouring groups begin and end that are together within a limit; or alone."""
    first, total = 0, 0
    for number, size in enumerate(sizes.tolist()):
        if number > first and (total + size > limit or number - first >= _GROUPS):
            yield first, number
            first, total = number, 0
        total += size
    if len(sizes):
        yield first, len(sizes)


def _declared(rows: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Return rows of state with the columns that a stage declares."""
    return pa.RecordBatch.from_arrays([rows.column(name) for name in columns.names], schema=columns)


def _orders(flows: Sequence[Sequence[pa.Array]]) -> Iterator[pa.Array]:
    """Yield the orders of sorted flows and that of the group itself, rising, each once."""
    heads = [_portions_of(chunks) for chunks in (*flows, [pa.array([NO_ORDER], pa.binary())])]
    left = [(next(head, None), head) for head in heads]
    before: bytes | None = None
    while here := [(orders, head) for orders, head in left if orders is not None]:
        cut = min(orders[-1].as_py() for orders, _ in here)
        taken, left = [], []
        for orders, head in here:
            end = pc.sum(pc.less_equal(orders, pa.scalar(cut, orders.type))).as_py()
            taken.append(orders.slice(0, end).cast(pa.binary()))
            rest = orders.slice(end)
            left.append((rest if len(rest) else next(head, None), head))
        found = pc.unique(pa.concat_arrays(taken))
        if before is not None:
            # A flow may have rows of one order on both sides of a cut.
            found = found.filter(pc.greater(found, pa.scalar(before, pa.binary())))
        before = cut
        if len(found):
            yield found.take(pc.sort_indices(found))


def _portions_of(chunks: Sequence[pa.Array]) -> Iterator[pa.Array]:
    for chunk in chunks:
        for first in range(0, len(chunk), PORTION_ROWS):
            yield chunk.slice(first, PORTION_ROWS)
