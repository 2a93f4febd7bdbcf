"""Which files have come: each is read once, and one that comes too late is told."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.fs
import pytest
from directories import COLUMNS, FORMATS, NOW, SECOND, Directory, passing
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.engine import FileFormat, FilesSpec, OnChange, RunPurpose
from headgate.incremental import (
    StageError,
    UnusableFile,
    files_cursor,
)
from headgate.incremental.arrivals import Arrivals, FilesCursor
from headgate.incremental.sources import rows_of
from headgate.incremental.state.errors import ChangedStage
from headgate.incremental.state.files import FileStore
from headgate.spark import Run


@pytest.mark.parametrize("format_", FORMATS)
def test_each_file_is_read_once(format_: FileFormat, tmp_path: Path) -> None:
    directory = Directory(tmp_path, format_)
    directory.put("b", 1, 2)
    assert directory.run() == [1, 2]
    directory.put("a", 3, at=1)
    directory.put("sub/c", 4, at=2)
    assert directory.run() == [3, 4]
    assert directory.run() == []


def test_an_empty_directory_or_none_is_no_error(directory: Directory) -> None:
    assert directory.run() == []
    directory.place.rmdir()
    assert directory.run() == []
    directory.put("a", 1)
    assert directory.run() == [1]


def test_files_of_one_time_are_told_apart_by_name(directory: Directory) -> None:
    directory.put("a", 1)
    assert directory.run() == [1]
    directory.put("b", 2)
    directory.put("A", 3)
    assert sorted(directory.run()) == [2, 3]


def test_a_file_that_comes_a_little_late_is_read(directory: Directory) -> None:
    directory.put("new", 1)
    directory.run()
    directory.put("late", 2, at=-3599)
    assert directory.run() == [2]


def test_a_file_that_comes_too_late_stops_the_run_until_it_is_touched(
    directory: Directory,
) -> None:
    directory.put("new", 1)
    directory.put("old", 2, at=-10_000)
    directory.run()
    late = directory.put("late", 3, at=-5000)
    for _ in range(2):
        with pytest.raises(UnusableFile, match=r"1 more files are older than 3600 s .*late"):
            directory.run()
    os.utime(late, ns=(0, NOW + SECOND))
    assert directory.run() == [3]


def test_what_is_remembered_does_not_grow_with_the_directory(directory: Directory) -> None:
    for hour in range(30):
        directory.put(f"f{hour}", hour, at=hour * 1800)
        assert directory.run() == [hour]
    assert len(directory.cursor.read) <= 3
    assert directory.cursor.older >= 27


def test_a_larger_late_reads_nothing_twice(directory: Directory) -> None:
    directory.put("new", 1)
    directory.put("old", 2, at=-5000)
    assert sorted(directory.run()) == [1, 2]
    directory.late = 10_000
    assert directory.run() == []
    directory.put("next", 3, at=5000)
    assert directory.run() == [3]
    assert directory.run() == []


def test_a_file_of_the_future_makes_no_other_late(directory: Directory) -> None:
    os.utime(directory.put("future", 1), ns=(0, 9_000_000_000 * SECOND))
    assert directory.run() == [1]
    directory.put("now", 2)
    os.utime(directory.place / "now")
    assert directory.run() == [2]
    assert directory.run() == []


def test_removed_files_are_no_error_and_those_that_come_back_are_not_read_twice(
    directory: Directory,
) -> None:
    path = directory.put("a", 1)
    directory.put("old", 5, at=-5000)
    directory.run()
    content = path.read_bytes()
    path.unlink()
    (directory.place / "old").unlink()
    assert directory.run() == []
    path.write_bytes(content)
    os.utime(path, ns=(0, NOW))
    assert directory.run() == []


def test_hidden_names_are_not_read(directory: Directory) -> None:
    for name in ("_a", ".b", "_SUCCESS", "_temporary/0/c", ".d/e", "f/_g"):
        directory.put(name, 1)
    directory.put("there", 2)
    assert directory.run() == [2]


def test_a_changed_file_stops_the_run(directory: Directory) -> None:
    directory.put("a", 1)
    directory.run()
    directory.put("a", 1, 2, at=5)
    with pytest.raises(UnusableFile, match=r"a changed after being read.*new names"):
        directory.run()


def test_a_failed_run_skips_nothing(directory: Directory) -> None:
    directory.put("a", 1)
    directory.run()
    directory.put("b", 2, at=1)
    bad = directory.put("c", 3, at=2)
    whole = bad.read_bytes()
    bad.write_bytes(whole[:-9])
    os.utime(bad, ns=(0, NOW + 2 * SECOND))
    for _ in range(2):
        with pytest.raises(UnusableFile, match=str(bad)):
            directory.run()
    bad.write_bytes(whole)
    directory.put("d", 4, at=-100)
    assert sorted(directory.run()) == [2, 3, 4]


def test_what_a_stage_publishes_is_no_source(directory: Directory) -> None:
    directory.put("a", 1)
    directory.run()
    directory.place = directory.out
    directory.flow.results.clear()
    with pytest.raises(StageError, match=r"name the flow in `in`"):
        directory.run()


def test_a_rebuild_reads_everything_that_is_there(directory: Directory) -> None:
    directory.put("a", 1, at=-9000)
    directory.put("b", 2)
    directory.run()
    directory.put("c", 3)
    assert sorted(directory.run(purpose=RunPurpose.REBUILD)) == [1, 2, 3]
    assert directory.run() == []


def test_another_place_asks_what_becomes_of_the_state(directory: Directory, tmp_path: Path) -> None:
    directory.put("a", 1)
    directory.run()
    before = directory.place
    directory.place = tmp_path / "elsewhere"
    directory.put("b", 2)
    words = rf"`in` was the files in {before}, and is the files in {directory.place}"
    with pytest.raises(ChangedStage, match=words):
        directory.run()
    directory.run(on_change=OnChange.REBUILD)
    assert directory.published() == [2]


def test_a_container_that_becomes_files_asks_too(directory: Directory) -> None:
    flow = directory.flow
    flow.containers["in"] = [{"key": "k", "n": 1}]
    flow.run("pass", passing(), flow.request())
    del flow.containers["in"]
    with pytest.raises(ChangedStage, match="`in` was a container, and is the files in"):
        directory.run()


def test_an_input_flow_that_is_nowhere_is_said(directory: Directory) -> None:
    run = directory.flow.attempt("pass", directory.flow.request())
    with pytest.raises(StageError, match="nor files or a topic that it reads"):
        passing()(cast(Run, run))


def test_cursors_of_others_are_none_of_files() -> None:
    assert files_cursor(msgspec.msgpack.encode({"offsets": {}})) is None
    assert (
        files_cursor(msgspec.msgpack.encode({"type": "flow", "last": "", "columns": b""})) is None
    )


def elsewhere(folder: Path) -> FileStore:
    """The same files, by a file system that is not this machine's."""
    system = pa.fs.SubTreeFileSystem(str(folder.parent), pa.fs.LocalFileSystem())
    return FileStore(system, folder.name)


