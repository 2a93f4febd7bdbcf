"""Batches of rows that differ in nothing but their keys and values, decoded together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headgate.hbase.requests import Cells
from headgate.wire import ENOUGH, LIST, STRING, Cursor, all_but, run_of

# Thrift1's BatchMutation and Thrift2's TPut have the same build; TDelete has no values.
_ROW: Final = 1
_CELLS: Final = 2
_VALUE: Final = 3

Place = tuple[int, int]
"""Where a string's content begins, and the position behind it."""


def read_rows(
    cursor: Cursor,
    count: int,
    cells: Cells,
    read_one: Callable[[Cursor, Cells], bytes | None],
) -> bytes | None:
    """Append what so many rows write; return the first of their origins.

    Args:
        cursor: before the first ``BatchMutation``, ``TPut`` or ``TDelete``.
        count: how many there are.
        cells: what they write is appended to these.
        read_one: reads a row by itself and returns its origin.

    Raises:
        MalformedMessage: a row makes no sense.
    """
    origin: bytes | None = None
    in_runs = True
    while count:
        passed = 0
        if in_runs and count >= ENOUGH:
            passed, found = _read_run(cursor, count, cells, read_one)
            in_runs = passed >= ENOUGH
        if not passed:
            passed, found = 1, read_one(cursor, cells)
        count -= passed
        origin = origin or found
    return origin


def _read_run(
    cursor: Cursor,
    most: int,
    cells: Cells,
    read_one: Callable[[Cursor, Cells], bytes | None],
) -> tuple[int, bytes | None]:
    """Read the rows like the first; return how many, none where it cannot be told, and its origin.

    The rows have the first one's bytes, but for keys and values.
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
    count = len(first.kinds)
    if values and [data[start:behind] for start, behind in values] != first.values:
        # Some cell has no value, or some value became no cell, and one of these is not empty.
        return 0, None
    size = reader.pos - begin
    shared = all_but(data, begin, reader.pos, places)
    passed = run_of(data, begin, most, size, shared)
    end = begin + passed * size
    start, behind = places[0]
    length = behind - start
    rows = [data[at : at + length] for at in range(start, end, size)]
    cells.kinds += first.kinds * passed
    cells.rows += rows if count == 1 else [row for row in rows for _ in range(count)]
    cells.columns += first.columns * passed
    cells.timestamps += first.timestamps * passed
    if not values:
        cells.values += first.values * passed
    elif count == 1:
        start, behind = values[0]
        length = behind - start
        cells.values += [data[at : at + length] for at in range(start, end, size)]
    else:
        steps = range(0, passed * size, size)
        cells.values += [data[a + at : b + at] for at in steps for a, b in values]
    cursor.pos = end
    return passed, origin


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
