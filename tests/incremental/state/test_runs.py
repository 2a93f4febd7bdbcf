"""Runs: sorted rows in a file."""

from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.incremental.state.states import (
    SCHEMA,
    STAGE,
    WRITER,
    asked,
    batches_of,
    memory_store,
    run_of,
    seen,
    table,
    written,
)

from headgate.incremental.state import (
    Bucket,
    BucketReader,
    FileStore,
    Match,
    Run,
    UnsortedRows,
    runs,
    sort_rows,
    state_rows,
    write_batches,
    write_run,
)
from headgate.incremental.state.rows import state_schema
from headgate.incremental.state.runs import Asked

HASHES = st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])
KEYS = st.sampled_from([b"", b"a", b"b"])
ORDERS = st.sampled_from([b"", b"1", b"2"])
ROWS = st.tuples(HASHES, KEYS, ORDERS, st.none() | st.integers(0, 99))


@given(st.lists(ROWS))
def test_sorting_is_by_hash_key_and_order_and_stable(rows):
    assert seen(table(rows).to_batches()) == sorted(rows, key=lambda row: row[:3])


@given(st.lists(ROWS), st.integers(1, 4))
def test_rows_come_back_as_they_were_written(rows, size):
    with batches_of(size):
        run = run_of(memory_store(), rows)

        assert seen(run.batches()) == sorted(rows, key=lambda row: row[:3])
        assert run.ref.rows == len(rows)


@given(st.lists(ROWS), st.integers(1, 4), st.sampled_from([(1, 0), (1, 1), (2, 1), (0, 0)]))
def test_a_bucket_of_a_run_is_the_rows_of_its_hashes(rows, size, which):
    bucket = Bucket(*which)
    with batches_of(size):
        run = run_of(memory_store(), rows)

        expected = [row for row in rows if bucket.first <= row[0] <= bucket.last]
        assert seen(run.batches(bucket)) == sorted(expected, key=lambda row: row[:3])


@given(st.lists(ROWS), st.integers(1, 4), st.lists(st.tuples(HASHES, KEYS)))
def test_groups_are_found_where_they_are_across_batches_and_collisions(rows, size, pairs):
    with batches_of(size):
        run = run_of(memory_store(), rows)
        hashes, keys = asked(pairs)

        hits = list(run.find(Asked(hashes, keys), np.arange(len(hashes))))

    found = seen(hit.batch.take(pa.array(hit.rows)) for hit in hits)
    expected = [row for row in rows if row[:2] in pairs]
    assert sorted(found, key=lambda row: row[:3]) == sorted(expected, key=lambda row: row[:3])
    which = chain.from_iterable(hit.asked.tolist() for hit in hits)
    assert [(hashes[n], keys[n].as_py()) for n in which] == [row[:2] for row in found]


@given(st.data(), st.integers(1, 40), st.none() | st.integers(1, 9))
def test_single_rows_are_found_in_groups_of_many(data, size, apart):
    """In files that are mapped by fences, so many rows apart, where hashes do not collide."""
    keys = st.sampled_from([b"a", b"b"]) if data.draw(st.booleans()) else st.just(b"a")
    orders = st.integers(0, 60).map(lambda n: b"%03d" % n)
    triples = st.tuples(st.sampled_from([0, 1]), keys, orders)
    there = data.draw(st.sets(triples, max_size=60))
    wanted = sorted(data.draw(st.sets(triples, min_size=1, max_size=20)))
    with batches_of(size), TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        store = memory_store() if apart is None else FileStore.at(Path(folder))
        patch.setattr(runs, "_APART", apart)
        patch.setattr(runs, "_SIFTED", 0)
        run = run_of(store, [(*triple, 1) for triple in there], Match.ROW)
        hashes, some, order = (list(part) for part in zip(*wanted, strict=True))
        question = Asked(np.array(hashes), pa.array(some), pa.array(order))

        hits = list(run.find(question, np.arange(len(wanted))))

        which = [int(number) for hit in hits for number in hit.asked]
        assert sorted(wanted[number] for number in which) == sorted(set(wanted) & there)
        found = seen(hit.batch.take(pa.array(hit.rows)) for hit in hits)
        assert [row[:3] for row in found] == [wanted[number] for number in which]


