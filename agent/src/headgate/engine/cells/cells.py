"""The cells of one container's part in one table take the updates that lie in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from headgate.engine.cells.arrivals import SERVER_TIME, Arrivals
from headgate.engine.cells.elements import Element, Elements, Key
from headgate.engine.cells.known import DELTAS, Detail
from headgate.engine.cells.pending import Change
from headgate.engine.cells.rescans import Rescanned, family_of
from headgate.engine.cells.storage import Array
from headgate.engine.cells.told import GONE, digest
from headgate.engine.spec.codecs import decode_column
from headgate.engine.spec.dataflow import Count
from headgate.events import UpdateKind

_FEW = 6
"""Cells up to which one by one is faster than in columns."""


class LookedUp(Struct, frozen=True):
    """The slots and the values of puts, and how many of these cannot be read."""

    slots: Array
    values: Array
    unreadable: int


class Cells(Rescanned):
    """Keeps the known state by every update of the table's topic."""

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
        """Tell whether some of these puts are of cells that have a writer's own timestamp."""
        if self.stamps is None:
            return False
        slots = self.grid.slots(*arrivals.cells_at(positions))
        return bool(self.stamps.data[slots].any())

    # Updates in columns: puts that certainly happened in this order, at the server's time.

    def elements_of(self, arrivals: Arrivals, positions: Sequence[int]) -> Sequence[Element]:
        """Return the elements that updates of single cells are of."""
        rows, columns = arrivals.cells_at(positions)
        return rows if self.count is Count.ROWS else list(zip(rows, columns, strict=True))

    def look_up(self, arrivals: Arrivals, positions: Sequence[int]) -> LookedUp:
        """Return where the values of puts will stand and what they are, before they are taken."""
        slots = self.grid.slots(*arrivals.cells_at(positions))
        return LookedUp(slots, *self._column(arrivals.values_at(positions)))

    def values_at(self, slots: Array) -> Array:
        """Return what is known of the cells in these slots."""
        if self.values is None:
            raise TypeError(f"no values are kept of {self.watched.id!r}")
        found: Array = self.values.data[slots]
        return found

    def _take_puts(
        self, arrivals: Arrivals, positions: Sequence[int], looked_up: LookedUp | None
    ) -> None:
        rows: Sequence[bytes] = ()
        columns: Sequence[bytes] = ()
        named = self._needs_elements(arrivals)
        if named or (looked_up is None and self.detail is not Detail.COUNTS):
            rows, columns = arrivals.cells_at(positions)
        if named:
            self._count_puts(arrivals, positions, rows, columns)
        else:
            self._count(arrivals.writer, len(positions), ())
        if self.detail is Detail.COUNTS:
            return
        self._wrote(zip(rows, columns, strict=True))
        slots = self.grid.slots(rows, columns) if looked_up is None else looked_up.slots
        last = self.grid.last(slots)
        if last is not None:
            slots = slots[last]
        was = self.grid.present.data[slots]
        if self.values is None:
            if not was.all():
                self._appear(slots[~was])
            return
        if looked_up is None:
            new, unreadable = self._column(arrivals.values_at(positions))
        else:
            new, unreadable = looked_up.values, looked_up.unreadable
        self.dead_letters += unreadable
        if last is not None:
            new = new[last]
        old = self.values.data[slots]
        moved = (old != new) | ~was
        if not was.all():
            self._appear(slots[~was])
        if not moved.all() and not self._followed(arrivals.writer):
            slots, old, new = slots[moved], old[moved], new[moved]
            if not len(slots):
                return
        self.values.data[slots] = new
        self.grid.mark(slots)
        self._tell(arrivals.writer, slots, old, new)

    def _needs_elements(self, arrivals: Arrivals) -> bool:
        """Tell whether counting and keeping puts needs more than their number and their slots."""
        return (
            not arrivals.apart
            or self.scanning is not None
            or bool(self.reading)
            or any(pending.keeps_distinct for pending in self.pendings)
        )

    def _count_puts(
        self,
        arrivals: Arrivals,
        positions: Sequence[int],
        rows: Sequence[bytes],
        columns: Sequence[bytes],
    ) -> None:
        elements: Sequence[Element] = rows
        if self.count is Count.CELLS:
            elements = list(zip(rows, columns, strict=True))
        self._count(arrivals.writer, arrivals.updates(positions, elements), elements)

    def _wrote(self, keys: Iterable[Key]) -> None:
        if self.reading or self.scanning is not None:
            written = set(keys)
            self.reading.difference_update(written)
            self.show(written)

    def _column(self, values: Sequence[bytes]) -> tuple[Array, int]:
        """Return values as they stand in columns, and how many of them cannot be read."""
        if self._decode is None:
            return self.column_of(values), 0
        return decode_column(self.watched.codec, self._decode, values)

    def _followed(self, writer: str | None) -> bool:
        """Tell whether x′ of some action follows this writer, even where x stays as it is."""
        return writer is not None and any(
            p.action == writer and p.keeps_values and not p.own for p in self.pendings
        )

    # Updates one by one: alone, few, deletes, explicit timestamps, and whatever is not certain.

    def _take_put(self, arrivals: Arrivals, position: int) -> None:
        row, column = arrivals.rows[position], arrivals.columns[position]
        key = (row, column)
        self._count(arrivals.writer, 1, (row if self.count is Count.ROWS else key,))
        if self.detail is Detail.COUNTS:
            return
        self._wrote((key,))
        slot = self.slot(key)
        old = self.value_at(slot)
        new = self._value(UpdateKind.PUT, arrivals.values[position])
        if old != new or self._followed(arrivals.writer):
            self._put(slot, new)
            if self.detail is Detail.VALUES:
                self._tell_each(arrivals.writer, ((slot, old, new),))

    def _take_few(self, arrivals: Arrivals, positions: Sequence[int]) -> None:
        rows, columns = arrivals.cells_at(positions)
        self._count_puts(arrivals, positions, rows, columns)
        if self.detail is Detail.COUNTS:
            return
        self._wrote(zip(rows, columns, strict=True))
        slots = self.grid.slots(rows, columns).tolist()
        changes: list[Change] = []
        followed = self._followed(arrivals.writer)
        for slot, value in zip(slots, arrivals.values_at(positions), strict=True):
            old = self.value_at(slot)
            new = self._value(UpdateKind.PUT, value)
            if old != new or followed:
                self._put(slot, new)
                changes.append((slot, old, new))
        if self.detail is Detail.VALUES:
            self._tell_each(arrivals.writer, changes)

    def _take_mixed(self, arrivals: Arrivals, positions: Sequence[int]) -> None:
        counted: dict[tuple[int, Element], None] = {}
        changes: list[Change] = []
        named = [i for i in positions if arrivals.kinds[i] not in _WIDE]
        if named:
            self.grid.slots(*arrivals.cells_at(named))  # no slot moves once changes are noted
        wide = {arrivals.rows[i] for i in positions if arrivals.kinds[i] in _WIDE}
        columns_in = {
            row: dict.fromkeys(columns) for row, columns in self.grid.columns_in(wide).items()
        }
        for i in positions:
            row, kind, column = arrivals.rows[i], arrivals.kinds[i], arrivals.columns[i]
            keys = [(row, column)]
            if kind in _WIDE:
                keys = self._covered(row, _family(kind, column), columns_in[row])
                self._scanned_over(arrivals, i)
            elif row in columns_in:
                columns_in[row][column] = None
            self._wrote(keys)
            owner = arrivals.owners[i]
            elements: Iterable[Element] = keys if keys and self.count is Count.CELLS else (row,)
            counted.update(dict.fromkeys((owner, element) for element in elements))
            for one in keys:
                self._take_one(arrivals, i, one, changes)
        self._count(arrivals.writer, len(counted), [element for _, element in counted])
        if self.detail is Detail.VALUES:
            self._tell_each(arrivals.writer, changes)

    # Where only a dataflow's own updates count: who wrote what stands.

    def note_strangers(self, arrivals: Arrivals, positions: Sequence[int]) -> None:
        """Remember what others wrote; what is known of these cells stays."""
        told = self._hide(arrivals, positions)
        for i, key in told:
            kind, timestamp = arrivals.kinds[i], arrivals.timestamp(i)
            if kind in DELTAS:
                continue  # of what came of it nobody knows
            if kind not in _DELETES:
                written = digest(arrivals.values[i])
            elif timestamp != SERVER_TIME or self.get(key) is not None:
                written = GONE
            else:
                continue
            self.told.add(key, (timestamp, written), known=self.has_row(key[0]))
        self.told.shrink(self.has_row)
        self.show([key for _, key in told])

    def note_standing(self, found: Iterable[tuple[Key, bytes | None]]) -> None:
        """Remember what stood in rows of others at the first scan, but for what was told since."""
        since = Elements() if self.scanning is None else self.scanning.written
        for key, value in found:
            if key not in since:
                self.told.add(key, (SERVER_TIME, digest(value)), known=False)
        self.told.shrink(self.has_row)

    def note_own(self, arrivals: Arrivals, positions: Sequence[int]) -> None:
        """Forget of what others wrote all that the dataflow's own updates hide."""
        self._hide(arrivals, positions)

    def _hide(self, arrivals: Arrivals, positions: Sequence[int]) -> list[tuple[int, Key]]:
        """Forget what is certainly hidden; return the cells written, each with its position."""
        written = list(self._written(arrivals, positions))
        for i, key in written:
            certain = i not in arrivals.uncertain
            if certain and arrivals.kinds[i] not in _DELETES_ONE_VERSION:
                self.told.hide(key, arrivals.timestamp(i), arrivals.received(i))
        return written

    def _written(self, arrivals: Arrivals, positions: Sequence[int]) -> Iterator[tuple[int, Key]]:
        wide = {arrivals.rows[i] for i in positions if arrivals.kinds[i] in _WIDE}
        columns_in: dict[bytes, dict[bytes, None]] = {}
        if wide:
            known = self.grid.columns_in(wide).items()
            columns_in = {row: dict.fromkeys(columns) for row, columns in known}
            for row, column in self.told:
                if row in columns_in:
                    columns_in[row][column] = None
        for i in positions:
            row, kind, column = arrivals.rows[i], arrivals.kinds[i], arrivals.columns[i]
            if kind not in _WIDE:
                columns_in.get(row, {})[column] = None
                yield i, (row, column)
                continue
            family = _family(kind, column)
            for name in columns_in[row]:
                if name.startswith(family):
                    yield i, (row, name)

    def _covered(self, row: bytes, family: bytes, columns: Iterable[bytes]) -> list[Key]:
        """Return the cells that exist among these columns of a row, in one family or in all."""
        found = [(row, column) for column in columns if column.startswith(family)]
        return [key for key in found if self.get(key) is not None]

    def _scanned_over(self, arrivals: Arrivals, position: int) -> None:
        """Have a scan under way forget what a wide delete has removed and nobody knew."""
        row, kind = arrivals.rows[position], arrivals.kinds[position]
        if self.scanning is None or row < self.scanning.at:
            return
        family = _family(kind, arrivals.columns[position])
        certain = kind not in _DELETES_ONE_VERSION and position not in arrivals.uncertain
        if not certain or arrivals.timestamp(position) != SERVER_TIME:
            self.scanning.doubtful[row, family] = None
            # Whether they are there no read of single cells will tell, where values do not count.
            self.scanning.again |= self.detail is Detail.KEYS
        elif family:
            self.scanning.deleted_families[row, family] = None
        else:
            self.scanning.deleted_rows[row] = None

    def _take_one(self, arrivals: Arrivals, position: int, key: Key, changes: list[Change]) -> None:
        kind = arrivals.kinds[position]
        timestamp = arrivals.timestamp(position)
        received = arrivals.received(position)
        uncertain = position in arrivals.uncertain
        slot = self.slot(key)
        old = self.value_at(slot)
        if kind in _DELETES:
            self.deletes = True
            if kind in _DELETES_ONE_VERSION and self.detail is Detail.VALUES:
                uncertain = True  # an older version may show now
            elif self._hidden(slot, timestamp, received):
                self._remove(key)
                if old is not None or self._followed(arrivals.writer):
                    changes.append((slot, old, None))
            elif timestamp != SERVER_TIME and self.stamp_at(slot) is None and old is not None:
                uncertain = True
        else:
            newest = self._newest(slot, timestamp, received, exists=old is not None)
            uncertain |= newest is None
            if newest is not False:
                new = self._value(kind, arrivals.values[position])
                uncertain |= new is None
                moved = old != new or self._followed(arrivals.writer)
                if new is not None and moved:
                    self._put(slot, new)
                    changes.append((slot, old, new))
                elif old is None:
                    # The cell exists and its value is not known yet.
                    placeholder = 0.0 if self.numeric else b""
                    self._put(slot, placeholder)
                    changes.append((slot, None, placeholder))
                if newest or timestamp != SERVER_TIME:
                    self._stamp(slot, timestamp)
        if uncertain and self.detail is Detail.VALUES:
            self.unsettled.add(key)

    def _hidden(self, slot: int, timestamp: int, received: float) -> bool:
        """Tell whether a delete up to the timestamp certainly hides the cell."""
        stamped = self.stamp_at(slot)
        if timestamp == SERVER_TIME:
            return stamped is None or stamped <= received
        return stamped is not None and stamped <= timestamp

    def _newest(self, slot: int, timestamp: int, received: float, *, exists: bool) -> bool | None:
        """Tell whether a put is the newest version of its cell; None where only a read can tell."""
        stamped = self.stamp_at(slot)
        if timestamp == SERVER_TIME:
            return True if stamped is None or stamped < received else None
        if stamped is not None:
            return timestamp >= stamped
        return None if exists or self.deletes else True

    def _stamp(self, slot: int, timestamp: int) -> None:
        if timestamp != SERVER_TIME:
            self.stamp(np.array([slot]), np.array([timestamp]))
        elif self.stamps is not None:
            self.stamp(np.array([slot]), None)


def _family(kind: int, column: bytes) -> bytes:
    """Return ``family:`` of a wide delete; empty for a whole row."""
    return b"" if kind == UpdateKind.DELETE_ROW else family_of(column)


_DELETES_ONE_VERSION = frozenset({UpdateKind.DELETE_CELL, UpdateKind.DELETE_FAMILY_VERSION})
_WIDE = frozenset(
    {UpdateKind.DELETE_FAMILY, UpdateKind.DELETE_FAMILY_VERSION, UpdateKind.DELETE_ROW}
)
_DELETES = _WIDE | {UpdateKind.DELETE_CELL, UpdateKind.DELETE_COLUMN}
