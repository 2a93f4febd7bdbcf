"""What a bucket holds, against a dictionary."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.incremental.state.states import (
    SCHEMA,
    STAGE,
    WRITER,
    Row,
    asked,
    batches_of,
    memory_store,
    run_of,
    seen,
    table,
)

from headgate.incremental.state import (
    WHOLE,
    Bucket,
    BucketReader,
    DamagedState,
    DifferentColumns,
    FileRef,
    FileStore,
    Match,
    Run,
    UnsortedRows,
    bucket_numbers,
    merge_runs,
    split,
    write_run,
)

HASHES = {b"a": 0, b"b": 0, b"c": 0, b"d": -(2**63), b"e": -1, b"f": 2**62, b"g": 2**62}
"""Of all keys; some collide."""
KEYS = st.sampled_from(sorted(HASHES))
ORDERS = st.integers(0, 5).map(lambda n: b"%d" % n)
GROUPS = st.dictionaries(KEYS, st.lists(ORDERS, max_size=7), max_size=5)
CELLS = st.dictionaries(st.tuples(KEYS, ORDERS), st.booleans(), max_size=12)


class Buckets:
    """A stage's buckets, each with its files, the oldest first."""

    def __init__(self, match: Match) -> None:
        self.match = match
        self.store = memory_store()
        self.files: dict[Bucket, list[FileRef]] = {WHOLE: []}

    def put(self, rows: list[Row]) -> None:
        content = table(rows)
        buckets = list(self.files)
        numbers = bucket_numbers(content["_hash"].to_numpy(), buckets)
        for number in set(numbers.tolist()):
            some = content.filter(pa.array(numbers == number))
            name = WRITER.rows_name()
            ref = write_run(self.store, name, some, STAGE, match=self.match)
            self.files[buckets[number]].append(ref)

    def runs(self, bucket: Bucket) -> list[Run]:
        return [Run(self.store, ref, STAGE) for ref in self.files[bucket]]

    def merge(self, bucket: Bucket, first: int, end: int) -> None:
        refs = self.files[bucket]
        part = self.runs(bucket)[first:end]
        if part:
            drop = first == 0
            name = WRITER.rows_name()
            refs[first:end] = [merge_runs(self.store, name, part, self.match, drop_tombstones=drop)]

    def split(self, bucket: Bucket, *, merging: bool) -> None:
        runs = self.runs(bucket)
        refs = self.files.pop(bucket)
        for half in split(bucket):
            self.files[half] = list(refs)
            if merging and runs:
                name = WRITER.rows_name()
                ref = merge_runs(
                    self.store, name, runs, self.match, drop_tombstones=True, bucket=half
                )
                self.files[half] = [ref]

    def reader(self, bucket: Bucket) -> BucketReader:
        return BucketReader(self.runs(bucket), self.match, bucket, SCHEMA)

    def everything(self) -> list[Row]:
        buckets = sorted(self.files, key=lambda bucket: bucket.first)
        return [row for bucket in buckets for row in seen(self.reader(bucket).everything())]

    def find(self, wanted: list[tuple[bytes, ...]]) -> Iterator[tuple[tuple[bytes, ...], Row]]:
        """Yield what was asked for, and each of its rows, bucket by bucket."""
        wanted = sorted(wanted, key=lambda one: (HASHES[one[0]], *one))
        hashes = np.array([HASHES[key] for key, *_ in wanted], np.int64)
        buckets = list(self.files)
        numbers = bucket_numbers(hashes, buckets)
        for number, bucket in enumerate(buckets):
            mine = np.nonzero(numbers == number)[0]
            some = [wanted[n] for n in mine]
            columns = [
                pa.array([one[n] for one in some], pa.binary()) for n in range(len(wanted[0]))
            ]
            found = self.reader(bucket).find(hashes[mine], *columns)
            rows = seen([found.rows])
            assert len(rows) == len(found.group)
            for row, which in zip(rows, found.group.tolist(), strict=True):
                yield some[which], row


