"""From ended requests to messages, in order, until Kafka has acknowledged them.

Everything of a table passes one ordered list of its own; from there its cells go to the lanes of
the topic's partitions. A lane hands its messages to the producer in order. When one fails, the lane
stops, waits until the fate of all that it handed over is known, and hands over what failed again,
in order, before anything newer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from operator import itemgetter
from typing import Final, Protocol
from zlib import crc32

import structlog
from msgspec import Struct
from msgspec.structs import replace

from headgate.events import (
    VERSION,
    BarrierMark,
    Gap,
    Origin,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
    UpdateMessage,
    decode_update,
    encode_update,
    updates_topic,
)

_log = structlog.get_logger("headgate.observer.publisher")

# Kafka refuses messages above 1,000,000 bytes unless told otherwise on both sides. A piece must be
# cut in the same way by every version and configuration: its number is a part of its identity.
_PIECE_BYTES: Final = 512 * 1024
_MESSAGE_BYTES: Final = 768 * 1024
_CELL_BYTES: Final = 24  # msgpack's own bytes for one cell's entries in all columns, at most
# After a crash it is not known where a request was cut; with numbers of their own its pieces may be
# counted twice, but not taken for others and dropped.
_RECOVERED_PIECES: Final = 1 << 20
# The halves of piece n are 2 (this + n) and one more, theirs twice that: above all other numbers.
_DIVIDED_PIECES: Final = 1 << 30
_RETRY_SECONDS: Final = 0.5
_NAMED: Final = 100  # intents that one line of the log may name
_PUT = int(UpdateKind.PUT)


class FailureKind(Enum):
    """What a failed delivery asks for."""

    TOO_LARGE = auto()
    """The message must become smaller."""
    TOPIC = auto()
    """The topic or the partition is not there."""
    FATAL = auto()
    """The producer must be made anew."""
    OTHER = auto()


class Failure(Struct, frozen=True):
    """Why a message was not delivered."""

    kind: FailureKind
    text: str


Done = Callable[[Failure | None], None]


class Producer(Protocol):
    """The seam to Kafka."""

    def send(self, topic: str, partition: int, value: bytes, done: Done) -> bool:
        """Take a message to be delivered; tell whether there was room for it."""

    def restart(self) -> None:
        """Give up everything that was sent (each ``done`` is called with a failure); begin anew."""


class EndedWrite(Struct):
    """A write whose end was seen, as it is to be published. The columns have equal lengths."""

    intent: int
    method: str
    outcome: Outcome
    received: float
    origin: Origin | None
    kinds: bytes | bytearray
    rows: Sequence[bytes]
    columns: Sequence[bytes]
    timestamps: Sequence[int]
    values: Sequence[bytes | None]
    ambiguous: frozenset[bytes] | set[bytes] = frozenset()


class EndedDefinition(Struct):
    """A table definition whose end was seen."""

    intent: int
    kind: TableChangeKind
    outcome: Outcome
    received: float
    family: str


class _Mark(Struct):
    id: str


class EndedUnread(Struct):
    """A write whose end was seen and that could not be decoded: readers must look themselves."""

    intent: int
    received: float
    until: float
    reason: str


class _Passed(Struct):
    since: float
    until: float
    reason: str


Ended = EndedWrite | EndedDefinition | EndedUnread
_Item = Ended | _Mark | _Passed


class _Outgoing:
    __slots__ = ("closing", "done", "failure", "intents", "value")

    def __init__(self, value: bytes, intents: Sequence[int], *, closing: bool = False) -> None:
        self.value = value
        self.intents = intents
        self.closing = closing
        """Nothing handed over earlier may come after it: it waits until all of that is there."""
        self.done = False
        self.failure: Failure | None = None


class _Lane:
    """One partition's messages: handed over in order, kept until they are acknowledged."""

    __slots__ = (
        "alone",
        "crowded",
        "open",
        "partition",
        "queue",
        "sent",
        "sequence",
        "stopped",
        "table",
        "topic",
    )

    def __init__(self, table: str, topic: str, partition: int) -> None:
        self.table = table
        self.topic = topic
        self.partition = partition
        self.sequence = 0
        self.queue: deque[_Outgoing] = deque()
        self.sent: deque[_Outgoing] = deque()
        self.open = 0
        """Number of messages handed over whose fate is not known."""
        self.stopped = False
        """A delivery failed; nothing newer is handed over before it is repeated."""
        self.crowded = False
        """The producer had no room; it is asked again in a while."""
        self.alone = False
        """The broker found something too large: messages go one by one, never several together."""


