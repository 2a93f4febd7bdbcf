"""When cells expire: by the time to live of their family, or by their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from headgate.engine.cells.arrivals import DELETES, SERVER_TIME, Arrivals
from headgate.engine.cells.columns import DELTAS, CellColumns
from headgate.engine.cells.elements import Key
from headgate.engine.cells.reads import CellReads
from headgate.events import CLOCKS_APART, NO_TTL, UpdateKind

NEVER = 2**62
_STEPS = 64
"""Looks at all cells per time to live: how late one may be found, as a share of that."""
_LEAST_STEP = 1000
"""Milliseconds between two looks at all cells."""
_CLIMBING = DELTAS | {UpdateKind.INCREMENT, UpdateKind.APPEND}


class Lifetimes:
    """The ends of cells in Unix milliseconds, where some expire.

    From shortly before its end on a cell is to be read: clocks may be apart, a version that is
    dated ahead lives longer, and where the newest alone had a time to live an older one comes back.
    """

    __slots__ = ("_columns", "_reads", "due", "own", "ttls")

    def __init__(self, columns: CellColumns, reads: CellReads) -> None:
        self._columns = columns
        self._reads = reads
        self.ttls: dict[bytes, int] = {}
        """Milliseconds by family, where cells of a family expire."""
        self.own: dict[Key, int] = {}
        """Milliseconds by cell, where a writer has given it a time to live."""
        self.due = NEVER
        """When to look again."""

    @property
    def kept(self) -> bool:
        """True if some cells have a time to live."""
        return bool(self.ttls or self.own)

    def set_ttls(self, ttls: Mapping[bytes, int], written: Iterable[Key] = ()) -> None:
        """Have families expire as their table says; what was ``written`` meanwhile is read."""
        if ttls == self.ttls:
            return
        self.ttls = dict(ttls)
        self._reads.unsettled.update(k for k in written if k[1].partition(b":")[0] in ttls)
        if self._columns.ends is not None:
            self._columns.ends.data[:] = 0

    def found(
        self,
        rows: Sequence[bytes],
        columns: Sequence[bytes],
        timestamps: Sequence[int],
        now: float,
    ) -> None:
        """Note when cells expire that a scan found; ``now`` in Unix milliseconds.

        Without timestamps they are taken to be written now.
        """
        if not self.kept:
            return
        for place, key in enumerate(zip(rows, columns, strict=True)):
            self._written(key, timestamps[place] if timestamps else int(now))

    def settled(
        self,
        rows: Sequence[bytes],
        columns: Sequence[bytes],
        timestamps: Sequence[int],
        now: float,
    ) -> None:
        """Note when cells expire that were read, but for those that were written meanwhile."""
        if not self.kept or not timestamps:
            return
        keys = zip(rows, columns, strict=True)
        for key, timestamp in zip(keys, timestamps, strict=True):
            if key in self._reads.unsettled:
                continue
            if self._written(key, timestamp, exact=True) < now - CLOCKS_APART:
                # It lives longer than any time to live that may have been its own.
                self.own.pop(key, None)
                self._written(key, timestamp, exact=True)

    def note(self, arrivals: Arrivals, positions: Sequence[int]) -> None:
        """Note when cells expire that were written."""
        for i in positions:
            kind = arrivals.kinds[i]
            if kind in DELETES:
                continue
            key = (arrivals.rows[i], arrivals.columns[i])
            ttl = arrivals.ttl(i)
            if ttl != NO_TTL:
                self.own[key] = ttl
            dated, received = arrivals.timestamp(i), int(arrivals.received(i))
            stands = dated == SERVER_TIME and i not in arrivals.uncertain
            if ttl == NO_TTL and stands and kind not in _CLIMBING:
                self.own.pop(key, None)  # increments and appends keep that of the cell
            end = self._written(key, received if dated == SERVER_TIME else dated)
            if end and end <= received + CLOCKS_APART:
                self._reads.unsettled.add(key)

    def _written(self, key: Key, timestamp: int, *, exact: bool = False) -> int:
        """Note when a cell was written that is there; return when it expires, 0 for never."""
        known = self._columns
        slot = known.grid.find(*key)
        if slot is None or not known.grid.present.data.item(slot):
            return 0
        ttl = self._ttl(key)
        if known.ends is None:
            if ttl is None:
                return 0
            known.ends = known.grid.column(np.int64)
        end = 0 if ttl is None else timestamp + ttl
        if end and key not in self.own and not exact:
            # An older version that was put now, or was scanned, is not the one that shows.
            end = max(end, int(known.ends.data.item(slot)))
        known.ends.data[slot] = end
        if end:
            self.due = min(self.due, end - CLOCKS_APART)
        return end

    def ends_of(self, keys: Iterable[Key]) -> tuple[int, ...]:
        """Return when each of these cells expires, 0 for never."""
        ends, find = self._columns.ends, self._columns.grid.find
        slots = (find(*key) for key in keys)
        return tuple(
            0 if slot is None or ends is None else int(ends.data.item(slot)) for slot in slots
        )

    def load(self, keys: Sequence[Key], ttls: Sequence[int], ends: Sequence[int]) -> None:
        """Go on with the cells that have a time to live of their own."""
        self.own = dict(zip(keys, ttls, strict=True))
        for key, ttl, end in zip(keys, ttls, ends, strict=True):
            self._written(key, end - ttl)

    def _ttl(self, key: Key) -> int | None:
        family, own = self.ttls.get(key[1].partition(b":")[0]), self.own.get(key)
        if family is None or own is None:
            return own if family is None else family
        return min(family, own)

    def expire(self, now: int) -> bool:
        """Have cells read that may have expired; return whether there are any.

        Args:
            now: Unix milliseconds.
        """
        known = self._columns
        if known.ends is None or now < self.due:
            return False
        ends = known.ends.data
        held = known.grid.present.data & (ends > 0)
        near = now + CLOCKS_APART
        slots = np.flatnonzero(held & (ends <= near))
        later = ends[held & (ends > near)]
        step = max(_LEAST_STEP, min(self.ttls.values(), default=0) // _STEPS)
        next_end = int(later.min()) - CLOCKS_APART if len(later) else NEVER
        self.due = max(now + step, next_end)
        if not len(slots):
            return False
        self._reads.unsettled.update(known.keys(slots))
        self.due = now + step
        return True
