"""Cells whose values only a read can show, and what reads of them found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

import numpy as np

from headgate.engine.cells.columns import CellColumns, Detail
from headgate.engine.cells.elements import Key
from headgate.engine.cells.pending import Change
from headgate.engine.cells.sums import Value
from headgate.engine.cells.watchers import Watchers
from headgate.events import UpdateKind


class CellReads:
    """Unsettled cells, and those of them that are being read."""

    __slots__ = (
        "_columns",
        "_watchers",
        "awaited",
        "reading",
        "unsettled",
    )

    def __init__(self, columns: CellColumns, watchers: Watchers) -> None:
        self._columns = columns
        self._watchers = watchers
        self.unsettled: set[Key] = set()
        self.reading: set[Key] = set()
        self.awaited = False
        """Whether an answer is to come."""

    def forget(self, keys: Iterable[Key]) -> None:
        """Settle cells that are gone."""
        keys = list(keys)
        self.unsettled.difference_update(keys)
        self.reading.difference_update(keys)

    def ask(self) -> list[Key]:
        """Return the unsettled cells in order, and expect their values."""
        self.reading = set(self.unsettled)
        self.awaited = True
        return sorted(self.reading)

    def settle(
        self,
        rows: Sequence[bytes],
        columns: Sequence[bytes],
        values: Sequence[bytes | None],
        timestamps: Sequence[int] = (),
    ) -> None:
        """Take the values of cells that were read; what was written meanwhile stays unsettled.

        ``timestamps`` are those of the versions, where they are known.
        """
        known = self._columns
        keys = zip(rows, columns, strict=True)
        settled = [
            (key, value, timestamp)
            for key, value, timestamp in zip(keys, values, timestamps or repeat(None), strict=False)
            if key in self.reading
        ]
        for key, _, _ in settled:
            known.slot(key)  # no slot moves from here on
        changes: list[Change] = []
        for key, value, timestamp in settled:
            self.unsettled.discard(key)
            slot = known.slot(key)
            old = known.value_at(slot)
            if value is None:
                if known.remove(key) is not None:
                    changes.append((slot, old, None))
                continue
            new = known.decoded(UpdateKind.PUT, value)
            # Another version than the last that was written may be the one that was read.
            known.stamp(np.array([slot]), None if timestamp is None else np.array([timestamp]))
            if new is None or _same(old, new):
                continue
            known.put(slot, new)
            changes.append((slot, old, new))
        self.reading = set()
        self.awaited = False
        # Whose write it was is not known any more: it counts for everybody.
        if known.detail is Detail.VALUES:
            self._watchers.moved_each(None, changes)


def _same(old: Value | None, new: Value | None) -> bool:
    return old == new or (old != old and new != new)  # two undecodable values
