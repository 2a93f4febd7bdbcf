"""What an engine remembers of cells, as a log: a checkpoint adds what changed since the last one.

The log has three streams of numbered segments, each of which grows at its end and is cut off at its
beginning. Two have lists that only grow, keys of cells and distinct elements: what came since the
last checkpoint goes to ``RECENT``, and when that is much, all of it to ``LISTS``. The third
has cells: those that changed, and with them about as many others, in turn. When the turn has come
to all, nothing that was written before it began is needed any more. So no checkpoint writes the
whole (but the first, and one after slots have moved), and the log stays in proportion to the state.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, islice
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from headgate.engine.actions.state import EngineState
from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.columns import Detail
from headgate.engine.cells.elements import Element, Elements, Listed
from headgate.engine.cells.pending import PreviousValues
from headgate.engine.cells.storage import Array, newest
from headgate.engine.spec.exact_numbers import numbers_in
from headgate.events import ContainerId

LISTS, RECENT, CELLS = "a", "b", "c"
"""Streams, in the order in which they are read."""

_SEGMENT = 1 << 20  # bytes of a segment before it is compressed, about
_LEVEL = 1  # zlib's fastest: a launch waits for it
_ITEMS = 4096  # items of a list, written together
_SLOTS = 1 << 15  # slots written together: half a megabyte with two numbers each
_OPAQUE = 1 << 10  # the same where values are bytes, of any length
_MERGED = 100
_RECENT = 1 << 15
"""Segments and items of stream ``RECENT`` after which they go to ``LISTS`` together."""
_SMALL = 1 << 16  # bytes: many segments below it take longer to read than one of them all
_MANY = 1000
"""Small segments of lists after which all are written anew."""
_SPARE = 100_000
"""Items of lists that are gone, beside as many as there are, before all are written anew."""
_TURN = 1000
"""Checkpoints in which the turn has come to all cells, however few of them change."""


class Kept(Struct, frozen=True, array_like=True):
    """Segments of a stream, from ``first`` to before ``end``."""

    stream: str
    first: int
    end: int


class LogSegment(Struct, frozen=True):
    """One segment: its place, and its bytes."""

    stream: str
    number: int
    data: bytes


class LogChange(Struct, frozen=True):
    """What a checkpoint does to the log: ``dropped`` may go when all the rest is saved.

    ``kept`` is all that belongs to the checkpoint, with what is ``written``, in reading order.
    """

    written: tuple[LogSegment, ...] = ()
    kept: tuple[Kept, ...] = ()
    dropped: tuple[Kept, ...] = ()


class Checkpoint(Struct, frozen=True):
    """An engine's state: a head, and what of the log belongs to it."""

    head: bytes
    log: LogChange = LogChange()


class SavedEngine(Struct, frozen=True):
    """What an engine is made from: a head, what of the log belongs to it, and its segments."""

    head: bytes
    kept: tuple[Kept, ...] = ()
    segments: Iterable[bytes] = ()
    """Those of ``kept``, in its order."""


class ListPart(Struct, frozen=True, array_like=True):
    """Items of a list that only grows, from ``first`` on."""

    number: int
    first: int
    items: Sequence[bytes | tuple[bytes, bytes]]


class PastPart(Struct, frozen=True, array_like=True):
    """x′ of a part's cells: which have one (a bit each), and those values as in ``CellsPart``."""

    number: int
    touched: bytes
    values: bytes | tuple[bytes | None, ...]


class CellsPart(Struct, frozen=True, array_like=True):
    """All that is known of some cells.

    ``keys`` is the list by which their slots are numbered, ``slots`` the differences between them,
    ``present`` a bit each. ``values`` is empty where only keys are kept; numbers are doubles of 8
    bytes, or 16 with their rests where a part has some.
    """

    keys: int
    slots: bytes
    present: bytes
    values: bytes | tuple[bytes | None, ...]
    pasts: tuple[PastPart, ...]
    stamps: bytes = b""
    """As ``Known.stamps``; empty where none was written with a timestamp."""


class Parts(Struct, frozen=True, array_like=True):
    """What a segment holds."""

    version: int
    lists: tuple[ListPart, ...]
    cells: tuple[CellsPart, ...]


SEGMENT_VERSION = 1
"""Version of the segments that this code writes."""

_encoder = msgspec.msgpack.Encoder()


