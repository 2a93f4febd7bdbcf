"""A process that translates one group of many rows, and says how much memory it has taken.

Its increments come as a task of Spark's is given them: packed, by ranges of hashes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.incremental import STATE, InputFlow, Match, Outer, Stage, StateFlow
from headgate.incremental.epochs import shuffling, spilling, streaming
from headgate.incremental.epochs.epoch import finished
from headgate.incremental.epochs.shuffling import Packer, ShuffledIncrements
from headgate.incremental.epochs.streaming import stream_bucket
from headgate.incremental.epochs.writing import reader_of, write_outcome
from headgate.incremental.library import aligned
from headgate.incremental.stages.routing import routed
from headgate.incremental.stages.specification import StageSpec
from headgate.incremental.state import (
    Bucket,
    BucketState,
    FileStore,
    Writer,
    batches,
    even_buckets,
    hashes,
    key_column,
    sort_rows,
)

COLUMNS = pa.schema({"n": pa.int64(), "text": pa.string()})
CAME = pa.schema([("key", pa.string()), *COLUMNS])
KEYS = ("hot", "other", "third")
_PACK = 1 << 14
"""Rows that a task before the shuffle packs at a time."""


def _merge(key: Any, flows: Any) -> Iterator[tuple[str, pa.Table]]:
    """Merge what came into the state: of each n the newest row."""
    rows = 0
    for part in aligned({STATE: flows[STATE], "in": flows["in"]}, "n"):
        came = part["in"].select(COLUMNS.names)
        old = part[STATE]
        gone = np.isin(old.column("n").to_numpy(), came.column("n").to_numpy())
        both = pa.concat_tables([old.filter(pa.array(~gone)), came]).sort_by("n")
        rows += len(both)
        yield STATE, both
        yield "out", came
    yield "rows", {"n": rows}


def merging(match: Match, outer: Outer = Outer.RIGHT) -> Stage:
    return Stage(
        "merging",
        inputs={"in": InputFlow("key", order_by="n")},
        outputs={"out": COLUMNS, "rows": {"n": "int64"}},
        translate_stream=_merge,
        state=StateFlow(COLUMNS, order_by="n", match=match, outer=outer),
    )


def came(key: str, first: int, step: int, count: int) -> Iterator[pa.Table]:
    """Rows of one key, of every so many-th number, in no order."""
    for at in range(0, count, _PACK):
        n = (first + step * np.arange(at, min(at + _PACK, count)))[::-1]
        texts = pc.binary_join_element_wise(
            pa.scalar(str(first)), pa.array(n).cast(pa.string()), pa.scalar("x" * 50), " "
        )
        keys = pa.repeat(pa.scalar(key), len(n))
        yield pa.table([keys, pa.array(n), texts], schema=CAME)


def packs(stage: StageSpec, first: int, step: int, count: int) -> Iterator[pa.RecordBatch]:
    """What a task is given of a group of so many rows and of two small ones, sorted by range."""
    packer = Packer(0, [Bucket()], CAME)
    keys = sorted(KEYS, key=lambda key: hashes(key_column([pa.array([key])]))[0])
    for key in keys:
        for rows in came(key, first, step, count if key == "hot" else 100):
            found = routed("merging", "in", stage.inputs["in"], rows).rows
            yield packer.placed(sort_rows(found))


def run(match: Match, outer: Outer, folder: Path, rows: int) -> dict[str, Any]:
    stage = merging(match, outer).spec
    store = FileStore.at(folder)
    buckets = tuple(BucketState(bucket) for bucket in even_buckets(0))
    made = []
    for number, (first, step) in enumerate([(0, 2), (1, 2), (0, 4)]):
        increments = ShuffledIncrements({"in": CAME}, packs(stage, first, step, rows))
        writer = Writer("merging", f"r{number}", 1, "holder")
        reader = reader_of(stage, store, buckets[0])
        pieces = stream_bucket(stage, reader, increments.spilled_pieces(), increments.everywhere)
        outcome = write_outcome(stage, store, writer, 0, pieces)
        done = finished(stage, store, writer, buckets, [outcome])
        buckets = done.buckets
        made.append([sum(ref.rows for ref in outcome.runs), done.outputs["out"][0].rows])
    state = reader_of(stage, store, buckets[0])
    assert state is not None
    count = sum(batch.num_rows for batch in state.everything())
    return {"made": made, "rows": count, "memory": pa.default_memory_pool().max_memory()}


def shrink() -> None:
    """Have all that is kept in memory at a time be a few hundred kilobytes."""
    for module, name, value in (
        (batches, "BATCH_BYTES", 1 << 20),
        (batches, "PLAIN_BYTES", 1 << 20),
        (shuffling, "_PACKED_BYTES", 1 << 20),
        *((module, "PORTION_BYTES", 1 << 18) for module in (batches, streaming)),
        *((module, "PORTION_ROWS", _PACK) for module in (batches, spilling, streaming)),
    ):
        setattr(module, name, value)


if __name__ == "__main__":
    match, outer, folder, *sizes = sys.argv[1:]
    shrink()
    found = [run(Match(match), Outer(outer), Path(folder, rows), int(rows)) for rows in sizes]
    print(json.dumps(found))