class _Table:
    """What ended on one table and is not yet in its lanes."""

    __slots__ = ("items", "lanes", "name", "topic", "values")

    def __init__(self, name: str) -> None:
        self.name = name
        self.topic = updates_topic(name)
        self.items: list[_Item] = []
        self.lanes: list[_Lane] | None = None
        self.values = True


class _Draft:
    """A batch of one partition while it is filled."""

    __slots__ = ("columns", "kinds", "requests", "rows", "size", "timestamps", "values")

    def __init__(self) -> None:
        self.requests: list[RequestPart] = []
        self.kinds = bytearray()
        self.rows: list[bytes] = []
        self.columns: list[bytes] = []
        self.timestamps: list[int] = []
        self.values: list[bytes | None] = []
        self.size = 0


class Publisher:
    """Publishes what ended, each row's events in one partition and in order.

    It owns no clock and no thread: ``later(seconds, call)`` schedules, ``ensure(table, topic)``
    asks for a topic, answered by ``topic_ready``.
    """

    def __init__(
        self,
        *,
        observer: str,
        epoch: int,
        producer: Producer,
        settle: Callable[[int], None],
        unfinished: Callable[[str], int],
        ensure: Callable[[str, str], None],
        later: Callable[[float, Callable[[], None]], object],
        linger_seconds: float,
    ) -> None:
        """Connect the publisher to its surroundings.

        ``settle(intent)`` is called once all of an intent's messages are acknowledged;
        ``unfinished(table)`` returns the lowest intent of the table that has not been given to the
        publisher, or the next one to come.
        """
        self._observer = observer
        self._epoch = epoch
        self._producer = producer
        self._settle = settle
        self._unfinished = unfinished
        self._ensure = ensure
        self._later = later
        self._linger = linger_seconds
        self._tables: dict[str, _Table] = {}
        self._due: set[str] = set()
        self._scheduled = False
        self._open_parts: dict[int, int] = {}
        # By intent: messages that are not acknowledged, and entries that are not yet messages.
        self.undelivered = 0
        """Messages that Kafka has not acknowledged."""
        self.published = 0
        """Messages that Kafka has acknowledged."""
        self.failures = 0
        """Deliveries that failed and were or will be repeated."""

    # -- what is to be published

    def table(self, name: str) -> _Table:
        """Return the table's state, asking for its topic when it is new."""
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = _Table(name)
            self._ensure(name, table.topic)
        return table

    def prepare(self, name: str, *, values: bool) -> None:
        """Get ready for a table; ``values`` tells whether its cells' values are published."""
        self.table(name).values = values

    def add(self, name: str, ended: Ended) -> None:
        """Publish what ended, after all that was added to the table before."""
        if isinstance(ended, EndedWrite) and not ended.rows:
            self._settle(ended.intent)
            return
        self._open(ended.intent)
        self._append(name, ended)

    def mark(self, name: str, barrier: str) -> None:
        """Mark every partition of the table, after all that was added before."""
        self._append(name, _Mark(barrier))

    def announce_gap(self, name: str, *, since: float, until: float, reason: str) -> None:
        """Tell every partition that writes went by without events (Unix seconds)."""
        self._append(name, _Passed(since, until, reason))

    def forget(self, name: str) -> None:
        """Drop what waits for the topic of a table that nobody watches; without a topic only."""
        table = self._tables.get(name)
        if table is None or table.lanes is not None:
            return
        del self._tables[name]
        for item in table.items:
            if isinstance(item, Ended):
                self._close_part(item.intent)

    def _append(self, name: str, item: _Item) -> None:
        table = self._tables.get(name)
        if table is None:
            table = self.table(name)
        table.items.append(item)
        self._due.add(name)
        if not self._scheduled:
            self._scheduled = True
            self._later(self._linger, self.flush)

    @property
    def idle(self) -> bool:
        """Whether everything that was added is acknowledged."""
        return not self.undelivered and not any(table.items for table in self._tables.values())

    def sequences(self) -> dict[str, tuple[int, ...]]:
        """Return the next publish sequence of each partition, by topic."""
        return {
            table.topic: tuple(lane.sequence for lane in table.lanes)
            for table in self._tables.values()
            if table.lanes is not None
        }

    def waiting_topics(self) -> list[str]:
        """Return the tables whose topic is not there yet."""
        return [table.name for table in self._tables.values() if table.lanes is None]

    def is_ready(self, name: str) -> bool:
        """Tell whether the topic of a table is there; asks for it when the table is new."""
        return self.table(name).lanes is not None

    def partitions(self, name: str) -> int:
        """Return how many partitions of a table's topic are known; 0 while it is not there."""
        table = self._tables.get(name)
        return 0 if table is None or table.lanes is None else len(table.lanes)

    def topic_ready(self, name: str, partitions: int) -> None:
        """Say how many partitions the topic of a table really has."""
        table = self._tables.get(name)
        if table is None:
            return
        lanes = table.lanes if table.lanes is not None else []
        lanes.extend(_Lane(name, table.topic, number) for number in range(len(lanes), partitions))
        table.lanes = lanes
        self._due.add(name)
        self.flush()

    # -- from items to messages

    def flush(self) -> None:
        """Turn everything that was added into messages and hand them over."""
        self._scheduled = False
        due, self._due = self._due, set()
        for name in due:
            table = self._tables.get(name)
            if table is None:
                continue
            if table.lanes is None:
                self._due.add(name)
                continue
            items, table.items = table.items, []
            self._publish(table, table.lanes, items)

    def _publish(self, table: _Table, lanes: list[_Lane], items: list[_Item]) -> None:
        floor = self._unfinished(table.name)
        for item in items:
            if isinstance(item, Ended) and item.intent < floor:
                floor = item.intent
        writes: list[EndedWrite] = []
        for item in items:
            if isinstance(item, EndedWrite):
                writes.append(item)
                continue
            if writes:
                self._publish_writes(table, lanes, writes, floor)
                writes = []
            self._publish_everywhere(table, lanes, item)
        if writes:
            self._publish_writes(table, lanes, writes, floor)
        for item in items:
            if isinstance(item, Ended):
                self._close_part(item.intent)
        for lane in lanes:
            self._hand_over(lane)

    def _publish_everywhere(
        self,
        table: _Table,
        lanes: list[_Lane],
        item: EndedDefinition | EndedUnread | _Mark | _Passed,
    ) -> None:
        for lane in lanes:
            message: UpdateMessage
            intents: tuple[int, ...] = ()
            head = (VERSION, self._observer, self._epoch, lane.sequence)
            match item:
                case EndedDefinition():
                    intents = (item.intent,)
                    message = TableChange(
                        *head,
                        item.intent,
                        table.name,
                        item.kind,
                        item.outcome,
                        item.received,
                        item.family,
                    )
                case EndedUnread():
                    intents = (item.intent,)
                    message = Gap(*head, table.name, item.received, item.until, item.reason)
                case _Mark():
                    message = BarrierMark(*head, item.id)
                case _Passed():
                    message = Gap(*head, table.name, item.since, item.until, item.reason)
            lane.sequence += 1
            closing = isinstance(item, _Mark)
            self._queue(lane, encode_update(message), intents, closing=closing)

    def _publish_writes(
        self, table: _Table, lanes: list[_Lane], writes: Iterable[EndedWrite], watermark: int
    ) -> None:
        drafts: dict[int, _Draft] = {}
        for ended in writes:
            if len(ended.rows) == 1 and (size := _size(ended)) <= _PIECE_BYTES:
                # What most are, where there are many.
                partition = crc32(ended.rows[0]) % len(lanes)
                draft = drafts.get(partition)
                if draft is None:
                    draft = drafts[partition] = _Draft()
                elif draft.size + size > _MESSAGE_BYTES:
                    self._finish(table, lanes[partition], draft, watermark)
                    draft = drafts[partition] = _Draft()
                _fill(draft, ended, 0, size, values=table.values)
                continue
            for partition, part in _by_partition(ended, len(lanes)):
                for number, (piece, size) in enumerate(_pieces(part)):
                    draft = drafts.get(partition)
                    if draft is None:
                        draft = drafts[partition] = _Draft()
                    elif draft.size + size > _MESSAGE_BYTES:
                        self._finish(table, lanes[partition], draft, watermark)
                        draft = drafts[partition] = _Draft()
                    _fill(draft, piece, number, size, values=table.values)
        for partition, draft in drafts.items():
            self._finish(table, lanes[partition], draft, watermark)

    def _finish(self, table: _Table, lane: _Lane, draft: _Draft, watermark: int) -> None:
        batch = _batch(table.name, self._observer, self._epoch, lane.sequence, watermark, draft)
        lane.sequence += 1
        self._queue(lane, encode_update(batch), [part.intent for part in draft.requests])

    def _queue(
        self, lane: _Lane, value: bytes, intents: Sequence[int], *, closing: bool = False
    ) -> None:
        lane.queue.append(_Outgoing(value, intents, closing=closing))
        self.undelivered += 1
        open_parts = self._open_parts
        for intent in intents:
            open_parts[intent] = open_parts.get(intent, 0) + 1

    def _open(self, intent: int) -> None:
        self._open_parts[intent] = self._open_parts.get(intent, 0) + 1

    def _close_part(self, intent: int) -> None:
        left = self._open_parts[intent] - 1
        if left:
            self._open_parts[intent] = left
        else:
            del self._open_parts[intent]
            self._settle(intent)

    def recover(self, name: str, epoch: int, writes: Iterable[EndedWrite]) -> None:
        """Publish what an earlier epoch left, under its identity; needs the table's topic.

        Raises:
            LookupError: the topic is not there yet.
        """
        table = self.table(name)
        if table.lanes is None:
            raise LookupError(f"topic {table.topic} is not there yet; wait for topic_ready")
        for ended in writes:
            for partition, part in _by_partition(ended, len(table.lanes)):
                pieces = _pieces(part)
                first = 0 if len(pieces) == 1 else _RECOVERED_PIECES
                for number, (piece, size) in enumerate(pieces, start=first):
                    draft = _Draft()
                    _fill(draft, piece, number, size, values=table.values)
                    batch = _batch(name, self._observer, epoch, 0, 0, draft)
                    value = encode_update(replace(batch, recovered=True))
                    self._queue(table.lanes[partition], value, ())
        for lane in table.lanes:
            self._hand_over(lane)

    def recover_definition(self, name: str, epoch: int, ended: EndedDefinition) -> None:
        """Publish a table definition that an earlier epoch left; needs the table's topic.

        Raises:
            LookupError: the topic is not there yet.
        """
        table = self.table(name)
        if table.lanes is None:
            raise LookupError(f"topic {table.topic} is not there yet; wait for topic_ready")
        for lane in table.lanes:
            message = TableChange(
                VERSION,
                self._observer,
                epoch,
                0,
                ended.intent,
                name,
                ended.kind,
                ended.outcome,
                ended.received,
                ended.family,
            )
            self._queue(lane, encode_update(message), ())
            self._hand_over(lane)

    # -- from messages to acknowledgements

    def _hand_over(self, lane: _Lane) -> None:
        queue = lane.queue
        while queue and not lane.stopped and not lane.crowded:
            outgoing = queue[0]
            if lane.open and (lane.alone or outgoing.closing):
                return

            def done(
                failure: Failure | None, lane: _Lane = lane, outgoing: _Outgoing = outgoing
            ) -> None:
                self._known(lane, outgoing, failure)

            queue.popleft()
            lane.sent.append(outgoing)
            lane.open += 1
            if not self._producer.send(lane.topic, lane.partition, outgoing.value, done):
                lane.open -= 1
                lane.sent.pop()
                queue.appendleft(outgoing)
                lane.crowded = True
                self._later(_RETRY_SECONDS, lambda: self._retry(lane))

    def _retry(self, lane: _Lane) -> None:
        lane.crowded = False
        self._hand_over(lane)

    def _known(self, lane: _Lane, outgoing: _Outgoing, failure: Failure | None) -> None:
        lane.open -= 1
        if failure is None:
            outgoing.done = True
            self.undelivered -= 1
            for intent in outgoing.intents:
                self._close_part(intent)
            self.published += 1
        else:
            outgoing.failure = failure
            self.failures += 1
            # Everything that is under way fails with it, for one reason.
            if not lane.stopped:
                _log.warning(
                    "delivery failed; the partition is replayed in order",
                    topic=lane.topic,
                    partition=lane.partition,
                    epoch=self._epoch,
                    intents=list(outgoing.intents[:_NAMED]),
                    reason=failure.text,
                )
            lane.stopped = True
            if failure.kind is FailureKind.FATAL:
                self._producer.restart()
        sent = lane.sent
        while sent and sent[0].done:
            sent.popleft()
        if lane.stopped:
            if not lane.open and sent:
                self._prepare_replay(lane)
        elif lane.queue:
            self._hand_over(lane)

    def _prepare_replay(self, lane: _Lane) -> None:
        """Put what failed back in front; tell readers where order could not be kept."""
        replayed = [outgoing for outgoing in lane.sent if not outgoing.done]
        overtaken = len(replayed) != len(lane.sent)
        wait_for_topic = too_large = False
        repeats: list[_Outgoing] = []
        for outgoing in replayed:
            failure = outgoing.failure
            outgoing.failure = None
            wait_for_topic |= failure is not None and failure.kind is FailureKind.TOPIC
            if failure is not None and failure.kind is FailureKind.TOO_LARGE:
                too_large = True
                if lane.alone:
                    repeats += self._divided(lane, outgoing)
                    continue
            repeats.append(outgoing)
        if too_large and not lane.alone:
            # It may have been several that the client sent as one: then none of them is at fault.
            lane.alone = True
            _log.warning(
                "Kafka finds messages too large; raise max.message.bytes of the topic to 1 MB",
                topic=lane.topic,
            )
        lane.sent.clear()
        if overtaken:
            # A reader may take the repeats for duplicates, since newer watermarks came before them.
            # It has to know before the next mark; a sequence seen before is no loss to it.
            gap = Gap(
                VERSION,
                self._observer,
                self._epoch,
                decode_update(replayed[-1].value).sequence,
                lane.table,
                *_period(replayed),
                "messages were delivered out of order after a failure of Kafka",
            )
            repeats.append(_Outgoing(encode_update(gap), ()))
            self.undelivered += 1
        lane.queue.extendleft(reversed(repeats))
        if wait_for_topic:
            self._ensure(lane.table, lane.topic)
        self._later(_RETRY_SECONDS, lambda: self._resume(lane))

    def _resume(self, lane: _Lane) -> None:
        lane.stopped = False
        self._hand_over(lane)

    def _divided(self, lane: _Lane, outgoing: _Outgoing) -> list[_Outgoing]:
        """Return what is sent in the place of a message that is too large for the broker."""
        message = decode_update(outgoing.value)
        if not isinstance(message, UpdateBatch):
            return [outgoing]
        smaller = _smaller(message, lane.table)
        found = [
            _Outgoing(encode_update(each), [part.intent for part in parts])
            for each, parts in smaller
        ]
        # A recovered message settles nothing.
        if not outgoing.intents:
            for each in found:
                each.intents = ()
        self.undelivered += len(found) - 1
        for each in found:
            for intent in each.intents:
                self._open(intent)
        for intent in outgoing.intents:
            self._close_part(intent)
        return found


