"""Small states with values that tell each row from all others, and files that are in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from headgate.incremental.state import (
    FileRef,
    FileStore,
    Match,
    Run,
    Writer,
    batches,
    merging,
    state_schema,
    write_run,
)
from headgate.incremental.state.rows import sort_rows

STAGE = "count links"
SCHEMA = state_schema(pa.schema([pa.field("value", pa.int64())]))
WRITER = Writer(STAGE, "run-7", 1, "host:42")

Row = tuple[int, bytes, bytes, int | None]
"""Hash, key, order and value; no value: deleted."""


def memory_store() -> FileStore:
    return FileStore(pafs._MockFileSystem(), "state")


def table(rows: Iterable[Row]) -> pa.Table:
    """Rows of state, sorted; those that are equal stay as they are given."""
    entries = list(rows)
    columns = list(zip(*entries, strict=True)) if entries else [(), (), (), ()]
    hashes, keys, orders, values = columns
    deleted = [value is None for value in values]
    parts = [list(hashes), list(keys), list(orders), deleted, list(values)]
    arrays = [pa.array(part, field.type) for part, field in zip(parts, SCHEMA, strict=True)]
    return sort_rows(pa.Table.from_arrays(arrays, schema=SCHEMA))


def written(store: FileStore, rows: Iterable[Row], match: Match = Match.GROUP) -> FileRef:
    return write_run(store, WRITER.rows_name(), table(rows), STAGE, match=match)


def run_of(store: FileStore, rows: Iterable[Row], match: Match = Match.GROUP) -> Run:
    return Run(store, written(store, rows, match), STAGE)


def seen(found: Iterable[pa.RecordBatch]) -> list[Row]:
    """Rows as they were given to ``table``."""
    return [
        (row["_hash"], row["_key"], row["_order"], None if row["_deleted"] else row["value"])
        for batch in found
        for row in batch.to_pylist()
    ]


def asked(pairs: Iterable[tuple[int, bytes]]) -> tuple[np.ndarray, pa.Array]:
    """Hashes and keys as ``find`` takes them."""
    ordered = sorted(set(pairs))
    hashes = np.array([hash_ for hash_, _ in ordered], np.int64)
    return hashes, pa.array([key for _, key in ordered], pa.binary())


@contextmanager
def batches_of(rows: int) -> Iterator[None]:
    """Batches as small as hostile rows need them to span many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "BATCH_ROWS", rows)
        patch.setattr(merging, "BATCH_ROWS", rows)
        yield
