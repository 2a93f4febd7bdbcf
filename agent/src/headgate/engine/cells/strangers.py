"""What others wrote into a dataflow's rows, where only its own updates count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain

from headgate.engine.cells.arrivals import (
    DELETES,
    DELETES_ONE_VERSION,
    SERVER_TIME,
    WIDE,
    Arrivals,
    family_deleted,
)
from headgate.engine.cells.columns import DELTAS, CellColumns
from headgate.engine.cells.elements import Elements, Key
from headgate.engine.cells.scans import ContainerScans
from headgate.events import partition_of

Version = tuple[int, bytes]
"""The milliseconds of an explicit timestamp, or ``SERVER_TIME``, and the digest of a value."""

GONE = b"-"
"""Stands in a version for a delete: no digest is as short."""
_MOST = 20_000
"""Cells of a container that are remembered: 5.6 MB with rows of 15 bytes, and 0.6 MB and 7 ms of
every snapshot."""
_MOST_VERSIONS = 16
"""Of one cell, any of which may stand: those published last."""
_DIGEST = 8
"""Bytes of a digest: that two values have one is less likely than that a disk lies."""


class StrangerWrites:
    """Cells that strangers wrote, by their updates, with all that may stand there of it.

    A scan after a loss finds it in the table, and it is no lost update of the dataflow's own. Of a
    write with a timestamp of its own, or of unknown outcome, nobody knows whether it stands: then
    what was published before it may stand as well. The latest cells are remembered, those of rows
    that the dataflow knows longest; any other counts once.
    """

    __slots__ = (
        "cells",
        "others",
    )

    def __init__(self) -> None:
        self.cells: dict[Key, tuple[Version, ...]] = {}
        """In rows that the dataflow knows."""
        self.others: dict[Key, tuple[Version, ...]] = {}
        """In rows that it did not know when the update came."""

    def all(self) -> tuple[list[Key], tuple[Version, ...]]:
        """Return all versions, and of which cells; those first that are forgotten first."""
        both = chain(self.others.items(), self.cells.items())
        each = [(key, version) for key, versions in both for version in versions]
        return [key for key, _ in each], tuple(version for _, version in each)

    def __bool__(self) -> bool:
        return bool(self.cells or self.others)

    def __iter__(self) -> Iterator[Key]:
        """Yield the cells."""
        return chain(self.others, self.cells)

    def hide(self, key: Key, timestamp: int, received: float) -> None:
        """Forget what a write at a timestamp certainly hides, whoever wrote it.

        Args:
            key: the cell that was written.
            timestamp: in milliseconds, or ``SERVER_TIME``.
            received: when the write was received, in Unix milliseconds.
        """
        for known in (self.cells, self.others):
            versions = known.get(key)
            if versions is None:
                continue
            if timestamp == SERVER_TIME:
                left = tuple(version for version in versions if version[0] > received)
            else:
                left = tuple(v for v in versions if v[0] == SERVER_TIME or v[0] > timestamp)
            if left:
                known[key] = left
            else:
                del known[key]

    def add(self, key: Key, version: Version, *, known: bool) -> None:
        """Remember what a stranger wrote; ``known``: whether the dataflow knows the row."""
        before = (*self.others.pop(key, ()), *self.cells.pop(key, ()))
        kept = tuple(one for one in before if one != version)[1 - _MOST_VERSIONS :]
        (self.cells if known else self.others)[key] = (*kept, version)

    def shrink(self, knows: Callable[[bytes], bool]) -> None:
        """Forget the oldest, if there are too many: those first of rows that nobody ``knows``."""
        while len(self.cells) + len(self.others) > _MOST:
            if not self.others:
                del self.cells[next(iter(self.cells))]
                continue
            key = next(iter(self.others))
            versions = self.others.pop(key)
            if knows(key[0]):
                self.cells[key] = versions

    def lose(self, family: bytes, partition: int, partitions: int) -> None:
        """Forget what a table lost; see ``change_table``."""
        for known in (self.cells, self.others):
            for key in [key for key in known if in_part(key, family, partition, partitions)]:
                del known[key]

    def explains(self, key: Key, value: bytes | None) -> bool:
        """Return whether a cell holds what a stranger wrote; None: whether a stranger wrote it."""
        return any(
            version != GONE and (value is None or version == digest(value))
            for _, version in self._versions(key)
        )

    def may_be_gone(self, key: Key) -> bool:
        """Return whether strangers may have deleted a cell."""
        return any(version == GONE for _, version in self._versions(key))

    def between(self, start: bytes, stop: bytes | None) -> list[Key]:
        """Return the cells of rows from ``start`` to before ``stop``, or to the last."""
        return [key for key in self if start <= key[0] and (stop is None or key[0] < stop)]

    def forget(self, key: Key) -> None:
        """Forget what strangers wrote into a cell."""
        self.cells.pop(key, None)
        self.others.pop(key, None)

    def _versions(self, key: Key) -> tuple[Version, ...]:
        return self.cells.get(key) or self.others.get(key, ())


class Strangers:
    """What others wrote into a container of which only a dataflow's own updates count."""

    __slots__ = (
        "_columns",
        "_scans",
        "writes",
    )

    def __init__(self, columns: CellColumns, scans: ContainerScans) -> None:
        self._columns = columns
        self._scans = scans
        self.writes = StrangerWrites()

    def note(self, arrivals: Arrivals, positions: Sequence[int]) -> None:
        """Remember what others wrote; what is known of these cells stays."""
        written_to = self._hide(arrivals, positions)
        for i, key in written_to:
            kind, timestamp = arrivals.kinds[i], arrivals.timestamp(i)
            if kind in DELTAS:
                continue  # of what came of it nobody knows
            if kind not in DELETES:
                written = digest(arrivals.values[i])
            elif timestamp != SERVER_TIME or self._columns.get(key) is not None:
                written = GONE
            else:
                continue
            self.writes.add(key, (timestamp, written), known=self._columns.has_row(key[0]))
        self.writes.shrink(self._columns.has_row)
        self._scans.show([key for _, key in written_to])

    def note_standing(self, found: Iterable[tuple[Key, bytes | None]]) -> None:
        """Remember what stood in rows of others at the first scan, but for what has come since."""
        since = Elements() if self._scans.current is None else self._scans.current.written
        for key, value in found:
            if key not in since:
                self.writes.add(key, (SERVER_TIME, digest(value)), known=False)
        self.writes.shrink(self._columns.has_row)

    def note_own(self, arrivals: Arrivals, positions: Sequence[int]) -> None:
        """Forget of what others wrote all that the dataflow's own updates hide."""
        self._hide(arrivals, positions)

    def _hide(self, arrivals: Arrivals, positions: Sequence[int]) -> list[tuple[int, Key]]:
        """Forget what is certainly hidden; return the cells written, each with its position."""
        written = list(self._written(arrivals, positions))
        for i, key in written:
            certain = i not in arrivals.uncertain
            if certain and arrivals.kinds[i] not in DELETES_ONE_VERSION:
                self.writes.hide(key, arrivals.timestamp(i), arrivals.received(i))
        return written

    def _written(self, arrivals: Arrivals, positions: Sequence[int]) -> Iterator[tuple[int, Key]]:
        wide = {arrivals.rows[i] for i in positions if arrivals.kinds[i] in WIDE}
        columns_in: dict[bytes, dict[bytes, None]] = {}
        if wide:
            known = self._columns.grid.columns_in(wide).items()
            columns_in = {row: dict.fromkeys(columns) for row, columns in known}
            for row, column in self.writes:
                if row in columns_in:
                    columns_in[row][column] = None
        for i in positions:
            row, kind, column = arrivals.rows[i], arrivals.kinds[i], arrivals.columns[i]
            if kind not in WIDE:
                columns_in.get(row, {})[column] = None
                yield i, (row, column)
                continue
            family = family_deleted(kind, column)
            for name in columns_in[row]:
                if name.startswith(family):
                    yield i, (row, name)


def in_part(key: Key, family: bytes, partition: int, partitions: int) -> bool:
    """Return whether a cell is of a family (of any where it is empty) and of a partition."""
    if family and not key[1].startswith(family + b":"):
        return False
    return not partitions or partition_of(key[0], partitions) == partition


def digest(value: bytes | None) -> bytes:
    """Return what stands for a value; empty where it was not published."""
    return b"" if value is None else blake2b(value, digest_size=_DIGEST).digest()