class _SegmentStream:
    """Segments of one stream: which are kept, and what this checkpoint does to them."""

    def __init__(self, name: str, number: int, kept: Iterable[Kept]) -> None:
        self.name = name
        self.next = number
        self.kept = [one for one in kept if one.stream == name]
        self._written: list[LogSegment] = []
        self._dropped: list[Kept] = []
        self._lists: list[ListPart] = []
        self._cells: list[CellsPart] = []
        self._size = 0
        self.small = 0
        """Small segments since the stream was cut off."""

    @property
    def segments(self) -> int:
        return sum(one.end - one.first for one in self.kept)

    def add(self, part: ListPart | CellsPart, size: int) -> None:
        """Write a part of about so many bytes."""
        if isinstance(part, ListPart):
            self._lists.append(part)
        else:
            self._cells.append(part)
        self._size += size
        if self._size >= _SEGMENT:
            self.flush()

    def flush(self) -> None:
        """End the segment that is being written."""
        if not self._lists and not self._cells:
            return
        parts = Parts(SEGMENT_VERSION, tuple(self._lists), tuple(self._cells))
        data = zlib.compress(_encoder.encode(parts), _LEVEL)
        self._written.append(LogSegment(self.name, self.next, data))
        last = self.kept[-1] if self.kept else None
        if last is not None and last.end == self.next:
            self.kept[-1] = Kept(self.name, last.first, self.next + 1)
        else:
            self.kept.append(Kept(self.name, self.next, self.next + 1))
        self.next += 1
        self.small += len(data) < _SMALL
        self._lists, self._cells, self._size = [], [], 0

    def cut(self, first: int) -> None:
        """Drop what lies before a number."""
        kept = []
        for one in self.kept:
            if one.first < first:
                self._dropped.append(Kept(self.name, one.first, min(one.end, first)))
            if one.end > first:
                kept.append(Kept(self.name, max(one.first, first), one.end))
        self.kept = kept
        self.small = 0

    def take(self) -> tuple[list[LogSegment], list[Kept]]:
        """Return what was written and dropped since the last call."""
        self.flush()
        written, dropped = self._written, self._dropped
        self._written, self._dropped = [], []
        return written, dropped


class LoggedCells:
    """How a changelog knows the cells of a container in one table."""

    def __init__(self, cells: ContainerCells, keys: Listed, names: Listed) -> None:
        self.layout = cells.columns.grid.layout
        self.keys = keys
        self.names = names
        self.moved = False
        """Whether all cells must be written, since they have other slots."""


class _Turn(Struct):
    """A turn that is under way, to write all cells again."""

    began: int
    """The number of the first segment since it began."""
    order: list[tuple[ContainerId, str]]
    """The containers to which it comes."""
    place: int = 0
    """The container to which it comes next, and the slot."""
    slot: int = 0


