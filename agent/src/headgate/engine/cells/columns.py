"""What is known of the cells of one container's part in one table, in columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import DTypeLike

from headgate.engine.cells.elements import Key
from headgate.engine.cells.grid import Column, Grid
from headgate.engine.cells.pending import PreviousValues
from headgate.engine.cells.storage import Array, Storage
from headgate.engine.cells.sums import Value
from headgate.engine.spec.codecs import (
    CodecName,
    decode_column_exactly,
    decode_exactly,
    decoder_of,
)
from headgate.engine.spec.dataflow import Count, WatchedContainer
from headgate.engine.spec.exact_numbers import numbers_in
from headgate.events import Item, UpdateKind


class Detail(IntEnum):
    """How much must be known of cells to decide the bounds that watch them."""

    COUNTS = 0
    """Only that there was an update."""
    KEYS = 1
    """Which elements exist, for percentages."""
    VALUES = 2
    """What each cell holds, for value bounds."""


PRESENT = 1.0
"""Stands for the value of a cell whose value no bound needs."""


class Matcher:
    """The items of one container in one table."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.items = tuple(items)

    @property
    def one_column(self) -> bool:
        """Whether all items are the same single column, so that rows and cells are the same."""
        first = self.items[0]
        return first.qualifier is not None and all(i.column == first.column for i in self.items)

    def has(self, row: bytes, column: bytes) -> bool:
        """Return whether a cell lies in the container."""
        return any(item.has_row(row) and item.has_column(column) for item in self.items)

    def has_family(self, family: bytes) -> bool:
        """Return whether the container has or may have columns of the family."""
        return any(item.family in (None, family) for item in self.items)


