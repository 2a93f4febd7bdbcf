"""From ended requests to messages, in order, until Kafka has acknowledged them.

Everything of a table passes one ordered list of its own; from there its cells go to the lanes of
the topic's partitions, which are delivered in order.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from zlib import crc32

import structlog

from headgate.events import (
    MORE_PARTITIONS,
    Origin,
    Outcome,
    RequestPart,
    UpdateKind,
)
from headgate.observer.publishing.batches import (
    CELL_BYTES,
    MESSAGE_BYTES,
    PIECE_BYTES,
    Draft,
    fill_put,
    size_of,
)
from headgate.observer.publishing.deliveries import Lane, OrderedDelivery, Producer
from headgate.observer.publishing.ended import Ended, EndedWrite
from headgate.observer.publishing.packing import Item, Packer, Passed, PendingMark, Puts
from headgate.observer.publishing.recovered import RecoveredEvents
from headgate.observer.publishing.stuck import JournalUse, StuckTables
from headgate.observer.publishing.tables import KnownTables, Table
from headgate.observer.publishing.unpublished import Unpublished, UnpublishedWrites

_log = structlog.get_logger("headgate.observer.publishing.publisher")

_ONE_PUT: Final = bytes([UpdateKind.PUT])
_FIRST: Final = (0,)
_APPLIED: Final = Outcome.APPLIED


_MOST_UNLISTED: Final = 10_000
"""Tables that events are kept for while nobody knows which are watched: clients invent names."""

_DOUBTED: Final = "its first writes had no sure outcome, and it was not known to exist"
_DROPPED: Final = "nobody watched the table, and Kafka did not take its events"
_ITEM_BYTES: Final = 600
"""Memory of a write that waits for a topic, beside what its cells take of a message."""

_PART: Final = 1 << 13
"""Cells of which it takes some 15 ms, interpreted, to make messages."""


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
        settle: Callable[[Sequence[int]], None],
        unfinished: Callable[[str], int],
        ensure: Callable[[str, str], None],
        wanted: Callable[[str], bool],
        named: Callable[[str], bool],
        named_alone: Callable[[str], bool],
        later: Callable[[float, Callable[[], None]], object],
        linger_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        """Connect the publisher to its surroundings.

        ``settle(intents)`` is called once all of their messages are acknowledged;
        ``unfinished(table)`` returns the lowest intent of the table that has not been given to the
        publisher, or the next one to come; ``wanted(table)`` returns whether somebody may want the
        events of a table that was never prepared: where nobody does, they are dropped;
        ``named(table)`` whether somebody certainly does, so that its first event asks for a topic;
        ``named_alone(table)`` whether that is for its name alone, whether there is such a table or
        not.
        """
        self._observer = observer
        self._epoch = epoch
        self._deliveries = OrderedDelivery(
            observer=observer,
            epoch=epoch,
            producer=producer,
            settle=settle,
            ensure=ensure,
            later=later,
        )
        self._packer = Packer(observer, epoch, self._deliveries)
        self.part_cells = _PART
        """How many cells are made into messages before others have a turn."""
        self._unfinished = unfinished
        self._ensure = ensure
        self._wanted = wanted
        self._named = named
        self._named_alone = named_alone
        self._doubted = UnpublishedWrites()
        """Tables whose first writes had no sure outcome: they may not exist, and get no topic."""
        self.dropped = UnpublishedWrites()
        """Tables that nobody wanted while Kafka did not take their events."""
        self._stuck = StuckTables()
        self._later = later
        self._linger = linger_seconds
        self._clock = clock
        self.tables = KnownTables()
        """Tables that the publisher knows, with the state of each."""
        self._tables = self.tables.by_name
        self._due: dict[str, None] = {}
        """Tables with something to be packed; a dict keeps their order."""
        self._scheduled = False
        self._spread: dict[str, int] = {}
        """Topics that are not there yet: over how many partitions an earlier epoch wrote."""

    def begin_epoch(self, epoch: int) -> None:
        """Publish under another epoch; nothing was published under the one before."""
        self._epoch = epoch
        self._packer.begin_epoch(epoch)
        self._deliveries.begin_epoch(epoch)

    @property
    def undelivered(self) -> int:
        """Messages that Kafka has not acknowledged."""
        return self._deliveries.undelivered

    @property
    def published(self) -> int:
        """Messages that Kafka has acknowledged."""
        return self._deliveries.published

    @property
    def failures(self) -> int:
        """Deliveries that failed and were or will be repeated."""
        return self._deliveries.failures

    # -- what is to be published

    def table(self, name: str) -> Table:
        """Return the table's state, asking for its topic when it is new."""
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = Table(name)
        if not table.asked:
            table.asked = True
            dropped = self.dropped.take(name)
            if dropped is not None:
                table.items.append(self._gap_since(dropped))
            self._ensure(name, table.topic)
        return table

    def _unlisted(self, name: str) -> Table:
        """Return the table's state. Its name is a client's: no topic before somebody watches it."""
        table = self._tables.get(name)
        if table is not None and table.asked:
            return table
        if self._named(name):
            return self._begin_named(name) if table is None else self.table(name)
        if table is None:
            table = self._tables[name] = Table(name)
        return table

    def takes(self, name: str) -> bool:
        """Return whether events of a table are kept: it is known, or somebody may want them."""
        return name in self._tables or self._wanted(name)

    def has_room(self, name: str) -> bool:
        """Return whether events of a table can be kept: see ``why_full``."""
        known = name in self._tables or len(self._tables) < _MOST_UNLISTED
        return known and name not in self._stuck.full

    def why_full(self, name: str) -> str:
        """Return why events of a table cannot be kept, in words."""
        stuck = self._stuck.full.get(name)
        if stuck is not None:
            return (
                f"Kafka does not take the events of {stuck}; those that wait have used up the "
                "share of the journal that one table has"
            )
        return (
            "the control topic is lost, or a pattern of watch.tables is too wide, and too many "
            "tables are written to"
        )

    def prepare(self, name: str, *, values: bool) -> None:
        """Get ready for a table; ``values``: whether its cells' values are published."""
        table = self.table(name)
        table.values = values
        dropped = self.dropped.take(name, known=True)
        if dropped is not None:
            self._append(name, self._gap_since(dropped))

    def publish_values(self, wanted: Callable[[str], bool]) -> None:
        """Publish the values of those known tables from now on whose values are wanted."""
        for name, table in self._tables.items():
            table.values = wanted(name)

    def add(self, name: str, ended: Ended) -> None:
        """Publish what ended, after all that was added to the table before."""
        self._deliveries.open(ended.intent)
        nothing = isinstance(ended, EndedWrite) and not ended.rows
        if nothing or not self.takes(name) or self._doubts(name, ended):
            self._deliveries.close(ended.intent)
            return
        self._append(name, ended)

    def _doubts(self, name: str, ended: Ended) -> bool:
        """Return whether a table may not exist: a client may have invented a name that fits."""
        if name in self._tables or ended.outcome is _APPLIED or not self._named_alone(name):
            return False
        self.doubt(name, ended.received)
        return True

    def doubt(self, name: str, since: float) -> None:
        """Have the first sure write of a table that may not exist announce a gap from then on."""
        self._doubted.note(name, since, _DOUBTED, _MOST_UNLISTED)

    def doubt_others(self, since: float) -> None:
        """Do as ``doubt`` for all tables whose names are not known yet."""
        self._doubted.note_others(since, _DOUBTED)

    def _begin_named(self, name: str) -> Table:
        """Ask for the topic of a table that has been written to, and say what may be missing."""
        table = self.table(name)
        doubted = self._doubted.take(name)
        if doubted is not None:
            table.items.append(self._gap_since(doubted))
        return table

    def _gap_since(self, unpublished: Unpublished) -> Passed:
        since = unpublished.since
        return Passed(since, max(since, self._clock()), unpublished.reason)

    def add_put(
        self,
        name: str,
        intent: int,
        method: str,
        received: float,
        origin: Origin | None,
        row: bytes,
        column: bytes,
        timestamp: int,
        value: bytes,
        ambiguous: bool,  # noqa: FBT001 - compiled code is faster without keywords
    ) -> None:
        """Do as ``add`` for a put of one cell that was applied: most are, where there are many."""
        table = self._tables.get(name)
        if table is None:
            if not self._wanted(name):
                self._deliveries.open(intent)
                self._deliveries.close(intent)
                return
            table = self._unlisted(name)
        lanes = table.lanes
        size = len(row) + len(column) + len(value) + CELL_BYTES
        if lanes is None or size > PIECE_BYTES:
            rows = (row,)
            unsure = frozenset(rows) if ambiguous else frozenset[bytes]()
            columns = ((column,), (timestamp,), (value,))
            ended = EndedWrite(
                intent, method, _APPLIED, received, origin, _ONE_PUT, rows, *columns, unsure
            )
            self.add(name, ended)
            return
        partition = crc32(row) % len(lanes) if len(lanes) > 1 else 0
        puts = table.puts
        draft = puts.drafts.get(partition)
        if draft is None or draft.size + size > MESSAGE_BYTES:
            if draft is not None:
                self._end_puts(table)
                puts = table.puts
            draft = puts.drafts[partition] = Draft()
            self._flush_later(name)
        if puts.lowest < 0 or intent < puts.lowest:
            puts.lowest = intent
        part = RequestPart(
            intent, method, _APPLIED, received, 1, 0, origin, _FIRST if ambiguous else ()
        )
        fill_put(draft, part, row, column, timestamp, value if table.values else None, size)

    @staticmethod
    def _end_puts(table: Table) -> None:
        if table.puts.lowest >= 0:
            table.items.append(table.puts)
            table.puts = Puts()

    def mark(self, name: str, barrier: str) -> None:
        """Mark every partition of the table, after all that was added before."""
        self.table(name)
        self._append(name, PendingMark(barrier))

    def announce_gap(
        self, name: str, *, since: float, until: float, reason: str, token: int = 0
    ) -> None:
        """Mark in every partition that writes went by without events (Unix seconds).

        A ``token`` (see ``OrderedDelivery.new_token``) stays open until the marks are there.
        """
        table = self._unlisted(name)
        if token:
            self._deliveries.open(token)
            self._append(name, Passed(since, until, reason, token))
            return
        last = table.items[-1] if table.items else None
        if (
            isinstance(last, Passed)
            and not last.token
            and last.reason == reason
            and not table.puts.drafts
        ):
            last.since, last.until = min(since, last.since), max(until, last.until)
            return
        self._append(name, Passed(since, until, reason))

    def forget(self, name: str) -> None:
        """Drop what Kafka does not take of a table that nobody watches.

        Without a topic that is the whole table, else what waits in its partitions. When somebody
        watches the table again, a gap says what was dropped.
        """
        table = self._tables.get(name)
        if table is None:
            return
        if table.lanes is not None:
            times = [time for lane in table.lanes for time in self._deliveries.discard(lane)]
        else:
            del self._tables[name]
            times = [item.received for item in table.items if isinstance(item, Ended)]
            for item in table.items:
                if isinstance(item, Ended):
                    self._deliveries.close(item.intent)
                elif isinstance(item, Passed) and item.token:
                    self._deliveries.close(item.token)
        if table.asked and times:
            self.dropped.note(name, min(times), _DROPPED, _MOST_UNLISTED)
            _log.error("events are dropped", table=name, requests=len(times), reason=_DROPPED)

    def _append(self, name: str, item: Item) -> None:
        table = self._unlisted(name)
        self._end_puts(table)
        table.items.append(item)
        if table.lanes is None and isinstance(item, EndedWrite):
            table.waiting_bytes += size_of(item) + _ITEM_BYTES
        self._flush_later(name)

    def _flush_later(self, name: str) -> None:
        self._due[name] = None
        if not self._scheduled:
            self._scheduled = True
            self._later(self._linger, self._flush_in_time)

    def _flush_in_time(self) -> None:
        self._scheduled = False
        self.flush()

    @property
    def idle(self) -> bool:
        """Whether everything that was added is acknowledged."""
        return not self.undelivered and self.tables.are_packed

    @property
    def stuck(self) -> Mapping[str, str]:
        """Tables whose events Kafka does not take while it takes those of others, and why."""
        return self._stuck.stuck

    def look(self, journal: JournalUse) -> bool:
        """Look for tables that are stuck; return whether Kafka takes others' events meanwhile."""
        self._stuck.look(self.tables.waiting(), self.published, journal)
        return self._stuck.late

    def topic_refused(self, name: str, reason: str) -> None:
        """Say why the topic of a table is not there yet."""
        table = self._tables.get(name)
        if table is not None:
            table.refusal = reason

    def forget_unwanted(self) -> None:
        """Drop what is kept of tables that nobody wants, now that this is known.

        Of others that are watched for their name the topics are asked for.
        """
        stuck = self._stuck.stuck
        waiting = [
            each
            for each in self._tables.values()
            if not each.asked or each.lanes is None or each.name in stuck
        ]
        for table in waiting:
            if not self._wanted(table.name):
                self.forget(table.name)
            elif not table.asked and self._named(table.name):
                self.table(table.name)

    def is_ready(self, name: str) -> bool:
        """Return whether the topic of a table is there; asks for it when the table is new."""
        return self.table(name).lanes is not None

    def topic_ready(self, name: str, partitions: int) -> None:
        """Say how many partitions the topic of a table really has.

        Where it has more than it had, what was added until now goes where it would have gone, and a
        mark in every partition says that rows may be in others from there on.
        """
        table = self._tables.get(name)
        if table is None:
            return
        lanes = table.lanes if table.lanes is not None else []
        before = len(lanes) or self._spread.pop(table.topic, 0)
        if lanes and partitions > before:
            self._pack_all(table)
        lanes.extend(
            Lane(name, table.topic, number, table.sizes) for number in range(len(lanes), partitions)
        )
        table.refusal = ""
        table.waiting_bytes = 0
        table.lanes = lanes
        self._rows_move(table, before)

    def spread_before(self, partitions: Mapping[str, int]) -> None:
        """Say over how many partitions of each topic an earlier epoch spread its rows.

        Rows of topics that have more now lie in others from here on, which a mark says as well.
        """
        self._spread = dict(partitions)
        for table in self._tables.values():
            if table.lanes is not None:
                self._rows_move(table, self._spread.pop(table.topic, 0))

    def _rows_move(self, table: Table, before: int) -> None:
        """Publish what there is, behind a mark where rows were spread over fewer partitions."""
        if table.lanes is not None and 0 < before < len(table.lanes):
            table.items.append(PendingMark(MORE_PARTITIONS))
        self._due[table.name] = None
        self.flush()

    # -- from items to messages

    def flush(self) -> None:
        """Turn what was added into messages and hand them over.

        Of what is more than ``part_cells`` only so much, as if each cell were as dear as another;
        the rest when others have had a turn.
        """
        packer = self._packer
        packer.left = self.part_cells
        due = self._due
        while due and packer.left > 0:
            name = next(iter(due))
            del due[name]
            table = self._tables.get(name)
            # Without lanes, ``topic_ready`` comes back to it.
            if table is not None and table.lanes is not None and not self._pack(table):
                # Behind other tables.
                due[name] = None
        if due and not self._scheduled:
            self._scheduled = True
            self._later(0.0, self._flush_in_time)

    def _pack(self, table: Table) -> bool:
        """Go on with a table; return whether nothing of it is left."""
        packing = table.packing
        if packing is None:
            self._end_puts(table)
            lanes = table.lanes
            assert lanes is not None  # noqa: S101 - those who call have looked
            items, table.items = table.items, []
            # What ends later has no lower intent, however long this takes.
            floor = self._unfinished(table.name)
            packing = self._packer.pack(table.name, lanes, items, floor, values=table.values)
        for _ in packing:
            # It is in the middle.
            table.packing = packing
            return False
        table.packing = None
        return not table.items and not table.puts.drafts

    def _pack_all(self, table: Table) -> None:
        """Turn everything of a table into messages, now."""
        self._packer.left = sys.maxsize
        while not self._pack(table):
            pass

    # -- what earlier epochs left

    def recovering(self, epoch: int) -> RecoveredEvents:
        """Return what publishes events that an earlier epoch left, under its identity."""
        return RecoveredEvents(self._observer, epoch, self._deliveries, self.table)
