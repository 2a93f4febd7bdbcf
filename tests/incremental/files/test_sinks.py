"""Flows in files for everybody: readers see committed increments, each once, and nothing else."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from mortal_files import Killed, Lives, MortalStore
from scripted_runs import ScriptedFlow, ScriptedRun
from stages_of_tests import counter

from headgate.engine import FilesSpec, OnChange, RunPurpose
from headgate.incremental import (
    INCREMENT,
    DamagedIncrement,
    InputFlow,
    NewerState,
    PublishedIncrements,
    Stage,
    StageError,
    publish_committed,
)
from headgate.incremental.running import StageRun
from headgate.incremental.state.files import FileStore
from headgate.spark import Run

KEYED = pa.schema({"key": pa.int64(), "n": pa.int64()})


def copying() -> Stage:
    """Passes on each unit, without a state."""
    return Stage(
        "copying",
        inputs={"in": InputFlow()},
        outputs={"units": {"key": "int64", "n": "int64"}},
        translate=lambda _, flows: {"units": flows["in"]},
    )


class Copies:
    """Runs of a stage that copies its input to files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = folder / "published"
        self.flow = ScriptedFlow(folder / "state", ["in"], KEYED)
        self.sinks = {"units": FilesSpec(str(self.place))}
        self.given: list[dict[str, Any]] = []
        self.stage = copying()

    def give(self, *numbers: int) -> None:
        rows = [{"key": number, "n": number} for number in numbers]
        self.flow.containers["in"] += rows
        self.given += rows

    def attempt(
        self, lives: Lives | None = None, purpose: RunPurpose = RunPurpose.ADVANCE
    ) -> ScriptedRun:
        """Return an attempt that is carried out up to its commit."""
        run = self.flow.attempt("copy", self.flow.request(sinks=self.sinks, purpose=purpose))
        assert run.stage is not None
        store: Callable[[str], FileStore] = FileStore.at
        if lives is not None:
            store = lambda place: MortalStore(Path(place), lives)  # noqa: E731
        StageRun(
            self.stage.spec, cast(Run, run), run.stage, store(run.stage.location), store
        ).carry_out()
        return run

    def run(self, purpose: RunPurpose = RunPurpose.ADVANCE) -> None:
        run = self.attempt(purpose=purpose)
        self.flow.commit(run)
        for follow in run.following:
            follow()

    def read(self) -> list[int]:
        published = PublishedIncrements(str(self.place))
        return published.arrow()["n"].to_pylist() if published.increments else []


@pytest.fixture
def copies(tmp_path: Path) -> Copies:
    return Copies(tmp_path)


def test_readers_see_what_was_committed_in_its_order(copies: Copies) -> None:
    for numbers in ((1, 2), (3,), (4, 5)):
        copies.give(*numbers)
        copies.run()

    published = PublishedIncrements(str(copies.place))
    assert [each.whole for each in published.increments] == [True, False, False]
    assert published.arrow().to_pylist() == [
        {INCREMENT: each.increment, "key": n, "n": n}
        for each, numbers in zip(published.increments, ((1, 2), (3,), (4, 5)), strict=True)
        for n in numbers
    ]


def test_nothing_is_seen_before_the_commit(copies: Copies) -> None:
    copies.give(1)
    copies.attempt()

    assert list(copies.place.rglob("*.parquet"))
    assert PublishedIncrements(str(copies.place)).increments == ()


def test_what_a_commit_could_not_publish_the_next_run_does(copies: Copies) -> None:
    copies.give(1)
    copies.flow.commit(copies.attempt())  # and whoever committed is gone
    assert PublishedIncrements(str(copies.place)).increments == ()

    copies.give(2)
    copies.attempt()
    assert copies.read() == [1]


def test_who_commits_for_others_publishes_by_the_result_alone(copies: Copies) -> None:
    copies.give(1)
    run = copies.attempt()
    copies.flow.commit(run)
    assert run.stage is not None

    publish_committed(run.stage, run.result, run.kafka)
    publish_committed(run.stage, run.result, run.kafka)
    assert copies.read() == [1]


def test_a_run_without_rows_publishes_nothing(copies: Copies) -> None:
    copies.give(1)
    copies.run()
    copies.run()

    assert len(PublishedIncrements(str(copies.place)).increments) == 1
    assert len(list(copies.place.iterdir())) == 2, "a folder for rows, and that of entries"


