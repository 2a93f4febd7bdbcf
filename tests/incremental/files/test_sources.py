"""What is in files of others: whatever is wrong with one is told, and nothing is skipped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from directories import FORMATS, SCHEMA, Directory

from headgate.engine import FileFormat
from headgate.incremental import (
    PublishedIncrements,
    UnusableFile,
)
from headgate.incremental.arrivals import ArrivedFile
from headgate.incremental.state.files import FileStore


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9, 0.99])
def test_a_file_that_was_cut_short_is_named(
    format_: FileFormat, share: float, tmp_path: Path
) -> None:
    directory = Directory(tmp_path, format_)
    path = directory.put("a", *range(100))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    if not share and format_ is not FileFormat.PARQUET:
        assert directory.run() == [], "a text without lines has no rows"
        return
    if whole[: int(len(whole) * share)].endswith(b"\n"):
        path.write_bytes(whole[: int(len(whole) * share) - 1])
    with pytest.raises(UnusableFile, match=str(path)):
        directory.run()


@pytest.mark.parametrize(
    ("format_", "content", "column"),
    [
        (FileFormat.CSV, b"key,n\na,x\n", "n"),
        (FileFormat.CSV, b"key\na\n", "n"),
        (FileFormat.CSV, b"key,n\na,1\nb\n", ""),
        (FileFormat.CSV, b"\xff\xfe\x00\n\x01\n", ""),
        (FileFormat.JSON, b'{"key": "a", "n": "x"}\n', "n"),
        (FileFormat.JSON, b'{"key": "a", "n": 1.5}\n', "n"),
        (FileFormat.JSON, b'{"key": 1, "n": 1}\n', "key"),
        (FileFormat.JSON, b'[{"key": "a", "n": 1}]\n', ""),
        (FileFormat.JSON, b'{"key": "a"\n', ""),
        (FileFormat.PARQUET, b"PAR1 no PAR1", ""),
    ],
)
def test_what_does_not_fit_is_named_with_file_and_column(
    format_: FileFormat, content: bytes, column: str, tmp_path: Path
) -> None:
    directory = Directory(tmp_path, format_)
    path = directory.place / "bad"
    path.write_bytes(content)

    with pytest.raises(UnusableFile) as raised:
        directory.run()
    said = str(raised.value)
    assert said.startswith(f"{path}, column `{column}`," if column else f"{path} is not")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pa.table({"key": ["a"]}), "column `n`: there is no such column; it has key string"),
        (pa.table({"key": ["a"], "n": ["1"]}), "column `n` is string, and .* declares int64"),
        (pa.table({"key": [1], "n": [1]}), "column `key` is int64, and .* declares string"),
        (pa.table({"key": ["a"], "n": [1.0]}), "column `n` is double, and .* declares int64"),
        (
            pa.table({"key": ["a"], "n": pa.array([2**63], pa.uint64())}),
            "column `n` has a value that is no int64",
        ),
        (
            pa.Table.from_arrays(
                [pa.array(["a"]), pa.array([1]), pa.array([2])], ["key", "n", "n"]
            ),
            "column `n`: there is several",
        ),
    ],
)
def test_columns_of_parquet_are_checked(table: pa.Table, words: str, directory: Directory) -> None:
    pq.write_table(table, directory.place / "a")
    with pytest.raises(UnusableFile, match=words):
        directory.run()


def test_types_that_hold_the_same_are_read_as_each_other(directory: Directory) -> None:
    for name, table in (
        ("narrow", pa.table({"n": pa.array([1], pa.int8()), "key": ["a"], "more": [[1]]})),
        (
            "large",
            pa.table(
                {"n": pa.array([2], pa.uint64()), "key": pa.array(["a"]).cast("large_string")}
            ),
        ),
        ("coded", pa.table({"key": pa.array(["a"]).dictionary_encode(), "n": [3]})),
        ("null", pa.table({"key": pa.array([None], pa.string()), "n": pa.array([4])})),
    ):
        pq.write_table(table, directory.place / name)
    assert sorted(directory.run()) == [1, 2, 3, 4]


def test_missing_values_are_null(tmp_path: Path) -> None:
    directory = Directory(tmp_path, FileFormat.JSON)
    (directory.place / "a").write_text('{"n": 1}\n{"key": null, "n": null, "other": {}}\n')
    directory.run()
    rows = PublishedIncrements(str(directory.out)).arrow().select(["key", "n"]).to_pylist()
    assert rows == [{"key": None, "n": 1}, {"key": None, "n": None}]


def append(path: str) -> None:
    with Path(path).open("ab") as file:
        file.write(b"more")


class Meddling(FileStore):
    """A store whose files change between listing and reading."""

    meddle: Callable[[str], None]

    def open_input(self, name: str) -> pa.NativeFile:
        self.meddle(self.path(name))
        return super().open_input(name)


@pytest.mark.parametrize(
    ("meddle", "words"),
    [
        (lambda path: Path(path).unlink(), "was there when the run began, and is gone"),
        (lambda path: Path(path).write_bytes(b""), r"had \d+ bytes when the run began, and has 0"),
        (append, "somebody writes to it"),
    ],
)
def test_a_file_that_is_not_as_it_was_listed_stops_the_run(
    meddle: Callable[[str], None],
    words: str,
    directory: Directory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory.put("a", 1)
    directory.put("b", 2)
    monkeypatch.setattr(Meddling, "meddle", staticmethod(meddle), raising=False)
    monkeypatch.setattr("headgate.incremental.flows.FileStore", Meddling)

    with pytest.raises(UnusableFile, match=words):
        directory.run()
    assert directory.published() == []


def test_a_file_that_grows_while_it_is_read_stops_the_run(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = directory.put("a", 1)
    reading = FileStore.length

    def grown(self: FileStore, name: str) -> int:
        append(str(path))
        return reading(self, name)

    monkeypatch.setattr(FileStore, "length", grown)
    with pytest.raises(UnusableFile, match="somebody writes to it"):
        directory.run()


def test_files_that_are_much_for_the_driver_are_read_by_tasks(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def frame(run: Any, store: Any, spec: Any, files: list[ArrivedFile]) -> pa.Table:
        asked.append(tuple(file.name for file in files))
        return pa.Table.from_pylist([{"key": "k", "n": 7}], SCHEMA)

    monkeypatch.setattr("headgate.incremental.sources._by_tasks", frame)
    directory.flow.driver_rows = 3
    directory.put("a", 1, 2)
    directory.put("b", 3, 4)
    assert directory.run() == [7]
    assert asked == [("a", "b")]
