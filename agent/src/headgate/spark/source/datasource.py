r"""PySpark's data source ``headgate``: HBase tables through a Thrift2 server.

Rows and qualifiers are texts of keys: UTF-8 text as it is, every other byte and the backslash as
``\xNN``. A ``row`` of type binary has the bytes themselves. Options:

==============  ==================================================================================
host, port      the Thrift2 server, or an observer's listener
table           name of the table
family          column family of columns that name none
columns         JSON object: column of the frame to ``family:qualifier``, where the names differ
codec           ``utf8`` (default) or another ``CodecName``; for ``json`` also ``codec.path``
codecs          JSON object: column of the frame to its codec, where codecs differ (``json $.path``)
start, stop     first row, and first row after the range
ranges          JSON object: column of the frame to a list of ``[first row, first row after]``, the
                latter null at the end of the table; cells of other rows are not seen
since, until    only cells written at or after, and before, in milliseconds
partitions      how many partitions to make at least; each region is one by itself
page            rows a request
origin          the run that writes (base64 of an encoded origin)
timestamp       of written cells in milliseconds; the server's clock by default
on_undecodable  ``null`` (default), ``skip`` (leaves the row out) or ``fail``: what becomes of a
                value that the codec cannot read; it is written to the log of the executor
==============  ==================================================================================

The schema has ``row`` and one column per HBase column, of type string, binary, double, bigint
or boolean. Only the columns of the schema are read: name fewer to read less. To read fewer rows,
give ``start`` and ``stop``: filters are not pushed down, since Spark 4.3 keeps the first filtered
plan of a frame and returns its rows for later queries of the same frame, too.
"""

from __future__ import annotations

import base64
import gc
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructType,
)

from headgate.client import ScanRange, Thrift2Connection
from headgate.engine import Codec, CodecName, OnUndecodable, canonical_path
from headgate.events import Origin, decode_origin, key_bytes
from headgate.spark.source.tables import (
    PAGE,
    ROW,
    ColumnMapping,
    ColumnTarget,
    RowRanges,
    read_batches,
    split_extent,
    write_batch,
)
from headgate.spark.source.undecodable import UndecodedValues
from headgate.spark.source.values import ValueType

_TYPES: Final[dict[type[DataType], ValueType]] = {
    StringType: ValueType.STRING,
    BinaryType: ValueType.BINARY,
    DoubleType: ValueType.DOUBLE,
    LongType: ValueType.LONG,
    BooleanType: ValueType.BOOLEAN,
}


class OptionError(ValueError):
    """An option or a schema that the data source cannot work with."""


@dataclass(frozen=True)
class TableOptions:
    """What the options say; picklable, since tasks carry it."""

    host: str
    port: int
    table: str
    family: str
    columns: Mapping[str, str]
    codec: Codec
    codecs: Mapping[str, str]
    extent: ScanRange
    partitions: int
    page: int
    origin: Origin | None
    timestamp: int | None
    on_undecodable: OnUndecodable
    ranges: Mapping[str, RowRanges]
    container: str

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> TableOptions:
        """Return the options as given to Spark.

        Raises:
            OptionError: one is missing or malformed.
        """
        for name in ("host", "port", "table"):
            if name not in options:
                message = f"data source headgate needs option {name!r}: .option({name!r}, ...)"
                raise OptionError(message)
        start, stop = options.get("start", ""), options.get("stop")
        origin = options.get("origin")
        return cls(
            host=options["host"],
            port=_whole(options, "port", 0),
            table=options["table"],
            family=options.get("family", ""),
            columns=_object(options, "columns"),
            codec=_codec(options.get("codec", CodecName.UTF8), options.get("codec.path", "")),
            codecs=_object(options, "codecs"),
            extent=ScanRange(
                start=key_bytes(start),
                stop=None if stop is None else key_bytes(stop),
                since=_whole(options, "since", None),
                until=_whole(options, "until", None),
            ),
            partitions=_whole(options, "partitions", 1),
            page=_whole(options, "page", PAGE),
            origin=None if origin is None else decode_origin(base64.b64decode(origin)),
            timestamp=_whole(options, "timestamp", None),
            on_undecodable=_policy(options.get("on_undecodable", OnUndecodable.NULL)),
            ranges=_ranges(options),
            container=options.get("container", options["table"]),
        )

    def connect(self) -> Thrift2Connection:
        """Open a connection to the server."""
        return Thrift2Connection(self.host, self.port)

    def column(self, name: str) -> bytes:
        """Return the HBase column of a frame's column.

        Raises:
            OptionError: no family is known for it.
        """
        column = self.columns.get(name, name)
        if ":" in column:
            return key_bytes(column)
        if not self.family:
            message = (
                f"column {name!r} has no family: set option 'family', or map it in 'columns' "
                f'as {{"{name}": "family:qualifier"}}'
            )
            raise OptionError(message)
        return key_bytes(f"{self.family}:{column}")

    def codec_of(self, name: str) -> Codec:
        """Return the codec of a frame's column."""
        if name not in self.codecs:
            return self.codec
        codec, _, path = self.codecs[name].partition(" ")
        return _codec(codec, path)


