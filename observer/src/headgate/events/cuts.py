"""Cuts: exactly which updates a run has consumed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from msgspec import Struct

GONE: Final = -1
"""The position of a partition that has lost records before they were read.

It lies before all records, so whatever is read from there on is known to be incomplete.
"""


def lost_after(position: int) -> int:
    """Return where a partition stands that stood at ``position`` and has lost records since.

    It is negative too; what is read from there on is known to be incomplete, but not of no use.
    """
    return position if position < 0 else -2 - position


def known_from(position: int) -> int | None:
    """Return from which offset on what came is known, if not all; None: from nowhere."""
    reach = _reach(position)
    return None if reach == GONE else reach


def _reach(position: int) -> int:
    return position if position >= 0 else -2 - position


class Cut(Struct, frozen=True):
    """The next offset to read, by topic and then by partition (list index).

    A topic that is absent stands at offset 0 in all partitions.
    """

    offsets: dict[str, tuple[int, ...]] = {}

    def position(self, topic: str, partition: int) -> int:
        """Return the first offset of the partition that is not in the cut."""
        positions = self.offsets.get(topic, ())
        return positions[partition] if partition < len(positions) else 0

    def has(self, topic: str, partition: int, offset: int) -> bool:
        """Return whether the message at the offset was consumed."""
        return offset < self.position(topic, partition)

    def moved(self, topic: str, partition: int, position: int) -> Cut:
        """Return a cut in which the partition stands at ``position``, before or after."""
        positions = list(self.offsets.get(topic, ()))
        positions.extend([0] * (partition + 1 - len(positions)))
        positions[partition] = position
        return Cut({**self.offsets, topic: tuple(positions)})

    def advanced(self, topic: str, partition: int, position: int) -> Cut:
        """Return a cut in which the partition stands at ``position`` or where it was, if later."""
        return self.moved(topic, partition, max(self.position(topic, partition), position))

    def lost(self, topic: str, partition: int = 0) -> Cut:
        """Return a cut from which on records of the partition are known to be missing."""
        positions = self.offsets.get(topic, ())
        known = partition < len(positions)
        return self.moved(topic, partition, lost_after(positions[partition]) if known else GONE)

    def has_lost(self, topic: str) -> bool:
        """Return whether records of a topic are known to be missing from there on."""
        return any(position < 0 for position in self.offsets.get(topic, ()))

    def only(self, topics: Iterable[str]) -> Cut:
        """Return a cut that says nothing of other topics."""
        return Cut({t: self.offsets[t] for t in topics if t in self.offsets})

    def without(self, topics: Collection[str]) -> Cut:
        """Return a cut that says nothing of these topics."""
        return Cut({t: positions for t, positions in self.offsets.items() if t not in topics})

    def covers(self, other: Cut) -> bool:
        """Return whether everything in the other cut is in this one, as far as it is known."""
        return all(
            _reach(position) <= _reach(self.position(topic, partition))
            for topic, positions in other.offsets.items()
            for partition, position in enumerate(positions)
        )