class Changelog:
    """Writes the log of one engine.

    Args:
        number: of the first segment and the first list; those of others before it were lower.
        kept: the log so far.
        items: items of lists in it.
        small: small segments of lists in it.
    """

    def __init__(
        self, number: int = 0, kept: Sequence[Kept] = (), items: int = 0, small: int = 0
    ) -> None:
        self._numbers = count(number + 1)
        self._lists, self._recent, self._cells = (
            _SegmentStream(name, number, kept) for name in (LISTS, RECENT, CELLS)
        )
        self._lists.small = small
        self._logged: dict[tuple[ContainerId, str], LoggedCells] = {}
        self._valid = 0
        """Lists with lower numbers are not in the log."""
        self.items = items
        self._turn: _Turn | None = None

    def adopt(self, cells: ContainerCells, keys: Listed, names: Listed) -> None:
        """Go on with cells that were read from this log, and have the slots that they had."""
        cells.columns.grid.unsaved.data[:] = False
        self._logged[cells.watched.id, cells.table] = LoggedCells(cells, keys, names)

    def forget(self) -> None:
        """Begin anew: the log has nothing that the engine has now."""
        self._logged.clear()
        self._valid = next(self._numbers)
        self.items = 0
        for stream in self._streams:
            stream.cut(stream.next)
        self._turn = None

    def forget_cells(self, gone: Iterable[ContainerCells]) -> None:
        """Write cells of these containers anew, if there are any: the log has others."""
        for cells in gone:
            self._logged.pop((cells.watched.id, cells.table), None)

    def write(self, state: EngineState) -> None:
        """Write what changed."""
        held = [cells for cells in state.cells.values() if cells.detail is not Detail.COUNTS]
        self._write_lists(state, held)
        order = [(cells.watched.id, cells.table) for cells in held]
        if self._turn is None or order != self._turn.order:
            # Among other containers nobody knows to which of them the turn has come.
            self._turn = _Turn(self._cells.next, order)
        changed = sum(map(self._write_changed, held))
        if changed:
            self._take_turn(self._turn, held, changed)

    def change(self) -> LogChange:
        """Return what has become of the log since the last call."""
        taken = [stream.take() for stream in self._streams]
        return LogChange(
            tuple(segment for written, _ in taken for segment in written),
            tuple(one for stream in self._streams for one in stream.kept),
            tuple(one for _, dropped in taken for one in dropped),
        )

    def of(self, cells: ContainerCells) -> LoggedCells:
        """Return how these cells are known."""
        return self._logged[cells.watched.id, cells.table]

    @property
    def small(self) -> int:
        """How many small segments of lists there are."""
        return self._lists.small

    @property
    def _streams(self) -> tuple[_SegmentStream, _SegmentStream, _SegmentStream]:
        return self._lists, self._recent, self._cells

    # Lists.

    def _write_lists(self, state: EngineState, held: Sequence[ContainerCells]) -> None:
        lists = [*self._keys(held), *self._elements(state)]
        living = sum(length for _, length, _ in lists)
        if self.items > 2 * living + _SPARE or self._lists.small > _MANY:
            # Most of it is of lists that are gone, or it is in too many segments.
            for listed, _, _ in lists:
                listed.merged = listed.logged = 0
            self._recent.cut(self._recent.next)
            self._lists.cut(self._lists.next)
            self.items = 0
        recent = sum(length - listed.merged for listed, length, _ in lists)
        merging = recent > _RECENT or self._recent.segments >= _MERGED
        stream = self._lists if merging else self._recent
        for listed, length, since in lists:
            self.items += length - listed.logged
            first = listed.merged if merging else listed.logged
            self._write_items(stream, listed.number, first, length, since)
            listed.logged = length
            if merging:
                listed.merged = length
        if merging:
            self._lists.flush()  # the head says how many small ones there are
            self._recent.cut(self._recent.next)

    def _keys(self, held: Sequence[ContainerCells]) -> Iterator[_List]:
        for cells in held:
            grid = cells.columns.grid
            logged = self._logged.get((cells.watched.id, cells.table))
            if logged is None or logged.layout != grid.layout:
                logged = LoggedCells(cells, self._listed(), self._listed())
                logged.moved = True
                self._logged[cells.watched.id, cells.table] = logged
                grid.mark(grid.find_used(0, grid.extent))
            yield logged.keys, grid.keys_known, grid.keys_since
            yield logged.names, grid.names_known, grid.names_since

    def _elements(self, state: EngineState) -> Iterator[_List]:
        for cells in state.cells.values():
            for elements in remembered_elements(cells):
                if elements.listed is None or elements.listed.number < self._valid:
                    elements.listed = self._listed()
                yield elements.listed, len(elements), _since(elements)

    def _listed(self) -> Listed:
        return Listed(next(self._numbers))

    @staticmethod
    def _write_items(
        stream: _SegmentStream,
        number: int,
        first: int,
        length: int,
        since: Callable[[int], Iterable[Element]],
    ) -> None:
        if first == length:
            return
        rest = iter(since(first))
        while items := list(islice(rest, _ITEMS)):
            size = sum(map(len, items)) if isinstance(items[0], bytes) else 32 * len(items)
            stream.add(ListPart(number, first, items), size)
            first += len(items)

    # Cells.

    def _write_changed(self, cells: ContainerCells) -> int:
        """Write cells that were not saved as they are; return how many of them have changed."""
        logged = self.of(cells)
        slots = np.flatnonzero(cells.columns.grid.unsaved.data)
        if len(slots):
            self._write_cells(cells, slots)
            cells.columns.grid.unsaved.data[slots] = False
        moved, logged.moved = logged.moved, False
        return 0 if moved else len(slots)

    def _take_turn(self, turn: _Turn, held: Sequence[ContainerCells], changed: int) -> None:
        extents = [cells.columns.grid.extent for cells in held]
        due = max(changed, sum(extents) // _TURN + 1)
        while due > 0 and turn.place < len(held):
            cells, extent = held[turn.place], extents[turn.place]
            stop = min(turn.slot + due, extent)
            if stop > turn.slot:
                self._write_cells(cells, cells.columns.grid.find_used(turn.slot, stop))
                due -= stop - turn.slot
            turn.slot = stop
            if stop == extent:
                turn.place, turn.slot = turn.place + 1, 0
        if turn.place == len(held):
            self._cells.flush()
            self._cells.cut(turn.began)
            self._turn = None

    def _write_cells(self, cells: ContainerCells, slots: Array) -> None:
        step = _OPAQUE if cells.columns.values is not None and not cells.columns.numeric else _SLOTS
        for first in range(0, len(slots), step):
            some = slots[first : first + step]
            pasts = [
                _past_part(past, some)
                for past in remembered_pasts(cells, lambda: next(self._numbers))
            ]
            part = CellsPart(
                self.of(cells).keys.number,
                np.diff(some, prepend=0).astype("<u4").tobytes(),
                np.packbits(cells.columns.grid.present.data[some]).tobytes(),
                b"" if cells.columns.values is None else _values(cells.columns.values.data[some]),
                tuple(part for part in pasts if part is not None),
                b"" if cells.columns.stamps is None else _stamps(cells.columns.stamps.data[some]),
            )
            self._cells.add(part, _size(part))


_List = tuple[Listed, int, Callable[[int], Iterable[Element]]]
"""A list that only grows, its length, and its items from one on."""


def remembered_elements(cells: ContainerCells) -> Iterator[Elements[Any]]:
    """Yield the sets of elements that are remembered of a container, those that are not empty."""
    for pending in cells.watchers.pendings:
        if pending.distinct:
            yield pending.distinct
    yield from _passing_elements(cells)


def _passing_elements(cells: ContainerCells) -> Iterator[Elements[Any]]:
    """Yield those of them that runs and a scan under way have."""
    for consumed in cells.watchers.consumed.values():
        if consumed.distinct:
            yield consumed.distinct
    scanning = cells.scans.current
    if scanning is not None:
        found: list[Elements[Any]] = [scanning.written, scanning.deleted_rows]
        found += [scanning.deleted_families, scanning.doubtful]
        yield from filter(None, found)


def remembered_pasts(cells: ContainerCells, number: Callable[[], int]) -> Iterator[PreviousValues]:
    """Yield the memories of x′, each with a number."""
    pasts = [pending.past for pending in cells.watchers.pendings]
    pasts += [consumed.past for consumed in cells.watchers.consumed.values()]
    for past in pasts:
        if past is not None:
            past.logged = past.logged or number()
            yield past


def remembered(state: EngineState) -> int:
    """Return how many cells and elements the engine remembers."""
    found = 0
    for cells in state.cells.values():
        found += cells.columns.size
        for pending in cells.watchers.pendings:  # without a generator: there may be thousands
            found += len(pending.distinct)
        if cells.watchers.consumed or cells.scans.current is not None:
            found += sum(map(len, _passing_elements(cells)))
    return found


def _since(elements: Elements[Any]) -> Callable[[int], Iterable[Element]]:
    return lambda first: newest(elements, len(elements) - first)


def _past_part(past: PreviousValues, slots: Array) -> PastPart | None:
    touched = past.touched.data[slots]
    if not touched.any():
        return None
    values = _values(past.values.data[slots[touched]])
    return PastPart(past.logged, np.packbits(touched).tobytes(), values)


def _values(column: Array) -> bytes | tuple[bytes | None, ...]:
    if column.dtype == object:
        return tuple(column.tolist())
    if column.dtype.kind == "c" and column.imag.any():
        return column.astype("<c16").tobytes()
    return numbers_in(column).astype("<f8").tobytes()


def _stamps(column: Array) -> bytes:
    return column.astype("<i8").tobytes() if column.any() else b""


def _size(part: CellsPart) -> int:
    return (
        len(part.slots)
        + len(part.stamps)
        + sum(
            len(v) if isinstance(v, bytes) else sum(len(one or b"") + 5 for one in v)
            for v in (part.values, *(past.values for past in part.pasts))
        )
    )
