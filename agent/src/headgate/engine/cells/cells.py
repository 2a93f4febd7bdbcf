"""The cells of one container's part in one table take the updates that lie in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct

from headgate.engine.cells.arrivals import (
    DELETES,
    DELETES_ONE_VERSION,
    SERVER_TIME,
    WIDE,
    Arrivals,
    family_deleted,
)
from headgate.engine.cells.columns import CellColumns, Detail, Matcher
from headgate.engine.cells.elements import Element, Key
from headgate.engine.cells.lifetimes import Lifetimes
from headgate.engine.cells.pending import Change
from headgate.engine.cells.reads import CellReads
from headgate.engine.cells.scans import ContainerScans
from headgate.engine.cells.storage import Array, Storage
from headgate.engine.cells.strangers import Strangers, in_part
from headgate.engine.cells.sums import Value
from headgate.engine.cells.watchers import Watchers
from headgate.engine.spec.dataflow import Count, WatchedContainer
from headgate.events import CLOCKS_APART, UpdateKind

_FEW = 6
"""Cells up to which one by one is faster than in columns."""


class LookedUp(Struct, frozen=True):
    """The slots and the values of puts, and how many of these cannot be read."""

    slots: Array
    values: Array
    unreadable: int


class ContainerCells:
    """What is known of a container's part in one table, shared by all actions that watch it."""

    __slots__ = (
        "columns",
        "detail",
        "hidden_until",
        "lifetimes",
        "reads",
        "scans",
        "strangers",
        "table",
        "watched",
        "watchers",
    )

    def __init__(
        self, watched: WatchedContainer, table: str, detail: Detail, storage: Storage
    ) -> None:
        self.watched = watched
        self.table = table
        self.detail = detail
        self.columns = CellColumns(watched, table, detail, storage)
        self.watchers = Watchers(self.columns)
        self.reads = CellReads(self.columns, self.watchers)
        self.scans = ContainerScans(self.columns, self.watchers, self.reads)
        self.strangers = Strangers(self.columns, self.scans)
        self.lifetimes = Lifetimes(self.columns, self.reads)
        self.hidden_until = 0
        """Unix milliseconds up to which a delete marker may hide what is put with an explicit
        timestamp, where nothing is known of the cell."""

    @property
    def elements(self) -> int:
        """The number of elements now (n of sequence bounds)."""
        return self.columns.elements

    @property
    def matcher(self) -> Matcher:
        """What the container has of the table."""
        return self.columns.matcher

    def close(self) -> None:
        """Give back what the storage holds of the cells."""
        self.columns.close()

    def take(
        self, arrivals: Arrivals, positions: Sequence[int], looked_up: LookedUp | None = None
    ) -> None:
        """Count and keep the updates at these positions, which lie in the container."""
        if not arrivals.plain and arrivals.zero_increments:
            positions = self._without_idle(arrivals, positions)
            if not positions:
                return
        if self.detail is not Detail.COUNTS and (
            not arrivals.plain or self.meets_stamps(arrivals, positions)
        ):
            self._take_mixed(arrivals, positions)
        elif arrivals.plain and (len(positions) > _FEW or looked_up is not None):
            self._take_puts(arrivals, positions, looked_up)
        elif arrivals.plain and len(positions) == 1:
            self._take_put(arrivals, positions[0])
        else:
            self._take_few(arrivals, positions)
        if self.detail is not Detail.COUNTS and (arrivals.gives_ttls or self.lifetimes.kept):
            self.lifetimes.note(arrivals, positions)

    def _without_idle(self, arrivals: Arrivals, positions: Sequence[int]) -> Sequence[int]:
        """Return the positions without increments by 0 that have made no new cell.

        Where that is not certain and the cell was known, its value is read. The timestamp of a cell
        that was there is another now.
        """
        zeros, uncertain = arrivals.zero_increments, arrivals.uncertain
        found = []
        for i in positions:
            if i in zeros:
                key = arrivals.rows[i], arrivals.columns[i]
                slot = self.columns.grid.find(*key)
                if slot is not None:
                    self._stamp(slot, arrivals, i)
                if i not in uncertain:
                    continue
                if self.detail is not Detail.COUNTS and self.columns.get(key) is not None:
                    if self.detail is Detail.VALUES:
                        self.reads.unsettled.add(key)
                    continue
            found.append(i)
        return found

    def meets_stamps(self, arrivals: Arrivals, positions: Sequence[int]) -> bool:
        """Return whether some of these puts are of cells that have a writer's own timestamp."""
        known = self.columns
        if known.stamps is None:
            return False
        slots = known.grid.slots(*arrivals.cells_at(positions))
        return bool(known.stamps.data[slots].any())

    # Updates in columns: puts that certainly happened in this order, at the server's time.

    def elements_of(self, arrivals: Arrivals, positions: Sequence[int]) -> Sequence[Element]:
        """Return the elements that updates of single cells are of."""
        rows, columns = arrivals.cells_at(positions)
        return rows if self.columns.count is Count.ROWS else list(zip(rows, columns, strict=True))

    def look_up(self, arrivals: Arrivals, positions: Sequence[int]) -> LookedUp:
        """Return where the values of puts will stand and what they are, before they are taken."""
        slots = self.columns.grid.slots(*arrivals.cells_at(positions))
        return LookedUp(slots, *self.columns.decoded_column(arrivals.values_at(positions)))

    def values_at(self, slots: Array) -> Array:
        """Return what is known of the cells in these slots."""
        if self.columns.values is None:
            raise TypeError(f"no values are kept of {self.watched.id!r}")
        found: Array = self.columns.values.data[slots]
        return found

    def _take_puts(
        self, arrivals: Arrivals, positions: Sequence[int], looked_up: LookedUp | None
    ) -> None:
        known = self.columns
        rows: Sequence[bytes] = ()
        columns: Sequence[bytes] = ()
        named = self._needs_elements(arrivals)
        if named or (looked_up is None and self.detail is not Detail.COUNTS):
            rows, columns = arrivals.cells_at(positions)
        if named:
            self._count_puts(arrivals, positions, rows, columns)
        else:
            self.watchers.count(arrivals.writer, len(positions), ())
        if self.detail is Detail.COUNTS:
            return
        self._wrote(zip(rows, columns, strict=True))
        slots = known.grid.slots(rows, columns) if looked_up is None else looked_up.slots
        last = known.grid.last(slots)
        if last is not None:
            slots = slots[last]
        was = known.grid.present.data[slots]
        if known.values is None:
            if not was.all():
                known.appear(slots[~was])
            return
        if looked_up is None:
            new, unreadable = known.decoded_column(arrivals.values_at(positions))
        else:
            new, unreadable = looked_up.values, looked_up.unreadable
        known.dead_letters += unreadable
        if last is not None:
            new = new[last]
        old = known.values.data[slots]
        moved = (old != new) | ~was
        if not was.all():
            known.appear(slots[~was])
        if not moved.all() and not self.watchers.follows(arrivals.writer):
            slots, old, new = slots[moved], old[moved], new[moved]
            if not len(slots):
                return
        known.values.data[slots] = new
        known.grid.mark(slots)
        self.watchers.moved(arrivals.writer, slots, old, new)

    def _needs_elements(self, arrivals: Arrivals) -> bool:
        """Return whether counting and keeping puts needs more than their number and their slots."""
        return (
            not arrivals.apart
            or self.scans.current is not None
            or bool(self.reads.reading)
            or self.watchers.keep_distinct
        )

    def _count_puts(
        self,
        arrivals: Arrivals,
        positions: Sequence[int],
        rows: Sequence[bytes],
        columns: Sequence[bytes],
    ) -> None:
        elements: Sequence[Element] = rows
        if self.columns.count is Count.CELLS:
            elements = list(zip(rows, columns, strict=True))
        self.watchers.count(arrivals.writer, arrivals.updates(positions, elements), elements)

    def _wrote(self, keys: Iterable[Key]) -> None:
        if self.reads.reading or self.scans.current is not None:
            written = set(keys)
            self.reads.reading.difference_update(written)
            self.scans.show(written)

    # Updates one by one: alone, few, deletes, explicit timestamps, and whatever is not certain.

    def _take_put(self, arrivals: Arrivals, position: int) -> None:
        known = self.columns
        row, column = arrivals.rows[position], arrivals.columns[position]
        key = (row, column)
        self.watchers.count(arrivals.writer, 1, (row if known.count is Count.ROWS else key,))
        if self.detail is Detail.COUNTS:
            return
        self._wrote((key,))
        slot = known.slot(key)
        old = known.value_at(slot)
        new = known.decoded(UpdateKind.PUT, arrivals.values[position])
        if old != new or self.watchers.follows(arrivals.writer):
            known.put(slot, new)
            if self.detail is Detail.VALUES:
                self.watchers.moved_each(arrivals.writer, ((slot, old, new),))

    def _take_few(self, arrivals: Arrivals, positions: Sequence[int]) -> None:
        known = self.columns
        rows, columns = arrivals.cells_at(positions)
        self._count_puts(arrivals, positions, rows, columns)
        if self.detail is Detail.COUNTS:
            return
        self._wrote(zip(rows, columns, strict=True))
        slots = known.grid.slots(rows, columns).tolist()
        changes: list[Change] = []
        followed = self.watchers.follows(arrivals.writer)
        for slot, value in zip(slots, arrivals.values_at(positions), strict=True):
            old = known.value_at(slot)
            new = known.decoded(UpdateKind.PUT, value)
            if old != new or followed:
                known.put(slot, new)
                changes.append((slot, old, new))
        if self.detail is Detail.VALUES:
            self.watchers.moved_each(arrivals.writer, changes)

    def _take_mixed(self, arrivals: Arrivals, positions: Sequence[int]) -> None:
        known = self.columns
        counted: dict[tuple[int, Element], None] = {}
        changes: list[Change] = []
        named = [i for i in positions if arrivals.kinds[i] not in WIDE]
        if named:
            known.grid.slots(*arrivals.cells_at(named))  # no slot moves once changes are noted
        wide = {arrivals.rows[i] for i in positions if arrivals.kinds[i] in WIDE}
        columns_in = {
            row: dict.fromkeys(columns) for row, columns in known.grid.columns_in(wide).items()
        }
        for i in positions:
            row, kind, column = arrivals.rows[i], arrivals.kinds[i], arrivals.columns[i]
            keys = [(row, column)]
            if kind in WIDE:
                keys = self._covered(row, family_deleted(kind, column), columns_in[row])
                self._note_delete(arrivals, i)
                self._scanned_over(arrivals, i)
            elif row in columns_in:
                columns_in[row][column] = None
            self._wrote(keys)
            owner = arrivals.owners[i]
            elements: Iterable[Element] = keys if keys and known.count is Count.CELLS else (row,)
            counted.update(dict.fromkeys((owner, element) for element in elements))
            for one in keys:
                self._take_one(arrivals, i, one, changes)
        self.watchers.count(arrivals.writer, len(counted), [element for _, element in counted])
        if self.detail is Detail.VALUES:
            self.watchers.moved_each(arrivals.writer, changes)

    def _covered(self, row: bytes, family: bytes, columns: Iterable[bytes]) -> list[Key]:
        """Return the cells that exist among these columns of a row, in one family or in all."""
        found = [(row, column) for column in columns if column.startswith(family)]
        return [key for key in found if self.columns.get(key) is not None]

    def _scanned_over(self, arrivals: Arrivals, position: int) -> None:
        """Have a scan under way forget what a wide delete has removed and nobody knew."""
        row, kind = arrivals.rows[position], arrivals.kinds[position]
        if self.scans.current is None or row < self.scans.current.at:
            return
        family = family_deleted(kind, arrivals.columns[position])
        certain = kind not in DELETES_ONE_VERSION and position not in arrivals.uncertain
        if not certain or arrivals.timestamp(position) != SERVER_TIME:
            self.scans.current.doubtful[row, family] = None
        elif family:
            self.scans.current.deleted_families[row, family] = None
        else:
            self.scans.current.deleted_rows[row] = None

    def _take_one(self, arrivals: Arrivals, position: int, key: Key, changes: list[Change]) -> None:
        known = self.columns
        slot = known.slot(key)
        old = known.value_at(slot)
        if arrivals.kinds[position] in DELETES:
            uncertain = self._delete(arrivals, position, key, slot, old, changes)
        else:
            uncertain = self._put(arrivals, position, key, slot, old, changes)
        if uncertain:
            self.reads.unsettled.add(key)

    def _delete(
        self,
        arrivals: Arrivals,
        position: int,
        key: Key,
        slot: int,
        old: Value | None,
        changes: list[Change],
    ) -> bool:
        """Take a delete of a cell; return whether a read must show what is left of it."""
        timestamp = arrivals.timestamp(position)
        server = timestamp == SERVER_TIME
        self._note_delete(arrivals, position)
        if old is None:
            # No delete shows what was hidden; x′ may follow the writer nevertheless.
            if self.watchers.follows(arrivals.writer):
                changes.append((slot, None, None))
            return False
        if arrivals.kinds[position] in DELETES_ONE_VERSION:
            return True  # an older version may show now
        stamped = self.columns.stamp_at(slot)
        if not server and stamped is None:
            return True
        if server or (stamped is not None and stamped <= timestamp):
            self.columns.remove(key)
            changes.append((slot, old, None))
        return position in arrivals.uncertain

    def note_marker(self, timestamp: int) -> None:
        """Note that there may be delete markers up to a time in Unix milliseconds."""
        self.hidden_until = max(self.hidden_until, timestamp)

    def _note_delete(self, arrivals: Arrivals, position: int) -> None:
        timestamp = arrivals.timestamp(position)
        if timestamp == SERVER_TIME:
            timestamp = int(arrivals.received(position)) + CLOCKS_APART
        self.note_marker(timestamp)

    def _put(
        self,
        arrivals: Arrivals,
        position: int,
        key: Key,
        slot: int,
        old: Value | None,
        changes: list[Change],
    ) -> bool:
        """Take what was written to a cell; return whether a read must show what it holds."""
        known = self.columns
        timestamp = arrivals.timestamp(position)
        newest = self._newest(key, slot, timestamp, exists=old is not None)
        if newest is False:
            return self.detail is Detail.VALUES and position in arrivals.uncertain
        uncertain = newest is None or position in arrivals.uncertain
        new = known.decoded(arrivals.kinds[position], arrivals.values[position])
        if self.detail is Detail.KEYS:
            uncertain &= old is None  # what is there stays there, whatever is put
        else:
            uncertain |= new is None
        if new is not None and (old != new or self.watchers.follows(arrivals.writer)):
            known.put(slot, new)
            changes.append((slot, old, new))
        elif old is None:
            # The cell exists and its value is not known yet.
            placeholder = 0.0 if known.numeric else b""
            known.put(slot, placeholder)
            changes.append((slot, None, placeholder))
        self._stamp(slot, arrivals, position, certain=bool(newest))
        return uncertain

    def _stamp(self, slot: int, arrivals: Arrivals, position: int, *, certain: bool = True) -> None:
        """Note the timestamp of the cell that an update has written, where it is certain."""
        timestamp = arrivals.timestamp(position)
        if certain and timestamp != SERVER_TIME and position not in arrivals.uncertain:
            self.columns.stamp(np.array([slot]), np.array([timestamp]))
        elif self.columns.stamps is not None:
            self.columns.stamp(np.array([slot]), None)

    def _newest(self, key: Key, slot: int, timestamp: int, *, exists: bool) -> bool | None:
        """Return whether a put is the newest version of its cell; None where a read alone says.

        What is dated ahead is not looked at here: a put that it may hide is uncertain anyway.
        """
        if timestamp == SERVER_TIME:
            return True
        stamped = self.columns.stamp_at(slot)
        if stamped is not None:
            return timestamp >= stamped
        # There may be a newer version; or a delete marker, of which nobody has heard maybe.
        unheard = self.scans.current is not None or timestamp <= self.hidden_until
        return None if exists or unheard or key in self.reads.unsettled else True

    def change_table(self, family: bytes, partition: int, partitions: int) -> int:
        """Remove the cells of a partition that the table lost; return how many elements they were.

        With a family only its columns go. With 0 ``partitions`` (their number is not known) all
        partitions are emptied at once.
        """
        known = self.columns
        self.strangers.writes.lose(family, partition, partitions)
        if self.detail is Detail.COUNTS:
            # Nobody knows how many there were. Each partition has the message; one of them counts.
            updates = int(partition == 0)
            self.watchers.count_found((b"",) * updates)
            return updates
        slots = known.slots
        lost = {
            i: (row, column)
            for i, (row, column) in enumerate(known.keys(slots))
            if in_part((row, column), family, partition, partitions)
        }
        gone, keys = slots[list(lost)], list(lost.values())
        if self.scans.current is not None:
            self.scans.current.emptied = True
        old = known.values.data[gone] if known.values is not None else None
        known.vanish(gone)
        self.reads.forget(keys)
        updates = self.scans.count_found(keys)
        if old is not None and len(gone):
            self.watchers.moved(None, gone, old, known.column_of([None] * len(gone)))
        return updates
