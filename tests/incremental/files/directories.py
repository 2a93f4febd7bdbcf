"""A directory that others put files into, and a stage that reads them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.fs
import pyarrow.parquet as pq
from scripted_runs import ScriptedFlow

from headgate.engine import FileFormat, FilesSpec, OnChange, RunPurpose
from headgate.incremental import (
    InputFlow,
    PublishedIncrements,
    Stage,
    files_cursor,
)
from headgate.incremental.arrivals import FilesCursor
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.manifest import read_manifest
from headgate.spark import decode_result

COLUMNS = {"key": "string", "n": "int64"}
SCHEMA = pa.schema({"key": pa.string(), "n": pa.int64()})
SECOND = 1_000_000_000
NOW = 1_700_000_000 * SECOND
FORMATS = tuple(FileFormat)


def written(format_: FileFormat, rows: list[dict[str, Any]], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows, SCHEMA)
    match format_:
        case FileFormat.PARQUET:
            pq.write_table(table, path)
        case FileFormat.CSV:
            pyarrow.csv.write_csv(table, path)
        case FileFormat.JSON:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def passing() -> Stage:
    return Stage(
        "passing",
        inputs={"in": InputFlow()},
        outputs={"units": COLUMNS},
        translate=lambda _, flows: {"units": flows["in"]},
    )


class Directory:
    """A directory that others put files into, and a stage that passes on what is in them."""

    def __init__(self, folder: Path, format_: FileFormat = FileFormat.PARQUET) -> None:
        self.place = folder / "in"
        self.place.mkdir()
        self.out = folder / "out"
        self.format = format_
        self.flow = ScriptedFlow(folder / "state", [], SCHEMA)
        self.late = 3600.0
        self.time = NOW

    def put(self, name: str, *numbers: int, at: float = 0) -> Path:
        path = self.place / name
        written(self.format, [{"key": f"k{n}", "n": n} for n in numbers], path)
        os.utime(path, ns=(0, NOW + int(at * SECOND)))
        return path

    def run(
        self,
        stage: Stage | None = None,
        purpose: RunPurpose = RunPurpose.ADVANCE,
        on_change: OnChange = OnChange.REFUSE,
        columns: dict[str, str] | None = None,
    ) -> list[int]:
        """Have a run committed; return the numbers that it has read."""
        spec = FilesSpec(str(self.place), self.format, columns or COLUMNS, self.late)
        request = self.flow.request(
            sources={"in": spec},
            sinks={"units": FilesSpec(str(self.out))},
            purpose=purpose,
            on_change=on_change,
        )
        before = self.published()
        self.flow.run("pass", stage or passing(), request)
        now = self.published()
        return now if purpose is RunPurpose.REBUILD else now[len(before) :]

    def published(self) -> list[int]:
        published = PublishedIncrements(str(self.out))
        return published.arrow()["n"].to_pylist() if published.increments else []

    @property
    def cursor(self) -> FilesCursor:
        result = decode_result(self.flow.results["pass"])
        assert result is not None
        manifest = read_manifest(FileStore.at(self.flow.path), result.manifest)
        cursor = files_cursor(manifest.cursors["in"])
        assert cursor is not None
        return cursor
