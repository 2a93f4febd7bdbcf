"""Input flows that are files of others: the rows of those that have come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from headgate.engine import FileFormat, FilesSpec
from headgate.incremental.arrivals import ArrivedFile, UnusableFile
from headgate.incremental.stages.carried import CarriedRows, read_by_tasks
from headgate.incremental.stages.specification import schema_of, times_as_text
from headgate.incremental.state.errors import DamagedState
from headgate.incremental.state.files import FileStore
from headgate.spark import Run

_PORTION: Final = 1 << 24
"""Bytes of a text that are parsed at a time; no row may be longer."""
_ROWS: Final = 1 << 16
"""Of a batch that is read of Parquet."""


def read_files(
    run: Run, store: FileStore, spec: FilesSpec, files: Sequence[ArrivedFile]
) -> pa.Table | CarriedRows:
    """Return what is in files, in the declared columns; by tasks where it is much for the driver.

    Raises:
        UnusableFile: a file is gone, is not what was listed, or has not the declared columns.
    """
    schema = schema_of(spec.columns)
    batches: list[pa.RecordBatch] = []
    rows = 0
    for file in files:
        for batch in rows_of(store, spec, file):
            batches.append(batch)
            rows += batch.num_rows
            if rows > run.driver_rows:
                return _by_tasks(run, store, spec, files)
    return pa.Table.from_batches(batches, schema)


def _by_tasks(
    run: Run, store: FileStore, spec: FilesSpec, files: Sequence[ArrivedFile]
) -> CarriedRows:
    """Return rows of files, of which each is read by a task."""
    named = map(msgspec.msgpack.encode, files)
    read = partial(_task, store=store, spec=spec)
    return read_by_tasks(run.spark, named, read, schema_of(spec.columns))


def _task(
    batches: Iterable[pa.RecordBatch], *, store: FileStore, spec: FilesSpec
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for data in batch.column("name").to_pylist():
            yield from rows_of(store, spec, msgspec.msgpack.decode(data, type=ArrivedFile))


def rows_of(store: FileStore, spec: FilesSpec, file: ArrivedFile) -> Iterator[pa.RecordBatch]:
    """Yield what is in a file, in the declared columns; others are left out.

    Raises:
        UnusableFile: it is gone, is not what was listed, or has not the declared columns.
    """
    path, schema = store.path(file.name), schema_of(spec.columns)
    try:
        with store.open_input(file.name) as source:
            if source.size() != file.length:
                raise _changed(path, file, source.size())
            if spec.format is FileFormat.PARQUET:
                yield from _parquet(source, schema, path)
            elif file.length:
                _check_end(source, file, path)
                yield from _TEXTS[spec.format](source, schema)
        length = store.length(file.name)
    except (DamagedState, FileNotFoundError) as error:
        message = (
            f"{path} was there when the run began, and is gone: nothing of it was read; put it "
            "back, or have the run tried again without it"
        )
        raise UnusableFile(message) from error
    except (pa.ArrowException, OSError) as error:
        columns = ", ".join(f"`{name}`" for name in _culprits(store, spec, file))
        where = f"{path}, column {columns}," if columns else path
        message = (
            f"{where} is not {_NAMES[spec.format]} with columns {_columns(schema)}, or was cut "
            f"short ({error}): put a whole file in its place, or take it away"
        )
        raise UnusableFile(message) from error
    if length != file.length:
        raise _changed(path, file, length)


def _changed(path: str, file: ArrivedFile, length: int) -> UnusableFile:
    message = (
        f"{path} had {file.length} bytes when the run began, and has {length}: somebody writes to "
        "it. Write files elsewhere, or under a name that begins with `_`, and rename them when "
        "they are whole"
    )
    return UnusableFile(message)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


_NAMES: Final = {
    FileFormat.PARQUET: "Parquet",
    FileFormat.CSV: "CSV",
    FileFormat.JSON: "JSON, one object a line,",
}


def _parquet(source: pa.NativeFile, schema: pa.Schema, path: str) -> Iterator[pa.RecordBatch]:
    file = pq.ParquetFile(source)
    there = file.schema_arrow
    for field in schema:
        places = there.get_all_field_indices(field.name)
        if len(places) != 1:
            what = "no such column" if not places else "several of that name"
            raise UnusableFile(
                f"{path}, column `{field.name}`: there is {what}; it has {_columns(there)}"
            )
        found = there.field(places[0]).type
        if not _is_read_as(found, field.type):
            raise UnusableFile(
                f"{path}, column `{field.name}` is {found}, and the dataflow file declares "
                f"{field.type}: correct one of them"
            )
    for batch in file.iter_batches(_ROWS, columns=schema.names):
        yield pa.RecordBatch.from_arrays(
            [_cast(batch.column(field.name), field, path) for field in schema], schema=schema
        )


def _cast(values: pa.Array, field: pa.Field, path: str) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    try:
        return values.cast(field.type)
    except pa.ArrowInvalid as error:
        message = (
            f"{path}, column `{field.name}` has a value that is no {field.type}: {error}; declare "
            "a larger type, or correct the file"
        )
        raise UnusableFile(message) from error


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


_ALIKE: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_boolean,
    pa.types.is_date,
    _is_text,
    _is_bytes,
)
"""Types that are read as each other where the values allow it."""


def _is_read_as(found: pa.DataType, declared: pa.DataType) -> bool:
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(declared):
        return (found.tz is None) is (declared.tz is None)
    if pa.types.is_integer(found) and (
        pa.types.is_floating(declared) or pa.types.is_decimal(declared)
    ):
        return True
    return any(all(map(alike, (found, declared))) for alike in _ALIKE)


def _check_end(source: pa.NativeFile, file: ArrivedFile, path: str) -> None:
    """Raise where a text was cut short: of a value that lacks its end nobody would know."""
    source.seek(file.length - 1)
    if source.read(1) != b"\n":
        message = (
            f"{path} does not end with a line break, so it may have been cut short: put a whole "
            "file in its place, or end its last line"
        )
        raise UnusableFile(message)
    source.seek(0)


def _csv(source: pa.NativeFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    converting = pacsv.ConvertOptions(column_types=schema, include_columns=schema.names)
    reading = pacsv.ReadOptions(block_size=_PORTION)
    parsing = pacsv.ParseOptions(newlines_in_values=True)
    with pacsv.open_csv(source, reading, parsing, converting) as reader:
        yield from reader


def _json(source: pa.NativeFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    written = times_as_text(schema)
    parsing = pajson.ParseOptions(explicit_schema=written, unexpected_field_behavior="ignore")
    with pajson.open_json(source, pajson.ReadOptions(block_size=_PORTION), parsing) as reader:
        for batch in reader:
            yield batch.cast(schema)


_TEXTS: Final[
    Mapping[FileFormat, Callable[[pa.NativeFile, pa.Schema], Iterator[pa.RecordBatch]]]
] = {FileFormat.CSV: _csv, FileFormat.JSON: _json}


def _culprits(store: FileStore, spec: FilesSpec, file: ArrivedFile) -> list[str]:
    """Return which columns of a text cannot be read; none where it is not the columns' fault."""
    if spec.format not in _TEXTS:
        return []
    schema, found = schema_of(spec.columns), []
    for field in schema:
        try:
            with store.open_input(file.name) as source:
                for _ in _TEXTS[spec.format](source, pa.schema([field])):
                    pass
        except (pa.ArrowException, OSError):
            found.append(field.name)
    return found if len(found) < len(schema) else []
