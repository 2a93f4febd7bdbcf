"""The cells of one container's part in one table take the updates that lie in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct

from headgate.engine.cells.arrivals import SERVER_TIME, Arrivals
from headgate.engine.cells.columns import CellColumns, Detail, Matcher
from headgate.engine.cells.elements import Element, Key
from headgate.engine.cells.kinds import DELETES, DELETES_ONE_VERSION, WIDE, family_deleted
from headgate.engine.cells.pending import Change
from headgate.engine.cells.reads import CellReads
from headgate.engine.cells.scans import ContainerScans
from headgate.engine.cells.storage import Array, Storage
from headgate.engine.cells.strangers import Strangers, in_part
from headgate.engine.cells.watchers import Watchers
from headgate.engine.spec.dataflow import Count, WatchedContainer
from headgate.events import UpdateKind

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
        "deletes",
        "detail",
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
        self.deletes = False
        """Whether there were deletes, whose marks may hide later puts with older timestamps."""

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
            # Whether they are there no read of single cells shows, where values do not count.
            self.scans.current.again |= self.detail is Detail.KEYS
        elif family:
            self.scans.current.deleted_families[row, family] = None
        else:
            self.scans.current.deleted_rows[row] = None

    def _take_one(self, arrivals: Arrivals, position: int, key: Key, changes: list[Change]) -> None:
        known = self.columns
        kind = arrivals.kinds[position]
        timestamp = arrivals.timestamp(position)
        received = arrivals.received(position)
        uncertain = position in arrivals.uncertain
        slot = known.slot(key)
        old = known.value_at(slot)
        if kind in DELETES:
            self.deletes = True
            if kind in DELETES_ONE_VERSION and self.detail is Detail.VALUES:
                uncertain = True  # an older version may show now
            elif self._hidden(slot, timestamp, received):
                known.remove(key)
                if old is not None or self.watchers.follows(arrivals.writer):
                    changes.append((slot, old, None))
            elif timestamp != SERVER_TIME and known.stamp_at(slot) is None and old is not None:
                uncertain = True
        else:
            newest = self._newest(slot, timestamp, received, exists=old is not None)
            uncertain |= newest is None
            if newest is not False:
                new = known.decoded(kind, arrivals.values[position])
                uncertain |= new is None
                moved = old != new or self.watchers.follows(arrivals.writer)
                if new is not None and moved:
                    known.put(slot, new)
                    changes.append((slot, old, new))
                elif old is None:
                    # The cell exists and its value is not known yet.
                    placeholder = 0.0 if known.numeric else b""
                    known.put(slot, placeholder)
                    changes.append((slot, None, placeholder))
                if newest or timestamp != SERVER_TIME:
                    self._stamp(slot, timestamp)
        if uncertain and self.detail is Detail.VALUES:
            self.reads.unsettled.add(key)

    def _hidden(self, slot: int, timestamp: int, received: float) -> bool:
        """Return whether a delete up to the timestamp certainly hides the cell."""
        stamped = self.columns.stamp_at(slot)
        if timestamp == SERVER_TIME:
            return stamped is None or stamped <= received
        return stamped is not None and stamped <= timestamp

    def _newest(self, slot: int, timestamp: int, received: float, *, exists: bool) -> bool | None:
        """Return whether a put is the newest version of its cell; None where a read alone says."""
        stamped = self.columns.stamp_at(slot)
        if timestamp == SERVER_TIME:
            return True if stamped is None or stamped < received else None
        if stamped is not None:
            return timestamp >= stamped
        return None if exists or self.deletes else True

    def _stamp(self, slot: int, timestamp: int) -> None:
        known = self.columns
        if timestamp != SERVER_TIME:
            known.stamp(np.array([slot]), np.array([timestamp]))
        elif known.stamps is not None:
            known.stamp(np.array([slot]), None)

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
