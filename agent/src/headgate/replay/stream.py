"""The recorded updates and decisions in one order: that in which the engine met them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from headgate.events import Cut, UpdateMessage
from headgate.replay.recording import ReplayedDecision


class RecordedUpdate(Struct, frozen=True):
    """One record of a table's topic; ``message`` is None where it could not be decoded."""

    topic: str
    partition: int
    offset: int
    time: float
    """When it was published: Unix seconds."""
    message: UpdateMessage | None


Fetch = Callable[[str, int], RecordedUpdate | None]
"""Returns the next record of a partition (topic, number), None at its end."""


def in_order(
    decisions: Iterable[ReplayedDecision], partitions: Mapping[str, int], fetch: Fetch
) -> Iterator[RecordedUpdate | ReplayedDecision]:
    """Yield every update before the first decision whose cut holds it, otherwise by their time.

    Holds one record of each partition at a time.

    Args:
        decisions: in their order.
        partitions: how many each topic has.
        fetch: the records.
    """
    merge = _Merge(partitions, fetch)
    for decision in decisions:
        yield from merge.up_to(decision.cut)
        yield decision
    yield from merge.up_to(None)


class _Merge:
    def __init__(self, partitions: Mapping[str, int], fetch: Fetch) -> None:
        self._fetch = fetch
        self._next: dict[tuple[str, int], RecordedUpdate] = {}
        for topic, count in partitions.items():
            for partition in range(count):
                self._advance((topic, partition))

    def _advance(self, place: tuple[str, int]) -> None:
        update = self._fetch(*place)
        if update is None:
            self._next.pop(place, None)
        else:
            self._next[place] = update

    def up_to(self, cut: Cut | None) -> Iterator[RecordedUpdate]:
        """Yield what lies in the cut and was not yielded before; all that is left, if None."""

        def within(update: RecordedUpdate) -> bool:
            return cut is None or cut.has(update.topic, update.partition, update.offset)

        heap = [(u.time, place) for place, u in self._next.items() if within(u)]
        heapq.heapify(heap)
        while heap:
            _, place = heapq.heappop(heap)
            yield self._next[place]
            self._advance(place)
            following = self._next.get(place)
            if following is not None and within(following):
                heapq.heappush(heap, (following.time, place))
