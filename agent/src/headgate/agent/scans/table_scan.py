"""Finding the writes to one table that went round the observers (observer mode).

The table is scanned in chunks for the cells that were written since the last scan. Before a chunk
is read a barrier passes, its low watermark: what observers forwarded earlier was published. After
it another passes, the high watermark: what the chunk may hold of writes that went through observers
was published too. Cells that the topic has between the two are left to it; of the others those are
published that have another version than in the topic. All of it comes back by the topic, and only
then is the scan's progress saved: after a restart what was published already is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import structlog
from msgspec import Struct

from headgate.agent.kafka.barriers import Barriers
from headgate.agent.kafka.broker import Broker as FlowBroker
from headgate.agent.kafka.feed import Deliver, Feed, FeedRecord
from headgate.agent.kafka.observers import ObserverTable
from headgate.agent.ports import Extent, Found, TimeRange
from headgate.agent.scans.found_cells import SCANNER, found_updates
from headgate.agent.scans.stream_window import PublishedVersions, StreamWindow
from headgate.client import Cell
from headgate.events import BarrierMark, Cut, TableChange, UpdateBatch, updates_topic

log = structlog.get_logger("headgate.agent.table-scan")

_CONFIRMATION = 30.0  # seconds after which what did not come back is published again
_MILLISECONDS = 1000


class ScanProgress(Struct, frozen=True):
    """Where the next scan goes on: with writes since a time, and the topic read from a cut on."""

    since: float
    """Unix seconds."""
    cut: Cut
    baseline: float = 0.0
    """What the table's clock dates before this (Unix seconds) was there before all scans."""

    def next(self, now: float, clock_skew: float) -> TimeRange:
        """Return how cells are dated that the next scan reads, if it begins now."""
        since = max(self.since - clock_skew, self.baseline)
        # What writers have dated in the future would be found by every scan.
        until = now + 2 * clock_skew + 1.0
        return TimeRange(int(since * _MILLISECONDS), int(until * _MILLISECONDS))


class Chunk(Struct, frozen=True):
    """Cells of some rows in order, and the row at which the next chunk starts, None at the end."""

    cells: Sequence[Cell]
    following: bytes | None


class ChunkReader(Protocol):
    """Reads a table in threads of its own and hands the result to ``done`` there."""

    def read_chunk(
        self,
        table: str,
        extent: Extent,
        start: bytes,
        written: TimeRange,
        rows: int,
        done: Callable[[Chunk], None],
    ) -> None:
        """Read the cells written in a time, of at most so many rows."""


class ScanBroker(FlowBroker, Protocol):
    """What a scan asks of Kafka."""

    def update(self, found: Found) -> None:
        """Publish what was found in the table's topic; does not wait."""


class ScanContext(Struct, frozen=True):
    """What a scan works with."""

    broker: ScanBroker
    reader: ChunkReader
    observers: ObserverTable
    requester: str
    rows: int
    """Of a chunk."""
    window: int
    """Rows, cells and stamped versions of the topic to remember at most."""
    clock_skew: float
    """Seconds by which clocks of region servers and agents may differ."""
    barrier_repeat: float
    wanted: Callable[[], Extent | None]
    """Returns what dataflows want scanned now; None where nobody wants anything."""
    save: Callable[[ScanProgress], None]
    post: Callable[[Callable[[float], None]], None]
    """Has a call made on the scan's thread, with the time."""
    deliver: Deliver
    on_scanned: Callable[[int, float], None]
    """Called after each scan: with the cells found, and the seconds that it took."""


class _Low(Struct, frozen=True):
    start: bytes


class _High(Struct, frozen=True):
    chunk: Chunk


class _Round(Struct):
    """One scan of the whole extent."""

    began: float
    written: TimeRange
    found: int = 0
    complete: bool = False
    """Whether all of it was read; it ends when what it found has come back by the topic."""


