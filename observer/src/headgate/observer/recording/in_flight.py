"""Writes under way, by table: which of them the server may have done in another order than seen."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

_NONE: Final[frozenset[bytes]] = frozenset()


class InFlightWrite:
    """A journalled write between forwarding and its end."""

    __slots__ = ("_rows", "_set", "_span", "ambiguous", "intent", "row")

    def __init__(self, intent: int) -> None:
        self.intent = intent
        self.row: bytes | None = None
        """Of a write that has just one."""
        self._rows: Collection[bytes] = ()
        self._set: frozenset[bytes] | None = None
        self._span: tuple[bytes, bytes] | None = None
        self.ambiguous: frozenset[bytes] | set[bytes] = _NONE
        """Rows that another write wrote at the same time."""

    def identify(self, rows: Collection[bytes]) -> None:
        """Say which rows the write has, once."""
        self._rows = rows

    def overlap(self, rows: Collection[bytes]) -> None:
        """Note that another write wrote the rows at the same time."""
        known = self.ambiguous
        if isinstance(known, set):
            known.update(rows)
        else:
            self.ambiguous = set(rows)

    def rows(self) -> frozenset[bytes]:
        """Return the rows, none while they are not known; most writes are never asked."""
        if self._set is None:
            self._set = frozenset(self._rows)
        return self._set

    def all_rows(self) -> tuple[bytes, ...]:
        """Return the rows, none while they are not known; some may be there more than once."""
        return tuple(self._rows) if self.row is None else (self.row,)

    def span(self) -> tuple[bytes, bytes] | None:
        """Return the first and the last of the rows; None while they are not known."""
        if self._span is None and self._rows:
            self._span = min(self._rows), max(self._rows)
        return self._span

    def has(self, row: bytes) -> bool:
        """Return whether the write has the row."""
        span = self.span()
        return span is not None and span[0] <= row <= span[1] and row in self.rows()

    def overlap_all(self) -> None:
        """Note that all its rows were changed at the same time."""
        if self.row is not None:
            self.overlap((self.row,))
        elif self._rows:
            self.overlap(self._rows)

    def shared_with(self, other: InFlightWrite) -> frozenset[bytes]:
        """Return the rows that both writes have."""
        mine, others = self.span(), other.span()
        if mine is None or others is None or others[0] > mine[1] or others[1] < mine[0]:
            # Loaders write one range each: then the ends of the ranges do, with no row looked up.
            return _NONE
        return self.rows() & other.rows()


class Lingering:
    """Intent and rows of a write whose connection broke, while HBase may still do it."""

    __slots__ = ("intent", "rows")

    def __init__(self, intent: int, rows: tuple[bytes, ...]) -> None:
        self.intent = intent
        self.rows = rows


class InFlightWrites:
    """The writes of one table that are under way.

    Those of one cell, which are most where there are many, are found by their row; the others are
    few and compared each with each. Of those whose connection broke, which may be many at a time,
    only the rows are kept, in one place for all.
    """

    __slots__ = ("_in_flight", "_lingering", "_narrow", "_table_wide", "_wide")

    def __init__(self) -> None:
        self._in_flight: dict[int, InFlightWrite] = {}
        self._table_wide: set[int] = set()
        """Intents of changes of the table itself."""
        self._narrow: dict[bytes, list[InFlightWrite]] = {}
        self._wide: dict[int, InFlightWrite] = {}
        self._lingering: dict[bytes, int] = {}
        """Rows of writes that HBase may still do, and how many writes have each."""

    def __len__(self) -> int:
        return len(self._in_flight) + len(self._lingering) + len(self._table_wide)

    def begin(self, in_flight_write: InFlightWrite) -> None:
        """Note that a write is being forwarded. Intents come in ascending order."""
        self._in_flight[in_flight_write.intent] = in_flight_write

    def identify(self, in_flight_write: InFlightWrite, rows: Collection[bytes]) -> None:
        """Say which rows a write has; must come before any ends that it overlaps."""
        if len(rows) == 1:
            (row,) = rows
            self.identify_row(in_flight_write, row)
        else:
            in_flight_write.identify(rows)
            self._identify_wide(in_flight_write)

    def identify_row(self, in_flight_write: InFlightWrite, row: bytes) -> None:
        """Do as ``identify`` for a write of just one row."""
        in_flight_write.row = row
        if self._table_wide:
            in_flight_write.overlap_all()
        if self._lingering and row in self._lingering:
            in_flight_write.overlap({row})
        same = self._narrow.get(row)
        if same is None:
            self._narrow[row] = [in_flight_write]
        else:
            for other in same:
                other.overlap({row})
            in_flight_write.overlap({row})
            same.append(in_flight_write)
        for other in self._wide.values():
            if other.has(row):
                other.overlap({row})
                in_flight_write.overlap({row})

    def identify_table(self, in_flight_write: InFlightWrite) -> None:
        """Say that a write changes the table itself: it overlaps with every other."""
        for other in self._in_flight.values():
            other.overlap_all()
        self._table_wide.add(in_flight_write.intent)

    def _identify_wide(self, in_flight_write: InFlightWrite) -> None:
        if self._table_wide:
            in_flight_write.overlap_all()
        if self._lingering:
            lingering = in_flight_write.rows() & self._lingering.keys()
            if lingering:
                in_flight_write.overlap(lingering)
        for other in self._wide.values():
            common = in_flight_write.shared_with(other)
            if common:
                in_flight_write.overlap(common)
                other.overlap(common)
        for row, in_flight in self._narrow.items():
            if in_flight_write.has(row):
                in_flight_write.overlap({row})
                for other in in_flight:
                    other.overlap({row})
        self._wide[in_flight_write.intent] = in_flight_write

    def linger(self, in_flight_write: InFlightWrite) -> Lingering:
        """Note that a write has ended, but that HBase may still do it, until ``settle``."""
        intent = in_flight_write.intent
        table_wide = intent in self._table_wide
        self.end(in_flight_write)
        if table_wide:
            self._table_wide.add(intent)
        rows = in_flight_write.all_rows()
        lingering = self._lingering
        for row in rows:
            lingering[row] = lingering.get(row, 0) + 1
        return Lingering(intent, rows)

    def settle(self, settled: Lingering) -> None:
        """Note that HBase does a write no more whose connection broke."""
        self._table_wide.discard(settled.intent)
        lingering = self._lingering
        for row in settled.rows:
            left = lingering[row] - 1
            if left:
                lingering[row] = left
            else:
                del lingering[row]

    def end(self, in_flight_write: InFlightWrite) -> None:
        """Note that a write has ended."""
        del self._in_flight[in_flight_write.intent]
        row = in_flight_write.row
        if row is None:
            self._wide.pop(in_flight_write.intent, None)
            self._table_wide.discard(in_flight_write.intent)
            return
        same = self._narrow[row]
        if len(same) == 1:
            del self._narrow[row]
        else:
            same.remove(in_flight_write)

    def lowest(self) -> int | None:
        """Return the lowest intent under way; None if there is none."""
        return next(iter(self._in_flight), None)
