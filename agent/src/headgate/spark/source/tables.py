"""Parts of HBase tables as Arrow tables: which columns, how decoded, where cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from msgspec import Struct

from headgate.client import Region, ScanRange, Thrift2Connection
from headgate.engine import Codec, OnUndecodable
from headgate.events import Origin, key_text, printable_key
from headgate.spark.source.keys import key_array, row_keys
from headgate.spark.source.undecodable import UndecodedValues
from headgate.spark.source.values import UnwritableValue, ValueType, to_bytes
from headgate.spark.views import ViewError

ROW: Final = "row"
"""Name of the frame's column with the row's key."""

CELLS: Final = pa.schema(
    [
        pa.field("row", pa.binary(), nullable=False),
        pa.field("column", pa.binary(), nullable=False),
        pa.field("value", pa.binary()),
    ]
)
"""Columns of cells as they are written: a null deletes the cell."""

PAGE: Final = 5_000
"""Rows asked of the server at a time: fastest of those tried between 1,000 and 20,000."""


RowRanges = tuple[tuple[bytes, bytes | None], ...]
"""First row, and first row after the range; None at the end of the table."""


class ColumnMapping(Struct, frozen=True):
    """A frame's column and the HBase column (``family:qualifier``) behind it."""

    name: str
    column: bytes
    codec: Codec = Codec()
    kind: ValueType = ValueType.DOUBLE
    ranges: RowRanges | None = None
    """The rows whose cells are seen; all where None."""


class ColumnTarget(Struct, frozen=True):
    """The HBase column (``family:qualifier``) that a frame's column is written to."""

    column: bytes
    codec: Codec = Codec()
    ranges: RowRanges | None = None
    """The rows in which it may be written; all where None."""


class ScannedColumns:
    """Results of a scan, gathered column by column.

    Args:
        wanted: the columns to keep; None keeps every column that appears.
    """

    def __init__(self, wanted: Iterable[bytes] | None) -> None:
        self.rows: list[bytes] = []
        self._open = wanted is None
        self._values: dict[tuple[bytes, bytes], list[bytes | None]] = {}
        for column in wanted or ():
            family, _, qualifier = column.partition(b":")
            self._values[family, qualifier] = []

    def add(self, results: Iterable[Any]) -> None:
        """Take over the results of one page."""
        rows, values = self.rows, self._values
        before = len(rows)
        for result in results:
            rows.append(result.row)
            for cell in result.columnValues:
                key = cell.family, cell.qualifier
                column = values.get(key)
                if column is None:
                    if not self._open:
                        continue
                    column = values[key] = []
                if len(column) < before:
                    column.extend([None] * (before - len(column)))
                column.append(cell.value)
            before += 1

    def add_row(self, row: bytes, cells: Mapping[bytes, bytes]) -> None:
        """Take in one row with its values by ``family:qualifier``, all of wanted columns."""
        before = len(self.rows)
        self.rows.append(row)
        for column, value in cells.items():
            family, _, qualifier = column.partition(b":")
            values = self._values[family, qualifier]
            values.extend([None] * (before - len(values)))
            values.append(value)

    def columns(self) -> dict[bytes, list[bytes | None]]:
        """Return the values by column, one for each row; None where a row has no cell."""
        for column in self._values.values():
            column.extend([None] * (len(self.rows) - len(column)))
        return {family + b":" + name: values for (family, name), values in self._values.items()}


def seen(cells: ScannedColumns, mappings: Sequence[ColumnMapping]) -> ScannedColumns:
    """Return the cells that lie in the ranges of their columns, and the rows that have one."""
    if all(mapping.ranges is None for mapping in mappings):
        return cells
    columns = cells.columns()
    kept = ScannedColumns(mapping.column for mapping in mappings)
    for at, row in enumerate(cells.rows):
        present = {
            mapping.column: value
            for mapping in mappings
            if (value := columns[mapping.column][at]) is not None and _is_in(row, mapping.ranges)
        }
        if present:
            kept.add_row(row, present)
    return kept


def _is_in(row: bytes, ranges: RowRanges | None) -> bool:
    return ranges is None or any(
        start <= row and (stop is None or row < stop) for start, stop in ranges
    )


def range_texts(ranges: RowRanges) -> list[tuple[str, str | None]]:
    """Return ranges as the data source's option ``ranges`` spells them."""
    return [(key_text(start), None if stop is None else key_text(stop)) for start, stop in ranges]


def _schema(mappings: Sequence[ColumnMapping], row: ValueType) -> pa.Schema:
    fields = [(ROW, row.arrow), *((mapping.name, mapping.kind.arrow) for mapping in mappings)]
    return pa.schema(fields)


