"""Events of an earlier epoch, published under its identity: many in one message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, final

from msgspec.structs import replace

from headgate.events import (
    VERSION,
    Outcome,
    RequestPart,
    TableChange,
    encode_update,
    partition_of,
)
from headgate.observer.publishing.batches import (
    CELL_BYTES,
    MESSAGE_BYTES,
    PIECE_BYTES,
    RECOVERED_PIECES,
    Draft,
    batch_of,
    by_partition,
    fill,
    fill_put,
    pieces_of,
)
from headgate.observer.publishing.deliveries import Lane, OrderedDelivery
from headgate.observer.publishing.ended import EndedSchemaChange, EndedWrite

_UNKNOWN: Final = Outcome.UNKNOWN
_FULL: Final = 8 << 20
"""Bytes of drafts of all tables, at which they become messages."""


class Table(Protocol):
    """A table whose topic is there."""

    lanes: list[Lane] | None
    values: bool


@final
class RecoveredEvents:
    """Makes messages of what an earlier epoch left.

    The order within a partition is that in which the events are added.
    """

    def __init__(
        self, observer: str, epoch: int, deliveries: OrderedDelivery, table: Callable[[str], Table]
    ) -> None:
        """Publish for an epoch; ``table`` returns the state of a table by its name."""
        self._observer = observer
        self._epoch = epoch
        self._deliveries = deliveries
        self._table = table
        self._tokens: dict[str, int] = {}
        """Token of each table: it stands for the table's messages until they are acknowledged."""
        self._drafts: dict[str, dict[int, Draft]] = {}
        self._size = 0

    def _lanes(self, name: str) -> tuple[list[Lane], bool]:
        table = self._table(name)
        if table.lanes is None:
            raise LookupError(f"the topic of table {name} is not there yet; wait for topic_ready")
        return table.lanes, table.values

    def add_put(
        self,
        name: str,
        intent: int,
        method: str,
        received: float,
        cell: tuple[bytes, bytes, bytes],
        timestamp: int,
    ) -> bool:
        """Publish a put of one cell, given as row, column and value.

        Returns False if it is so large that ``add`` must be used.

        Raises:
            LookupError: the topic is not there yet.
        """
        row, column, value = cell
        size = len(row) + len(column) + len(value) + CELL_BYTES
        if size > PIECE_BYTES:
            return False
        lanes, values = self._lanes(name)
        draft = self._draft(name, lanes[partition_of(row, len(lanes))], size)
        part = RequestPart(intent, method, _UNKNOWN, received, 1, 0, None, ())
        fill_put(draft, part, row, column, timestamp, value if values else None, size)
        return True

    def add(self, name: str, ended: EndedWrite) -> None:
        """Publish a write.

        Raises:
            LookupError: the topic is not there yet.
        """
        lanes, values = self._lanes(name)
        for partition, part in by_partition(ended, len(lanes)):
            pieces = pieces_of(part)
            first = 0 if len(pieces) == 1 else RECOVERED_PIECES
            for number, (piece, size) in enumerate(pieces, start=first):
                fill(self._draft(name, lanes[partition], size), piece, number, size, values=values)

    def add_schema_change(self, name: str, ended: EndedSchemaChange) -> None:
        """Publish a change of a table's definition behind what was added before.

        Raises:
            LookupError: the topic is not there yet.
        """
        lanes, _ = self._lanes(name)
        self._finish(name)
        message = TableChange(
            VERSION,
            self._observer,
            self._epoch,
            0,
            ended.intent,
            name,
            ended.kind,
            ended.outcome,
            ended.received,
            ended.family,
        )
        for lane in lanes:
            self._deliveries.queue(lane, encode_update(message), (self.token(name),))
            self._deliveries.hand_over(lane)

    def flush(self) -> None:
        """Hand over what was added."""
        for name in tuple(self._drafts):
            self._finish(name)

    def token(self, name: str) -> int:
        """Return what stands for the messages of a table."""
        token = self._tokens.get(name)
        if token is None:
            token = self._tokens[name] = self._deliveries.new_token()
        return token

    def is_delivered(self, name: str) -> bool:
        """Return whether Kafka has acknowledged all of a table that was flushed."""
        return not self._deliveries.is_open(self.token(name))

    def _draft(self, name: str, lane: Lane, size: int) -> Draft:
        """Return the draft of a lane, with room for so many bytes."""
        self._size += size
        if self._size > _FULL:
            self.flush()
            self._size = size
        drafts = self._drafts.setdefault(name, {})
        draft = drafts.get(lane.partition)
        if draft is None or draft.size + size > MESSAGE_BYTES:
            if draft is not None:
                self._send(name, lane, draft)
            draft = drafts[lane.partition] = Draft()
        return draft

    def _finish(self, name: str) -> None:
        drafts = self._drafts.pop(name, {})
        if drafts:
            lanes, _ = self._lanes(name)
            for partition, draft in drafts.items():
                self._send(name, lanes[partition], draft)

    def _send(self, name: str, lane: Lane, draft: Draft) -> None:
        batch = batch_of(name, self._observer, self._epoch, 0, 0, draft)
        value = encode_update(replace(batch, recovered=True))
        self._deliveries.queue(lane, value, (self.token(name),))
        self._deliveries.hand_over(lane)
