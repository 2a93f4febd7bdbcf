"""Rows of state: their columns and their order."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.incremental.state.errors import UnsortedRows

HASH = "_hash"
KEY = "_key"
ORDER = "_order"
DELETED = "_deleted"
_OWN = (
    pa.field(HASH, pa.int64(), nullable=False),
    pa.field(KEY, pa.binary(), nullable=False),
    pa.field(ORDER, pa.binary(), nullable=False),
    pa.field(DELETED, pa.bool_(), nullable=False),
)
_OWN_NAMES = frozenset(field.name for field in _OWN)
_CHUNK = 1 << 30
"""Bytes of keys in one chunk: half of what the offsets of an Arrow binary array can count."""


class Match(StrEnum):
    """What of a newer run replaces what of an older one (paper, section 2.3)."""

    GROUP = "group"
    """All rows of a (hash, key) replace all; one deleted row says that there are none."""
    ROW = "row"
    """The row of a (hash, key, order) replaces that row; a deleted one says that there is none."""


def state_schema(columns: pa.Schema) -> pa.Schema:
    """Return the schema of state whose stage has these columns of its own.

    All of a stage's columns may be null, as they are in rows that are deleted.

    Raises:
        ValueError: a column is named as one of the state's own.
    """
    taken = sorted(_OWN_NAMES & set(columns.names))
    if taken:
        message = f"a stage's state cannot have columns named {', '.join(taken)}: rename them"
        raise ValueError(message)
    return pa.schema([*_OWN, *(field.with_nullable(nullable=True) for field in columns)])


def stored_as_state(schema: pa.Schema) -> pa.Schema:
    """Return the schema of state that rows with these columns are of, whatever may be null there.

    Earlier versions wrote a stage's columns as they were declared, and their own as nullable.
    """
    return state_schema(pa.schema([field for field in schema if field.name not in _OWN_NAMES]))


def state_rows(
    hashes: npt.NDArray[np.int64],
    keys: pa.Array,
    columns: pa.Table | pa.RecordBatch,
    orders: pa.Array | None = None,
    deleted: npt.NDArray[np.bool_] | None = None,
) -> pa.Table:
    """Return rows of state made of their parts, all of one length, in the order they are given.

    Args:
        hashes: of the keys.
        keys: canonical bytes, binary or large binary.
        columns: the stage's own.
        orders: canonical bytes; empty ones if none are given.
        deleted: which rows say that something is gone; none does if none are given.
    """
    rows = len(keys)
    if orders is None:
        orders = pa.repeat(pa.scalar(b"", pa.binary()), rows)
    if deleted is None:
        deleted = np.zeros(rows, bool)
    parts = (index_array(hashes), _chunks(keys), _chunks(orders), _flags(deleted))
    schema = state_schema(columns.schema)
    return pa.Table.from_arrays([*parts, *columns.columns], schema=schema)


def _chunks(column: pa.Array) -> pa.ChunkedArray:
    """Return keys as a binary column: in chunks, where one cannot hold them."""
    if column.nbytes <= _CHUNK or len(column) <= 1:
        return pa.chunked_array([column.cast(pa.binary())])
    half = len(column) // 2
    parts = (_chunks(column.slice(0, half)), _chunks(column.slice(half)))
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks])


def index_array(positions: npt.NDArray[np.int64]) -> pa.Array:
    """Return positions as Arrow takes them; ``pa.array`` would first import all of pandas."""
    values = np.ascontiguousarray(positions)
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def _flags(values: npt.NDArray[np.bool_]) -> pa.Array:
    bits = np.packbits(values, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])


def hash_array(rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return the hashes of rows, without a copy."""
    hashes: npt.NDArray[np.int64] = rows.column(HASH).to_numpy()
    return hashes


def sort_rows(rows: pa.Table) -> pa.Table:
    """Return rows of state sorted by hash, key and order; equal ones stay as they were."""
    rows = rows.combine_chunks()
    if rows.num_rows <= 1:
        return rows
    [batch] = rows.to_batches()
    return rows.take(index_array(sorted_positions(batch, (KEY, ORDER))))


def sorted_positions(rows: pa.RecordBatch, columns: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """Return where rows are in the order of their hashes, those of one hash by the columns.

    Sorting is stable. Comparing bytes is slow, so only hashes whose rows are not in order already
    are sorted by more than the hash; in state those are few.
    """
    order = np.argsort(hash_array(rows), kind="stable")
    hashes = hash_array(rows)[order]
    tied = np.nonzero(hashes[1:] == hashes[:-1])[0]
    wrong = compare(rows, order[tied], order[tied + 1], columns) > 0
    if not wrong.any():
        return order
    places = np.nonzero(np.isin(hashes, np.unique(hashes[tied[wrong]])))[0]
    picked = order[places]
    some = {name: rows.column(name).take(index_array(picked)) for name in columns}
    table = pa.table({HASH: index_array(hashes[places]), **some, "place": index_array(places)})
    by = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])
    order[places] = picked[by.to_numpy()]
    return order


def compare(
    rows: pa.RecordBatch,
    one: npt.NDArray[np.int64],
    other: npt.NDArray[np.int64],
    columns: tuple[str, ...],
) -> npt.NDArray[np.int8]:
    """Return for pairs of rows -1, 0 or 1: the one comes before, is equal to, or after the other.

    Args:
        rows: that the pairs are of.
        one: positions of the first of each pair.
        other: positions of the second of each pair.
        columns: what is compared, the first first.
    """
    found = np.zeros(len(one), np.int8)
    equal = np.arange(len(one))
    for name in columns:
        if not len(equal):
            break
        column = rows.column(name)
        left, right = (column.take(index_array(part[equal])) for part in (one, other))
        before = pc.less(left, right).to_numpy(zero_copy_only=False)
        same = pc.equal(left, right).to_numpy(zero_copy_only=False)
        found[equal] = np.where(same, 0, np.where(before, -1, 1))
        equal = equal[same]
    return found


def check_sorted(rows: pa.RecordBatch, match: Match) -> None:
    """Check that rows are in the order of state, and under ``Match.ROW`` that each comes once.

    Raises:
        UnsortedRows: they are not.
    """
    hashes = hash_array(rows)
    if (hashes[1:] < hashes[:-1]).any():
        message = "rows of state have to be sorted by hash, key and order: sort them first"
        raise UnsortedRows(message)
    tied = np.nonzero(hashes[1:] == hashes[:-1])[0]
    order = compare(rows, tied, tied + 1, (KEY, ORDER))
    if (order > 0).any():
        message = "rows of one hash have to be sorted by key and order: sort them first"
        raise UnsortedRows(message)
    if match is Match.ROW and (order == 0).any():
        twice = rows.column(KEY)[int(tied[order == 0][0])].as_py()
        message = (
            f"the key {twice!r:.200} has two rows of one order in one run, though rows are matched "
            "by key and order: write one of them"
        )
        raise UnsortedRows(message)