def rearranged(data: st.DataObject, buckets: Buckets) -> None:
    """Perhaps compact or split, as may happen between any two epochs."""
    bucket = data.draw(st.sampled_from(sorted(buckets.files)))
    match data.draw(st.sampled_from(["nothing", "merge", "share files", "split"])):
        case "merge":
            runs = len(buckets.files[bucket])
            first = data.draw(st.integers(0, runs))
            buckets.merge(bucket, first, data.draw(st.integers(first, runs)))
        case "share files":
            buckets.split(bucket, merging=False)
        case "split":
            buckets.split(bucket, merging=True)
        case _:
            pass


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row[:3])


@given(st.data(), st.sampled_from([1, 2, 3, 100]))
@settings(max_examples=settings().max_examples // 2)
def test_any_epochs_of_groups_equal_a_dictionary(data, size):
    model: dict[bytes, list[Row]] = {}
    buckets = Buckets(Match.GROUP)
    value = 0
    with batches_of(size):
        for _ in range(data.draw(st.integers(1, 5))):
            rows: list[Row] = []
            for key, orders in data.draw(GROUPS).items():
                group: list[Row] = []
                for order in orders:
                    value += 1
                    group.append((HASHES[key], key, order, value))
                model[key] = in_order(group)
                rows += group or [(HASHES[key], key, b"", None)]
            buckets.put(rows)
            rearranged(data, buckets)

            live = in_order([row for group in model.values() for row in group])
            assert buckets.everything() == live
            wanted: list[tuple[bytes, ...]] = [
                (key,) for key in data.draw(st.sets(KEYS, min_size=1))
            ]
            found = list(buckets.find(wanted))
            assert all(asked_for == (row[1],) for asked_for, row in found)
            assert in_order([row for _, row in found]) == [
                row for row in live if (row[1],) in wanted
            ]


@given(st.data(), st.sampled_from([1, 2, 3, 100]))
@settings(max_examples=settings().max_examples // 2)
def test_any_epochs_of_rows_equal_a_dictionary(data, size):
    model: dict[tuple[bytes, bytes], Row] = {}
    buckets = Buckets(Match.ROW)
    value = 0
    with batches_of(size):
        for _ in range(data.draw(st.integers(1, 5))):
            rows: list[Row] = []
            for (key, order), there in data.draw(CELLS).items():
                value += 1
                model.pop((key, order), None)
                row = (HASHES[key], key, order, value if there else None)
                if there:
                    model[key, order] = row
                rows.append(row)
            buckets.put(rows)
            rearranged(data, buckets)

            live = in_order(list(model.values()))
            assert buckets.everything() == live
            groups: list[tuple[bytes, ...]] = [
                (key,) for key in data.draw(st.sets(KEYS, min_size=1))
            ]
            found = list(buckets.find(groups))
            assert all(asked_for == (row[1],) for asked_for, row in found)
            assert in_order([row for _, row in found]) == [
                row for row in live if (row[1],) in groups
            ]
            cells = sorted(data.draw(st.sets(st.tuples(KEYS, ORDERS), min_size=1)))
            found = list(buckets.find(cells))
            assert all(asked_for == row[1:3] for asked_for, row in found)
            assert in_order([row for _, row in found]) == [row for row in live if row[1:3] in cells]


def test_a_deleted_group_hides_all_older_runs_and_a_newer_one_brings_it_back():
    store = memory_store()
    runs = [
        run_of(store, [(1, b"a", b"1", 1), (1, b"a", b"2", 2)]),
        run_of(store, [(1, b"a", b"", None)]),
    ]
    hashes, keys = asked([(1, b"a")])

    assert seen([BucketReader(runs, Match.GROUP).find(hashes, keys).rows]) == []

    runs.append(run_of(store, [(1, b"a", b"3", 3)]))
    reader = BucketReader(runs, Match.GROUP)
    assert seen([reader.find(hashes, keys).rows]) == [(1, b"a", b"3", 3)]
    assert seen(reader.everything()) == [(1, b"a", b"3", 3)]


def test_groups_are_numbered_as_they_were_asked_for():
    store = memory_store()
    old = run_of(store, [(1, b"a", b"", 1), (2, b"b", b"", 2), (3, b"c", b"", 3)])
    new = run_of(store, [(2, b"b", b"", 4), (2, b"b", b"", 5)])
    hashes, keys = asked([(1, b"a"), (1, b"x"), (2, b"b"), (3, b"c")])

    found = BucketReader([old, new], Match.GROUP).find(hashes, keys)

    assert found.group.tolist() == [0, 2, 2, 3]
    assert found.rows["value"].to_pylist() == [1, 4, 5, 3]


@pytest.mark.parametrize("key", [b"a", b"b", b"c"])
def test_a_row_is_found_in_a_group_whose_hash_others_have_too(key):
    orders = [b"%d" % number for number in range(9)]
    rows = [(1, own, order, 0) for own in (b"a", b"b", b"c") for order in orders]
    reader = BucketReader([run_of(memory_store(), rows, Match.ROW)], Match.ROW)

    for order in (*orders, b"", b"44", b"9"):
        found = reader.find(np.array([1]), pa.array([key]), pa.array([order]))
        assert seen([found.rows]) == [row for row in rows if row[1:3] == (key, order)]


def test_a_bucket_without_runs_has_nothing():
    reader = BucketReader([], Match.ROW, schema=SCHEMA)
    found = reader.find(*asked([(1, b"a")]))

    assert found.rows.schema == SCHEMA
    assert (found.rows.num_rows, len(found.group)) == (0, 0)
    assert list(reader.everything()) == []
    with pytest.raises(ValueError, match="needs a schema"):
        BucketReader([], Match.ROW)


def test_nothing_asked_for_is_nothing_found():
    reader = BucketReader([run_of(memory_store(), [(1, b"a", b"", 1)])], Match.GROUP)

    assert reader.find(*asked([])).rows.num_rows == 0


@pytest.mark.parametrize(
    "pairs",
    [
        [(2, b"a"), (1, b"a")],
        [(1, b"b"), (1, b"a")],
        [(1, b"a"), (1, b"a")],
    ],
)
def test_keys_that_are_not_sorted_or_come_twice_are_refused(pairs):
    reader = BucketReader([run_of(memory_store(), [(1, b"a", b"", 1)])], Match.GROUP)
    hashes = np.array([hash_ for hash_, _ in pairs])

    with pytest.raises(UnsortedRows, match="sorted"):
        reader.find(hashes, pa.array([key for _, key in pairs]))


def test_groups_have_no_rows_of_an_order():
    reader = BucketReader([], Match.GROUP, schema=SCHEMA)

    with pytest.raises(ValueError, match="as a whole"):
        reader.find(*asked([(1, b"a")]), pa.array([b"1"]))


def test_runs_of_different_columns_are_not_read_as_one():
    store = memory_store()
    other = table([(1, b"a", b"", 1)]).rename_columns([*SCHEMA.names[:-1], "price"])
    ref = write_run(store, WRITER.rows_name(), other, STAGE)

    with pytest.raises(DifferentColumns, match="price"):
        BucketReader([run_of(store, []), Run(store, ref, STAGE)], Match.GROUP)


def test_an_altered_run_is_found_before_any_row_is_yielded(tmp_path):
    store = FileStore.at(tmp_path)
    run = run_of(store, [(n, b"k", b"", n) for n in range(100)])
    path = tmp_path / run.ref.name
    data = bytearray(path.read_bytes())
    data[data.index(b"kkkk")] ^= 1
    path.write_bytes(data)

    with pytest.raises(DamagedState, match="altered"):
        next(BucketReader([Run(store, run.ref, STAGE)], Match.GROUP).everything())