def test_keys_of_one_hash_are_told_apart_by_fences_or_without(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "_APART", 4)
    monkeypatch.setattr(runs, "_SIFTED", 0)
    numbers = [(key, n) for key in (b"a", b"c") for n in range(30)]
    rows = [(7, key, b"%03d" % n, n) for key, n in numbers]
    alone = [(8, b"a", b"%03d" % n, n) for n in range(30)]
    run = run_of(FileStore.at(tmp_path), [*rows, *alone], Match.ROW)

    def found(hash_: int, key: bytes) -> list[int]:
        question = Asked(
            np.full(30, hash_), pa.array([key] * 30), pa.array([b"%03d" % n for n in range(30)])
        )
        return [n for hit in run.find(question, np.arange(30)) for n in hit.asked.tolist()]

    assert found(7, b"a") == found(7, b"c") == found(8, b"a") == list(range(30))
    assert found(7, b"b") == found(8, b"b") == []


def test_a_large_run_gets_fences_for_those_who_ask_for_much(tmp_path):
    rows = [(7, b"k", b"%05d" % n, n) for n in range(70_000)]
    run = run_of(FileStore.at(tmp_path), rows, Match.ROW)

    def found(wanted: list[int]) -> list[int]:
        question = Asked(
            np.full(len(wanted), 7),
            pa.array([b"k"] * len(wanted)),
            pa.array([b"%05d" % number for number in wanted]),
        )
        hits = run.find(question, np.arange(len(wanted)))
        values = (hit.batch["value"].take(pa.array(hit.rows)).to_pylist() for hit in hits)
        return list(chain.from_iterable(values))

    assert found([0, 128, 69_999, 80_000]) == [0, 128, 69_999]
    assert not run._fenced  # so few cost less than to read a page for every fence
    wanted = list(range(0, 70_000, 127))
    assert found(wanted) == wanted
    assert [len(fences) for fences in run._fenced.values()] == [547]
    assert found(wanted) == wanted


def test_only_batches_that_may_have_what_is_wanted_are_read(monkeypatch):
    with batches_of(10):
        run = run_of(memory_store(), [(hash_, b"k", b"", hash_) for hash_ in range(1000)])
    read = []
    batch = run._file.batch

    def counted(number: int) -> pa.RecordBatch:
        read.append(number)
        return batch(number)

    monkeypatch.setattr(run._file, "batch", counted)
    hashes, keys = asked([(500, b"k"), (5000, b"k"), (-1, b"k")])

    list(run.find(Asked(hashes, keys), np.arange(3)))

    assert len(read) <= 2


