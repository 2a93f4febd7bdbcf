"""One index of several runs, against a search of each of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
    seen,
    written,
)

from headgate.incremental.state import (
    WHOLE,
    BucketReader,
    FileRef,
    FileStore,
    Match,
    Run,
    merge_runs,
    open_runs,
)
from headgate.incremental.state.open_runs import OpenBucket, OpenRuns, RunIndex
from headgate.incremental.state.runs import Asked

HASHES = [-(2**63), -1, 0, 1, 2**40, 2**40 + 1, 2**62, 2**63 - 1]
"""Some have the same first bits, which is all that an entry has of them."""
NAMES = [(hash_, b"%s%d" % (name, hash_)) for hash_ in HASHES for name in (b"a", b"b", b"c")]
"""Keys with their hashes: some collide, and none has two hashes."""
KEYS = st.sampled_from([(hash_, key) for hash_, key in NAMES if key[:1] != b"c"])
ORDERS = st.sampled_from([b"", b"1", b"2", b"3"])
GROUPS = st.dictionaries(KEYS, st.lists(ORDERS, max_size=3), max_size=6)
INDEXED = st.sampled_from([1 << 17, 1 << 17, 5, 0])
BATCHES = st.sampled_from([99, 99, 2])
CELLS = st.dictionaries(st.tuples(KEYS, ORDERS), st.booleans(), max_size=8)


@pytest.fixture
def store(tmp_path) -> FileStore:
    return FileStore.at(tmp_path)


def found_by(
    opened: OpenBucket, match: Match, wanted: tuple[Any, ...]
) -> tuple[list[Row], list[int]]:
    found = BucketReader(opened.runs, match, WHOLE, SCHEMA, opened.index).find(*wanted)
    return seen([found.rows]), found.group.tolist()


def everything_asked(match: Match) -> tuple[Any, ...]:
    if match is Match.GROUP:
        return asked(NAMES)
    cells = [(*key, order) for key in NAMES for order in (b"", b"1", b"2", b"3", b"4")]
    hashes, names, orders = zip(*cells, strict=True)
    return np.array(hashes, np.int64), pa.array(names, pa.binary()), pa.array(orders, pa.binary())


def rows_of_epoch(data: st.DataObject, match: Match, values: Iterator[int]) -> list[Row]:
    if match is Match.ROW:
        return [
            (*key, order, next(values) if there else None)
            for (key, order), there in data.draw(CELLS).items()
        ]
    rows: list[Row] = []
    for key, orders in data.draw(GROUPS).items():
        group: list[Row] = [(*key, order, next(values)) for order in orders]
        rows += group or [(*key, b"", None)]
    return rows


@given(st.data(), st.sampled_from(Match), INDEXED, BATCHES)
@settings(max_examples=60, deadline=None)
def test_an_index_finds_what_a_search_of_each_run_finds(
    tmp_path_factory, data, match, indexed, batch
):
    store = FileStore.at(tmp_path_factory.mktemp("state"))
    values = iter(range(10_000))
    opened = OpenRuns()
    wanted = everything_asked(match)
    attempts: list[list[FileRef]] = [[], []]
    with batches_of(batch), pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_runs, "_INDEXED", indexed)
        if data.draw(st.booleans()):
            patch.setattr(open_runs, "hashes", lambda keys: np.zeros(len(keys), np.int64))
        for _ in range(data.draw(st.integers(3, 8))):
            refs = attempts[data.draw(st.sampled_from([0, 0, 0, 1]))]
            event = data.draw(st.sampled_from(["add", "add", "merge", "other"]))
            if event == "add":
                refs.append(written(store, rows_of_epoch(data, match, values), match))
            elif event == "merge" and refs:
                first = data.draw(st.integers(0, len(refs) - 1))
                end = data.draw(st.integers(first + 1, len(refs)))
                runs = [Run(store, ref, STAGE) for ref in refs[first:end]]
                name = WRITER.rows_name()
                merged = merge_runs(store, name, runs, match, drop_tombstones=first == 0)
                refs[first:end] = [merged]
            elif event == "other":
                refs[:] = attempts[0]

            each = OpenBucket(tuple(Run(store, ref, STAGE) for ref in refs))
            known = opened.of(store, STAGE, WHOLE, refs, match)

            assert found_by(known, match, wanted) == found_by(each, match, wanted)
            assert known.index is None or sum(r.ref.rows for r in known.index.runs) <= indexed


@pytest.mark.parametrize("match", Match)
def test_older_runs_that_were_merged_are_found_beside_newer_ones(store, match):
    refs = [written(store, [(n, b"%d" % n, b"", n), (9, b"9", b"", n)], match) for n in range(4)]
    opened = OpenRuns()
    for _ in range(2):
        opened.of(store, STAGE, WHOLE, refs, match)
    older = [Run(store, ref, STAGE) for ref in refs[:2]]
    refs[:2] = [merge_runs(store, WRITER.rows_name(), older, match, drop_tombstones=True)]

    found = opened.of(store, STAGE, WHOLE, refs, match)

    assert found.index is not None
    assert found.index.runs == found.runs
    cells = [*((n, b"%d" % n) for n in range(4)), (9, b"9")]
    wanted: tuple[Any, ...] = asked(cells)
    if match is Match.ROW:
        wanted = (*wanted, pa.array([b""] * len(cells), pa.binary()))
    rows = [*((n, b"%d" % n, b"", n) for n in range(4)), (9, b"9", b"", 3)]
    assert found_by(found, match, wanted) == (rows, [0, 1, 2, 3, 4])


def test_a_bucket_that_is_read_again_has_an_index_of_its_newest_runs(store):
    refs = [written(store, [(n, b"a", b"", n)]) for n in range(3)]
    opened = OpenRuns()

    assert opened.of(store, STAGE, WHOLE, refs).index is None
    again = opened.of(store, STAGE, WHOLE, refs)
    assert again.index is not None
    assert again.index.runs == again.runs


def test_an_index_of_the_same_runs_is_made_once(store):
    refs = [written(store, [(n, b"a", b"", n)]) for n in range(2)]
    opened = OpenRuns()
    _, first, second = (opened.of(store, STAGE, WHOLE, refs).index for _ in range(3))

    assert first is second


def test_what_an_index_knows_is_not_read_again(store, monkeypatch):
    refs = [written(store, [(n, b"a", b"", n)]) for n in range(3)]
    opened = OpenRuns()
    for _ in range(2):
        opened.of(store, STAGE, WHOLE, refs[:2])
    read: list[str] = []
    batches = Run.batches

    def noted(run: Run) -> Iterator[pa.RecordBatch]:
        read.append(run.ref.name)
        return batches(run)

    monkeypatch.setattr(Run, "batches", noted)

    opened.of(store, STAGE, WHOLE, refs)

    assert read == [refs[2].name]


def test_an_index_has_no_more_rows_than_it_may(store, monkeypatch):
    monkeypatch.setattr(open_runs, "_INDEXED", 5)
    refs = [written(store, [(n, b"%d" % m, b"", n) for m in range(2)]) for n in range(4)]
    opened = OpenRuns()
    for _ in range(2):
        found = opened.of(store, STAGE, WHOLE, refs)

    assert found.index is not None
    assert [run.ref for run in found.index.runs] == refs[2:]


def test_what_falls_out_of_an_index_is_found_still(store, monkeypatch):
    monkeypatch.setattr(open_runs, "_INDEXED", 5)
    refs = [
        written(store, [(n << 20, b"%d" % n, b"", n), (9 << 20, b"9", b"", n)]) for n in range(5)
    ]
    opened = OpenRuns()
    for count in (3, 3, 4, 5):
        found = opened.of(store, STAGE, WHOLE, refs[:count])

    wanted = asked([*((n << 20, b"%d" % n) for n in range(5)), (9 << 20, b"9")])
    rows = [*((n << 20, b"%d" % n, b"", n) for n in range(5)), (9 << 20, b"9", b"", 4)]
    assert found.index is not None
    assert found.index.runs == found.runs[3:]
    assert found_by(found, Match.GROUP, wanted)[0] == rows
    # A wrong place would be made good by a search of each run.
    monkeypatch.setattr(Run, "find", lambda *_: pytest.fail("one is searched by itself"))
    hits = list(found.index.find(Asked(*wanted), np.arange(len(rows))))
    assert sorted(place for hit in hits for place in hit.asked.tolist()) == [3, 4, 5]


def test_a_run_of_several_batches_is_searched_by_itself(store):
    with batches_of(2):
        refs = [written(store, [(n, b"a", b"", n) for n in range(count)]) for count in (1, 3, 2)]
    opened = OpenRuns()
    for _ in range(2):
        found = opened.of(store, STAGE, WHOLE, refs)

    assert found.index is not None
    assert [run.ref for run in found.index.runs] == refs[2:]


def test_the_same_runs_matched_in_another_way_have_another_index(store):
    refs = [written(store, [(n, b"a", b"1", n)], Match.ROW) for n in range(2)]
    opened = OpenRuns()
    for match in (Match.GROUP, Match.ROW, Match.ROW):
        found = opened.of(store, STAGE, WHOLE, refs, match)
    wanted = (np.array([1]), pa.array([b"a"], pa.binary()), pa.array([b"1"], pa.binary()))

    assert found.index is not None
    assert found_by(found, Match.ROW, wanted) == ([(1, b"a", b"1", 1)], [0])


def test_runs_of_an_index_are_not_searched_one_by_one(store, monkeypatch):
    runs = tuple(
        Run(store, written(store, [(n, b"a", b"", n) for n in range(2**40, 2**63, 2**58)]), STAGE)
        for _ in range(3)
    )
    index = RunIndex(runs, Match.GROUP)
    monkeypatch.setattr(Run, "find", lambda *_: pytest.fail("one is"))
    hashes, keys = asked((n, b"a") for n in range(2**40, 2**63, 2**57))

    [hit] = index.find(Asked(hashes, keys), np.arange(len(hashes)))

    assert hit.batch.equals(next(runs[-1].batches()))
    assert len(hit.rows) == 32