def _period(messages: Iterable[_Outgoing]) -> tuple[float, float]:
    """Return when the oldest and the newest request in the messages came; zeros without any."""
    times = [0.0]
    for outgoing in messages:
        message = decode_update(outgoing.value)
        if isinstance(message, UpdateBatch):
            times += [part.received for part in message.requests]
    return min(times[1:], default=0.0), max(times)


def _by_partition(ended: EndedWrite, partitions: int) -> list[tuple[int, EndedWrite]]:
    """Return the request's cells by partition, each in their order in the request."""
    rows = ended.rows
    if len(rows) == 1:
        return [(crc32(rows[0]) % partitions, ended)]
    numbers = [crc32(row) % partitions for row in rows]
    present = set(numbers)
    if len(present) == 1:
        return [(numbers[0], ended)]
    parts = []
    for partition in sorted(present):
        positions = [i for i, number in enumerate(numbers) if number == partition]
        parts.append((partition, _selected(ended, positions)))
    return parts


def _selected(ended: EndedWrite, positions: list[int]) -> EndedWrite:
    if len(positions) == 1:
        at = positions[0]
        return _sliced(ended, at, at + 1)
    pick = itemgetter(*positions)
    return EndedWrite(
        ended.intent,
        ended.method,
        ended.outcome,
        ended.received,
        ended.origin,
        bytes(pick(ended.kinds)),
        pick(ended.rows),
        pick(ended.columns),
        pick(ended.timestamps),
        pick(ended.values),
        ended.ambiguous,
    )


