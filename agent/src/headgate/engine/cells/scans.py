"""Scans of a container's part in one table: what the table holds beside what updates say."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence
from itertools import chain

import numpy as np

from headgate.engine.cells.arrivals import family_of
from headgate.engine.cells.columns import CellColumns, Detail
from headgate.engine.cells.elements import Element, Elements, Key
from headgate.engine.cells.grid import Column
from headgate.engine.cells.reads import CellReads
from headgate.engine.cells.storage import Array
from headgate.engine.cells.watchers import Watchers
from headgate.engine.spec.dataflow import Count


class ScanState:
    """A scan under way: what the stream says of a cell meanwhile is newer than the scan.

    It comes some rows at a time, in order. What the stream says of rows that have come is newer
    than what they were compared with, and is taken as if there was no scan.
    """

    def __init__(self) -> None:
        self.at = b""
        """The first row that has not come."""
        self.unseen: Column | None = None
        """Cells that were there when it began, and that neither it nor the stream has shown since.
        None where there were none."""
        self.counted: Column | None = None
        """Cells that it found changed, where several make an element; None where none did."""
        self.found = 0
        """How many elements it found changed."""
        self.written: Elements[Key] = Elements()
        self.deleted_rows: Elements[bytes] = Elements()
        self.deleted_families: Elements[Key] = Elements()
        """Row and ``family:``."""
        self.doubtful: Elements[Key] = Elements()
        """Row and ``family:`` (empty for all) of deletes of which some cells may be left."""
        self.emptied = False
        self.again = False
        """Whether something happened meanwhile that another scan is to look for."""
        self.lossy = False
        """Whether what happened may be that updates were lost, and not only that cells are gone."""
        self.lossless = False
        """Whether no update was lost, so that only cells can be found that are gone."""


class ContainerScans:
    """Takes what scans find, and counts what no event has announced."""

    __slots__ = (
        "_columns",
        "_reads",
        "_watchers",
        "complete",
        "current",
        "expiring",
    )

    def __init__(self, columns: CellColumns, watchers: Watchers, reads: CellReads) -> None:
        self._columns = columns
        self._watchers = watchers
        self._reads = reads
        self.current: ScanState | None = None
        """The scan under way."""
        self.complete = columns.detail is Detail.COUNTS
        """Whether one has come to its end, or none is needed."""
        self.expiring: Collection[bytes] = ()
        """Families whose cells expire."""

    def start(self) -> None:
        """From here on, remember what the stream says, until the scan is there."""
        former = self._end()
        self.current = ScanState()
        # One that is asked for anew looks for the same, and what it found is not found again.
        self.current.lossless = former.lossless
        self.current.found = former.found
        slots = self._columns.slots
        if len(slots):
            self._expect(slots)

    def resume(self) -> None:
        """Go on where a scan came to, or begin it anew where that is not known.

        Only a first scan goes on: what it has not seen was not there before, or came in the stream.
        """
        scan = self.current
        if scan is None or not scan.at:
            self.start()
            return
        scan.emptied = False  # the rows are read again
        slots = self._columns.slots
        rows, _ = self._columns.grid.keys(slots)
        ahead = [place for place, row in enumerate(rows) if row >= scan.at]
        if ahead:
            self._expect(slots[ahead])
            self._see(scan.written)

    def begin_reading(self) -> None:
        """Have what is read from here on outrank what the stream has said of these rows."""
        scan = self.current
        if scan is None:
            return
        said = self._slots_of(key for key in scan.written if key[0] >= scan.at)
        if said:
            if scan.unseen is None:
                scan.unseen = self._columns.grid.marks()
            scan.unseen.data[said] = True
        scan.written = Elements()
        scan.deleted_rows = Elements()
        scan.deleted_families = Elements()
        scan.doubtful = Elements()
        scan.emptied = False

    def _expect(self, slots: Array) -> None:
        """Have a scan under way show these cells, or they are gone."""
        if self.current is not None:
            self.current.unseen = self._columns.grid.marks()
            self.current.unseen.data[slots] = True

    def _see(self, keys: Iterable[Key]) -> None:
        if self.current is not None and self.current.unseen is not None:
            self.current.unseen.data[self._slots_of(keys)] = False

    def show(self, keys: Iterable[Key]) -> None:
        """Note what the stream says of cells while they are scanned."""
        scan = self.current
        if scan is not None:
            scan.written.update(dict.fromkeys(key for key in keys if key[0] >= scan.at))
            self._see(keys)

    def _end(self) -> ScanState:
        ended, self.current = self.current or ScanState(), None
        for column in (ended.unseen, ended.counted):
            if column is not None:
                self._columns.grid.release(column)
        return ended

    def take(
        self,
        rows: Sequence[bytes],
        columns: Sequence[bytes],
        values: Sequence[bytes | None],
        recent: Iterable[int] = (),
        *,
        stop: bytes | None = None,
        dated: Container[bytes] = (),
    ) -> int:
        """Take all present cells of the rows before ``stop`` that have not come yet.

        Returns the number of elements that the scan has found changed behind the stream, so far.
        It has ended where ``stop`` is None. The first scan is what there was before. A later one
        looks for what no event has announced, nor will: ``recent`` cells, by their places, are left
        to updates that are still to come.
        """
        scan = self.current = self.current or ScanState()
        first = not self.complete
        if not first:
            left = dict.fromkeys((rows[i], columns[i]) for i in recent)
            scan.written.update(left)
            self._see(left)
        read = values if len(values) == len(rows) else [None] * len(rows)
        if scan.written or scan.deleted_rows or scan.deleted_families:
            trusted = [
                i
                for i, (row, column) in enumerate(zip(rows, columns, strict=True))
                if (row, column) not in scan.written
                and (
                    row in dated
                    or (
                        row not in scan.deleted_rows
                        and (row, family_of(column)) not in scan.deleted_families
                    )
                )
            ]
            rows = [rows[i] for i in trusted]
            columns = [columns[i] for i in trusted]
            read = [read[i] for i in trusted]
        found = self._columns.grid.slots(rows, columns) if rows else np.zeros(0, np.int64)
        last = dict(zip(found.tolist(), range(len(found)), strict=True))
        if len(last) < len(found):
            found = np.array(list(last), np.int64)
            places = list(last.values())
            rows, columns = [rows[i] for i in places], [columns[i] for i in places]
            read = [read[i] for i in places]
        if scan.unseen is not None:
            scan.unseen.data[found] = False
        moved, old, new = self._compared(found, read)
        self._settle(scan, stop)
        if scan.doubtful:
            self._reads.unsettled.update(
                (row, column)
                for row, column in zip(rows, columns, strict=True)
                if (row, b"") in scan.doubtful or (row, family_of(column)) in scan.doubtful
            )
        if dated:
            both = chain(scan.written, zip(rows, columns, strict=True))
            self._reads.unsettled.update(key for key in both if key[0] in dated)
        self._watchers.moved_by_scan(found[moved], old, new, first=first)
        if not first and len(moved):
            scan.found += self.count_found((rows[i], columns[i]) for i in moved.tolist())
            self._note_counted(scan, found[moved])
        scan.at = scan.at if stop is None else stop
        if stop is not None:
            return scan.found
        self._vanish_unseen(scan, first=first)
        self.complete = True
        return self._end().found

    def _settle(self, scan: ScanState, stop: bytes | None) -> None:
        """Have cells settled that came, or that are known to be gone."""
        for keys in (self._reads.unsettled, self._reads.reading):
            settled = [
                key
                for key in keys
                if scan.at <= key[0]
                and (stop is None or key[0] < stop)
                and key not in scan.written
                and not self._is_unseen(scan, key)
            ]
            keys.difference_update(settled)

    def _is_unseen(self, scan: ScanState, key: Key) -> bool:
        slot = None if scan.unseen is None else self._columns.grid.find(*key)
        if slot is None or scan.unseen is None:
            return False
        return bool(scan.unseen.data[slot] and self._columns.grid.present.data[slot])

    def _note_counted(self, scan: ScanState, slots: Array) -> None:
        if self._columns.count is Count.ROWS and self._columns.rows_apart:
            if scan.counted is None:
                scan.counted = self._columns.grid.marks()
            scan.counted.data[slots] = True

    def _vanish_unseen(self, scan: ScanState, *, first: bool) -> None:
        """Remove the cells that were there and that nobody has shown: they are gone."""
        known = self._columns
        if scan.unseen is None:
            return
        slots = np.flatnonzero(scan.unseen.data & known.grid.present.data)
        if not len(slots):
            return
        keys = known.keys(slots)
        old = known.column_of([]) if known.values is None else known.values.data[slots]
        known.vanish(slots)
        self._reads.forget(keys)
        gone = known.column_of([None] * len(slots))
        self._watchers.moved_by_scan(slots, old, gone, first=first)
        if first:
            return
        if scan.counted is not None:
            # A row that was counted for another of its cells has changed once.
            numbers = known.grid.row_numbers(np.flatnonzero(scan.counted.data))
            others = ~np.isin(known.grid.row_numbers(slots), numbers)
            keys = [keys[i] for i in np.flatnonzero(others).tolist()]
        if scan.lossless and self.expiring:
            # They have expired: no update of them was lost.
            keys = [key for key in keys if key[1].partition(b":")[0] not in self.expiring]
        scan.found += self.count_found(keys)

    def _slots_of(self, keys: Iterable[Key]) -> list[int]:
        slots = (self._columns.grid.find(*key) for key in keys)
        return [slot for slot in slots if slot is not None]

    def _compared(self, found: Array, read: Sequence[bytes | None]) -> tuple[Array, Array, Array]:
        """Let cells be as they were found; return the places of changed ones, x before and now."""
        known = self._columns
        was = known.grid.present.data[found]
        if known.values is None:
            known.appear(found[~was])
            return np.flatnonzero(~was), known.column_of([]), known.column_of([])
        now = known.read_column(read)
        before = known.values.data[found]
        same = was & ((before == now) | ((before != before) & (now != now)))
        known.appear(found[~was])
        known.values.data[found] = now
        moved = np.flatnonzero(~same)
        known.grid.mark(found[moved])
        return moved, before[moved], now[moved]

    def count_found(self, keys: Iterable[Key]) -> int:
        """Count cells that changed without an event; return how many elements it is."""
        by_row = self._columns.count is Count.ROWS
        elements: list[Element] = list(dict.fromkeys(key[0] if by_row else key for key in keys))
        self._watchers.count_found(elements)
        return len(elements)
