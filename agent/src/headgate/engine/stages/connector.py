"""A flow connector: the increments of a flow that wait for one consumer (BIPS, section 2.6).

A connector is a value; what changes it returns another. All of it is what a checkpoint saves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, islice

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


class Frame(Struct, frozen=True, array_like=True):
    """Increments in a row that have one framing key and count as one: what they are together."""

    name: str
    """Of the oldest of them: no other frame ever has it."""
    index: int
    """Of the oldest of them."""
    key: FramingKey
    rows: int


class Portion(Struct, frozen=True):
    """What is taken of one flow: frames are counted from the oldest that waits, from 0 on.

    Those from ``start`` to before ``stop`` are read, and the oldest ``removed`` are removed.
    """

    start: int = 0
    stop: int = 0
    removed: int = 0


_OLDEST = Portion(stop=1, removed=1)

Remembered = Mapping[str, int | str]
"""What a runnable remembers from one run to the next."""


class Take(Struct, frozen=True):
    """What a run is to take of which flow.

    What is read and not removed is read again, such as a table to look things up in.
    """

    portions: Mapping[str, Portion] = {}
    state: Remembered = {}
    """What whoever decided on it remembers from here on."""

    @classmethod
    def oldest(cls, flows: Iterable[str], state: Remembered) -> Take:
        """Return that the oldest of these flows are read and removed."""
        return cls(dict.fromkeys(flows, _OLDEST), state)

    @property
    def reads(self) -> tuple[str, ...]:
        """The flows of which something is read."""
        return tuple(name for name, one in self.portions.items() if one.stop > one.start)

    @property
    def removes(self) -> tuple[str, ...]:
        """The flows of which something is removed."""
        return tuple(name for name, one in self.portions.items() if one.removed)


class Connector(Struct, frozen=True):
    """The increments of a flow that wait for one consumer, oldest first."""

    source: FlowId
    waiting: tuple[Increment, ...] = ()
    read: int = 0
    """How many of the oldest that wait were read already."""

    def view(self) -> FlowView:
        """Return what a runnable knows of it."""
        lengths = [len(pieces) for pieces in self._frames()]
        read = 0
        pieces = self.read
        for length in lengths:
            if pieces < length:
                break
            pieces -= length
            read += 1
        key = self.waiting[0].framing_key if lengths else None
        return FlowView(key, len(lengths), len(lengths) - read)

    def frames(self, most: int) -> tuple[Frame, ...]:
        """Return the oldest of what may be read, and no more than so many."""
        return tuple(
            Frame(
                pieces[0].name,
                pieces[0].index,
                pieces[0].framing_key,
                sum(piece.rows for piece in pieces),
            )
            for pieces in islice(self._frames(), most)
        )

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

    def take(self, portion: Portion) -> tuple[Connector, FlowTaken]:
        """Return it after some were read, or removed, or both, and what was taken.

        Raises:
            NothingWaits: fewer wait that may be read.
        """
        wanted = max(portion.stop, portion.removed)
        ends = list(accumulate(map(len, islice(self._frames(), wanted)), initial=0))
        if wanted >= len(ends):
            raise NothingWaits(
                f"{len(ends) - 1} increments of {self.source} wait that may be read, not {wanted}"
            )
        removed = ends[portion.removed]
        read = self.waiting[ends[portion.start] : ends[portion.stop]]
        taken = FlowTaken(self.source, read, self.waiting[:removed], read_before=self.read)
        seen = max(self.read, ends[portion.stop]) if read else self.read
        rest = replace(self, waiting=self.waiting[removed:], read=max(0, seen - removed))
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
