"""What is read from a table itself: scans, reads of single cells, and what a table has lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from headgate.engine.cells.elements import Element, Elements, Key
from headgate.engine.cells.known import PRESENT, Detail, Known, Scanning
from headgate.engine.cells.pending import Change, Value
from headgate.engine.cells.storage import Array
from headgate.engine.cells.told import in_part
from headgate.engine.spec.codecs import decode_column
from headgate.engine.spec.dataflow import Count
from headgate.events import UpdateKind

_MILLISECONDS = 1000


class Rescanned(Known):
    """Takes what was read, and counts what no event has told."""

    def start_scan(self) -> None:
        """From here on, remember what the stream says, until the scan is there."""
        former = self._end_scan()
        self.scanning = Scanning()
        # One that is asked for anew looks for the same, and what it found is not found again.
        self.scanning.lossless = former.lossless
        self.scanning.found = former.found
        slots = self.slots
        if len(slots):
            self._expect(slots)

    def resume_scan(self) -> None:
        """Go on where a scan came to, or begin it anew where that is not known.

        Only a first scan goes on: what it has not seen was not there before, or the stream told.
        """
        scanning = self.scanning
        if scanning is None or not scanning.at:
            self.start_scan()
            return
        scanning.emptied = False  # the rows are read again
        slots = self.slots
        rows, _ = self.grid.keys(slots)
        ahead = [place for place, row in enumerate(rows) if row >= scanning.at]
        if ahead:
            self._expect(slots[ahead])
            self._see(scanning.written)

    def begin_reading(self) -> None:
        """Have what is read from here on outrank what the stream has said of these rows."""
        scanning = self.scanning
        if scanning is None:
            return
        said = self._slots_of(key for key in scanning.written if key[0] >= scanning.at)
        if said:
            if scanning.unseen is None:
                scanning.unseen = self.grid.marks()
            scanning.unseen.data[said] = True
        scanning.written = Elements()
        scanning.deleted_rows = Elements()
        scanning.deleted_families = Elements()
        scanning.doubtful = Elements()
        scanning.emptied = False

    def _expect(self, slots: Array) -> None:
        """Have a scan under way show these cells, or they are gone."""
        if self.scanning is not None:
            self.scanning.unseen = self.grid.marks()
            self.scanning.unseen.data[slots] = True

    def _see(self, keys: Iterable[Key]) -> None:
        if self.scanning is not None and self.scanning.unseen is not None:
            self.scanning.unseen.data[self._slots_of(keys)] = False

    def show(self, keys: Iterable[Key]) -> None:
        """Note what the stream says of cells while they are scanned."""
        scanning = self.scanning
        if scanning is not None:
            scanning.written.update(dict.fromkeys(key for key in keys if key[0] >= scanning.at))
            self._see(keys)

    def _end_scan(self) -> Scanning:
        ended, self.scanning = self.scanning or Scanning(), None
        for column in (ended.unseen, ended.counted):
            if column is not None:
                self.grid.release(column)
        return ended

    def scan(
        self,
        rows: Sequence[bytes],
        columns: Sequence[bytes],
        values: Sequence[bytes | None],
        recent: Iterable[int] = (),
        *,
        stop: bytes | None = None,
    ) -> int:
        """Take all present cells of the rows before ``stop`` that have not come yet.

        Returns the number of elements that the scan has found changed behind the stream, so far.
        It has ended where ``stop`` is None. The first scan is what there was before. A later one
        looks for what no event told, nor will tell: ``recent`` cells, by their places, are left to
        updates that are still to come.
        """
        seen = self.scanning = self.scanning or Scanning()
        first = not self.scanned
        if not first:
            left = dict.fromkeys((rows[i], columns[i]) for i in recent)
            seen.written.update(left)
            self._see(left)
        read = values if len(values) == len(rows) else [None] * len(rows)
        if seen.written or seen.deleted_rows or seen.deleted_families:
            trusted = [
                i
                for i, (row, column) in enumerate(zip(rows, columns, strict=True))
                if (row, column) not in seen.written
                and row not in seen.deleted_rows
                and (row, family_of(column)) not in seen.deleted_families
            ]
            rows = [rows[i] for i in trusted]
            columns = [columns[i] for i in trusted]
            read = [read[i] for i in trusted]
        found = self.grid.slots(rows, columns) if rows else np.zeros(0, np.int64)
        last = dict(zip(found.tolist(), range(len(found)), strict=True))
        if len(last) < len(found):
            found = np.array(list(last), np.int64)
            places = list(last.values())
            rows, columns = [rows[i] for i in places], [columns[i] for i in places]
            read = [read[i] for i in places]
        if seen.unseen is not None:
            seen.unseen.data[found] = False
        moved, old, new = self._compared(found, read)
        self._settle_scanned(seen, stop)
        if seen.doubtful and self.detail is Detail.VALUES:
            self.unsettled.update(
                (row, column)
                for row, column in zip(rows, columns, strict=True)
                if (row, b"") in seen.doubtful or (row, family_of(column)) in seen.doubtful
            )
        self._tell_scanned(found[moved], old, new, first=first)
        if not first and len(moved):
            seen.found += self._count_found((rows[i], columns[i]) for i in moved.tolist())
            self._note_counted(seen, found[moved])
        seen.at = seen.at if stop is None else stop
        if stop is not None:
            return seen.found
        self._vanish_unseen(seen, first=first)
        self.scanned = True
        return self._end_scan().found

    def _settle_scanned(self, seen: Scanning, stop: bytes | None) -> None:
        """Have cells settled that came, or that are known to be gone."""
        for keys in (self.unsettled, self.reading):
            settled = [
                key
                for key in keys
                if seen.at <= key[0]
                and (stop is None or key[0] < stop)
                and key not in seen.written
                and not self._is_unseen(seen, key)
            ]
            keys.difference_update(settled)

    def _is_unseen(self, seen: Scanning, key: Key) -> bool:
        slot = None if seen.unseen is None else self.grid.find(*key)
        if slot is None or seen.unseen is None:
            return False
        return bool(seen.unseen.data[slot] and self.grid.present.data[slot])

    def _note_counted(self, seen: Scanning, slots: Array) -> None:
        if self.count is Count.ROWS and self.rows_apart:
            if seen.counted is None:
                seen.counted = self.grid.marks()
            seen.counted.data[slots] = True

    def _vanish_unseen(self, seen: Scanning, *, first: bool) -> None:
        """Remove the cells that were there and that nobody has shown: they are gone."""
        if seen.unseen is None:
            return
        slots = np.flatnonzero(seen.unseen.data & self.grid.present.data)
        if not len(slots):
            return
        keys = self.keys(slots)
        old = self.column_of([]) if self.values is None else self.values.data[slots]
        self._vanish(slots)
        self.unsettled.difference_update(keys)
        self.reading.difference_update(keys)
        self._tell_scanned(slots, old, self.column_of([None] * len(slots)), first=first)
        if first:
            return
        if seen.counted is not None:
            # A row that was counted for another of its cells has changed once.
            numbers = self.grid.row_numbers(np.flatnonzero(seen.counted.data))
            others = ~np.isin(self.grid.row_numbers(slots), numbers)
            keys = [keys[i] for i in np.flatnonzero(others).tolist()]
        seen.found += self._count_found(keys)

    def _slots_of(self, keys: Iterable[Key]) -> list[int]:
        slots = (self.grid.find(*key) for key in keys)
        return [slot for slot in slots if slot is not None]

    def _compared(self, found: Array, read: Sequence[bytes | None]) -> tuple[Array, Array, Array]:
        """Let cells be as they were found; return the places of changed ones, x before and now."""
        was = self.grid.present.data[found]
        if self.values is None:
            self._appear(found[~was])
            return np.flatnonzero(~was), self.column_of([]), self.column_of([])
        now = self._read_column(read)
        before = self.values.data[found]
        same = was & ((before == now) | ((before != before) & (now != now)))
        self._appear(found[~was])
        self.values.data[found] = now
        moved = np.flatnonzero(~same)
        self.grid.mark(found[moved])
        return moved, before[moved], now[moved]

    def _read_column(self, read: Sequence[bytes | None]) -> Array:
        if self._decode is None or None in read:
            known = [self._value(UpdateKind.PUT, value) for value in read]
            return self.column_of([PRESENT if value is None else value for value in known])
        present: Sequence[bytes] = read  # type: ignore[assignment]  # None is not in it
        numbers, unreadable = decode_column(self.watched.codec, self._decode, present)
        self.dead_letters += unreadable
        return numbers

    def _tell_scanned(self, slots: Array, old: Array, new: Array, *, first: bool) -> None:
        if not len(slots):
            return
        for pending in self.pendings:
            if pending.keeps_values and (pending.fresh or not first):
                pending.apply(slots, old, new)
            elif pending.keeps_values:
                pending.find(slots, old, new, self.consumed.get(pending.action))

    def _count_found(self, keys: Iterable[Key]) -> int:
        by_row = self.count is Count.ROWS
        elements: list[Element] = list(dict.fromkeys(key[0] if by_row else key for key in keys))
        for pending in self.pendings:
            pending.count(len(elements), elements)
        return len(elements)

    def to_read(self) -> list[Key]:
        """Return the unsettled cells in order, and expect their values."""
        self.reading = set(self.unsettled)
        self.read_awaited = True
        return sorted(self.reading)

    def settle(
        self,
        rows: Sequence[bytes],
        columns: Sequence[bytes],
        values: Sequence[bytes | None],
        now: float,
    ) -> None:
        """Take the values of cells that were read; what was written meanwhile stays unsettled.

        A version that is dated after ``now`` (Unix seconds) stays the newest whatever is put.
        """
        settled = [
            (key, value)
            for key, value in zip(zip(rows, columns, strict=True), values, strict=True)
            if key in self.reading
        ]
        for key, _ in settled:
            self.slot(key)  # no slot moves from here on
        changes: list[Change] = []
        for key, value in settled:
            self.unsettled.discard(key)
            slot = self.slot(key)
            old = self.value_at(slot)
            if value is None:
                if self._remove(key) is not None:
                    changes.append((slot, old, None))
                continue
            new = self._value(UpdateKind.PUT, value)
            if (self.stamp_at(slot) or 0) <= now * _MILLISECONDS:
                self.stamp(np.array([slot]), None)
            if new is None or _same(old, new):
                continue
            self._put(slot, new)
            changes.append((slot, old, new))
        self.reading = set()
        self.read_awaited = False
        # Whose write it was is not known any more: it counts for everybody.
        if self.detail is Detail.VALUES:
            self._tell_each(None, changes)

    def change_table(self, family: bytes, partition: int, partitions: int) -> int:
        """Remove the cells of a partition that the table lost; return how many elements they were.

        With a family only its columns go. With 0 ``partitions`` (their number is not known) all
        partitions are emptied at once.
        """
        self.told.lose(family, partition, partitions)
        if self.detail is Detail.COUNTS:
            # Nobody knows how many there were. Each partition has the message; one of them counts.
            updates = int(partition == 0)
            for pending in self.pendings:
                pending.count(updates, (b"",) * updates)
            return updates
        slots = self.slots
        lost = {
            i: (row, column)
            for i, (row, column) in enumerate(self.keys(slots))
            if in_part((row, column), family, partition, partitions)
        }
        gone, keys = slots[list(lost)], list(lost.values())
        if self.scanning is not None:
            self.scanning.emptied = True
        old = self.values.data[gone] if self.values is not None else None
        self._vanish(gone)
        self.unsettled.difference_update(keys)
        self.reading.difference_update(keys)
        updates = self._count_found(keys)
        if old is not None and len(gone):
            self._tell(None, gone, old, self.column_of([None] * len(gone)))
        return updates


def family_of(column: bytes) -> bytes:
    """Return ``family:`` of a column."""
    return column.partition(b":")[0] + b":"


def _same(old: Value | None, new: Value | None) -> bool:
    return old == new or (old != old and new != new)  # two undecodable values