def to_batch(
    cells: ScannedColumns,
    mappings: Sequence[ColumnMapping],
    row: ValueType,
    policy: OnUndecodable,
    undecoded: UndecodedValues,
) -> pa.RecordBatch:
    """Return the gathered rows as one batch: ``row``, then the mapped columns in their order.

    A column that no row has is all null.

    Raises:
        UndecodableValue: a value does not decode and the policy is to fail.
    """
    values = cells.columns()
    absent: list[bytes | None] = [None] * len(cells.rows)
    arrays = [key_array(cells.rows, row)]
    without: set[int] = set()
    for mapping in mappings:
        decoded, left_out = undecoded.decode(
            values.get(mapping.column, absent),
            mapping.codec,
            mapping.kind,
            policy,
            lambda place, column=mapping.column: (cells.rows[place], column),  # type: ignore[misc]
        )
        arrays.append(decoded)
        without |= left_out
    batch = pa.RecordBatch.from_arrays(arrays, schema=_schema(mappings, row))
    if without:
        batch = batch.take([at for at in range(batch.num_rows) if at not in without])
    return batch


def read_batches(
    connection: Thrift2Connection,
    table: str,
    extent: ScanRange,
    mappings: Sequence[ColumnMapping],
    undecoded: UndecodedValues,
    policy: OnUndecodable = OnUndecodable.NULL,
    row: ValueType = ValueType.STRING,
    page: int = PAGE,
) -> Iterator[pa.RecordBatch]:
    """Yield a part of a table in batches of at most ``page`` rows, decoded.

    Rows that have none of the mapped columns are left out, unless no column is mapped at all.

    Raises:
        UndecodableValue: a value does not decode and the policy is to fail.
    """
    wanted = tuple(mapping.column for mapping in mappings)
    narrowed = ScanRange(
        extent.start, extent.stop, wanted or extent.columns, extent.since, extent.until
    )
    for results in connection.pages(table, narrowed, page):
        cells = ScannedColumns(wanted)
        cells.add(results)
        yield to_batch(seen(cells, mappings), mappings, row, policy, undecoded)


def write_batch(
    connection: Thrift2Connection,
    table: str,
    frame: pa.RecordBatch | pa.Table,
    targets: Mapping[str, ColumnTarget],
    origin: Origin | None,
    timestamp: int | None = None,
    container: str = "",
) -> int:
    """Write a frame's rows and return how many that were: none, where it has no other column.

    A null deletes the cell, so that nothing older stands where the frame says that nothing is. The
    values of a row are put first, then what is null is deleted. A null in a row in which its column
    must not be written says nothing; the row needs another column that may be.

    Args:
        connection: where to write.
        table: name of the table.
        frame: column ``row`` and those named in ``targets``.
        targets: for each column, where it is written.
        origin: the run that writes.
        timestamp: of all cells in milliseconds; None lets the server choose.
        container: its name, for messages.

    Raises:
        UnwritableValue: a codec has no bytes for a value, or a row has no key.
        ViewError: a row, or a value in it, is outside of where its column may be written. Nothing
            of the frame is written.
    """
    keys = row_keys(frame.column(ROW))
    columns = {
        target.column: _written(frame, name, target, keys) for name, target in targets.items()
    }
    if not columns:
        return 0
    inside = _inside(keys, targets)
    if inside:
        _check_rows(keys, targets, inside, container)
        _check_values(keys, targets, columns, inside, container)
    connection.put_columns(table, keys, columns, timestamp=timestamp, origin=origin)
    for missing, rows in _nulls(keys, columns, inside).items():
        connection.delete(table, rows, missing, timestamp=timestamp, origin=origin)
    return len(keys)


def written_cells(
    frame: pa.RecordBatch | pa.Table, targets: Mapping[str, ColumnTarget]
) -> pa.Table:
    """Return the cells that ``write_batch`` writes of a frame, column by column.

    Args:
        frame: column ``row`` and those named in ``targets``.
        targets: for each column, where it is written.

    Returns:
        ``row``, ``column`` and ``value``; null where a cell is deleted.

    Raises:
        UnwritableValue: a codec has no bytes for a value, or a row has no key.
    """
    keys = row_keys(frame.column(ROW))
    rows = pa.array(keys, pa.binary())
    parts = [CELLS.empty_table()]
    for name, target in targets.items():
        named = pa.repeat(pa.scalar(target.column, pa.binary()), len(keys))
        values = pa.array(_written(frame, name, target, keys), pa.binary())
        parts.append(pa.Table.from_arrays([rows, named, values], schema=CELLS))
    return pa.concat_tables(parts)


def _written(
    frame: pa.RecordBatch | pa.Table, name: str, target: ColumnTarget, keys: Sequence[bytes]
) -> list[bytes | None]:
    try:
        return to_bytes(frame.column(name), target.codec)
    except UnwritableValue as error:
        row = "" if error.at is None else f"row {printable_key(keys[error.at])}, "
        # Frames for tasks have numbers for names.
        message = f"{row}column {printable_key(target.column)!r}: {error}"
        raise UnwritableValue(message, error.at) from error


def _inside(
    keys: Sequence[bytes], targets: Mapping[str, ColumnTarget]
) -> dict[bytes, Sequence[bool]]:
    """Return for each column that not all rows may have, which rows may."""
    of_ranges: dict[RowRanges, Sequence[bool]] = {}
    for target in targets.values():
        if target.ranges is not None and target.ranges not in of_ranges:
            of_ranges[target.ranges] = [_is_in(key, target.ranges) for key in keys]
    return {
        target.column: of_ranges[target.ranges]
        for target in targets.values()
        if target.ranges is not None and not all(of_ranges[target.ranges])
    }


