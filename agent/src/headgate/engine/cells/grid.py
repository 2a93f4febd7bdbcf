"""Slots of cells: rows by columns, so that what is known of cells lies in arrays.

Tables have many rows and few columns: a row has a number, and its cells lie side by side, one slot
for each known column, as many as a power of two. Where columns are many, or rows have few of them
(qualifiers that are data), each cell has a number of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import add

import numpy as np
from msgspec import Struct
from numpy.typing import DTypeLike

from headgate.engine.cells.storage import Array, Index, Storage

_WIDEST = 64
"""Columns above which every cell has a number of its own."""
_SPARSE = 16
"""Slots per present cell above which side by side wastes more than a number for each costs."""
_FEW_ROWS = 1024  # below which no waste is worth a word
_SMALL = 4096  # slots for which one number each is had for less than sorting some of them
_FIRST = 16  # slots of a new grid
_GROWTH = 1.25  # of slots when they are full: memory that is not used yet counts too
_VACANT = 2
"""Slots per cell in use above which a grid is worth tidying."""
_NOTHING = np.array(None, object)
_LOADED = 100_000  # keys numbered at a time
_NUMBER = np.dtype(np.uint32)
"""Type of the numbers of rows, columns and slots, where each cell has one: memory has fewer."""
_PREFIX = 4  # bytes of a column's number before the row, where each cell has a number


class Column:
    """One value per slot; zero (None, of objects) says that there is nothing."""

    __slots__ = ("data",)

    def __init__(self, data: Array) -> None:
        self.data = data


class GridShape(Struct, frozen=True, array_like=True):
    """How slots follow from keys: so many a row; ``packed``: one for each cell."""

    width: int
    packed: bool


class RowChains:
    """A chain of present cells for each row. Cells that are gone leave it when it is read.

    Args:
        following: a column of zeros: in each cell of a chain one more than the slot of the next
            cell, its own at the end; 0 in cells outside of all.
        present: which cells exist.

    Attributes:
        following: the column.
    """

    def __init__(self, following: Column, present: Column) -> None:
        self.following = following
        self._present = present
        self._heads: Array = np.zeros(0, _NUMBER)
        """One more than the slot of the first in each row's chain, by the row's number; or 0."""

    def clear(self) -> None:
        """Forget all chains."""
        self.following.data[:] = 0
        self._heads = np.zeros(0, _NUMBER)

    def cells(self, row: int) -> list[int]:
        """Return the slots of a row's present cells in order; those that are gone leave the chain.

        So each cell that goes is looked at once, however often its row is asked for.
        """
        if row >= len(self._heads):
            return []
        chain, present = self.following.data, self._present.data
        found: list[int] = []
        gone: list[int] = []
        slot, link = -1, int(self._heads[row])
        while link != slot + 1 and link:
            slot = link - 1
            link = int(chain.item(slot))
            (found if present.item(slot) else gone).append(slot)
        if gone:
            chain[gone] = 0
            self._heads[row] = found[0] + 1 if found else 0
            for one, next_ in zip(found, [*found[1:], *found[-1:]], strict=True):
                chain[one] = next_ + 1
        found.sort()
        return found

    def unlinked(self, slots: Array) -> Array:
        """Return those of the cells that are in no chain."""
        found: Array = slots[self.following.data[slots] == 0]
        return found

    def link(self, slots: Array, rows: Array) -> None:
        """Put cells at the front of their rows' chains; they are in none, and each is there once.

        Args:
            slots: of the cells.
            rows: the number of each cell's row.
        """
        if not len(slots):
            return
        if len(slots) > 1:
            order = np.argsort(rows, kind="stable")
            slots, rows = slots[order], rows[order]
        known = int(rows[-1]) + 1
        if known > len(self._heads):
            grown = np.zeros(int(known * _GROWTH) + 1, _NUMBER)
            grown[: len(self._heads)] = self._heads
            self._heads = grown
        first = np.ones(len(rows), np.bool_)
        first[1:] = rows[1:] != rows[:-1]
        last = np.ones(len(rows), np.bool_)
        last[:-1] = first[1:]
        following = np.empty(len(slots), _NUMBER)
        following[1:] = slots[:-1] + 1
        heads = self._heads[rows[first]]
        following[first] = np.where(heads == 0, slots[first] + 1, heads)
        self.following.data[slots] = following
        self._heads[rows[last]] = slots[last] + 1


class Grid:
    """Numbers the cells of one container and holds the columns of what is known of them.

    Slots change when columns or rows are added and when the grid is tidied: nobody keeps them, but
    in a ``Column`` of the grid, which moves with it.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._index = storage.index()
        """Of rows; of cells, where each has a number."""
        self._rows: Index | None = None
        """Of rows, where cells have an index of their own."""
        self._row_of: Column | None = None
        self._column_of: Column | None = None
        """Numbers of each cell's row and column, where cells have an index of their own."""
        self._chains: RowChains | None = None
        """The present cells of each row, where cells have an index of their own."""
        self._ids: dict[bytes, int] = {}
        self._names: list[bytes] = []
        self._width = 1
        self._size = 0
        self._columns: list[Column] = []
        self._marks: list[Column] = []
        self.layout = 0
        """Another number after every change of slots."""
        self.unsaved = self.marks()
        """Which cells are still to be written to a changelog."""
        self.present = self.column(np.bool_)
        """Which cells exist."""

    @property
    def names(self) -> Sequence[bytes]:
        """The columns that are known, ``family:qualifier``, by their numbers."""
        return self._names

    @property
    def rows(self) -> int:
        """How many rows were ever seen: their numbers are below it."""
        return len(self._index if self._rows is None else self._rows)

    def column(self, dtype: DTypeLike) -> Column:
        """Return a column of zeros (of None, for objects) that moves with the grid."""
        made = Column(self._storage.array(self._size, dtype))
        self._columns.append(made)
        return made

    def widen(self) -> None:
        """Have columns of numbers hold such as have a rest, see ``exact_numbers``."""
        for column in self._columns:
            if column.data.dtype == np.float64:
                wide = self._storage.array(self._size, np.complex128)
                wide[:] = column.data
                column.data = wide

    def marks(self) -> Column:
        """Return a column of marks that moves with the grid; no cell keeps its room for them."""
        made = self.column(np.bool_)
        self._marks.append(made)
        return made

    def release(self, column: Column) -> None:
        """Forget a column."""
        self._columns.remove(column)
        if column in self._marks:
            self._marks.remove(column)

    def mark(self, slots: Array) -> None:
        """Note that something is known of cells which was not saved."""
        self.unsaved.data[slots] = True

    def close(self) -> None:
        """Give back what the storage holds; nothing may be asked afterwards."""
        for index in (self._index, self._rows):
            if index is not None:
                index.close()

    # Slots of cells.

    def slots(self, rows: Sequence[bytes], columns: Sequence[bytes]) -> Array:
        """Return the cells' slots, with new ones for new cells."""
        distinct = set(columns)
        if not distinct <= self._ids.keys():
            self._learn(distinct)
        ids = self._ids
        if self._rows is None:
            numbers = np.array(self._index.number(rows), np.int64)
            if len(self._index) * self._width > self._size:
                self._grow()
                if self._rows is not None:
                    return self.slots(rows, columns)
            if self._width == 1:
                return numbers
            if len(distinct) == 1:
                return numbers * self._width + ids[columns[0]]
            return numbers * self._width + np.fromiter(
                map(ids.__getitem__, columns), np.int64, len(columns)
            )
        prefixes = {column: _prefix(ids[column]) for column in distinct}
        known = len(self._index)
        keys = list(map(add, map(prefixes.__getitem__, columns), rows))
        slots = np.array(self._index.number(keys), np.int64)
        if len(self._index) > known:
            self._grow()
            new = np.flatnonzero(slots >= known)
            places = new.tolist()
            self._note_places(
                slots[new], [rows[i] for i in places], [ids[columns[i]] for i in places]
            )
        return slots

    def find(self, row: bytes, column: bytes) -> int | None:
        """Return a cell's slot; None if it was never seen."""
        number = self._ids.get(column)
        if number is None:
            return None
        if self._rows is not None:
            return self._index.find(_prefix(number) + row)
        place = self._index.find(row)
        return None if place is None else place * self._width + number

    def last(self, slots: Array) -> Array | None:
        """Return the places of the last of each of these slots; None where none comes again."""
        if self._size <= _SMALL:
            places = np.arange(len(slots))
            latest = np.empty(self._size, np.int64)
            latest[slots] = places
            found = np.flatnonzero(latest[slots] == places)
        else:
            found = len(slots) - 1 - np.unique(slots[::-1], return_index=True)[1]
        return None if len(found) == len(slots) else found

    def row_numbers(self, slots: Array) -> Array:
        """Return the number of each slot's row."""
        if self._row_of is not None:
            return self._row_of.data[slots]
        return slots // self._width

    def row_number_of(self, slot: int) -> int:
        """Return the number of a slot's row."""
        return slot // self._width if self._row_of is None else int(self._row_of.data.item(slot))

    def columns_in(self, rows: Iterable[bytes]) -> dict[bytes, list[bytes]]:
        """Return the columns that exist in each of these rows.

        It looks at the cells of these rows only.
        """
        found: dict[bytes, list[bytes]] = {row: [] for row in rows}
        if self._rows is None or self._column_of is None or self._chains is None:
            for row, columns in found.items():
                number = self._index.find(row)
                if number is not None:
                    first = number * self._width
                    there = np.flatnonzero(self.present.data[first : first + self._width])
                    columns += [self._names[place] for place in there.tolist()]
            return found
        for row, columns in found.items():
            number = self._rows.find(row)
            if number is not None:
                places = self._column_of.data[self._chains.cells(number)]
                columns += [self._names[place] for place in places.tolist()]
        return found

    def link(self, slots: Array) -> None:
        """Take note that cells exist, each of them once, so that ``columns_in`` finds them."""
        if self._chains is not None:
            new = self._chains.unlinked(slots)
            self._chains.link(new, self.row_numbers(new))

    def row_number(self, row: bytes) -> int | None:
        """Return the number of a row; None if it was never seen."""
        return (self._index if self._rows is None else self._rows).find(row)

    def keys(self, slots: Array) -> tuple[list[bytes], list[int]]:
        """Return rows, and columns as positions in ``names``; it looks at all rows."""
        names = list(self._index.keys())
        if self._rows is None:
            numbers, columns = np.divmod(slots, self._width)
            return [names[i] for i in numbers.tolist()], columns.tolist()
        found = [names[i] for i in slots.tolist()]
        return [k[_PREFIX:] for k in found], [int.from_bytes(k[:_PREFIX], "big") for k in found]

    def find_used(self, first: int, stop: int) -> Array:
        """Return the slots in a range of which anything is known."""
        found: Array = first + np.flatnonzero(self._anything(slice(first, stop)))
        return found

    # As it is saved.

    @property
    def shape(self) -> GridShape:
        """How slots follow from keys and columns."""
        return GridShape(self._width, self._rows is not None)

    @property
    def keys_known(self) -> int:
        """How many keys there are: rows; cells, where each has a number."""
        return len(self._index)

    @property
    def extent(self) -> int:
        """All slots that were ever given lie below."""
        return len(self._index) * self._width

    def keys_since(self, first: int) -> Iterable[bytes]:
        """Return the keys from a number on."""
        return self._index.keys(first)

    @property
    def names_known(self) -> int:
        """How many columns are known."""
        return len(self._names)

    def names_since(self, first: int) -> list[bytes]:
        """Return the columns from a number on."""
        return self._names[first:]

    def load(self, shape: GridShape, names: Iterable[bytes], keys: Sequence[bytes]) -> None:
        """Give an empty grid the slots that another had with these keys and columns."""
        self._names = list(names)
        self._ids = {name: number for number, name in enumerate(self._names)}
        self._width = shape.width
        if shape.packed:
            self._rows = self._storage.index()
            self._add_places()
        for first in range(0, len(keys), _LOADED):
            self._index.number(keys[first : first + _LOADED])
        self._resize(self._room(self.extent))
        for first in range(0, len(keys) if shape.packed else 0, _LOADED):
            some = keys[first : first + _LOADED]
            self._note_places(
                np.arange(first, first + len(some)),
                [key[_PREFIX:] for key in some],
                [int.from_bytes(key[:_PREFIX], "big") for key in some],
            )

    # Room.

    def tidy(self) -> bool:
        """Give up slots and columns of cells that are gone, if they are many; return if it did."""
        if self._size < _FEW_ROWS:
            return False
        used = self.find_used(0, self._size)
        if len(used) * self._width * _VACANT >= len(self._index):
            return False
        rows, numbers = self.keys(used)
        columns = [self._names[number] for number in numbers]
        former = [index for index in (self._index, self._rows) if index is not None]
        self._index = self._storage.index()
        self._names = sorted(set(columns))
        self._ids = {name: number for number, name in enumerate(self._names)}
        if self._rows is not None and columns:
            self._rows = self._storage.index()
            self._move_packed(used, rows, columns)
        else:
            self._forget_rows()
            self._width = 1 << max(0, len(self._names) - 1).bit_length()
            places = np.array([self._ids[column] for column in columns], np.int64)
            slots = np.array(self._index.number(rows), np.int64) * self._width + places
            self._move(used, slots, self._room(len(self._index) * self._width))
        for index in former:
            index.close()
        return True

    def _learn(self, columns: Iterable[bytes]) -> None:
        for column in columns:
            if self._ids.setdefault(column, len(self._names)) == len(self._names):
                self._names.append(column)
        if self._rows is not None or len(self._ids) <= self._width:
            return
        width = 1 << (len(self._ids) - 1).bit_length()
        if width > _WIDEST or self._is_sparse(width):
            self._pack()
            return
        used = self.find_used(0, self._size)
        numbers, places = np.divmod(used, self._width)
        self._width = width
        self._move(used, numbers * width + places, self._room(len(self._index) * width))

    def _is_sparse(self, width: int) -> bool:
        rows = len(self._index)
        present = int(np.count_nonzero(self.present.data))
        return width > 1 and rows > _FEW_ROWS and rows * width > _SPARSE * max(present, 1)

    def _room(self, needed: int) -> int:
        return max(_FIRST, int(needed * _GROWTH)) // self._width * self._width + self._width

    def _grow(self) -> None:
        needed = len(self._index) * self._width
        if needed <= self._size:
            return
        if self._rows is None and self._is_sparse(self._width):
            self._pack()
            return
        self._resize(self._room(needed))

    def _resize(self, size: int) -> None:
        for column in self._columns:
            grown = self._storage.array(size, column.data.dtype)
            grown[: self._size] = column.data
            column.data = grown
        self._size = size

    def _pack(self) -> None:
        """Give each cell a number of its own."""
        used = self.find_used(0, self._size)
        rows, columns = self.keys(used)
        self._rows, self._index, self._width = self._index, self._storage.index(), 1
        self._add_places()
        self._move_packed(used, rows, [self._names[i] for i in columns])

    def _add_places(self) -> None:
        self._row_of, self._column_of = self.column(_NUMBER), self.column(_NUMBER)
        self._chains = RowChains(self.column(_NUMBER), self.present)

    def _forget_rows(self) -> None:
        """Have rows the only index; there are no slots that it could be wrong for."""
        for column in self._of_places():
            self.release(column)
        self._rows = self._row_of = self._column_of = self._chains = None

    def _of_places(self) -> list[Column]:
        """Return the columns that say where cells are, and nothing of them."""
        chained = None if self._chains is None else self._chains.following
        found = (self._row_of, self._column_of, chained)
        return [column for column in found if column is not None]

    def _move_packed(self, used: Array, rows: list[bytes], columns: list[bytes]) -> None:
        numbers = [self._ids[column] for column in columns]
        keys = [_prefix(number) + row for row, number in zip(rows, numbers, strict=True)]
        slots = np.array(self._index.number(keys), np.int64)
        self._move(used, slots, self._room(len(self._index)))
        self._note_places(slots, rows, numbers)
        if self._chains is not None:
            self._chains.clear()
            self.link(np.flatnonzero(self.present.data))

    def _note_places(self, slots: Array, rows: Sequence[bytes], columns: Sequence[int]) -> None:
        if self._rows is not None and self._row_of is not None and self._column_of is not None:
            self._row_of.data[slots] = self._rows.number(rows)
            self._column_of.data[slots] = columns

    def _anything(self, place: slice) -> Array:
        used = np.zeros(len(range(*place.indices(self._size))), np.bool_)
        apart = (*self._of_places(), *self._marks)
        for column in self._columns:
            if column not in apart:
                data = column.data[place]
                used |= np.not_equal(data, _NOTHING) if data.dtype == object else data != 0
        return used

    def _move(self, old: Array, new: Array, size: int) -> None:
        for column in self._columns:
            moved = self._storage.array(size, column.data.dtype)
            moved[new] = column.data[old]
            column.data = moved
        self._size = size
        self.layout += 1


def _prefix(column: int) -> bytes:
    return column.to_bytes(_PREFIX, "big")