def _sliced(ended: EndedWrite, start: int, end: int) -> EndedWrite:
    return EndedWrite(
        ended.intent,
        ended.method,
        ended.outcome,
        ended.received,
        ended.origin,
        ended.kinds[start:end],
        ended.rows[start:end],
        ended.columns[start:end],
        ended.timestamps[start:end],
        ended.values[start:end],
        ended.ambiguous,
    )


def _size(ended: EndedWrite) -> int:
    """Return how much of a message the cells take, at most."""
    if len(ended.rows) == 1:
        value = ended.values[0]
        size = len(ended.rows[0]) + len(ended.columns[0]) + _CELL_BYTES
        return size if value is None else size + len(value)
    size = sum(map(len, ended.rows)) + sum(map(len, ended.columns))
    try:
        size += sum(map(len, ended.values))  # type: ignore[arg-type]
    except TypeError:
        size += sum(len(value) for value in ended.values if value is not None)
    return size + _CELL_BYTES * len(ended.rows)


def _pieces(ended: EndedWrite) -> list[tuple[EndedWrite, int]]:
    """Cut a request's cells of one partition so that each piece fits into a message.

    Only what the request itself holds counts: a value that came with the reply is not known after a
    crash, and must not move the cuts. Returned with each piece is its size in a message.
    """
    whole = _size(ended)
    if whole <= _PIECE_BYTES:
        return [(ended, whole)]
    pieces = []
    start = size = 0
    for at, row in enumerate(ended.rows):
        value = ended.values[at] if ended.kinds[at] == _PUT else None
        value_size = 0 if value is None or len(value) > _PIECE_BYTES else len(value)
        cell = len(row) + len(ended.columns[at]) + value_size + _CELL_BYTES
        if size + cell > _PIECE_BYTES and at > start:
            pieces.append(_sliced(ended, start, at))
            start, size = at, 0
        size += cell
    pieces.append(_sliced(ended, start, len(ended.rows)))
    return [(piece, _size(piece)) for piece in pieces]


