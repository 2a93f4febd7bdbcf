"""Times with zones, decimals and exact doubles in files and messages."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headgate.engine import FileFormat, FilesSpec, TopicSpec
from headgate.incremental import UnusableFile
from headgate.incremental.arrivals import ArrivedFile
from headgate.incremental.sources import rows_of
from headgate.incremental.state.files import FileStore
from headgate.incremental.topics.decoding import TopicMessage, UnusableMessage, batches_of

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
NAIVE, ZONED = "timestamp[us]", "timestamp[us, tz=UTC]"


def read(place: Path, format_: FileFormat, kind: str, content: bytes | pa.Table) -> list[Any]:
    path = place / "f"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        pq.write_table(content, path)
    spec = FilesSpec(str(place), format_, {"c": kind})
    file = ArrivedFile("f", 0, path.stat().st_size)
    batches = rows_of(FileStore.at(place), spec, file)
    return [value for batch in batches for value in batch.column("c").to_pylist()]


def written(format_: FileFormat, text: str) -> bytes:
    line = text if format_ is FileFormat.CSV else json.dumps({"c": text})
    return f"c\n{line}\n".encode() if format_ is FileFormat.CSV else f"{line}\n".encode()


@pytest.mark.parametrize("format_", [FileFormat.CSV, FileFormat.JSON])
@pytest.mark.parametrize("text", ["2026-07-01T12:00:00Z", "2026-07-01T21:00:00+09:00"])
def test_a_time_with_a_zone_is_read_where_one_is_declared(
    format_: FileFormat, text: str, tmp_path: Path
) -> None:
    assert read(tmp_path, format_, ZONED, written(format_, text)) == [NOON]
    with pytest.raises(UnusableFile, match="zone offset"):
        read(tmp_path, format_, NAIVE, written(format_, text))


@pytest.mark.parametrize("format_", [FileFormat.CSV, FileFormat.JSON])
def test_a_time_without_a_zone_is_none_of_a_zone(format_: FileFormat, tmp_path: Path) -> None:
    content = written(format_, "2026-07-01T12:00:00")
    assert read(tmp_path, format_, NAIVE, content) == [NOON.replace(tzinfo=None)]
    with pytest.raises(UnusableFile, match="zone offset"):
        read(tmp_path, format_, ZONED, content)


@pytest.mark.parametrize(
    ("found", "declared", "value"),
    [
        (pa.array([NOON], pa.timestamp("ms", "Asia/Tokyo")), ZONED, NOON),
        (pa.array([1, 2**53]), "double", 1.0),
        (pa.array([7], pa.uint64()), "double", 7.0),
        (pa.array([Decimal("1.20")]), "decimal(10, 1)", Decimal("1.2")),
        (pa.array([5], pa.int8()), "decimal(10, 2)", Decimal(5)),
        (pa.array([1.5], pa.float32()), "double", 1.5),
    ],
)
def test_columns_of_parquet_are_read_as_what_holds_them(
    found: pa.Array, declared: str, value: Any, tmp_path: Path
) -> None:
    assert read(tmp_path, FileFormat.PARQUET, declared, pa.table({"c": found}))[0] == value


@pytest.mark.parametrize(
    ("found", "declared", "words"),
    [
        (pa.array([NOON], pa.timestamp("us", "UTC")), NAIVE, "and the dataflow file declares"),
        (pa.array([NOON.replace(tzinfo=None)]), ZONED, "and the dataflow file declares"),
        (pa.array([2**53 + 1]), "double", "has a value that is no double"),
        (pa.array([Decimal("1.25")]), "decimal(10, 1)", "has a value that is no decimal"),
        (pa.array([1.5]), "decimal(10, 1)", "and the dataflow file declares"),
    ],
)
def test_columns_of_parquet_that_would_change_are_refused(
    found: pa.Array, declared: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(UnusableFile, match=words):
        read(tmp_path, FileFormat.PARQUET, declared, pa.table({"c": found}))


def test_messages_have_zones_and_decimals_too() -> None:
    def rows(kind: str, value: Any) -> list[Any]:
        message = TopicMessage(0, 0, 0, None, json.dumps({"c": value}).encode())
        return [
            r["c"]
            for b in batches_of(TopicSpec("t", {"c": kind}), [message])
            for r in b.to_pylist()
        ]

    assert rows(ZONED, "2026-07-01T21:00:00+09:00") == [NOON]
    assert rows("decimal(20, 2)", "123456789012345678.25") == [Decimal("123456789012345678.25")]
    with pytest.raises(UnusableMessage, match="zone offset"):
        rows(NAIVE, "2026-07-01T12:00:00Z")