def test_a_rebuild_replaces_what_was_there_even_by_nothing(copies: Copies) -> None:
    copies.give(1, 2)
    copies.run()
    before = PublishedIncrements(str(copies.place)).increments[-1].increment
    copies.flow.containers["in"].clear()
    copies.run(RunPurpose.REBUILD)

    published = PublishedIncrements(str(copies.place))
    assert published.arrow().schema.names == [INCREMENT, "key", "n"]
    assert len(published.arrow()) == 0
    assert len(published.files(after=before)) == 1
    assert copies.read() == []


def test_readers_take_up_where_they_were(copies: Copies) -> None:
    copies.give(1)
    copies.run()
    first = PublishedIncrements(str(copies.place)).increments[-1].increment
    copies.give(2)
    copies.run()

    published = PublishedIncrements(str(copies.place))
    assert published.arrow(after=first)["n"].to_pylist() == [2]
    assert published.arrow(after=published.increments[-1].increment)["n"].to_pylist() == []
    until = PublishedIncrements(str(copies.place), until=first)
    assert until.arrow()["n"].to_pylist() == [1]
    assert pq.read_table(until.files()[0])["n"].to_pylist() == [1]


@pytest.mark.parametrize("seed", range(6))
def test_each_row_is_seen_once_whoever_is_killed(seed: int, copies: Copies) -> None:
    drawn = random.Random(seed)
    kills = 0
    for number in range(8):
        copies.give(*(100 * number + i for i in range(drawn.randrange(4))))
        while True:
            fate = drawn.choice(("lives", "killed", "unpublished", "overtaken"))
            lives = Lives(drawn.randrange(16)) if fate == "killed" else None
            try:
                run = copies.attempt(lives)
            except Killed:
                kills += 1
                assert set(copies.read()) <= {row["n"] for row in copies.given}
                continue
            if fate != "overtaken":
                break
        copies.flow.commit(run)
        if fate != "unpublished":
            for follow in (*run.following, *run.following):
                follow()
    copies.run()

    assert Counter(copies.read()) == Counter(row["n"] for row in copies.given)
    assert kills, "nobody was killed"


def test_a_kill_at_any_write_shows_no_part_of_an_increment(copies: Copies) -> None:
    copies.give(1)
    copies.flow.commit(copies.attempt())
    copies.give(2)
    points = 0
    while True:
        with suppress(Killed):
            run = copies.attempt(Lives(points))
            break
        points += 1
        assert copies.read() in ([], [1])
    assert points > 8
    copies.flow.commit(run)
    copies.give(3)
    copies.run()
    assert copies.read() == [1, 2, 3]


def test_files_of_lost_attempts_are_removed_and_those_of_others_stay(copies: Copies) -> None:
    for number in range(1, 18):
        copies.give(number)
        if number % 3 == 0:
            copies.attempt()  # it is lost
        copies.run()

    published = PublishedIncrements(str(copies.place))
    folders = {path.name for path in copies.place.iterdir()} - {"_increments"}
    named = {each.name for each in published.increments}
    assert named <= folders
    assert len(folders - named) < 5, "nothing is collected"
    assert copies.read() == list(range(1, 18))


def test_removing_an_entry_removes_its_rows(copies: Copies) -> None:
    for number in range(1, 4):
        copies.give(number)
        copies.run()
    first = PublishedIncrements(str(copies.place)).increments[0]
    (copies.place / "_increments" / f"{first.name}.json").unlink()
    for number in range(4, 10):
        copies.give(number)
        copies.run()

    assert not (copies.place / first.name).exists()
    assert copies.read() == list(range(2, 10))