def test_keys_of_a_megabyte_are_found():
    keys = [b"\x05" + bytes([n]) * (1 << 20) for n in range(70)]
    run = run_of(memory_store(), [(n // 2, key, b"", n) for n, key in enumerate(keys)])

    hashes, some = asked((n // 2, key) for n, key in enumerate(keys) if n % 3 == 0)
    hits = list(run.find(Asked(hashes, some), np.arange(len(hashes))))

    values = [value for hit in hits for value in hit.batch["value"].take(pa.array(hit.rows))]
    assert len(run.ref.marks) > 1
    assert [value.as_py() for value in values] == [n for n in range(70) if n % 3 == 0]


def test_a_run_without_rows_is_a_run():
    store = memory_store()
    run = run_of(store, [])
    hashes, keys = asked([(1, b"a")])

    assert list(run.batches()) == []
    assert list(run.find(Asked(hashes, keys), np.arange(1))) == []
    assert write_run(store, WRITER.rows_name(), iter(()), STAGE, schema=SCHEMA).rows == 0


def test_a_stream_of_rows_needs_a_schema():
    with pytest.raises(ValueError, match="schema"):
        write_run(memory_store(), WRITER.rows_name(), iter(()), STAGE)


UNSORTED = [
    [(2, b"a", b"", 1), (1, b"a", b"", 2)],
    [(1, b"b", b"", 1), (1, b"a", b"", 2)],
    [(1, b"a", b"2", 1), (1, b"a", b"1", 2)],
]


@pytest.mark.parametrize("rows", UNSORTED)
@pytest.mark.parametrize("within", ["one batch", "two batches"])
def test_unsorted_rows_are_not_written(rows, within):
    store = memory_store()
    parts = [table([row]) for row in rows]
    content = [pa.concat_tables(parts)] if within == "one batch" else parts
    stream = chain.from_iterable(part.combine_chunks().to_batches() for part in content)

    with pytest.raises(UnsortedRows, match="sort them first"):
        write_run(store, WRITER.rows_name(), stream, STAGE, schema=SCHEMA)

    assert store.names() == []


def test_a_row_that_comes_twice_is_a_bag_or_an_error_by_match():
    twice = [(1, b"a", b"x", 1), (1, b"a", b"x", 2)]

    assert written(memory_store(), twice, Match.GROUP).rows == 2
    with pytest.raises(UnsortedRows, match="two rows of one order"):
        written(memory_store(), twice, Match.ROW)


def test_rows_are_made_of_their_parts():
    hashes, keys = np.array([5, 3]), pa.array([b"a", b"b"], pa.large_binary())
    own = pa.table({"value": [1, None]})

    plain = state_rows(hashes, keys, own)
    marked = state_rows(hashes, keys, own, pa.array([b"x", b"y"]), np.array([False, True]))

    assert plain.schema == marked.schema == state_schema(own.schema)
    assert seen(plain.to_batches()) == [(5, b"a", b"", 1), (3, b"b", b"", None)]
    assert marked["_deleted"].to_pylist() == [False, True]
    assert marked["_order"].to_pylist() == [b"x", b"y"]
    assert sort_rows(plain)["_hash"].to_pylist() == [3, 5]


def test_columns_of_a_stage_have_names_of_their_own():
    with pytest.raises(ValueError, match="_deleted, _key"):
        state_schema(
            pa.schema([("_key", pa.string()), ("_deleted", pa.bool_()), ("n", pa.int64())])
        )


def test_deleted_rows_may_be_null_whatever_a_column_says():
    schema = state_schema(pa.schema([pa.field("n", pa.int64(), nullable=False)]))

    assert schema.field("n").nullable


def test_a_run_of_a_folder_is_mapped_and_not_read(tmp_path):
    store = FileStore.at(tmp_path)
    before = pa.total_allocated_bytes()
    run = Run(store, written(store, [(n, b"k", b"", n) for n in range(50_000)]), STAGE)

    [batch] = run.batches()

    assert batch.num_rows == 50_000
    assert pa.total_allocated_bytes() - before < 100_000


def test_rows_of_an_earlier_version_are_rows_of_state(tmp_path):
    store = FileStore.at(tmp_path)
    own = [("_hash", pa.int64()), ("_key", pa.binary()), ("_order", pa.binary())]
    declared = pa.schema(
        [*own, ("_deleted", pa.bool_()), pa.field("value", pa.int64(), nullable=False)]
    )
    rows = [(1, b"a", b"", 1), (2, b"b", b"", 2)]
    old = [pa.RecordBatch.from_arrays(table(rows).to_batches()[0].columns, schema=declared)]
    ref = write_batches(store, WRITER.rows_name(), STAGE, declared, old)
    runs = [Run(store, ref, STAGE), run_of(store, [(2, b"b", b"", None)])]

    assert runs[0].schema == SCHEMA
    reader = BucketReader(runs, Match.GROUP, schema=SCHEMA)
    assert seen([reader.find(*asked([(1, b"a"), (2, b"b")])).rows]) == rows[:1]
    assert seen(reader.everything()) == rows[:1]
