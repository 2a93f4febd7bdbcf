"""Rows of a state as CSV, JSON lines or Parquet, on the terminal or piece by piece in a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from headgate.events import key_text


class Format(StrEnum):
    """As what rows of a state are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    """One object a line."""
    PARQUET = "parquet"


def plain(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows as JSON can say them: bytes as texts of keys, which ``--key`` takes."""
    return [_builtins(row) for row in rows.to_pylist()]


def _builtins(value: Any) -> Any:
    return msgspec.to_builtins(_with_texts(value))


def _with_texts(value: Any) -> Any:
    if isinstance(value, bytes):
        return key_text(value)
    if isinstance(value, dict):
        return {name: _with_texts(each) for name, each in value.items()}
    if isinstance(value, list | tuple):  # an entry of a map is a tuple
        return [_with_texts(each) for each in value]
    return value


def json_lines(rows: pa.Table) -> bytes:
    """Return rows as JSON, one object a line."""
    return b"".join(msgspec.json.encode(row) + b"\n" for row in plain(rows))


def csv_text(rows: pa.Table) -> bytes:
    """Return rows as CSV with a line of names."""
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(_flat(rows), sink)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def write_pieces(pieces: Iterable[pa.Table], output: Path, format_: Format) -> int:
    """Write rows to a file, and return how many.

    The file is there once all of them are: where that fails, what was there before still is.

    Args:
        pieces: tables of one schema, one at least.
        output: the file.
        format_: CSV, JSON or Parquet.

    Raises:
        OSError: it cannot be written.
        pyarrow.ArrowException: the format has no place for a column.
    """
    count = 0
    pieces = iter(map(_flat, pieces) if format_ is Format.CSV else pieces)
    first = next(pieces)
    with _replaced(output) as part, _writer(part, first.schema, format_) as write:
        for piece in chain([first], pieces):
            write(piece)
            count += len(piece)
    return count


@contextmanager
def _writer(
    part: Path, schema: pa.Schema, format_: Format
) -> Iterator[Callable[[pa.Table], object]]:
    """Give what writes a table to the end of a file."""
    if format_ is Format.JSON:
        with part.open("wb") as sink:
            yield lambda rows: sink.write(json_lines(rows))
        return
    columnar = format_ is Format.PARQUET
    make = pyarrow.parquet.ParquetWriter if columnar else pyarrow.csv.CSVWriter
    with make(part, schema) as writer:
        yield writer.write_table


@contextmanager
def _replaced(output: Path) -> Iterator[Path]:
    """Give a file beside another one, which takes its place at the end unless something fails."""
    part = output.with_name(f"{output.name}.part")
    try:
        yield part
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)


def _flat(rows: pa.Table) -> pa.Table:
    """Return rows with lists and structs as JSON, and bytes as texts of keys, for CSV."""
    for at, field in enumerate(rows.schema):
        if pa.types.is_nested(field.type):
            texts = [None if v is None else json.dumps(_builtins(v)) for v in rows[at].to_pylist()]
            rows = rows.set_column(at, field.name, pa.array(texts, pa.string()))
        elif pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            texts = [None if v is None else key_text(v) for v in rows[at].to_pylist()]
            rows = rows.set_column(at, field.name, pa.array(texts, pa.string()))
    return rows
