"""Runs that stay open, and what small ones know of what they do not have."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.incremental.state.states import (
    STAGE,
    asked,
    batches_of,
    memory_store,
    run_of,
    seen,
    written,
)

from headgate.incremental.state import WHOLE, BucketReader, DamagedState, FileStore, Match, split
from headgate.incremental.state.open_runs import OpenRuns
from headgate.incremental.state.runs import Asked

HASHES = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])


@pytest.fixture
def store(tmp_path) -> FileStore:
    return FileStore.at(tmp_path)


def test_a_run_stays_open(store):
    ref = written(store, [(1, b"a", b"", 1)])
    opened = OpenRuns()

    [first], [again] = (opened.of(store, STAGE, WHOLE, [ref]).runs for _ in range(2))

    assert first is again


def test_runs_come_in_the_order_of_their_files(store):
    refs = [written(store, [(n, b"a", b"", n)]) for n in range(3)]
    opened = OpenRuns()
    opened.of(store, STAGE, WHOLE, refs[1:])

    assert [run.ref for run in opened.of(store, STAGE, WHOLE, refs).runs] == refs


def test_what_a_bucket_no_longer_has_is_closed(store):
    old, new = (written(store, [(n, b"a", b"", n)]) for n in range(2))
    opened = OpenRuns()
    opened.of(store, STAGE, WHOLE, [old])
    opened.of(store, STAGE, WHOLE, [new])

    assert len(opened) == 1


def test_buckets_read_longest_ago_are_closed_first(store):
    refs = [written(store, [(n, b"a", b"", n)]) for n in range(2)]
    opened = OpenRuns(most=2)
    low, high = split(WHOLE)
    [first] = opened.of(store, STAGE, low, refs[:1]).runs
    opened.of(store, STAGE, high, refs[1:])
    assert opened.of(store, STAGE, low, refs[:1]).runs == (first,)
    opened.of(store, "another", WHOLE, refs[:0])
    opened.of(store, STAGE, WHOLE, refs[:1])

    assert len(opened) == 2
    assert opened.of(store, STAGE, low, refs[:1]).runs == (first,)


def test_more_runs_than_are_kept_are_read_all_the_same(store):
    refs = [written(store, [(n, b"a", b"", n)]) for n in range(3)]
    opened = OpenRuns(most=2)

    assert len(opened.of(store, STAGE, WHOLE, refs).runs) == 3
    assert len(opened) == 0


def test_files_that_are_not_mapped_are_opened_each_time():
    store = memory_store()
    ref = written(store, [(1, b"a", b"", 1)])
    opened = OpenRuns()
    opened.of(store, STAGE, WHOLE, [ref])

    assert len(opened) == 0


@pytest.mark.parametrize("content", [None, b"short"])
def test_an_open_run_whose_file_is_gone_or_cut_short_is_named(store, tmp_path, content):
    ref = written(store, [(1, b"a", b"", 1)])
    opened = OpenRuns()
    opened.of(store, STAGE, WHOLE, [ref])
    other = tmp_path / "other"
    other.write_bytes(content or b"")
    other.replace(tmp_path / ref.name)
    if content is None:
        (tmp_path / ref.name).unlink()

    with pytest.raises(DamagedState, match="missing" if content is None else "5 bytes"):
        opened.of(store, STAGE, WHOLE, [ref])


@given(
    runs=st.lists(st.dictionaries(HASHES, st.none() | st.integers(), max_size=8), max_size=4),
    others=st.lists(HASHES, max_size=8),
    rows=st.integers(1, 4),
)
@settings(max_examples=60, deadline=None)
def test_small_runs_find_what_they_have_and_nothing_else(tmp_path_factory, runs, others, rows):
    store = FileStore.at(tmp_path_factory.mktemp("state"))
    wanted = asked((hash_, b"k") for hash_ in [*others, *(h for run in runs for h in run)])
    limits = np.iinfo(np.int64)
    runs = [{h: v and v % limits.max for h, v in run.items()} for run in runs]
    now: dict[int, int | None] = {}
    for run in runs:
        now |= run
    with batches_of(rows):
        opened = [run_of(store, [(h, b"k", b"", v) for h, v in run.items()]) for run in runs]
    schema = run_of(memory_store(), [(0, b"k", b"", 0)]).schema

    found = BucketReader(opened, Match.GROUP, schema=schema).find(*wanted)

    assert seen([found.rows]) == [(h, b"k", b"", now[h]) for h in sorted(now) if now[h] is not None]


def test_a_small_run_is_searched_for_few_of_what_it_does_not_have(store):
    random = np.random.default_rng(3)
    run = run_of(store, [(int(h), b"k", b"", 1) for h in random.integers(-(2**62), 2**62, 500)])
    hashes, keys = asked((int(h), b"k") for h in random.integers(-(2**61), 2**61, 4000))

    near = run._sieve.near(hashes)

    assert len(near) < len(hashes) / 4
    assert not list(run.find(Asked(hashes, keys), np.arange(len(hashes))))
