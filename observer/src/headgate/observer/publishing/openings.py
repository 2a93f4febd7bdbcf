"""The first message of a producer to a partition goes alone.

A broker takes any sequence number from a producer that it knows nothing of. A leader that is not
ready yet, as a new topic's, may refuse the first message and take the second; the client library
then believes that the first is there too and reports it as delivered. Once a message was
acknowledged the broker knows the producer, and keeps the order of what is under way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from headgate.observer.publishing.deliveries import DeliveryFailure, Done, FailureKind

Produce = Callable[[str, int, bytes, bytes | None, Done], bool]
"""Takes topic, partition, value, key and what to call in the end; returns if there was room."""

_NO_ROOM: Final = DeliveryFailure(FailureKind.OTHER, "the producer is full")


class Openings:
    """Holds messages back while the first to their partition is under way."""

    def __init__(self, produce: Produce) -> None:
        """Begin with no partition opened; ``produce`` hands messages to the client library."""
        self._produce = produce
        self._opened: set[tuple[str, int]] = set()
        self._behind: dict[tuple[str, int], deque[tuple[bytes, bytes | None, Done]]] = {}

    def send(self, topic: str, partition: int, value: bytes, key: bytes | None, done: Done) -> bool:
        """Take a message, to be delivered in order; return whether there was room for it."""
        place = (topic, partition)
        if place in self._opened:
            return self._produce(topic, partition, value, key, done)
        behind = self._behind.get(place)
        if behind is not None:
            behind.append((value, key, done))
            return True
        self._behind[place] = deque()
        taken = self._produce(
            topic, partition, value, key, lambda failure: self._known(place, done, failure)
        )
        if not taken:
            del self._behind[place]
        return taken

    def shut(self, topic: str, partition: int) -> None:
        """Send the partition's next message alone: its topic may be made again."""
        self._opened.discard((topic, partition))

    def shut_all(self) -> None:
        """Send every partition's next message alone: the producer is another."""
        self._opened.clear()

    def _known(self, place: tuple[str, int], done: Done, failure: DeliveryFailure | None) -> None:
        behind = self._behind.pop(place)
        if failure is not None:
            done(failure)
            for _, _, each in behind:
                each(failure)
            return
        self._opened.add(place)
        room = True
        for value, key, each in behind:
            room = room and self._produce(*place, value, key, each)
            if not room:
                # It was taken and is not given back: its sender repeats it, and all after it.
                each(_NO_ROOM)
        done(None)