def test_a_file_system_that_is_elsewhere_is_read_likewise(directory: Directory) -> None:
    directory.put("a", 1)
    directory.put("sub/b", 2, at=1)
    store = elsewhere(directory.place)
    spec = FilesSpec(str(directory.place), columns=COLUMNS)
    files, cursor = Arrivals("in", spec, store).since(None, NOW)
    assert [file.name for file in files] == ["a", "sub/b"]
    assert [b["n"].to_pylist() for file in files for b in rows_of(store, spec, file)] == [[1], [2]]
    assert Arrivals("in", spec, store).since(cursor, NOW) == ([], cursor)


class Listing(FileStore):
    """A store of files that are only listed."""

    def __init__(self) -> None:
        super().__init__(pa.fs.LocalFileSystem(), "/nowhere")
        self.files: dict[str, int] = {}

    def listed(self) -> list[Any]:
        return [
            pa.fs.FileInfo(f"/nowhere/{name}", pa.fs.FileType.File, mtime_ns=at, size=1)
            for name, at in self.files.items()
        ]


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=200, deadline=None)
def test_no_file_is_read_twice_and_none_is_skipped_in_silence(seed: int, removes: bool) -> None:
    drawn = random.Random(seed)
    store = Listing()
    arrivals = Arrivals("in", FilesSpec("/nowhere", late=10.0), store)
    cursor: FilesCursor | None = None
    read: Counter[str] = Counter()
    now = NOW
    for number in range(30):
        now += drawn.randrange(8) * SECOND
        for one in range(drawn.randrange(3)):
            age = drawn.choice((0, 0, 1, 5, 9, 9, 9, 12, 40))
            store.files[f"{number}-{one}"] = now - age * SECOND
        if removes and store.files:
            del store.files[drawn.choice(sorted(store.files))]
        try:
            found, cursor = arrivals.since(cursor, now)
        except UnusableFile:
            return  # it was said, and nothing was read
        read.update(file.name for file in found)
        assert set(read.values()) <= {1}
        if not removes:  # old files that went in the same moment hide those that came
            assert set(read) == set(store.files)