def _fill(draft: _Draft, piece: EndedWrite, number: int, size: int, *, values: bool) -> None:
    unsure: tuple[int, ...] = ()
    kept: Sequence[bytes | None] = piece.values
    if piece.ambiguous:
        unsure = tuple(i for i, row in enumerate(piece.rows) if row in piece.ambiguous)
    if not values:
        kept = (None,) * len(piece.rows)
    elif size > _PIECE_BYTES:
        large = {i for i, value in enumerate(kept) if value and len(value) > _PIECE_BYTES}
        kept = [None if i in large else value for i, value in enumerate(kept)]
        unsure = tuple(sorted(large.union(unsure)))
    draft.requests.append(
        RequestPart(
            piece.intent,
            piece.method,
            piece.outcome,
            piece.received,
            len(piece.rows),
            number,
            piece.origin,
            unsure,
        )
    )
    draft.kinds += piece.kinds
    draft.rows += piece.rows
    draft.columns += piece.columns
    draft.timestamps += piece.timestamps
    draft.values += kept
    draft.size += size


def _batch(
    table: str, observer: str, epoch: int, sequence: int, watermark: int, draft: _Draft
) -> UpdateBatch:
    return UpdateBatch(
        VERSION,
        observer,
        epoch,
        sequence,
        watermark,
        table,
        tuple(draft.requests),
        bytes(draft.kinds),
        tuple(draft.rows),
        tuple(draft.columns),
        tuple(draft.timestamps),
        tuple(draft.values),
    )


