"""From what ended on a table to messages of its lanes, in parts where it is much."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, final
from zlib import crc32

from msgspec import Struct

from headgate.events import (
    VERSION,
    BarrierMark,
    Gap,
    TableChange,
    UpdateMessage,
    encode_update,
)
from headgate.observer.publishing.batches import (
    MESSAGE_BYTES,
    PIECE_BYTES,
    Division,
    Draft,
    batch_of,
    by_partition,
    fill,
    pieces_of,
    size_of,
)
from headgate.observer.publishing.deliveries import Lane, OrderedDelivery
from headgate.observer.publishing.ended import Ended, EndedSchemaChange, EndedWrite

_FEW: Final = 1 << 10
"""Cells of a write up to which it is divided at once: that is quicker, and most are so small."""
_WORTH: Final = 256
"""Bytes of a message that take as long to be copied, on their way to Kafka, as a cell takes."""


class PendingMark(Struct):
    """A barrier's mark, or another of that kind, that no partition has yet."""

    id: str


class Passed(Struct):
    """Writes that passed without events, from when to when (Unix seconds)."""

    since: float
    until: float
    reason: str
    token: int = 0
    """Stands for its messages until they are acknowledged; 0: nobody asks."""


@final
class Puts:
    """Writes of one cell of which HBase said that they were done: drafts by partition."""

    __slots__ = ("drafts", "lowest")

    def __init__(self) -> None:
        self.drafts: dict[int, Draft] = {}
        self.lowest = -1
        """The lowest intent in them; -1: they are empty."""


Item = Ended | PendingMark | Passed | Puts

Packing = Generator[None, None, None]
"""Ends when all is packed; where it yields, others have a turn."""


@final
class Packer:
    """Makes messages, until ``left`` cells, or what takes as long, are used up."""

    def __init__(self, observer: str, epoch: int, deliveries: OrderedDelivery) -> None:
        """Make messages of the observer's epoch, for these deliveries."""
        self._observer = observer
        self._epoch = epoch
        self._deliveries = deliveries
        self.left = 0
        """How many cells may be made before others have a turn: set before each part."""

    def begin_epoch(self, epoch: int) -> None:
        """Make messages of another epoch from now on."""
        self._epoch = epoch

    def pack(
        self, name: str, lanes: list[Lane], items: list[Item], floor: int, *, values: bool
    ) -> Packing:
        """Turn items of a table into messages, in their order, and hand them over.

        Args:
            name: the table's.
            lanes: those of its topic, of which there are as many until all is packed.
            items: what ended, and the marks between.
            floor: no intent below it that concerns the table can come later than the items.
            values: whether the cells' values are published.
        """
        for item in items:
            if isinstance(item, Ended):
                floor = min(floor, item.intent)
            elif isinstance(item, Puts):
                floor = min(floor, item.lowest)
        drafts: dict[int, Draft] = {}
        for item in items:
            if isinstance(item, EndedWrite):
                if len(item.rows) == 1 and (size := size_of(item)) <= PIECE_BYTES:
                    # What most are, where there are many.
                    self.left -= 1
                    lane = lanes[crc32(item.rows[0]) % len(lanes)]
                    draft = self._draft_for(name, lane, drafts, size, floor)
                    fill(draft, item, 0, size, values=values)
                else:
                    yield from self._take(name, lanes, item, drafts, floor, values=values)
            else:
                # What came before it stands before it in every partition.
                for partition, draft in drafts.items():
                    self._finish(name, lanes[partition], draft, floor)
                    if self.left <= 0:
                        yield from self._pause(lanes)
                drafts.clear()
                if isinstance(item, Puts):
                    for partition, draft in item.drafts.items():
                        intents = [part.intent for part in draft.requests]
                        batch = self._batch(name, lanes[partition], draft, floor)
                        self._deliveries.queue_sole(lanes[partition], batch, intents)
                else:
                    self._say_everywhere(name, lanes, item)
            if self.left <= 0:
                yield from self._pause(lanes)
        for partition, draft in drafts.items():
            self._finish(name, lanes[partition], draft, floor)
            if self.left <= 0:
                yield from self._pause(lanes)
        for item in items:
            if isinstance(item, Ended):
                self._deliveries.close(item.intent)
            elif isinstance(item, Passed) and item.token:
                self._deliveries.close(item.token)
        for lane in lanes:
            self._deliveries.hand_over(lane)

    def _pause(self, lanes: list[Lane]) -> Packing:
        for lane in lanes:
            self._deliveries.hand_over(lane)
        yield

    def _say_everywhere(
        self, name: str, lanes: list[Lane], item: EndedSchemaChange | PendingMark | Passed
    ) -> None:
        for lane in lanes:
            message: UpdateMessage
            intents: tuple[int, ...] = ()
            head = (VERSION, self._observer, self._epoch, lane.sequence)
            match item:
                case EndedSchemaChange():
                    intents = (item.intent,)
                    message = TableChange(
                        *head,
                        item.intent,
                        name,
                        item.kind,
                        item.outcome,
                        item.received,
                        item.family,
                    )
                case PendingMark():
                    message = BarrierMark(*head, item.id, len(lanes))
                case Passed():
                    intents = (item.token,) if item.token else ()
                    message = Gap(*head, name, item.since, item.until, item.reason)
            lane.sequence += 1
            closing = isinstance(item, PendingMark)
            self._deliveries.queue(lane, encode_update(message), intents, closing=closing)

    def _take(
        self,
        name: str,
        lanes: list[Lane],
        ended: EndedWrite,
        drafts: dict[int, Draft],
        floor: int,
        *,
        values: bool,
    ) -> Packing:
        """Put a write into drafts; those that it makes full are finished."""
        count = len(ended.rows)
        if count <= _FEW and count <= self.left:
            self.left -= count
            for partition, part in by_partition(ended, len(lanes)):
                for number, (piece, size) in enumerate(pieces_of(part)):
                    draft = self._draft_for(name, lanes[partition], drafts, size, floor)
                    fill(draft, piece, number, size, values=values)
                    if self.left <= 0:
                        yield from self._pause(lanes)
            return
        division = Division(ended, len(lanes))
        while not division.done:
            cells = min(self.left, division.left)
            self.left -= cells
            for partition, (piece, number, size) in division.go_on(cells):
                draft = self._draft_for(name, lanes[partition], drafts, size, floor)
                fill(draft, piece, number, size, values=values)
                if self.left <= 0:
                    yield from self._pause(lanes)
            if self.left <= 0:
                yield from self._pause(lanes)

    def _draft_for(
        self, name: str, lane: Lane, drafts: dict[int, Draft], size: int, floor: int
    ) -> Draft:
        """Return the draft of a partition that has room for so many bytes."""
        draft = drafts.get(lane.partition)
        if draft is not None:
            if draft.size + size <= MESSAGE_BYTES:
                return draft
            self._finish(name, lane, draft, floor)
        draft = drafts[lane.partition] = Draft()
        return draft

    def _finish(self, name: str, lane: Lane, draft: Draft, floor: int) -> None:
        batch = self._batch(name, lane, draft, floor)
        self._deliveries.queue(lane, batch, [part.intent for part in draft.requests])

    def _batch(self, name: str, lane: Lane, draft: Draft, floor: int) -> bytes:
        self.left -= draft.size // _WORTH
        batch = batch_of(name, self._observer, self._epoch, lane.sequence, floor, draft)
        lane.sequence += 1
        return encode_update(batch)