def _check_rows(
    keys: Sequence[bytes],
    targets: Mapping[str, ColumnTarget],
    inside: Mapping[bytes, Sequence[bool]],
    container: str,
) -> None:
    if any(target.column not in inside for target in targets.values()):
        return
    outside = [key for key, *may in zip(keys, *inside.values(), strict=True) if not any(may)]
    if not outside:
        return
    ranges = dict.fromkeys(each for t in targets.values() for each in t.ranges or ())
    message = (
        f"row {_first(outside)} is not in container {container!r}, which has the frame's columns "
        f"in {_words(tuple(ranges))}: leave it out of the frame, or write it to a container that "
        "has it"
    )
    raise ViewError(message)


def _check_values(
    keys: Sequence[bytes],
    targets: Mapping[str, ColumnTarget],
    columns: Mapping[bytes, Sequence[bytes | None]],
    inside: Mapping[bytes, Sequence[bool]],
    container: str,
) -> None:
    for target in targets.values():
        if target.ranges is None or target.column not in inside:
            continue
        cells = zip(keys, columns[target.column], inside[target.column], strict=True)
        outside = [key for key, value, may in cells if value is not None and not may]
        if outside:
            message = (
                f"row {_first(outside)} has a value in column "
                f"{printable_key(target.column)!r}, which container {container!r} has only in "
                f"{_words(target.ranges)}: leave it null there, or write it to a container that "
                "has it"
            )
            raise ViewError(message)


def _first(rows: Sequence[bytes]) -> str:
    others = f" (and {len(rows) - 1:,} more)" if len(rows) > 1 else ""
    return printable_key(rows[0]) + others


def _words(ranges: RowRanges) -> str:
    """Return ranges of rows in words."""
    return " and ".join(
        f"row {printable_key(start)}"
        if stop == start + b"\0"
        else f"rows from {printable_key(start) or 'the first'}"
        + (" on" if stop is None else f" to before {printable_key(stop)}")
        for start, stop in ranges
    )


def _nulls(
    keys: Sequence[bytes],
    columns: Mapping[bytes, Sequence[bytes | None]],
    inside: Mapping[bytes, Sequence[bool]],
) -> dict[tuple[bytes, ...], list[bytes]]:
    """Return the rows that lack the same columns, by these columns.

    Args:
        keys: the rows.
        columns: for each column its values in these rows.
        inside: for each column that not all rows may have, which rows may.
    """
    gaps = {
        column: [value is None for value in values]
        for column, values in columns.items()
        if None in values
    }
    for column in gaps.keys() & inside.keys():
        gaps[column] = [
            null and may for null, may in zip(gaps[column], inside[column], strict=True)
        ]
    rows: dict[tuple[bytes, ...], list[bytes]] = {}
    for key, nulls in zip(keys, zip(*gaps.values(), strict=True), strict=False):
        missing = tuple(c for c, null in zip(gaps, nulls, strict=True) if null)
        if missing:
            rows.setdefault(missing, []).append(key)
    return rows


def split_extent(
    extent: ScanRange, regions: Sequence[Region], wanted: int, ends: tuple[bytes, bytes] | None
) -> list[ScanRange]:
    """Cut a range at the borders of regions, and further where these are fewer than ``wanted``.

    Args:
        extent: the range.
        regions: of the whole table, in order.
        wanted: how many parts there should be at least, if there are rows enough.
        ends: first and last key of the range, between which keys are taken to be spread evenly;
            None where it has no rows.

    Returns:
        Ranges in order that do not overlap and together are the extent.
    """
    borders = {region.start for region in regions}
    if ends is not None and len(regions) < wanted:
        borders.update(_between(*ends, wanted))
    inner = sorted(
        border
        for border in borders
        if border > extent.start and (extent.stop is None or border < extent.stop)
    )
    starts = [extent.start, *inner]
    stops: list[bytes | None] = [*inner, extent.stop]
    return [
        ScanRange(start, stop, extent.columns, extent.since, extent.until)
        for start, stop in zip(starts, stops, strict=True)
    ]


_DIGITS: Final = 8
"""Bytes after the common prefix that take part in the arithmetic on keys."""


def _between(first: bytes, last: bytes, parts: int) -> list[bytes]:
    common = 0
    while common < min(len(first), len(last)) and first[common] == last[common]:
        common += 1
    prefix = first[:common]
    low = int.from_bytes(first[common:][:_DIGITS].ljust(_DIGITS, b"\0"), "big")
    high = int.from_bytes(last[common:][:_DIGITS].ljust(_DIGITS, b"\0"), "big")
    return [
        prefix + (low + (high - low) * part // parts).to_bytes(_DIGITS, "big").rstrip(b"\0")
        for part in range(1, parts)
    ]
