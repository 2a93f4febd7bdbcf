"""A counter by key: its stage, states of any size as compaction leaves them, and increments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.incremental import GROUP, STATE, Adu, Groups, InputFlow, Key, Stage, StateFlow
from headgate.incremental.epochs.bucket import stored_schema
from headgate.incremental.stages.specification import StageSpec
from headgate.incremental.state.buckets import even_buckets
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.hashing import hashes
from headgate.incremental.state.keys import key_column
from headgate.incremental.state.manifest import BucketState
from headgate.incremental.state.names import Writer
from headgate.incremental.state.rows import DELETED, HASH, KEY, ORDER
from headgate.incremental.state.runs import write_run

FLOW = "in"
ROWS = "key string, n long"
"""Of an increment, in Spark's words."""
_DIGITS = 10
_CHUNK = 1 << 20
"""Rows that are made at a time."""

Ids = npt.NDArray[np.int64]


def _count(groups: Groups) -> Mapping[str, pa.Table]:
    came, known = groups.flows[FLOW], groups.flows[STATE]
    counts = np.zeros(groups.count, np.int64)
    for rows in (came, known):
        np.add.at(counts, rows.column(GROUP).to_numpy(), rows.column("n").to_numpy())
    return {STATE: pa.table({GROUP: np.arange(groups.count), "n": counts})}


def _count_one(_: Key, flows: Mapping[str, Sequence[Adu]]) -> Mapping[str, list[Adu]]:
    return {STATE: [{"n": sum(row["n"] for flow in (FLOW, STATE) for row in flows[flow])}]}


def counter(*, by_group: bool = False) -> StageSpec:
    """Return the stage, whose state is a number for each key; many at once, or one by one."""
    how: dict[str, Any] = {"translate": _count_one} if by_group else {"translate_tables": _count}
    return Stage(
        "counter",
        inputs={FLOW: InputFlow("key")},
        outputs={},
        state=StateFlow(pa.schema({"n": pa.int64()})),
        **how,
    ).spec


def keys_of(ids: Ids) -> pa.Array:
    """Return text such as k0000000042 for each number."""
    text = np.empty((len(ids), _DIGITS + 1), np.uint8)
    text[:, 0] = ord("k")
    rest = ids.copy()
    for at in range(_DIGITS, 0, -1):
        text[:, at] = ord("0") + rest % 10
        rest //= 10
    ends = np.arange(0, text.size + 1, _DIGITS + 1, dtype=np.int32)
    return pa.StringArray.from_buffers(len(ids), pa.py_buffer(ends), pa.py_buffer(text.tobytes()))


def increment_of(ids: Ids) -> pa.Table:
    """Return an increment with a row for each of some keys."""
    return pa.table({"key": keys_of(ids), "n": np.ones(len(ids), np.int64)})


def some_ids(random: np.random.Generator, keys: int, count: int) -> Ids:
    """Return so many different ones of the first keys, in any order."""
    if 4 * count > keys:
        return random.permutation(keys)[:count].astype(np.int64)
    found = np.unique(random.integers(keys, size=2 * count))
    return random.permutation(found)[:count].astype(np.int64)


def seeded(store: FileStore, stage: StageSpec, keys: int, bits: int = 1) -> tuple[BucketState, ...]:
    """Write a state in which each of so many keys was counted once, as bases without runs.

    Args:
        store: where to.
        stage: the counter.
        keys: how many.
        bits: of the buckets: two, as the first epoch of a stage makes them.
    """
    ids = np.arange(keys)
    chunks = (ids[first : first + _CHUNK] for first in range(0, keys, _CHUNK))
    placed = np.concatenate([hashes(key_column([keys_of(chunk)])) for chunk in chunks])
    order = np.argsort(placed)
    placed = placed[order]
    writer = Writer(stage.name, "seed", 1, "bench")
    found = []
    for bucket in even_buckets(bits):
        first = int(np.searchsorted(placed, bucket.first, "left"))
        end = int(np.searchsorted(placed, bucket.last, "right"))
        rows = _stored(stage, placed[first:end], order[first:end])
        name = writer.rows_name()
        ref = write_run(store, name, rows, stage.name, schema=stored_schema(stage))
        found.append(BucketState(bucket, ref if end > first else None))
    return tuple(found)


def _stored(stage: StageSpec, placed: Ids, ids: Ids) -> Iterator[pa.RecordBatch]:
    for first in range(0, len(ids), _CHUNK):
        part = slice(first, first + _CHUNK)
        count = len(ids[part])
        columns = {
            HASH: pa.array(placed[part]),
            KEY: key_column([keys_of(ids[part])]),
            ORDER: pa.repeat(pa.scalar(b"", pa.binary()), count),
            DELETED: pa.array(np.zeros(count, np.bool_)),
            "n": pa.array(np.ones(count, np.int64)),
        }
        schema = stored_schema(stage)
        yield pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
