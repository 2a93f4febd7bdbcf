"""Merging in bounded memory, and what is left when it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.incremental.state.states import (
    SCHEMA,
    STAGE,
    WRITER,
    Row,
    batches_of,
    memory_store,
    run_of,
    seen,
    table,
)

from headgate.incremental.state import (
    WHOLE,
    BucketReader,
    BucketState,
    DamagedState,
    FileStore,
    Manifest,
    Match,
    Run,
    Writer,
    merge_runs,
    read_manifest,
    unneeded,
    write_manifest,
    write_run,
)
from headgate.incremental.state.merging import merged

MERGER = Writer(STAGE, "merge-8", 1, "host:43")


def cut(rows: Sequence[Row], size: int) -> Iterator[pa.RecordBatch]:
    """Batches that end anywhere, and empty ones between them."""
    for batch in table(rows).to_batches(max_chunksize=size):
        yield batch
        yield batch.slice(0, 0)


def expected(runs: list[list[Row]], match: Match) -> list[Row]:
    newest: dict[tuple[object, ...], list[Row]] = {}
    width = 2 if match is Match.GROUP else 3
    for rows in runs:
        mine: dict[tuple[object, ...], list[Row]] = {}
        for row in rows:
            mine.setdefault(row[:width], []).append(row)
        newest |= mine
    return sorted(chain.from_iterable(newest.values()), key=lambda row: row[:3])


@given(st.data(), st.sampled_from(Match), st.integers(1, 8))
def test_merging_streams_is_the_newest_of_each(data, match, size):
    positions = st.tuples(
        st.integers(0, 2),
        st.sampled_from([b"a", b"b"]),
        st.integers(0, 9).map(lambda n: b"%d" % n),
    )
    several = st.lists(positions, max_size=14, unique=match is Match.ROW)
    runs = []
    for number, some in enumerate(data.draw(st.lists(several, max_size=4))):
        runs.append([(*place, 100 * number + n) for n, place in enumerate(some)])
    runs = [sorted(run, key=lambda row: row[:3]) for run in runs]
    sizes = [data.draw(st.integers(1, 9)) for _ in runs]

    with batches_of(size):
        found = seen(merged([cut(run, n) for run, n in zip(runs, sizes, strict=True)], match))

    assert found == expected(runs, match)


@pytest.mark.parametrize("match", Match)
def test_a_group_larger_than_memory_is_merged_in_parts(match):
    rows = [(1, b"a", b"%06d" % n, n) for n in range(20_000)]
    old = cut(rows, 500)
    new = cut([(1, b"a", b"%06d" % n, -n) for n in range(0, 20_000, 2)], 500)

    with batches_of(1000):
        sizes = [batch.num_rows for batch in merged([old, new], match)]

    assert max(sizes) <= 1000
    assert sum(sizes) == (10_000 if match is Match.GROUP else 20_000)


def test_a_fault_in_the_middle_of_a_merge_leaves_nothing(tmp_path):
    store = FileStore.at(tmp_path)
    with batches_of(10):
        runs = [run_of(store, [(n, b"k", b"", n) for n in range(100)]) for _ in range(2)]
    before = store.names()
    path = tmp_path / runs[1].ref.name
    path.write_bytes(path.read_bytes()[:-1] + b"x")

    with pytest.raises(DamagedState, match=r"arrow was altered"):
        merge_runs(store, MERGER.rows_name(), runs, Match.GROUP, drop_tombstones=True)

    assert store.names() == before


KILLED = """
import os, signal, sys
from headgate.incremental.state import FileStore, Match, Run, read_manifest, merge_runs
from headgate.incremental.state import batches, merging
batches.BATCH_ROWS = merging.BATCH_ROWS = 1000
root, manifest, stage, name = sys.argv[1:]
store = FileStore.at(root)
[bucket] = read_manifest(store, manifest).buckets
runs = [Run(store, ref, stage) for ref in bucket.files]
written, numbers = batches.BatchWriter.write, iter(range(6))
def killed(writer, batch):
    if next(numbers) == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    written(writer, batch)
batches.BatchWriter.write = killed
merge_runs(store, name, runs, Match.GROUP, drop_tombstones=True)
"""


def test_a_merge_that_is_killed_leaves_the_epoch_and_garbage(tmp_path):
    store = FileStore.at(tmp_path)
    base = run_of(store, [(n, b"k", b"", n) for n in range(20_000)])
    run = run_of(store, [(n, b"k", b"", -n) for n in range(0, 20_000, 7)])
    name = WRITER.manifest_name()
    bucket = BucketState(WHOLE, base.ref, (run.ref,))
    write_manifest(store, name, Manifest(STAGE, "v1", 1, Match.GROUP, (bucket,)))
    half = MERGER.rows_name()

    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, str(tmp_path), name, STAGE, half]
    ended = subprocess.run(command, check=False, env=environment, timeout=120)

    assert ended.returncode == -signal.SIGKILL
    assert 0 < (tmp_path / half).stat().st_size < base.ref.length
    manifest = read_manifest(store, name)
    runs = [Run(store, ref, STAGE) for ref in manifest.buckets[0].files]
    values = [value for *_, value in seen(BucketReader(runs, Match.GROUP).everything())]
    assert values == [n if n % 7 else -n for n in range(20_000)]
    kept = {name: manifest}
    assert unneeded(store.names(), kept, [MERGER.prefix]) == []
    assert unneeded(store.names(), kept, []) == [half]


def test_a_merge_is_not_larger_in_memory_than_its_batches(tmp_path):
    store = FileStore.at(tmp_path)
    with batches_of(2000):
        content = (
            table([(n, b"k", b"", n) for n in range(at, at + 2000)]).to_batches()[0]
            for at in range(0, 200_000, 2000)
        )
        base = write_run(store, WRITER.rows_name(), content, STAGE, schema=SCHEMA)
        delta = run_of(store, [(n, b"k", b"", -n) for n in range(0, 200_000, 100)])
        runs = [Run(store, base, STAGE), delta]
        most = 0
        start = pa.total_allocated_bytes()
        for _ in merged([run.batches() for run in runs], Match.GROUP):
            most = max(most, pa.total_allocated_bytes() - start)

    assert most < base.length / 10


def test_one_run_is_passed_on_as_it_is():
    store = memory_store()
    rows = [(1, b"a", b"", None), (1, b"b", b"", 1)]

    assert seen(merged([run_of(store, rows).batches()], Match.GROUP)) == rows
