"""What an engine remembers of cells, read from the log that ``changelog`` describes."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.elements import Element, Elements, Listed
from headgate.engine.cells.grid import GridShape
from headgate.engine.cells.pending import PreviousValues
from headgate.engine.cells.storage import Array
from headgate.engine.checkpoint.changelog import SEGMENT_VERSION, CellsPart, ListPart, Parts


class SnapshotError(ValueError):
    """Bytes that are no snapshot of an engine, or one of a later version."""


class ListState(Struct, frozen=True, array_like=True):
    """A list in the log: its number, its length, and how much of it stands in stream ``LISTS``."""

    number: int
    length: int
    merged: int


class LoggedState(Struct, frozen=True, array_like=True):
    """Cells in the log: the lists of their keys and columns, and how slots follow from them."""

    keys: ListState
    names: ListState
    shape: GridShape


class LogState(Struct, frozen=True):
    """See ``Changelog``."""

    items: int
    small: int


class _Wanted(Struct):
    cells: ContainerCells
    state: LoggedState
    pasts: dict[int, PreviousValues]


_decoder = msgspec.msgpack.Decoder(Parts)


class LogReader:
    """Gives cells what the log has of them, when all that is wanted is known."""

    def __init__(self) -> None:
        self._lists: dict[int, list[Any]] = {}
        self._lengths: dict[int, int] = {}
        self._wanted: dict[int, _Wanted] = {}
        """By the number of the list of their keys."""
        self._laid_out = False

    def want(self, cells: ContainerCells, state: LoggedState) -> None:
        """Have cells read."""
        self._want_list(state.keys)
        self._want_list(state.names)
        self._wanted[state.keys.number] = _Wanted(cells, state, {})

    def want_past(self, state: LoggedState, past: PreviousValues, number: int) -> None:
        """Have a memory of x′ of these cells read."""
        past.logged = number
        self._wanted[state.keys.number].pasts[number] = past

    def want_elements(self, state: ListState | None) -> None:
        """Have a set of elements read."""
        if state is not None:
            self._want_list(state)

    def read(self, segments: Iterable[bytes]) -> None:
        """Read what is wanted.

        Raises:
            SnapshotError: a segment is none, or something is missing.
        """
        for data in segments:
            parts = _parts(data)
            for items in parts.lists:
                self._take_items(items)
            for part in parts.cells:
                self._lay_out()
                self._take_cells(part)
        self._lay_out()
        for one in self._wanted.values():
            one.cells.columns.count_loaded()

    def past(self, state: LoggedState, number: int) -> PreviousValues | None:
        """Return a memory of x′ that was wanted; None where it was not."""
        wanted = self._wanted.get(state.keys.number)
        return None if wanted is None else wanted.pasts.get(number)

    def elements(self, state: ListState | None) -> Elements[Any]:
        """Return a set of elements that was read; an empty one where the state is None."""
        found: Elements[Element] = Elements()
        if state is not None:
            found.update(dict.fromkeys(self._lists[state.number]))
            found.listed = listed(state)
        return found

    def _want_list(self, state: ListState) -> None:
        self._lists[state.number] = []
        self._lengths[state.number] = state.length

    def _take_items(self, part: ListPart) -> None:
        known = self._lists.get(part.number)
        if known is None:
            return
        if part.first != len(known):
            raise SnapshotError(
                f"list {part.number} of a log of cells goes on at {part.first}, not {len(known)}"
            )
        known.extend(part.items)

    def _lay_out(self) -> None:
        """Give cells their slots; all lists come before what is numbered by them."""
        if self._laid_out:
            return
        self._laid_out = True
        for number, length in self._lengths.items():
            if len(self._lists[number]) != length:
                raise SnapshotError(
                    f"list {number} of a log of cells has {len(self._lists[number])} items, "
                    f"not {length}"
                )
        for wanted in self._wanted.values():
            state = wanted.state
            keys = self._lists.pop(state.keys.number)
            wanted.cells.columns.grid.load(state.shape, self._lists.pop(state.names.number), keys)

    def _take_cells(self, part: CellsPart) -> None:
        wanted = self._wanted.get(part.keys)
        if wanted is None:
            return
        cells = wanted.cells
        slots = np.cumsum(np.frombuffer(part.slots, "<u4"), dtype=np.int64)
        if len(slots) and int(slots[-1]) >= cells.columns.grid.extent:
            raise SnapshotError(
                f"a log of cells has slot {slots[-1]} of {cells.columns.grid.extent}"
            )
        cells.columns.grid.present.data[slots] = _bits(part.present, len(slots))
        if cells.columns.values is not None:
            cells.columns.values.data[slots] = _column(cells, part.values, len(slots))
        stamps = np.frombuffer(part.stamps, "<i8") - 1 if part.stamps else None
        cells.columns.stamp(slots, stamps)
        logged = {one.number: one for one in part.pasts}
        for number, past in wanted.pasts.items():
            past.forget(slots)
            one = logged.get(number)
            if one is not None:
                touched = slots[_bits(one.touched, len(slots))]
                past.put(touched, _column(cells, one.values, len(touched)))


def listed(state: ListState) -> Listed:
    """Return how a changelog goes on with a list."""
    found = Listed(state.number, state.length)
    found.merged = state.merged
    return found


def _parts(data: bytes) -> Parts:
    try:
        parts = _decoder.decode(zlib.decompress(data))
    except (zlib.error, msgspec.MsgspecError) as error:
        raise SnapshotError(f"not a segment of a log of cells: {error}") from error
    if parts.version > SEGMENT_VERSION:
        raise SnapshotError(
            f"a segment of version {parts.version} of a log of cells; this headgate reads up to "
            f"{SEGMENT_VERSION}: upgrade it"
        )
    return parts


def _bits(packed: bytes, length: int) -> Array:
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=length).astype(np.bool_)


def _column(cells: ContainerCells, values: bytes | Sequence[bytes | None], length: int) -> Array:
    if isinstance(values, bytes):
        if len(values) != 16 * length or not values:
            return np.frombuffer(values, "<f8")
        cells.columns.grid.widen()
        return np.frombuffer(values, "<c16")
    made = np.empty(len(values), object)
    made[:] = values
    return made
