"""A flow connector: the increments of a flow that wait for one consumer (BIPS, section 2.6).

A connector is a value; what changes it returns another. All of it is what a checkpoint saves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from headgate.engine.protocol.increments import FlowTaken, FramingKey, Increment
from headgate.engine.spec.stages import FlowId


class NothingWaits(LookupError):
    """An increment is to be taken of a flow of which none waits."""


class OutOfOrder(ValueError):
    """An increment comes after a later one of its flow."""


class FlowView(Struct, frozen=True):
    """What a runnable knows of an input flow. Increments with one framing key count as one.

    Only those count that may be read: with a framing of one's own the newest may not, since what
    comes next may belong to it.
    """

    key: FramingKey | None
    """Of the oldest increment that waits; None where none does."""
    waiting: int
    unread: int
    """Those that wait and were not read yet: what was read may stay to be read again."""


class Take(Struct, frozen=True):
    """What a run is to take: the flows of whose increments it reads or removes the oldest.

    What is read and not removed is read again, such as a table to look things up in.
    """

    reads: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    state: Mapping[str, int] = {}
    """What whoever decided on it remembers from here on."""


class Connector(Struct, frozen=True):
    """The increments of a flow that wait for one consumer, oldest first."""

    source: FlowId
    waiting: tuple[Increment, ...] = ()
    read: int = 0
    """How many of the oldest that wait were read already."""

    def view(self) -> FlowView:
        """Return what a runnable knows of it."""
        lengths = [len(frame) for frame in self._frames()]
        read = 0
        pieces = self.read
        for length in lengths:
            if pieces < length:
                break
            pieces -= length
            read += 1
        key = self.waiting[0].framing_key if lengths else None
        return FlowView(key, len(lengths), len(lengths) - read)

    def enqueue(self, increments: Iterable[Increment]) -> Connector:
        """Return it with increments that come next.

        Raises:
            OutOfOrder: one has an index that is not above all before it.
        """
        waiting = list(self.waiting)
        for increment in increments:
            if waiting and increment.index <= waiting[-1].index:
                raise OutOfOrder(
                    f"increment {increment.index} of {self.source} ({increment.name}) comes after "
                    f"{waiting[-1].index}; number them in the order in which they were made"
                )
            waiting.append(increment)
        return replace(self, waiting=tuple(waiting))

    def take(self, *, read: bool, remove: bool) -> tuple[Connector, FlowTaken]:
        """Return it after the oldest was read, or removed, or both, and what was taken.

        Raises:
            NothingWaits: none waits that may be read.
        """
        oldest = next(self._frames(), None)
        if oldest is None:
            raise NothingWaits(f"no increment of {self.source} waits that may be read")
        number = len(oldest)
        taken = FlowTaken(
            self.source, oldest if read else (), oldest if remove else (), read_before=self.read
        )
        seen = max(self.read, number) if read else self.read
        if not remove:
            return replace(self, read=seen), taken
        rest = replace(self, waiting=self.waiting[number:], read=max(0, seen - number))
        return rest, taken

    def restore(self, taken: FlowTaken) -> Connector:
        """Return it as if this had not been taken; what has come since stays behind that.

        What was taken of another source is not put back: the flow has become another.
        """
        if taken.source != self.source:
            return self
        return replace(self, waiting=taken.removed + self.waiting, read=taken.read_before)

    def _frames(self) -> Iterator[tuple[Increment, ...]]:
        """Yield what may be read as one: increments in a row that have one framing key."""
        frame: list[Increment] = []
        for increment in self.waiting:
            if frame and (frame[0].key is None or increment.key != frame[0].key):
                yield tuple(frame)
                frame = []
            frame.append(increment)
        if frame and frame[0].key is None:
            yield tuple(frame)