class CellColumns:
    """Which cells exist, what they hold, and how many elements they are."""

    __slots__ = (
        "_codec",
        "_decode",
        "_in_row",
        "count",
        "dead_letters",
        "detail",
        "ends",
        "grid",
        "matcher",
        "numeric",
        "rows",
        "rows_apart",
        "size",
        "stamps",
        "values",
    )

    def __init__(
        self, watched: WatchedContainer, table: str, detail: Detail, storage: Storage
    ) -> None:
        self.detail = detail
        self.matcher = Matcher(i for i in watched.container.items if i.table == table)
        self.count = watched.count
        self.numeric = detail is Detail.VALUES and watched.codec.name is not CodecName.OPAQUE
        self._codec = watched.codec
        self._decode = decoder_of(watched.codec) if self.numeric else None
        self.grid = Grid(storage)
        self.values: Column | None = None
        """x of each cell; 0 (None, if opaque) where there is no cell. See ``Grid.widen``."""
        if detail is Detail.VALUES:
            self.values = self.grid.column(np.float64 if self.numeric else object)
        self.size = 0
        """How many cells exist."""
        self.rows_apart = detail >= Detail.KEYS and not self.matcher.one_column
        self.rows = 0
        """How many rows exist, where a row may have several cells."""
        self._in_row: Array = np.zeros(0, np.int32)
        """How many cells each row has, by the row's number."""
        self.stamps: Column | None = None
        """One more than the milliseconds of an explicit timestamp, 0 for none; see ``stamp_at``."""
        self.ends: Column | None = None
        """When cells expire, in Unix milliseconds; 0 for never. See ``Lifetimes``."""
        self.dead_letters = 0
        """Values that the codec could not read."""

    @property
    def elements(self) -> int:
        """The number of elements now (n of sequence bounds)."""
        if self.count is Count.ROWS and self.rows_apart:
            return self.rows
        return self.size

    def close(self) -> None:
        """Give back what the storage holds of the cells."""
        self.grid.close()

    # -- a snapshot

    def load(
        self, rows: Sequence[bytes], columns: Sequence[bytes], values: Sequence[Value]
    ) -> None:
        """Take the cells of a snapshot."""
        if rows:
            slots = self.grid.slots(rows, columns)
            self.appear(slots)
            if self.values is not None:
                self.values.data[slots] = self.column_of(values)

    def count_loaded(self) -> None:
        """Count the cells that were put into the grid's columns by another."""
        slots = self.slots
        self.size = len(slots)
        self.grid.link(slots)
        if self.rows_apart:
            self._appear_in_rows(slots)

    # -- what is known

    @property
    def slots(self) -> Array:
        """The slots of all cells."""
        return np.flatnonzero(self.grid.present.data)

    def keys(self, slots: Array) -> list[Key]:
        """Return the cells in these slots; it looks at all rows."""
        names = self.grid.names
        rows, columns = self.grid.keys(slots)
        return [(row, names[c]) for row, c in zip(rows, columns, strict=True)]

    def contents(self) -> dict[Key, Value]:
        """Return all cells with what is known of them."""
        slots = self.slots
        if self.values is None:
            return dict.fromkeys(self.keys(slots), PRESENT)
        return dict(zip(self.keys(slots), self.values.data[slots].tolist(), strict=True))

    def previous(self, past: PreviousValues | None) -> dict[Key, Value | None]:
        """Return x′ of the cells that a past remembers."""
        if past is None:
            return {}
        slots = past.slots
        return dict(zip(self.keys(slots), past.values.data[slots].tolist(), strict=True))

    def value_at(self, slot: int) -> Value | None:
        """Return what is known of the cell in a slot; None if there is no cell."""
        if not self.grid.present.data.item(slot):
            return None
        found: Value = PRESENT if self.values is None else self.values.data.item(slot)
        return found

    def doubles(self, slots: Array) -> Array:
        """Return x of cells as doubles, which may hold fewer digits than the cells.

        Raises:
            TypeError: no numbers are kept.
        """
        if self.values is None or not self.numeric:
            raise TypeError(f"no numbers are kept of {self.matcher.items}")
        return numbers_in(self.values.data[slots])

    def stamp_at(self, slot: int) -> int | None:
        """Return the timestamp with which a cell was written, in milliseconds; None for none."""
        stamp = 0 if self.stamps is None else int(self.stamps.data.item(slot))
        return stamp - 1 if stamp else None

    def get(self, key: Key) -> Value | None:
        """Return what is known of a cell; None if there is none."""
        slot = self.grid.find(*key)
        return None if slot is None else self.value_at(slot)

    def has_row(self, row: bytes) -> bool:
        """Return whether any cell of a row exists."""
        if not self.rows_apart:
            return any(self.get((row, name)) is not None for name in self.grid.names)
        number = self.grid.row_number(row)
        return number is not None and number < len(self._in_row) and bool(self._in_row[number])

    def slot(self, key: Key) -> int:
        """Return the cell's slot, a new one if it was never seen."""
        slot = self.grid.find(*key)
        return int(self.grid.slots((key[0],), (key[1],))[0]) if slot is None else slot

    # -- changes

    def appear(self, slots: Array) -> None:
        """Note that cells exist which did not; each slot once."""
        self.grid.present.data[slots] = True
        self.grid.link(slots)
        self.grid.mark(slots)
        self.size += len(slots)
        if self.rows_apart:
            self._appear_in_rows(slots)

    def _appear_in_rows(self, slots: Array) -> None:
        if self.grid.rows > len(self._in_row):
            grown = np.zeros(int(self.grid.rows * 1.25) + 1, np.int32)
            grown[: len(self._in_row)] = self._in_row
            self._in_row = grown
        rows, cells = np.unique(self.grid.row_numbers(slots), return_counts=True)
        before = self._in_row[rows]
        self.rows += int(np.count_nonzero(before == 0))
        self._in_row[rows] = before + cells

    def put(self, slot: int, value: Value | None) -> None:
        """Have a cell hold a value; None where it is not needed."""
        if not self.grid.present.data.item(slot):
            self.appear(np.array([slot]))
        if value is not None and self.values is not None:
            self.values.data[slot] = value
            self.grid.unsaved.data[slot] = True

    def remove(self, key: Key) -> Value | None:
        """Note that a cell does not exist; return what it held, None if it did not before."""
        slot = self.grid.find(*key)
        value = None if slot is None else self.value_at(slot)
        if slot is not None and value is not None:
            self._vanish_one(slot)
        return value

    def _vanish_one(self, slot: int) -> None:
        """Do what ``vanish`` does for one cell, which is faster."""
        self.grid.present.data[slot] = False
        self.grid.unsaved.data[slot] = True
        self.size -= 1
        for column in (self.stamps, self.ends):
            if column is not None:
                column.data[slot] = 0
        if self.values is not None:
            self.values.data[slot] = 0.0 if self.numeric else None
        if self.rows_apart:
            number = self.grid.row_number_of(slot)
            self._in_row[number] -= 1
            self.rows -= int(self._in_row[number] == 0)

    def vanish(self, slots: Array) -> None:
        """Note that cells do not exist any more; each slot once."""
        self.grid.present.data[slots] = False
        self.grid.mark(slots)
        self.size -= len(slots)
        self.stamp(slots, None)
        if self.ends is not None:
            self.ends.data[slots] = 0
        if self.values is not None:
            self.values.data[slots] = 0.0 if self.numeric else None
        if self.rows_apart:
            rows, cells = np.unique(self.grid.row_numbers(slots), return_counts=True)
            left = self._in_row[rows] - cells
            self.rows -= int(np.count_nonzero(left == 0))
            self._in_row[rows] = left

    def stamp(self, slots: Array, timestamps: Array | None) -> None:
        """Note with which timestamps cells were written; None: with the server's own."""
        if self.stamps is None:
            if timestamps is None:
                return
            self.stamps = self.grid.column(np.int64)
        self.stamps.data[slots] = 0 if timestamps is None else np.minimum(timestamps, _LATEST) + 1
        self.grid.mark(slots)

    def tidy(self) -> None:
        """Give up the room of cells that are gone, if they are many."""
        if self.grid.tidy():
            self._in_row = np.zeros(0, np.int32)
            self.rows = 0
            if self.rows_apart:
                self._appear_in_rows(self.slots)

    # -- values

    @property
    def _number_type(self) -> DTypeLike:
        return np.float64 if self.values is None else self.values.data.dtype

    def decoded(self, kind: int, value: bytes | None) -> Value | None:
        """Return an update's value as it stands in columns; None where it does not say one."""
        if value is None or kind in DELTAS:
            return None
        if self._decode is None:
            return value if self.detail is Detail.VALUES else PRESENT
        found = decode_exactly(self._decode, value)
        self.dead_letters += found != found
        if isinstance(found, complex):
            self.grid.widen()
        return found

    def decoded_column(self, values: Sequence[bytes]) -> tuple[Array, int]:
        """Return values as they stand in columns, and how many of them cannot be read."""
        if self._decode is None:
            return self.column_of(values), 0
        numbers, unreadable = decode_column_exactly(self._codec, self._decode, values)
        if numbers.dtype.kind == "c":
            self.grid.widen()
        return numbers, unreadable

    def read_column(self, read: Sequence[bytes | None]) -> Array:
        """Return values that were read as they stand in columns; None says that there is one."""
        if self._decode is None or None in read:
            known = [self.decoded(UpdateKind.PUT, value) for value in read]
            return self.column_of([PRESENT if value is None else value for value in known])
        present: Sequence[bytes] = read  # type: ignore[assignment]  # None is not in it
        numbers, unreadable = self.decoded_column(present)
        self.dead_letters += unreadable
        return numbers

    def column_of(self, values: Sequence[Value | None]) -> Array:
        """Return values as they stand in columns."""
        if not self.numeric:
            made = np.empty(len(values), object)
            made[:] = values
            return made
        if complex in map(type, values):
            self.grid.widen()
        return np.array([0.0 if value is None else value for value in values], self._number_type)


_LATEST = 2**63 - 2  # so that one more is a number still
DELTAS = frozenset({UpdateKind.INCREMENT_DELTA, UpdateKind.APPEND_DELTA})
