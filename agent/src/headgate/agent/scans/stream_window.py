"""Versions of cells lately published in a table's topic: by them a scan knows which are new."""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from headgate.events import (
    Cut,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
    key_bytes,
)

_PARTS = 8
"""Stretches in which a window is at its limit: so much of it is forgotten at once."""
SCANNED = "scan"
"""``RequestPart.method`` of what a scan found: such a part is no request that an observer saw."""

_SERVER_TIMES = (-1, 2**63 - 1)  # chosen by the server: HBase's LATEST_TIMESTAMP means "now" too


class _CellVersions(Struct):
    """Versions of one cell: the newest put at the server's time, and stamped ones."""

    latest: int | None = None
    """Hash of its value; None where nobody can know which value the cell has now."""
    settled: bool = False
    """Whether ``latest`` says something: what was published before it has no meaning then."""
    stamped: dict[int, int] = {}
    """Hashes of values by the timestamps that writers gave, in milliseconds."""


class _Row:
    """What was published of one row: versions of its cells, and what was deleted whole."""

    __slots__ = ("cells", "deleted", "families")

    def __init__(self) -> None:
        self.cells: dict[bytes, _CellVersions] = {}
        self.deleted = False
        self.families: set[bytes] = set()
        """Deleted ones, with their colon."""

    def lacks(self, column: bytes) -> bool:
        """Return whether the column was deleted with its row or family."""
        return self.deleted or column[: column.find(b":") + 1] in self.families


class PublishedVersions:
    """Versions that a stretch of a topic has, cell by cell."""

    def __init__(self) -> None:
        self._rows: dict[bytes, _Row] = {}
        self.size = 0
        """Rows, cells and stamped versions remembered, of which none was given up."""
        self._emptied = False
        self._dropped: set[bytes] = set()

    def take(self, message: UpdateBatch | TableChange) -> None:
        """Remember a message; those of a partition come in its order."""
        if isinstance(message, TableChange):
            self._change(message)
            return
        first = 0
        for part in message.requests:
            certain = part.outcome is Outcome.APPLIED
            doubtful = frozenset(part.ambiguous)
            for position in range(part.cells):
                known = certain and position not in doubtful
                self._cell(message, part, first + position, known=known)
            first += part.cells

    def _change(self, change: TableChange) -> None:
        if change.kind in (TableChangeKind.DROPPED, TableChangeKind.TRUNCATED):
            self._rows.clear()
            self._emptied = True
        elif change.kind is TableChangeKind.FAMILY_DROPPED:
            family = key_bytes(change.family) + b":"
            self._dropped.add(family)
            for row in self._rows.values():
                row.cells = {c: cell for c, cell in row.cells.items() if not c.startswith(family)}

    def _cell(self, batch: UpdateBatch, part: RequestPart, at: int, *, known: bool) -> None:
        kind, column = batch.kinds[at], batch.columns[at]
        row = self._rows.get(batch.rows[at])
        if row is None:
            row = self._rows[batch.rows[at]] = _Row()
            self.size += 1
        server_time = batch.timestamps[at] in _SERVER_TIMES
        if kind == UpdateKind.DELETE_ROW:
            row.cells.clear()
            row.deleted = True
            return
        if kind in (UpdateKind.DELETE_FAMILY, UpdateKind.DELETE_FAMILY_VERSION):
            row.cells = {c: cell for c, cell in row.cells.items() if not c.startswith(column)}
            row.families.add(column)
            return
        cell = row.cells.get(column)
        if cell is None:
            cell = row.cells[column] = _CellVersions()
            self.size += 1
        value = batch.values[at]
        hashed = None if value is None else hash(value)
        if kind == UpdateKind.PUT and not server_time:
            if known and hashed is not None:
                self.size += batch.timestamps[at] not in cell.stamped
                cell.stamped[batch.timestamps[at]] = hashed
            if not known or hashed is None or part.method == SCANNED:
                # What a scan found is newer than what had been published until then.
                cell.latest, cell.settled = None, True
            return
        cell.settled = True
        cell.latest = hashed if known and kind in _WHOLE_VALUES else None

    def touches(self, row: bytes, column: bytes) -> bool:
        """Return whether anything was published of a cell."""
        if self._emptied or column[: column.find(b":") + 1] in self._dropped:
            return True
        found = self._rows.get(row)
        return found is not None and (column in found.cells or found.lacks(column))

    def judge(self, row: bytes, column: bytes, timestamp: int, hashed: int) -> tuple[bool, bool]:
        """Return whether a version was published, and whether what was before is out of date."""
        found = self._rows.get(row)
        cell = found.cells.get(column) if found is not None else None
        if cell is not None:
            if cell.stamped.get(timestamp) == hashed:
                return True, True
            if cell.settled:
                return cell.latest == hashed, True
        if found is not None and found.lacks(column):
            return False, True
        return False, self._emptied or column[: column.find(b":") + 1] in self._dropped

    def has_version(self, row: bytes, column: bytes, timestamp: int, hashed: int) -> bool:
        """Return whether a writer gave the cell this value with this timestamp."""
        found = self._rows.get(row)
        cell = found.cells.get(column) if found is not None else None
        return cell is not None and cell.stamped.get(timestamp) == hashed


