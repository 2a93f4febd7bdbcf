"""What others wrote into a dataflow's rows, where only its own updates count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b

from headgate.engine.arrivals import SERVER_TIME, Arrivals
from headgate.engine.elements import Key
from headgate.events import UpdateKind

_MOST = 20_000
"""Cells of a container that are remembered: 3.4 MB, and 0.26 MB and 7 ms of every snapshot."""
_DIGEST = 8
"""Bytes of a digest: that two values have one is less likely than that a disk lies."""
_WIDE = frozenset(
    {UpdateKind.DELETE_FAMILY, UpdateKind.DELETE_FAMILY_VERSION, UpdateKind.DELETE_ROW}
)


class Told:
    """Cells that strangers wrote last, as updates told, with a digest of the value of each.

    A scan after a loss finds them in the table, and they are no lost updates of the dataflow's own.
    Only cells of rows that it knows are remembered, and of these the latest: any other counts once.
    """

    def __init__(self) -> None:
        self.cells: dict[Key, bytes] = {}

    def note(
        self, arrivals: Arrivals, positions: Sequence[int], knows: Callable[[bytes], bool]
    ) -> None:
        """Remember what strangers certainly wrote, in rows that the dataflow ``knows``."""
        self.forget(arrivals, positions)
        for i in positions:
            row, value = arrivals.rows[i], arrivals.values[i]
            certain = arrivals.timestamp(i) == SERVER_TIME and i not in arrivals.uncertain
            if arrivals.kinds[i] == UpdateKind.PUT and certain and knows(row):
                self.cells[row, arrivals.columns[i]] = b"" if value is None else digest(value)
        while len(self.cells) > _MOST:
            del self.cells[next(iter(self.cells))]

    def forget(self, arrivals: Arrivals, positions: Sequence[int]) -> None:
        """Forget cells that were written anew: who wrote last is another, or not known."""
        if not self.cells:
            return
        wide = {arrivals.rows[i] for i in positions if arrivals.kinds[i] in _WIDE}
        for i in positions:
            self.cells.pop((arrivals.rows[i], arrivals.columns[i]), None)
        if wide:
            self.cells = {key: told for key, told in self.cells.items() if key[0] not in wide}

    def stands(self, key: Key, value: bytes | None) -> bool:
        """Tell whether a cell holds what a stranger wrote; None: whether a stranger wrote it."""
        told = self.cells.get(key)
        return told is not None and (value is None or told == digest(value))


def digest(value: bytes) -> bytes:
    """Return what stands for a value."""
    return blake2b(value, digest_size=_DIGEST).digest()