def _whole(options: Mapping[str, str], name: str, default: Any) -> Any:
    if name not in options:
        return default
    try:
        return int(options[name])
    except ValueError as error:
        message = f"option {name!r} is {options[name]!r}; it must be a whole number"
        raise OptionError(message) from error


def _object(options: Mapping[str, str], name: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(options.get(name, "{}"), type=dict[str, str])
    except msgspec.MsgspecError as error:
        message = f"option {name!r} must be a JSON object of texts: {error}"
        raise OptionError(message) from error


def _ranges(options: Mapping[str, str]) -> dict[str, RowRanges]:
    try:
        texts = msgspec.json.decode(
            options.get("ranges", "{}"), type=dict[str, list[tuple[str, str | None]]]
        )
    except msgspec.MsgspecError as error:
        message = f"option 'ranges' must be a JSON object of lists of [first, after]: {error}"
        raise OptionError(message) from error
    return {
        name: tuple(
            (key_bytes(start), None if stop is None else key_bytes(stop)) for start, stop in each
        )
        for name, each in texts.items()
    }


def _codec(name: str, path: str) -> Codec:
    if name not in set(CodecName):
        message = f"codec {name!r} is none of {', '.join(CodecName)}"
        raise OptionError(message)
    try:
        return Codec(CodecName(name), canonical_path(path))
    except ValueError as error:
        raise OptionError(str(error)) from error


def _policy(name: str) -> OnUndecodable:
    try:
        return OnUndecodable(name)
    except ValueError as error:
        message = f"option 'on_undecodable' is {name!r}; it must be {', '.join(OnUndecodable)}"
        raise OptionError(message) from error


def _kind(name: str, kind: DataType) -> ValueType:
    if type(kind) not in _TYPES:
        message = (
            f"column {name!r} has type {kind.simpleString()}; "
            "read string, binary, double, bigint or boolean, and cast afterwards"
        )
        raise OptionError(message)
    return _TYPES[type(kind)]


@dataclass
class RangePartition(InputPartition):  # type: ignore[misc]
    """The rows that one task reads."""

    extent: ScanRange


class HBaseSource(DataSource):  # type: ignore[misc]
    """``spark.read.format("headgate")`` and ``frame.write.format("headgate").mode("append")``."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "headgate"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the schema's columns."""
        return HBaseReader(TableOptions.parse(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001
        """Return a writer of the schema's columns."""
        if overwrite:
            message = "mode 'overwrite' would empty the table; use 'append', which puts the rows"
            raise OptionError(message)
        return HBaseWriter(TableOptions.parse(self.options), schema)


class HBaseReader(DataSourceReader):  # type: ignore[misc]
    """Reads a range of a table in partitions of Arrow batches."""

    def __init__(self, options: TableOptions, schema: StructType) -> None:
        self._options = options
        if ROW not in schema.names:
            message = f"the schema needs a column {ROW!r} for the row's key, string or binary"
            raise OptionError(message)
        self._names = list(schema.names)
        self._row = _kind(ROW, schema[ROW].dataType)
        self._mappings = [
            ColumnMapping(
                field.name,
                options.column(field.name),
                options.codec_of(field.name),
                _kind(field.name, field.dataType),
                options.ranges.get(field.name),
            )
            for field in schema.fields
            if field.name != ROW
        ]

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each region in the range, or more where few were found."""
        options, extent = self._options, self._options.extent
        if extent.stop is not None and extent.start >= extent.stop:
            return [RangePartition(extent)]
        with options.connect() as connection:
            regions = connection.regions(options.table)
            ends = None
            if len(regions) < options.partitions:
                ends = connection.ends(options.table, extent)
        parts = split_extent(extent, regions, options.partitions, ends)
        return [RangePartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a partition's rows in batches, columns in the schema's order."""
        options = self._options
        assert isinstance(partition, RangePartition)  # noqa: S101 - made by partitions()
        # Results hold no cycles, and looking for some takes as long as decoding does. The process
        # is a Python worker of Spark's, which does nothing else meanwhile.
        gc.disable()
        try:
            with options.connect() as connection:
                for batch in read_batches(
                    connection,
                    options.table,
                    partition.extent,
                    self._mappings,
                    UndecodedValues(lambda line: print(line, file=sys.stderr)),
                    options.on_undecodable,
                    self._row,
                    options.page,
                ):
                    yield batch.select(self._names)
        finally:
            gc.enable()


@dataclass
class TaskCommit(WriterCommitMessage):  # type: ignore[misc]
    """How many rows a task put."""

    rows: int


class HBaseWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Puts rows, a batch at a time. A task that is repeated puts the same rows again.

    A null deletes the cell.
    """

    def __init__(self, options: TableOptions, schema: StructType) -> None:
        self._options = options
        if ROW not in schema.names:
            message = f"the frame needs a column {ROW!r} with the rows' keys"
            raise OptionError(message)
        self._targets = {
            name: ColumnTarget(
                options.column(name), options.codec_of(name), options.ranges.get(name)
            )
            for name in schema.names
            if name != ROW
        }

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Put all rows of a task."""
        options = self._options
        rows = 0
        with options.connect() as connection:
            for batch in iterator:
                rows += write_batch(
                    connection,
                    options.table,
                    batch,
                    self._targets,
                    options.origin,
                    options.timestamp,
                    options.container,
                )
        return TaskCommit(rows)
