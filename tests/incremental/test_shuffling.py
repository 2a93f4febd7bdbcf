"""Rows that are packed for a shuffle come out whole, by groups, and in order."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.incremental import InputFlow
from headgate.incremental.epochs import shuffling, spilling
from headgate.incremental.epochs.shuffling import (
    BUCKET,
    RANGE,
    Packer,
    ShuffledIncrements,
    called,
    gathered,
)
from headgate.incremental.stages.routing import routed
from headgate.incremental.state.buckets import Bucket, even_buckets, split
from headgate.incremental.state.rows import HASH, KEY, sort_rows

COLUMNS = pa.schema({"key": pa.int64(), "text": pa.string()})
FLOWS = {"one": COLUMNS, "other": COLUMNS}

units = st.lists(st.tuples(st.integers(-50, 50), st.text(max_size=3)), max_size=60)


def rows_of(found: list[tuple[int, str]]) -> pa.Table:
    return pa.Table.from_pylist([{"key": key, "text": text} for key, text in found], COLUMNS)


def shuffled(packs: list[pa.RecordBatch], bucket: int) -> list[pa.RecordBatch]:
    """What a task of a bucket is given."""
    if not packs:
        return []
    rows = pa.Table.from_batches(packs)
    return rows.filter(pa.compute.equal(rows.column(BUCKET), bucket)).sort_by(RANGE).to_batches()


@pytest.mark.parametrize("way", ["pieces", "spilled_pieces"])
@pytest.mark.parametrize("at_once", [1, 1 << 25])
@given(flows=st.tuples(units, units), buckets=st.integers(0, 2))
@settings(max_examples=settings().max_examples // 3)
def test_all_that_came_is_there_once_and_groups_are_whole(
    at_once: int, way: str, flows: tuple[list[tuple[int, str]], ...], buckets: int
) -> None:
    parts: list[Bucket] = [*even_buckets(buckets)]
    parts = [parts[-1], *parts[:-1]]  # in no order
    packs = []
    with pytest.MonkeyPatch.context() as patch:
        # Ranges of many packs each, so that one goes on from one to the next.
        patch.setattr(shuffling, "_RANGES", 2)
        patch.setattr(shuffling, "_PACKED_ROWS", 5)
        for number, (name, columns) in enumerate(FLOWS.items()):
            packer = Packer(number, parts, columns)
            found = routed("stage", name, InputFlow("key"), rows_of(flows[number])).rows
            some = gathered(found.to_batches(max_chunksize=7))
            packs += [packer.placed(sort_rows(few)) for few in some]
    seen: dict[str, list[tuple[int, str]]] = {name: [] for name in FLOWS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffling, "_PACKED_BYTES", at_once)
        patch.setattr(spilling, "_FEWEST", 1)
        patch.setattr(spilling, "PORTION_ROWS", 2)
        for at, bucket in enumerate(parts):
            came = ShuffledIncrements(FLOWS, shuffled(packs, at))
            last = None
            for piece in getattr(came, way)():
                places = [
                    (row[HASH], row[KEY])
                    for rows in piece.values()
                    for row in rows.select([HASH, KEY]).to_pylist()
                ]
                for rows in piece.values():
                    hashes = rows.column(HASH).to_pylist()
                    assert hashes == sorted(hashes)
                    assert all(bucket.first <= hash_ <= bucket.last for hash_ in hashes)
                assert last is None or not places or min(places) > last
                last = max(places, default=last)
                for name, rows in piece.items():
                    own = rows.select(COLUMNS.names).to_pylist()
                    seen[name] += [(row["key"], row["text"]) for row in own]
    assert [sorted(rows) for rows in seen.values()] == [sorted(rows) for rows in flows]


def test_units_of_all_groups_are_in_each_bucket_and_are_no_group() -> None:
    buckets = split(Bucket())
    packs = [Packer(1, buckets, COLUMNS).everywhere(rows_of([(1, "a"), (2, "b")]))]
    for at in range(len(buckets)):
        came = ShuffledIncrements(FLOWS, shuffled(packs, at))
        assert not came.any
        assert came.everywhere["other"].column("key").to_pylist() == [1, 2]
        assert len(came.everywhere["one"]) == 0
        assert [list(map(len, piece.values())) for piece in came.pieces()] == [[0, 0]]


def test_a_bucket_that_is_called_has_nothing() -> None:
    came = ShuffledIncrements(FLOWS, shuffled([called([0, 1])], 1))
    assert not came.any
    assert list(map(len, came.everywhere.values())) == [0, 0]


def test_rows_are_gathered_until_they_are_many() -> None:
    batches = rows_of([(n, "") for n in range(35)]).to_batches(max_chunksize=4)
    sizes = [len(rows) for rows in gathered(itertools.chain(batches, batches[:0]), 10)]
    assert sizes == [12, 12, 11]