def test_large_increments_are_several_files(
    copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.incremental.sinks.FILE_BYTES", 1000)
    monkeypatch.setattr("headgate.incremental.sinks.BATCH_ROWS", 50)
    copies.give(*range(300))
    copies.run()

    published = PublishedIncrements(str(copies.place))
    assert sum(file.rows for each in published.increments for file in each.files) == 300
    assert Counter(copies.read()) == Counter(range(300))


def test_a_file_system_that_is_elsewhere_has_it_likewise(
    copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere(location: str | Path) -> FileStore:
        system = pafs.SubTreeFileSystem(str(copies.folder), pafs.LocalFileSystem())
        return FileStore(system, Path(location).name)

    monkeypatch.setattr("headgate.incremental.state.files.FileStore.at", elsewhere)
    for number in range(10):
        copies.give(number)
        run = copies.attempt()
        copies.flow.commit(run)
        for follow in (*run.following, *run.following):
            follow()

    entries = sorted(path.name for path in (copies.place / "_increments").iterdir())
    assert len(entries) == 10, entries
    assert copies.read() == list(range(10))


@pytest.mark.parametrize("kept_as", ["files", "objects"])
def test_an_entry_is_written_once_and_leaves_nothing_beside_it(
    kept_as: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kept_as == "objects":
        monkeypatch.setattr("headgate.incremental.state.files._WITHOUT_FOLDERS", {"subtree"})
    (tmp_path / "out" / "entries").mkdir(parents=True)
    store = FileStore(pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem()), "out")

    for data in (b"first", b"second"):
        store.place_bytes("entries/one", data)
    assert [path.name for path in (tmp_path / "out" / "entries").iterdir()] == ["one"]
    assert store.read_bytes("entries/one") == b"first"


def test_two_stages_do_not_share_a_place(copies: Copies) -> None:
    copies.give(1)
    copies.run()
    other = copies.flow.attempt("other", copies.flow.request(sinks=copies.sinks))

    with pytest.raises(StageError, match=r"holds increments of flow `units` of `flow/copy`"):
        copying()(cast(Run, other))


def test_a_dataflow_of_the_same_name_does_not_go_on_where_another_ended(copies: Copies) -> None:
    for number in range(3):
        copies.give(number)
        copies.run()
    again = Copies(copies.folder)
    again.flow.results.clear()

    with pytest.raises(StageError, match="an earlier dataflow of this name"):
        again.attempt()


def test_flows_that_a_stage_does_not_have_are_named(copies: Copies) -> None:
    sinks = {"unit": FilesSpec(str(copies.place))}
    run = copies.flow.attempt("copy", copies.flow.request(sinks=sinks))

    with pytest.raises(StageError, match=r"names `unit` in `writes`"):
        copying()(cast(Run, run))


@pytest.mark.parametrize("content", [b"", b"{", b'{"name": 3}', b"[]", b'{"version": "x"}'])
def test_an_entry_that_is_none_is_named(content: bytes, copies: Copies) -> None:
    copies.give(1)
    copies.run()
    [entry] = (copies.place / "_increments").iterdir()
    entry.write_bytes(content)

    with pytest.raises(DamagedIncrement, match=entry.name):
        PublishedIncrements(str(copies.place))


def test_an_entry_of_a_newer_program_is_refused(copies: Copies) -> None:
    copies.give(1)
    copies.run()
    [entry] = (copies.place / "_increments").iterdir()
    entry.write_bytes(
        msgspec.json.encode({**msgspec.json.decode(entry.read_bytes()), "version": 2})
    )

    with pytest.raises(NewerState, match="upgrade"):
        PublishedIncrements(str(copies.place))


@pytest.mark.parametrize("cut", [0, 100, None])
def test_a_file_that_is_not_as_it_was_is_named(cut: int | None, copies: Copies) -> None:
    copies.give(1)
    copies.run()
    [file] = PublishedIncrements(str(copies.place)).files()
    if cut is None:
        Path(file).unlink()
    else:
        Path(file).write_bytes(Path(file).read_bytes()[:cut])

    with pytest.raises(DamagedIncrement, match=Path(file).name):
        copies.read()


def test_what_else_lies_there_is_not_seen_and_stays(copies: Copies) -> None:
    copies.place.mkdir()
    (copies.place / "README").write_text("ours")
    (copies.place / "_increments").mkdir()
    (copies.place / "_increments" / ".half.json.tmp").write_text("{")
    for number in range(9):
        copies.give(number)
        copies.run()

    assert copies.read() == list(range(9))
    assert (copies.place / "README").read_text() == "ours"


def test_a_stage_with_a_state_and_a_container_besides_publishes_too(tmp_path: Path) -> None:
    flow = ScriptedFlow(tmp_path / "state", ["in", "other"], KEYED)
    request = flow.request(sinks={"counts": FilesSpec(str(tmp_path / "out"))})
    for n in (1, 2):
        flow.containers["in"].append({"key": 7, "n": n})
        flow.run("count", counter(), request)

    rows = PublishedIncrements(str(tmp_path / "out")).arrow().to_pylist()
    assert [(row["key"], row["n"]) for row in rows] == [("7", 1), ("7", 3)]


def test_a_changed_stage_begins_anew_in_files_too(tmp_path: Path) -> None:
    flow = ScriptedFlow(tmp_path / "state", ["in"], KEYED)
    sinks = {"counts": FilesSpec(str(tmp_path / "out"))}
    flow.containers["in"].append({"key": 7, "n": 1})
    flow.run("count", counter(), flow.request(sinks=sinks))
    flow.containers["in"].append({"key": 8, "n": 1})
    stage = counter(columns=pa.schema({"n": pa.int64(), "more": pa.int64()}))
    flow.run("count", stage, flow.request(sinks=sinks, on_change=OnChange.REBUILD))

    [only] = PublishedIncrements(str(tmp_path / "out")).increments
    assert only.whole
