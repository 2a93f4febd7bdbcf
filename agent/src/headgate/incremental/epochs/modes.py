"""Modes of an epoch: what an incremental stage saves, shown against what it would be without.

The paper compares its direct system with two others: the black-box emulation, in which the state is
one more flow that is read, shuffled and written as a whole (section 4.1), and landmark windows,
where there is no state and all increments so far come again (section 5.1). All three run the same
stage here, as one Spark job each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.incremental.epochs.bucket import Increments, Piece, stored_schema, translate_bucket
from headgate.incremental.epochs.spilling import spill_folder
from headgate.incremental.epochs.streaming import stream_bucket
from headgate.incremental.stages.grouping import GroupKeys, group_numbers
from headgate.incremental.stages.specification import STATE, StageSpec
from headgate.incremental.state.batches import BatchWriter, one_batch, write_batches
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.manifest import BucketState
from headgate.incremental.state.merging import alive, resolved
from headgate.incremental.state.readers import BucketReader, FoundRows
from headgate.incremental.state.rows import DELETED, HASH, KEY, ORDER, Match, sort_rows
from headgate.incremental.state.runs import Run


class Mode(StrEnum):
    """How a stage comes by its state."""

    DIRECT = "direct"
    """The state stays where it is, and only what has changed of it is written."""
    BLACK_BOX = "black-box"
    """The state is shuffled as any flow is, and written as a whole."""
    LANDMARK = "landmark"
    """There is no state: each increment is all that has come so far."""

    def left_of(self, buckets: Sequence[BucketState]) -> tuple[BucketState, ...]:
        """Return what an epoch keeps of the files of the state that it begins with."""
        if self is Mode.DIRECT:
            return tuple(buckets)
        return tuple(BucketState(state.bucket) for state in buckets)

    @property
    def shuffles_state(self) -> bool:
        """Whether the state is one of the flows."""
        return self is Mode.BLACK_BOX


def translate_in_mode(
    mode: Mode,
    stage: StageSpec,
    reader: BucketReader | None,
    pieces: Iterable[Increments],
    everywhere: Increments,
    whole: frozenset[str] = frozenset(),
) -> Iterator[Piece]:
    """Yield what becomes of a bucket's groups in a mode; see ``translate_bucket``.

    Args:
        mode: in which they are translated.
        stage: that translates them.
        reader: of the state that has stayed where it was; of none in the modes without.
        pieces: of the increments; where the state is shuffled, with its rows as a flow ``state``.
        everywhere: by flow, units that are of all groups.
        whole: flows of which everything came.
    """
    by_stream = stage.translate_stream is not None
    translate = stream_bucket if by_stream else translate_bucket
    match mode:
        case Mode.DIRECT:
            yield from translate(stage, reader, pieces, everywhere, whole=whole)
        case Mode.LANDMARK:
            for made in translate(stage, reader, pieces, everywhere, whole=whole):
                yield Piece(None, None, made.outputs, made.groups)
        case Mode.BLACK_BOX:
            shuffled = _with_spilled_state if by_stream else _with_shuffled_state
            for piece in pieces:
                yield from shuffled(stage, piece, everywhere, whole)


def _with_spilled_state(
    stage: StageSpec, piece: Increments, everywhere: Increments, whole: frozenset[str]
) -> Iterator[Piece]:
    """Yield what becomes of a piece that may be on the disk, and at last all of its state."""
    increments = {flow: piece[flow] for flow in stage.inputs}
    if stage.state is None:
        yield from stream_bucket(stage, None, (increments,), everywhere, whole)
        return
    schema, match, name = stored_schema(stage), stage.state.match, stage.name
    with TemporaryDirectory(dir=spill_folder()) as folder:
        store = FileStore.at(folder)
        stored = (_as_stored(batch, schema) for batch in piece[STATE].to_batches())
        refs = [write_batches(store, "before", name, schema, stored)]
        before = BucketReader(
            [Run(store, ref, name) for ref in refs if ref.rows], match, schema=schema
        )
        with BatchWriter(store, "changes", name, schema) as changes:
            for made in stream_bucket(stage, before, (increments,), everywhere, whole):
                yield Piece(None, made.remote, made.outputs, made.groups)
                for batch in () if made.state is None else made.state.to_batches():
                    changes.write(batch)
        refs.append(changes.ref)
        after = BucketReader(
            [Run(store, ref, name) for ref in refs if ref.rows], match, schema=schema
        )
        for rows in after.everything():
            yield Piece(pa.Table.from_batches([rows]), None, {}, 0)


def _as_stored(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows that have come by a shuffle as they are stored."""
    deleted = pa.array(np.zeros(rows.num_rows, np.bool_))
    columns = [deleted if name == DELETED else rows.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_shuffled_state(
    stage: StageSpec, piece: Increments, everywhere: Increments, whole: frozenset[str]
) -> Iterator[Piece]:
    """Yield what becomes of a piece, and at last all of its state, changed or not."""
    if stage.state is None:
        yield from translate_bucket(stage, None, (piece,), everywhere, whole=whole)
        return
    schema = stored_schema(stage)
    came = piece[STATE]
    stored = came.append_column(DELETED, pa.array(np.zeros(len(came), np.bool_)))
    stored = stored.select(schema.names).cast(schema)
    shuffled = ShuffledState(stored, stage.state.match)
    increments = {flow: piece[flow] for flow in stage.inputs}
    changes = [schema.empty_table()]
    made_of = translate_bucket(
        stage, shuffled, (increments,), _only(stage, everywhere), whole=whole
    )
    for made in made_of:
        yield Piece(None, made.remote, made.outputs, made.groups)
        if made.state is not None:
            changes.append(made.state.select(schema.names).cast(schema))
    batches = [_one(part) for part in (stored, pa.concat_tables(changes)) if len(part)]
    if batches:
        left = alive(resolved(batches, stage.state.match))
        yield Piece(pa.Table.from_batches([left]), None, {}, 0)


def _only(stage: StageSpec, flows: Increments) -> Mapping[str, pa.Table]:
    return {flow: flows[flow] for flow in stage.inputs}


def _one(rows: pa.Table) -> pa.RecordBatch:
    return one_batch(rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)])


class ShuffledState(BucketReader):
    """The state of some groups that has come by a shuffle, as if it were read.

    Args:
        rows: of state, sorted.
        match: what of a newer row replaces what of an older one.
    """

    def __init__(self, rows: pa.Table, match: Match) -> None:
        super().__init__((), match, schema=rows.schema)
        self._rows = rows

    def find(
        self, hashes: npt.NDArray[np.int64], keys: pa.Array, orders: pa.Array | None = None
    ) -> FoundRows:
        """Return the rows of these groups or, with orders, these rows."""
        if orders is None:
            numbers = group_numbers(self._rows, GroupKeys(hashes, keys))
            here = numbers >= 0
            return FoundRows(_one(self._rows.filter(pa.array(here))), numbers[here])
        place = [HASH, KEY, ORDER]
        asked = pa.table([hashes, keys, orders], names=place)
        found = self._rows.join(asked, place, join_type="left semi")
        rows = sort_rows(found.select(self.schema.names).cast(self.schema))
        numbers = group_numbers(rows, GroupKeys(hashes, keys))
        return FoundRows(_one(rows), numbers)

    def everything(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows."""
        yield from self._rows.to_batches()
