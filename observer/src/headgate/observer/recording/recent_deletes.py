"""Deletes under way and just answered: which later writes HBase may hide behind them.

A delete's marker hides every put of its cells at or below its timestamp, also one that comes later.
Region servers count milliseconds, so a write that follows the answer at once may get the timestamp
of the marker: HBase answers that it was applied, and never shows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Set
from itertools import compress
from typing import Final, final

from headgate.events import UpdateKind
from headgate.hbase import Cells, Write

HIDING_SECONDS: Final = 0.002
"""How long after a delete's answer a write may still get the delete's timestamp.

One millisecond is the region server's unit; the other is for its clock being slewed meanwhile.
"""

_UNDER_WAY: Final = float("inf")
_DELETES: Final = (
    UpdateKind.DELETE_CELL,
    UpdateKind.DELETE_COLUMN,
    UpdateKind.DELETE_FAMILY,
    UpdateKind.DELETE_FAMILY_VERSION,
    UpdateKind.DELETE_ROW,
)
_IS_DELETE: Final = bytes([kind in _DELETES for kind in range(256)])
_IS_WRITTEN: Final = bytes([kind not in _DELETES for kind in range(256)])
_NONE: Final[frozenset[bytes]] = frozenset()


@final
class Deletion:
    """The rows that one request deletes something of, until it cannot hide later writes."""

    __slots__ = ("_set", "rows", "table", "until")

    def __init__(self, table: str, rows: Collection[bytes]) -> None:
        self.table = table
        self.rows = rows
        self.until = _UNDER_WAY
        """When it can hide later writes no more, by the clock of ``RecentDeletes``."""
        self._set: frozenset[bytes] | None = None

    def has(self, row: bytes) -> bool:
        """Return whether something of the row is deleted."""
        return row in self.all_rows()

    def all_rows(self) -> frozenset[bytes]:
        """Return the rows; most deletions are never asked."""
        if self._set is None:
            self._set = frozenset(self.rows)
        return self._set


@final
class _TableDeletions:
    """The deletions of one table; those of one row, which most are, are found by it."""

    __slots__ = ("narrow", "wide")

    def __init__(self) -> None:
        self.narrow: dict[bytes, list[Deletion]] = {}
        self.wide: list[Deletion] = []

    def add(self, deletion: Deletion) -> None:
        if len(deletion.rows) == 1:
            (row,) = deletion.rows
            self.narrow.setdefault(row, []).append(deletion)
        else:
            self.wide.append(deletion)

    def remove(self, deletion: Deletion) -> None:
        if len(deletion.rows) > 1:
            self.wide.remove(deletion)
            return
        (row,) = deletion.rows
        same = self.narrow[row]
        same.remove(deletion)
        if not same:
            del self.narrow[row]

    def of_row(self, row: bytes) -> list[Deletion]:
        """Return the deletions of one row."""
        found = list(self.narrow.get(row, ()))
        if self.wide:
            found += [each for each in self.wide if each.has(row)]
        return found


@final
class RecentDeletes:
    """The deletes of one process that may hide writes which are forwarded now.

    At most those under way and those that were answered within ``HIDING_SECONDS`` are kept, and
    what was answered before a pause in all requests until ``forget_old`` is called.
    """

    __slots__ = ("_answered", "_clock", "_tables", "present")

    def __init__(self, clock: Callable[[], float]) -> None:
        """Know of none; ``clock`` is monotonic, in seconds."""
        self._clock = clock
        self._tables: dict[str, _TableDeletions] = {}
        self._answered: deque[Deletion] = deque()
        self.present = False
        """True while any delete is kept; nearly always it is False, and nothing is looked up."""

    def begin(self, write: Write) -> Deletion | None:
        """Note that a write is forwarded; None if it deletes nothing."""
        rows = _rows(write.cells, _IS_DELETE)
        if not rows:
            return None
        if rows.count(rows[0]) == len(rows):
            rows = rows[:1]
        deletion = Deletion(write.table, rows)
        self._tables.setdefault(write.table, _TableDeletions()).add(deletion)
        self.present = True
        return deletion

    def answered(self, deletion: Deletion) -> None:
        """Note that HBase has answered a delete, or that its connection broke."""
        now = self._clock()
        deletion.until = now + HIDING_SECONDS
        self._forget(now)
        self._answered.append(deletion)

    def cancel(self, deletion: Deletion) -> None:
        """Forget a delete that was not forwarded after all."""
        self._remove(deletion)

    def hiding(self, write: Write) -> Set[bytes]:
        """Return the rows of which a delete may hide what the write puts there now."""
        self._forget(self._clock())
        known = self._tables.get(write.table)
        if known is None:
            return _NONE
        rows = _rows(write.cells, _IS_WRITTEN)
        if len(rows) == 1:
            return frozenset(rows) if known.of_row(rows[0]) else _NONE
        written = frozenset(rows)
        found = {row for row in known.narrow if row in written}
        for wide in known.wide:
            found |= wide.all_rows() & written
        return found

    def hides(self, table: str, row: bytes) -> bool:
        """Return whether a delete may hide what is put into the row now."""
        self._forget(self._clock())
        known = self._tables.get(table)
        return known is not None and bool(known.of_row(row))

    def seconds_until_shown(self, write: Write) -> float:
        """Return how long a write must wait, at least, so that no delete hides what it puts."""
        hiding = self.hiding(write)
        if not hiding:
            return 0.0
        known = self._tables[write.table]
        now = self._clock()
        ends = [each.until for row in hiding for each in known.of_row(row)]
        return min(max(ends) - now, HIDING_SECONDS)

    def forget_old(self) -> None:
        """Forget the deletes that cannot hide anything any more."""
        self._forget(self._clock())

    def _forget(self, now: float) -> None:
        answered = self._answered
        while answered and answered[0].until < now:
            self._remove(answered.popleft())

    def _remove(self, deletion: Deletion) -> None:
        known = self._tables[deletion.table]
        known.remove(deletion)
        if not known.narrow and not known.wide:
            del self._tables[deletion.table]
            self.present = bool(self._tables)


@final
class WriteOrder:
    """Order of a listener's writes and the deletes before them.

    With ``strict`` (the setting ``order.strict``) a write waits until no delete can hide it.
    """

    __slots__ = ("deletes", "strict")

    def __init__(self, deletes: RecentDeletes, *, strict: bool = False) -> None:
        self.deletes = deletes
        self.strict = strict

    @property
    def holds(self) -> bool:
        """True while there is a delete for which writes may have to wait."""
        return self.strict and self.deletes.present

    def seconds_to_wait(self, write: Write) -> float:
        """Return how long the write must wait at least; then it is asked again."""
        return self.deletes.seconds_until_shown(write) if self.holds else 0.0

    def begin(self, write: Write) -> Deletion | None:
        """Note that a write which nobody records is forwarded; None if nothing must wait for it."""
        return self.deletes.begin(write) if self.strict else None


def _rows(cells: Cells, wanted: bytes) -> list[bytes]:
    """Return the rows of the cells whose kinds are wanted, a byte for each kind."""
    kinds = cells.kinds.translate(wanted)
    some = kinds.count(1)
    if some == len(kinds):
        return cells.rows
    return list(compress(cells.rows, kinds)) if some else []
