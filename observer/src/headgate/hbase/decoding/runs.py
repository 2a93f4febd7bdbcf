"""Batches of rows that differ in nothing but their keys and values, decoded together."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct as Layout
from struct import error as ShortBuffer  # noqa: N812 - what it means here
from typing import Any, Final, final

from headgate.hbase.decoding.attributes import note_origin
from headgate.hbase.requests import Cells
from headgate.wire import ENOUGH, LIST, STRING, Cursor, all_but, run_of

# Thrift1's BatchMutation and Thrift2's TPut have the same build; TDelete has no values.
_ROW: Final = 1
_CELLS: Final = 2
_VALUE: Final = 3
_LENGTH: Final = 4  # bytes of a string's length, before it

Place = tuple[int, int]
"""Where a string's content begins, and the position behind it."""

Part = tuple[Callable[..., tuple[Any, ...]], bytes, int]
"""What reads the bytes before a string and its length, those bytes, and the number of both."""


@final
class RowsReading:
    """What so many rows write, read in as many parts as it takes."""

    __slots__ = ("_alike", "_cells", "_count", "_cursor", "_origins", "_read_one")

    def __init__(
        self,
        cursor: Cursor,
        count: int,
        cells: Cells,
        read_one: Callable[[Cursor, Cells], bytes | None],
        origins: list[bytes | None],
    ) -> None:
        """Stand before the first row.

        Args:
            cursor: before the first ``BatchMutation``, ``TPut`` or ``TDelete``.
            count: how many there are.
            cells: what they write is appended to these.
            read_one: reads a row by itself and returns its origin.
            origins: their different origins are added to these.
        """
        self._cursor = cursor
        self._count = count
        self._cells = cells
        self._read_one = read_one
        self._origins = origins
        self._alike = True

    def go_on(self, stop: int) -> bool:
        """Read rows until one ends at ``stop`` or behind it; return whether all are read.

        Raises:
            MalformedMessage: a row makes no sense.
        """
        cursor, cells, count, alike = self._cursor, self._cells, self._count, self._alike
        read_one = self._read_one
        while count and cursor.pos < stop:
            passed = 0
            if alike and count >= ENOUGH:
                passed, found = _read_alike(cursor, count, cells, read_one, stop)
                alike = passed >= ENOUGH or cursor.pos >= stop
            if not passed:
                passed, found = 1, read_one(cursor, cells)
            count -= passed
            note_origin(self._origins, found)
        self._count, self._alike = count, alike
        return not count


def _read_alike(
    cursor: Cursor,
    most: int,
    cells: Cells,
    read_one: Callable[[Cursor, Cells], bytes | None],
    stop: int,
) -> tuple[int, bytes | None]:
    """Read the rows like the first; return how many, none where that is not known, and its origin.

    They have the first one's bytes, but for keys and values. None begins behind ``stop``.
    """
    data = cursor.data
    begin = cursor.pos
    places = _places(Cursor(data, begin))
    if not places:
        return 0, None
    reader = Cursor(data, begin)
    first = Cells.empty()
    origin = read_one(reader, first)
    values = places[1:]
    if values and [data[start:behind] for start, behind in values] != first.values:
        # Some cell has no value, or some value became no cell, and one of these is not empty.
        return 0, None
    size = reader.pos - begin
    in_turn = min(most, -((begin - stop) // size))
    passed = run_of(data, begin, in_turn, size, all_but(data, begin, reader.pos, places))
    _take_run(data, begin, reader.pos - begin, passed, first, places, cells)
    cursor.pos = begin + passed * (reader.pos - begin)
    if passed < ENOUGH and all(start < behind for start, behind in values):
        # As none is empty, it is known of each value which cell's it is, whatever its length.
        passed += _take_of_any_length(
            cursor, most - passed, begin, reader.pos, first, places, cells, stop
        )
    return passed, origin


def _take_run(
    data: bytes, begin: int, size: int, passed: int, first: Cells, places: list[Place], cells: Cells
) -> None:
    """Append what rows of one size write."""
    parts = ["="]
    at = begin
    for start, behind in places:
        parts.append(f"{start - at}x{behind - start}s")
        at = behind
    parts.append(f"{begin + size - at}x")
    with memoryview(data)[begin : begin + passed * size] as rows_only:
        found = list(Layout("".join(parts)).iter_unpack(rows_only))
    rows = [each[0] for each in found]
    values: list[bytes | None]
    if len(places) == 1:
        values = first.values * passed
    elif len(places) == 2:
        values = [each[1] for each in found]
    else:
        values = [value for each in found for value in each[1:]]
    _append(cells, first, rows, values)


def _take_of_any_length(
    cursor: Cursor,
    most: int,
    begin: int,
    end: int,
    first: Cells,
    places: list[Place],
    cells: Cells,
    stop: int,
) -> int:
    """Read and append rows like the one from ``begin`` to ``end``; return how many there are."""
    data = cursor.data
    parts: list[Part] = []
    at = begin
    for start, behind in places:
        gap = data[at : start - _LENGTH]
        parts.append((Layout(f">{len(gap)}sI").unpack_from, gap, len(gap) + _LENGTH))
        at = behind
    tail = data[at:end]
    (read_key, head, head_size), *others = parts
    rows: list[bytes] = []
    values: list[bytes | None] = []
    pos = cursor.pos
    try:
        while len(rows) < most and pos < stop:
            found, length = read_key(data, pos)
            if found != head:
                break
            start = pos + head_size
            at = behind = start + length
            row_values = []
            for read, gap, size in others:
                found, length = read(data, at)
                if found != gap:
                    break
                at += size + length
                row_values.append(data[at - length : at])
            if len(row_values) < len(others) or not data.startswith(tail, at):
                break
            rows.append(data[start:behind])
            values += row_values
            pos = at + len(tail)
    except ShortBuffer:
        pass  # cut short: reading it by itself shows where
    _append(cells, first, rows, values if others else first.values * len(rows))
    cursor.pos = pos
    return len(rows)


def _append(cells: Cells, first: Cells, rows: list[bytes], values: list[bytes | None]) -> None:
    """Append rows with these keys and values, and all else as the first one has it."""
    passed, count = len(rows), len(first.kinds)
    cells.kinds += first.kinds * passed
    cells.rows += rows if count == 1 else [row for row in rows for _ in range(count)]
    cells.columns += first.columns * passed
    cells.timestamps += first.timestamps * passed
    cells.values += values
    if first.ttls:
        cells.give_ttls(len(cells.kinds) - passed * count, first.every_ttl() * passed)


def _places(cursor: Cursor) -> list[Place]:
    """Return where a row's key and values stand; empty where the key is not first, or comes twice.

    Of a value that comes twice the server takes the last; then not every one becomes a cell.
    """
    found: list[Place] = []
    while kind := cursor.next_field():
        field = cursor.field_id
        if (field == _ROW) != (not found):
            return []
        if field == _ROW:
            if kind != STRING:
                return []
            found.append(_pass_string(cursor))
        elif field == _CELLS and kind == LIST:
            for _ in range(cursor.count_structs("cells")):
                while kind := cursor.next_field():
                    if cursor.field_id == _VALUE and kind == STRING:
                        found.append(_pass_string(cursor))
                    else:
                        cursor.skip(kind)
        else:
            cursor.skip(kind)
    return found


def _pass_string(cursor: Cursor) -> Place:
    start = cursor.pos + 4
    cursor.skip(STRING)
    return start, cursor.pos
