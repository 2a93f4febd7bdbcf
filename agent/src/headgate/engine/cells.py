"""The known state of one container's part in one table, shared by all actions that watch it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

from headgate.engine.arrivals import SERVER_TIME, Arrivals
from headgate.engine.codecs import CodecName, decode_all, decode_one, decoder_of
from headgate.engine.matching import Matcher
from headgate.engine.pending import Change, Consumed, Element, Key, Pending, Value
from headgate.engine.spec import Count, WatchedContainer
from headgate.events import UpdateKind, partition_of


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


class Scanning:
    """A scan under way: what the stream says of a cell meanwhile is newer than the scan."""

    def __init__(self) -> None:
        self.written: set[Key] = set()
        self.deleted_rows: set[bytes] = set()
        self.emptied = False


class Cells:
    """Cells and elements of a container in one table, kept by every update of the table's topic."""

    def __init__(self, watched: WatchedContainer, table: str, detail: Detail) -> None:
        self.watched = watched
        self.table = table
        self.detail = detail
        self.matcher = Matcher(i for i in watched.container.items if i.table == table)
        self.count = watched.count
        self.numeric = detail is Detail.VALUES and watched.codec.name is not CodecName.OPAQUE
        self._decode = decoder_of(watched.codec) if self.numeric else None
        self.values: dict[Key, Value] = {}
        self.rows_apart = detail >= Detail.KEYS and not self.matcher.one_column
        self.rows: dict[bytes, int] = {}
        """Cells of each row, where a row may have several."""
        self.columns: set[bytes] = set()
        self.timestamps: dict[Key, int] = {}
        """Milliseconds, only of cells written with an explicit timestamp."""
        self.deletes = False
        """Whether there were deletes, whose marks may hide later puts with older timestamps."""
        self.unsettled: set[Key] = set()
        self.reading: set[Key] = set()
        self.read_awaited = False
        self.scanning: Scanning | None = None
        self.scanned = detail is Detail.COUNTS
        self.dead_letters = 0
        self.pendings: list[Pending] = []
        self.consumed: dict[str, Consumed] = {}
        """What the active run of an action took, by action."""

    @property
    def elements(self) -> int:
        """The number of elements now (n of sequence bounds)."""
        if self.count is Count.ROWS and self.rows_apart:
            return len(self.rows)
        return len(self.values)

    def load(self, cells: Iterable[tuple[Key, Value]]) -> None:
        """Take the cells of a snapshot."""
        stored = dict(cells)
        self._add(stored)
        self.values.update(stored)

    def take(self, arrivals: Arrivals) -> bool:
        """Count and keep the updates that lie in the container; tell whether there were any."""
        if arrivals.cell_level:
            positions: Sequence[int] = self.matcher.select(
                arrivals.rows, arrivals.columns, arrivals.distinct_columns
            )
        else:
            touches, kinds = self.matcher.touches, arrivals.kinds
            positions = [
                i
                for i, (row, column) in enumerate(zip(arrivals.rows, arrivals.columns, strict=True))
                if touches(kinds[i], row, column)
            ]
        if not positions:
            return False
        if arrivals.plain or self.detail is Detail.COUNTS:
            self._take_puts(arrivals, positions)
        else:
            self._take_mixed(arrivals, positions)
        return True

    def _take_puts(self, arrivals: Arrivals, positions: Sequence[int]) -> None:
        rows, columns, values = arrivals.rows, arrivals.columns, arrivals.values
        if len(positions) != len(rows):
            rows = [rows[i] for i in positions]
            columns = [columns[i] for i in positions]
            values = [values[i] for i in positions]
        if self.count is Count.ROWS:
            elements: Sequence[Element] = rows
            keys = list(zip(rows, columns, strict=True)) if self.detail is not Detail.COUNTS else []
        else:
            elements = keys = list(zip(rows, columns, strict=True))
        self._count(arrivals, arrivals.updates(positions, elements), elements)
        if self.detail is Detail.COUNTS:
            return
        self._wrote(keys)
        if self.detail is Detail.KEYS:
            self._add(keys)
            return
        changes: list[Change] = []
        known = self.values
        followed = self._followed(arrivals.writer)
        for key, new in zip(keys, self._decoded(values), strict=True):
            old = known.get(key)
            if old == new and not followed:
                continue
            if old is None:
                self._add((key,))
            known[key] = new
            changes.append((key, old, new))
        self._tell(arrivals.writer, changes, puts=True)

    def _decoded(self, values: Sequence[bytes | None]) -> Sequence[Value]:
        present: list[bytes] = values  # type: ignore[assignment]  # plain arrivals have no None
        if self._decode is None:
            return present
        numbers, readable = decode_all(self._decode, present)
        if not readable:
            self.dead_letters += sum(number != number for number in numbers)
        return numbers

    def _add(self, keys: Iterable[Key]) -> None:
        if self.rows_apart:
            known, rows = self.values, self.rows
            for key in dict.fromkeys(keys):
                if key not in known:
                    rows[key[0]] = rows.get(key[0], 0) + 1
                    known[key] = PRESENT
                    self.columns.add(key[1])
        else:
            self.values.update(dict.fromkeys(keys, PRESENT))
            if not self.columns:
                self.columns.update({key[1] for key in keys})

    def _remove(self, key: Key) -> Value | None:
        value = self.values.pop(key, None)
        if value is not None and self.rows_apart:
            left = self.rows[key[0]] - 1
            if left:
                self.rows[key[0]] = left
            else:
                del self.rows[key[0]]
        self.timestamps.pop(key, None)
        return value

    def _wrote(self, keys: Iterable[Key]) -> None:
        if self.reading:
            self.reading.difference_update(keys)
        if self.scanning is not None:
            self.scanning.written.update(keys)

    def _followed(self, writer: str | None) -> bool:
        """Tell whether x′ of some action follows this writer, even where x stays as it is."""
        return writer is not None and any(
            p.action == writer and p.keeps_values and not p.own for p in self.pendings
        )

    def _count(self, arrivals: Arrivals, updates: int, elements: Iterable[Element]) -> None:
        for pending in self.pendings:
            if pending.own or pending.action != arrivals.writer:
                pending.count(updates, elements)

    def _tell(self, writer: str | None, changes: list[Change], *, puts: bool = False) -> None:
        if not changes:
            return
        numbers = puts and self.numeric and not self.dead_letters
        for pending in self.pendings:
            if not pending.keeps_values:
                continue
            if pending.own or pending.action != writer:
                if numbers:
                    pending.apply_numbers(changes)  # type: ignore[arg-type]
                else:
                    pending.apply(changes)
            else:
                pending.follow(changes, self.consumed.get(pending.action))

    # Updates one by one: deletes, explicit timestamps, and whatever is not certain.

    def _take_mixed(self, arrivals: Arrivals, positions: Sequence[int]) -> None:
        counted: dict[tuple[int, Element], None] = {}
        changes: list[Change] = []
        for i in positions:
            row, kind = arrivals.rows[i], arrivals.kinds[i]
            keys = self._named(kind, row, arrivals.columns[i])
            self._wrote(keys)
            if self.scanning is not None and kind == UpdateKind.DELETE_ROW:
                self.scanning.deleted_rows.add(row)
            owner = arrivals.owners[i]
            elements: Iterable[Element] = keys if keys and self.count is Count.CELLS else (row,)
            counted.update(dict.fromkeys((owner, element) for element in elements))
            for key in keys:
                self._take_one(arrivals, i, key, changes)
        self._count(arrivals, len(counted), [element for _, element in counted])
        if self.detail is Detail.VALUES:
            self._tell(arrivals.writer, changes)

    def _named(self, kind: int, row: bytes, column: bytes) -> list[Key]:
        if kind == UpdateKind.DELETE_ROW:
            return [(row, c) for c in sorted(self.columns) if (row, c) in self.values]
        if kind in (UpdateKind.DELETE_FAMILY, UpdateKind.DELETE_FAMILY_VERSION):
            family = column.partition(b":")[0] + b":"
            found = [(row, c) for c in sorted(self.columns) if c.startswith(family)]
            return [key for key in found if key in self.values]
        return [(row, column)]

    def _take_one(self, arrivals: Arrivals, position: int, key: Key, changes: list[Change]) -> None:
        kind = arrivals.kinds[position]
        timestamp = arrivals.timestamp(position)
        received = arrivals.received(position)
        uncertain = position in arrivals.uncertain
        if kind in _DELETES:
            self.deletes = True
            if kind in _DELETES_ONE_VERSION and self.detail is Detail.VALUES:
                uncertain = True  # an older version may show now
            elif self._hidden(key, timestamp, received):
                old = self._remove(key)
                if old is not None or self._followed(arrivals.writer):
                    changes.append((key, old, None))
            elif timestamp != SERVER_TIME and key not in self.timestamps and key in self.values:
                uncertain = True
        else:
            newest = self._newest(key, timestamp, received)
            uncertain |= newest is None
            if newest is not False:
                new = self._value(kind, arrivals.values[position])
                uncertain |= new is None
                old = self.values.get(key)
                if old is None:
                    self._add((key,))
                moved = old != new or self._followed(arrivals.writer)
                if new is not None and self.detail is Detail.VALUES and moved:
                    self.values[key] = new
                    changes.append((key, old, new))
                elif old is None and self.detail is Detail.VALUES:
                    # The cell exists and its value is not known yet.
                    self.values[key] = placeholder = 0.0 if self.numeric else b""
                    changes.append((key, None, placeholder))
                self._stamp(key, timestamp)
        if uncertain and self.detail is Detail.VALUES:
            self.unsettled.add(key)

    def _value(self, kind: int, value: bytes | None) -> Value | None:
        if value is None or kind in _DELTAS:
            return None
        if self._decode is None:
            return value if self.detail is Detail.VALUES else PRESENT
        found = decode_one(self._decode, value)
        self.dead_letters += found != found
        return found

    def _hidden(self, key: Key, timestamp: int, received: float) -> bool:
        """Tell whether a delete up to the timestamp certainly hides the cell."""
        stamped = self.timestamps.get(key)
        if timestamp == SERVER_TIME:
            return stamped is None or stamped <= received
        return stamped is not None and stamped <= timestamp

    def _newest(self, key: Key, timestamp: int, received: float) -> bool | None:
        """Tell whether a put is the newest version of its cell; None where only a read can tell."""
        stamped = self.timestamps.get(key)
        if timestamp == SERVER_TIME:
            return True if stamped is None or stamped < received else None
        if stamped is not None:
            return timestamp >= stamped
        return None if key in self.values or self.deletes else True

    def _stamp(self, key: Key, timestamp: int) -> None:
        if timestamp == SERVER_TIME:
            self.timestamps.pop(key, None)
        else:
            self.timestamps[key] = timestamp

    # What is read from the table itself.

    def start_scan(self) -> None:
        """From here on, remember what the stream says, until the scan is there."""
        self.scanning = Scanning()

    def scan(
        self, rows: Sequence[bytes], columns: Sequence[bytes], values: Sequence[bytes | None]
    ) -> int:
        """Take all present cells; return the number of elements found changed behind the stream.

        The first scan is what there was before. A later one looks for what no event told.
        """
        seen = self.scanning or Scanning()
        first = not self.scanned
        self.scanning, self.scanned = None, True
        found: dict[Key, Value] = {}
        read = values if len(values) == len(rows) else [None] * len(rows)
        for key, value in zip(zip(rows, columns, strict=True), read, strict=True):
            if key not in seen.written and key[0] not in seen.deleted_rows:
                known = self._value(UpdateKind.PUT, value)
                found[key] = PRESENT if known is None else known
        gone = [k for k in self.values if k not in found and k not in seen.written]
        changes: list[Change] = [(key, self._remove(key), None) for key in gone]
        known_values = self.values
        for key, new in found.items():
            old = known_values.get(key)
            if _same(old, new):
                continue
            if old is None:
                self._add((key,))
            known_values[key] = new
            changes.append((key, old, new))
        self.unsettled.intersection_update(seen.written)
        self.reading.intersection_update(seen.written)
        self._tell_scanned(changes, first=first)
        return 0 if first else self._count_found(changes)

    def _tell_scanned(self, changes: list[Change], *, first: bool) -> None:
        for pending in self.pendings:
            if pending.keeps_values and (pending.fresh or not first):
                pending.apply(changes)
            elif pending.keeps_values:
                pending.follow(changes, self.consumed.get(pending.action))

    def _count_found(self, changes: list[Change]) -> int:
        by_row = self.count is Count.ROWS
        elements: list[Element] = list(
            dict.fromkeys(key[0] if by_row else key for key, _, _ in changes)
        )
        for pending in self.pendings:
            pending.count(len(elements), elements)
        return len(elements)

    def to_read(self) -> list[Key]:
        """Return the unsettled cells in order, and expect their values."""
        self.reading = set(self.unsettled)
        self.read_awaited = True
        return sorted(self.reading)

    def settle(
        self, rows: Sequence[bytes], columns: Sequence[bytes], values: Sequence[bytes | None]
    ) -> None:
        """Take the values of cells that were read; what was written meanwhile stays unsettled."""
        changes: list[Change] = []
        for key, value in zip(zip(rows, columns, strict=True), values, strict=True):
            if key not in self.reading:
                continue
            self.unsettled.discard(key)
            if value is None:
                old = self._remove(key)
                if old is not None:
                    changes.append((key, old, None))
                continue
            new = self._value(UpdateKind.PUT, value)
            old = self.values.get(key)
            self.timestamps.pop(key, None)
            if new is None or _same(old, new):
                continue
            if old is None:
                self._add((key,))
            self.values[key] = new
            changes.append((key, old, new))
        self.reading = set()
        self.read_awaited = False
        # Whose write it was is not known any more: it counts for everybody.
        self._tell(None, changes)

    def change_table(self, family: bytes, partition: int, partitions: int) -> int:
        """Remove the cells of a partition that the table lost; return how many elements they were.

        With a family only its columns go. With 0 ``partitions`` (their number is not known) all
        partitions are emptied at once.
        """
        if self.detail is Detail.COUNTS:
            # Nobody knows how many there were. Each partition has the message; one of them counts.
            updates = int(partition == 0)
            for pending in self.pendings:
                pending.count(updates, (b"",) * updates)
            return updates
        gone = [
            key
            for key in self.values
            if (not family or key[1].startswith(family + b":"))
            and (not partitions or partition_of(key[0], partitions) == partition)
        ]
        if self.scanning is not None:
            self.scanning.emptied = True
        changes: list[Change] = [(key, self._remove(key), None) for key in gone]
        self.unsettled.difference_update(gone)
        self.reading.difference_update(gone)
        updates = self._count_found(changes)
        if self.detail is Detail.VALUES:
            self._tell(None, changes)
        return updates


def _same(old: Value | None, new: Value | None) -> bool:
    return old == new or (old != old and new != new)  # two undecodable values


_DELTAS = frozenset({UpdateKind.INCREMENT_DELTA, UpdateKind.APPEND_DELTA})
_DELETES_ONE_VERSION = frozenset({UpdateKind.DELETE_CELL, UpdateKind.DELETE_FAMILY_VERSION})
_DELETES = frozenset(
    {
        UpdateKind.DELETE_CELL,
        UpdateKind.DELETE_COLUMN,
        UpdateKind.DELETE_FAMILY,
        UpdateKind.DELETE_FAMILY_VERSION,
        UpdateKind.DELETE_ROW,
    }
)