class StreamWindow:
    """Stretches of a topic, the oldest of which are forgotten.

    Args:
        began: Unix seconds from which on all that was published is in it.
        cut: where the topic stood then.
        limit: rows, cells and stamped versions to remember at most.
    """

    def __init__(self, began: float, cut: Cut, limit: int) -> None:
        self._stretches = deque([_Stretch(began, cut, PublishedVersions())])
        self._limit = limit

    @property
    def cut(self) -> Cut:
        """Where reading must begin to see all of the window again."""
        return self._stretches[0].cut

    def take(self, message: UpdateBatch | TableChange) -> None:
        """Remember a message; those of a partition come in its order."""
        self._stretches[-1].versions.take(message)

    @property
    def crowded(self) -> bool:
        """Whether the newest stretch is so large that another should begin."""
        return self._stretches[-1].versions.size * _PARTS >= self._limit

    def narrow(self) -> bool:
        """Forget what is above the limit; return whether anything was.

        A scan that finds what was forgotten takes it for new, and it counts twice.
        """
        size = sum(stretch.versions.size for stretch in self._stretches)
        narrowed = False
        while size > self._limit and len(self._stretches) > 1:
            size -= self._stretches.popleft().versions.size
            narrowed = True
        return narrowed

    def divide(self, now: float, cut: Cut) -> None:
        """Begin another stretch: what comes was published at ``now`` (Unix seconds) or later."""
        self._stretches.append(_Stretch(now, cut, PublishedVersions()))

    def forget(self, before: float) -> None:
        """Forget stretches that ended before a time in Unix seconds."""
        while len(self._stretches) > 1 and self._stretches[1].began <= before:
            self._stretches.popleft()

    def knows(self, row: bytes, column: bytes, timestamp: int, value: bytes) -> bool:
        """Return whether a version that a scan found (``timestamp`` in milliseconds) was published.

        False where by the topic the cell has another value, none, or one that nobody can know from
        it.
        """
        hashed = hash(value)
        dated = False
        for stretch in reversed(self._stretches):
            if dated:
                if stretch.versions.has_version(row, column, timestamp, hashed):
                    return True
                continue
            known, dated = stretch.versions.judge(row, column, timestamp, hashed)
            if known:
                return True
        return False


class _Stretch(Struct, frozen=True):
    began: float
    cut: Cut
    versions: PublishedVersions


_WHOLE_VALUES = (UpdateKind.PUT, UpdateKind.INCREMENT, UpdateKind.APPEND)
"""Kinds whose value is the cell's own afterwards."""