class TableScan:
    """The scans of one table by the agent that owns them; belongs to one thread and has no clock.

    Args:
        table: its name.
        epoch: of the ownership: part of the barriers' names.
        extent: what is scanned.
        progress: where the owner before came to; None where nobody has scanned yet.
        context: the ports.
    """

    def __init__(
        self,
        table: str,
        epoch: int,
        extent: Extent,
        progress: ScanProgress | None,
        context: ScanContext,
    ) -> None:
        self.table = table
        self.extent = extent
        self._progress = progress
        self._context = context
        self._topic = updates_topic(table)
        self._partitions = 0
        self._positions: list[int] = []
        self._window = StreamWindow(0.0, Cut(), context.window)
        self._between: PublishedVersions | None = None
        """What the topic has while a chunk is read."""
        self._round: _Round | None = None
        self._next = 0.0
        self._feed: Feed | None = None
        self._unconfirmed: dict[tuple[int, int, int], Found] = {}
        self._publish_again = 0.0
        self.outgrown = False
        """Whether the topic has more partitions than are read: then it has to begin anew."""
        self._barriers: Barriers[_Low | _High] = Barriers(
            context.broker,
            context.observers,
            requester=f"{context.requester}/scan/{table}",
            epoch=epoch,
            repeat=context.barrier_repeat,
            passed=self._passed,
        )

    def start(self, now: float) -> None:
        """Read the topic on from where the last scan stood, or from its end."""
        topics = self._context.broker.topics((self.table,))
        self._partitions = topics[self._topic]
        progress = self._progress
        cut = self._context.broker.ends(topics) if progress is None else progress.cut
        since = now if progress is None else progress.since
        self._positions = [cut.position(self._topic, part) for part in range(self._partitions)]
        began = since - 2 * self._context.clock_skew
        self._window = StreamWindow(began, cut, self._context.window)
        self._next = now
        self._feed = self._context.broker.feed(topics, cut, self._context.deliver)

    def use(self, extent: Extent, now: float) -> None:
        """Scan this extent from the next scan on."""
        self.extent = extent
        self._next = min(self._next, now + extent.every)

    def close(self) -> None:
        """Read no more; a scan under way is done again by whoever comes next."""
        if self._feed is not None:
            self._feed.close()

    def due(self) -> float:
        """Return the Unix time at which ``tick`` is next needed."""
        times = [self._next] if self._round is None else []
        times += self._barriers.due()
        if self._unconfirmed:
            times.append(self._publish_again)
        return min(times, default=float("inf"))

    def tick(self, now: float) -> None:
        """Do what is due."""
        self._barriers.tick(now)
        if self._round is None and now >= self._next:
            self._begin(now)
        if self._unconfirmed and now >= self._publish_again:
            log.warning("found updates published again", table=self.table)
            self._publish({id(one): one for one in self._unconfirmed.values()}.values(), now)

    def consume(self, records: Sequence[FeedRecord], now: float) -> None:
        """Take records of the table's topic, each partition in its order."""
        for record in records:
            message = record.message
            if record.partitions > self._partitions:
                self.outgrown = True
                return
            if isinstance(message, BarrierMark):
                if message.partitions > self._partitions:
                    self.outgrown = True
                    return
                self._barriers.mark(record.topic, record.partition, message)
                self._barriers.check(now)
            elif isinstance(message, UpdateBatch | TableChange) and message.table == self.table:
                self._window.take(message)
                if self._between is not None:
                    self._between.take(message)
                if isinstance(message, UpdateBatch) and message.observer == SCANNER:
                    for part in message.requests:
                        identity = (record.partition, part.intent, part.piece)
                        self._unconfirmed.pop(identity, None)
            if not record.lost:
                self._positions[record.partition] = record.offset + 1
            if self._window.crowded:
                self._window.divide(now, Cut({self._topic: tuple(self._positions)}))
                if self._window.narrow():
                    log.warning(
                        "more is written than a scan's window holds",
                        table=self.table,
                        consequence="what a scan finds of the oldest writes may count twice",
                        cure="scan more often, or raise scans.window of the agent",
                    )
        self._end_if_confirmed(now)

    # -- a round ---------------------------------------------------------------------------------

    def _begin(self, now: float) -> None:
        if self._progress is None:
            # Later than where reading began: what is dated from here on was published after it.
            self._progress = ScanProgress(now, self._window.cut, now)
            self._context.save(self._progress)
        skew, progress = self._context.clock_skew, self._progress
        self._round = _Round(now, progress.next(now, skew))
        self.extent = self._context.wanted() or self.extent
        self._window.forget(progress.since - 2 * skew)
        self._window.divide(now, Cut({self._topic: tuple(self._positions)}))
        self._ask(_Low(self.extent.start), now)

    def _ask(self, edge: _Low | _High, now: float) -> None:
        self._barriers.ask(edge, {self.table: self._partitions}, now)

    def _passed(self, edge: _Low | _High, _started: float, now: float) -> None:
        match edge:
            case _Low(start=start):
                self._read(start)
            case _High(chunk=chunk):
                self._sift(chunk, now)

    def _read(self, start: bytes) -> None:
        assert self._round is not None  # noqa: S101 - an edge belongs to one

        def done(chunk: Chunk) -> None:
            self._context.post(lambda now: self._ask(_High(chunk), now))

        self._between = PublishedVersions()
        self._context.reader.read_chunk(
            self.table, self.extent, start, self._round.written, self._context.rows, done
        )

    def _sift(self, chunk: Chunk, now: float) -> None:
        assert self._round is not None  # noqa: S101 - an edge belongs to one
        between, self._between = self._between or PublishedVersions(), None
        new = [
            cell
            for cell in chunk.cells
            if not between.touches(cell.row, cell.column)
            and not self._window.knows(cell.row, cell.column, cell.timestamp, cell.value)
        ]
        self._round.found += len(new)
        # Below the watermark nobody will find anything: not even an owner whose clock is behind.
        watermark = self._round.written.since - int(2 * self._context.clock_skew * _MILLISECONDS)
        found = found_updates(self.table, new, self._partitions, max(0, watermark))
        self._publish(found, now)
        if chunk.following is None:
            self._round.complete = True
            self._end_if_confirmed(now)
        else:
            # The high watermark of this chunk is the low one of the next.
            self._read(chunk.following)

    def _publish(self, found: Iterable[Found], now: float) -> None:
        for one in found:
            self._unconfirmed.update(dict.fromkeys(one.identities, one))
            self._context.broker.update(one)
        self._publish_again = now + _CONFIRMATION

    def _end_if_confirmed(self, now: float) -> None:
        ended, before = self._round, self._progress
        if ended is None or before is None or not ended.complete or self._unconfirmed:
            return
        self._round = None
        # What the next scan needs to know, from its own first millisecond on.
        self._window.forget(ended.began - 2 * self._context.clock_skew)
        self._progress = ScanProgress(ended.began, self._window.cut, before.baseline)
        self._context.save(self._progress)
        self._next = now + self.extent.every
        self._context.on_scanned(ended.found, now - ended.began)