def _smaller(
    batch: UpdateBatch, table: str
) -> list[tuple[UpdateBatch | Gap, tuple[RequestPart, ...]]]:
    """Return messages that say the same in less: halves; a cell without its value; a gap.

    Halves have the sequence of the whole, which readers take for no loss.
    """
    if len(batch.requests) > 1:
        middle = len(batch.requests) // 2
        cells = sum(part.cells for part in batch.requests[:middle])
        halves = (
            _cut(batch, batch.requests[:middle], 0, cells),
            _cut(batch, batch.requests[middle:], cells, len(batch.rows)),
        )
        return [(half, half.requests) for half in halves]
    (part,) = batch.requests
    if part.cells > 1:
        middle = part.cells // 2
        # As the nodes of a binary tree are numbered: no other piece has these numbers.
        first = 2 * (part.piece if part.piece >= _DIVIDED_PIECES else _DIVIDED_PIECES + part.piece)
        parts = (
            replace(
                part,
                cells=middle,
                piece=first,
                ambiguous=tuple(i for i in part.ambiguous if i < middle),
            ),
            replace(
                part,
                cells=part.cells - middle,
                piece=first + 1,
                ambiguous=tuple(i - middle for i in part.ambiguous if i >= middle),
            ),
        )
        return [
            (_cut(batch, (parts[0],), 0, middle), (parts[0],)),
            (_cut(batch, (parts[1],), middle, part.cells), (parts[1],)),
        ]
    if batch.values != (None,):
        part = replace(part, ambiguous=(0,))
        return [(replace(batch, values=(None,), requests=(part,)), (part,))]
    gap = Gap(
        VERSION,
        batch.observer,
        batch.epoch,
        batch.sequence,
        table,
        part.received,
        part.received,
        "a row and column are longer than the topic's max.message.bytes",
    )
    return [(gap, (part,))]


def _cut(
    batch: UpdateBatch, requests: tuple[RequestPart, ...], start: int, end: int
) -> UpdateBatch:
    return replace(
        batch,
        requests=requests,
        kinds=batch.kinds[start:end],
        rows=batch.rows[start:end],
        columns=batch.columns[start:end],
        timestamps=batch.timestamps[start:end],
        values=batch.values[start:end],
    )
