"""Writes of watched tables: journalled before they are forwarded, published once they ended.

Decoding waits in a backlog, so that requests and replies go on first and many small writes are
decoded in one go, best right after a small request was forwarded, when HBase has the next move. A
large one is not the moment: its Thrift server needs the processor to read it. Beginnings and ends
stay in their order in the backlog, which is what shows overlaps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from functools import partial
from typing import Final

from headgate.events import Origin
from headgate.hbase import (
    Dialect,
    Effect,
    Judgement,
    Method,
    Pattern,
    Request,
    SchemaChange,
    Verdict,
    Write,
    decode_request,
    is_void,
    judge,
)
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.publishing.ended import EndedSchemaChange
from headgate.observer.publishing.publisher import Publisher
from headgate.observer.recording.ended_writes import OUTCOMES, ended_write, ended_writes
from headgate.observer.recording.in_flight import InFlightWrite, InFlightWrites
from headgate.observer.recording.journal import Journal
from headgate.observer.recording.journal_errors import TableFull
from headgate.observer.recording.recent_deletes import Deletion, RecentDeletes
from headgate.wire import Message

DIALECTS: Final = (Dialect.THRIFT1, Dialect.THRIFT2)
"""A dialect's number in the journal is its position here."""
_FIRST: Final = DIALECTS[0]
_NAMES: Final = tuple(dialect.value for dialect in DIALECTS)

_AFTERMATH_SECONDS: Final = 60.0
"""How long a write whose connection broke may still take effect: HBase's ``hbase.rpc.timeout``."""

_PATIENCE_SECONDS: Final = 0.001
"""How long a backlog that is due waits for a request to be forwarded."""

_FORGET_SECONDS: Final = 1.0
"""How long rows of the last deletes before a pause are kept in memory."""

_MOST_TABLES: Final = 10_000
"""Tables from which on those without a write under way are forgotten."""

_NO_FLIGHTS: Final[list[InFlightWrite]] = []


class JournalledRequest:
    """A journalled request from before it is forwarded to its end."""

    __slots__ = (
        "cancelled",
        "cell",
        "decoded",
        "deletion",
        "departed",
        "dialect",
        "hidden",
        "in_flight",
        "intent",
        "message",
        "origin",
        "pattern",
        "raw",
        "received",
        "reply",
        "tables",
    )

    def __init__(
        self,
        intent: int,
        dialect: Dialect,
        raw: bytes,
        message: Message | None,
        tables: tuple[str, ...],
        received: float,
        pattern: Pattern | None = None,
    ) -> None:
        self.intent = intent
        self.dialect = dialect
        self.raw = raw
        self.message = message
        """None where the pattern says it all."""
        self.pattern = pattern
        self.tables = tables
        self.received = received
        self.departed = False
        """Whether its beginning has left the backlog."""
        self.in_flight: list[InFlightWrite] = _NO_FLIGHTS
        """One for each table, once it has departed."""
        self.cell: tuple[bytes, bytes, bytes] | None = None
        """Row, column and value of what is known to be a put of one cell."""
        self.decoded: Write | SchemaChange | None = None
        self.deletion: Deletion | None = None
        """Rows that the request deletes from; None if it deletes nothing."""
        self.hidden: list[tuple[str, Set[bytes]]] | None = None
        """Rows of each table in which a delete just before may hide what the request puts."""
        self.origin: Origin | None = None
        """Who wrote, where the request itself does not say."""
        self.reply: Message | None = None
        """HBase's, once it has ended; none came where its connection broke."""
        self.cancelled = False


# What waits in the backlog: a journalled request, for its beginning and its end, or a call.
_Step = JournalledRequest | Callable[[], None]


class Recorder:
    """Follows watched writes from the journal to the publisher."""

    def __init__(
        self,
        *,
        journal: Journal,
        publisher: Publisher,
        metrics: Metrics,
        clock: Callable[[], float],
        soon: Callable[[Callable[[], None]], object],
        later: Callable[[float, Callable[[], None]], object],
        passing: Callable[[], float] = time.perf_counter,
        gather_seconds: float = 0.0,
    ) -> None:
        """Connect the recorder.

        ``clock`` is Unix time in seconds, ``passing`` a monotonic clock. ``soon`` runs a call after
        what there is to send was sent, ``later`` after so many seconds. Writes wait
        ``gather_seconds`` for others to be decoded and published with.
        """
        self._journal = journal
        self._publisher = publisher
        self._metrics = metrics
        self._clock = clock
        self._soon = soon
        self._at = later
        self._gather = gather_seconds
        self._in_flight: dict[str, InFlightWrites] = {}
        self.deletes = RecentDeletes(passing)
        """Those that may hide writes which are forwarded now."""
        self._forgetting = False
        """True while a call that forgets old deletes is scheduled."""
        self._backlog: list[_Step] = []
        self._gathering = False
        self.backlog_due = False
        """Whether the backlog has gathered for ``gather_seconds``.

        Whoever forwards a small request may call ``work`` then: while HBase does that request, no
        client waits for what is done here. If nobody does, it is done a moment later.
        """
        self._scheduled = False
        self._uncounted: JournalledRequest | None = None
        """The last of some puts alike that were done and are not counted yet."""
        self._puts = 0
        """How many they are."""

    def lowest_unfinished(self, table: str) -> int:
        """Return the lowest intent of the table that was not given to the publisher."""
        in_flight = self._in_flight.get(table)
        lowest = in_flight.lowest() if in_flight is not None else None
        if lowest is not None:
            return lowest
        # What waits there came after all that is under way otherwise.
        for step in self._backlog:
            if isinstance(step, JournalledRequest) and not step.departed and table in step.tables:
                return step.intent
        return self._journal.next_intent

    def begin(
        self,
        dialect: Dialect,
        request: Request,
        tables: tuple[str, ...],
    ) -> JournalledRequest:
        """Write a request down that is about to be forwarded; ``tables`` are those watched.

        Raises:
            JournalFull: there is no room.
            JournalError: the journal's disk refused.
        """
        message = request.message
        journalled = self._journalled(dialect, message.raw, message, tables, None)
        change = journalled.decoded = request.change
        if isinstance(change, Write):
            self._meet_deletes(journalled, change)
        return journalled

    def _meet_deletes(self, journalled: JournalledRequest, write: Write) -> None:
        """Note which of its rows a delete may hide, and what it deletes itself."""
        deletes = self.deletes
        if deletes.present:
            for part in (write, *write.others):
                hidden = deletes.hiding(part)
                if hidden:
                    known = journalled.hidden = journalled.hidden or []
                    known.append((part.table, hidden))
        journalled.deletion = deletes.begin(write)

    def begin_alike(self, pattern: Pattern, raw: bytes, dialect: Dialect) -> JournalledRequest:
        """Do as ``begin`` for a request that is known to be of the kind."""
        journalled = self._journalled(dialect, raw, None, pattern.tables, pattern)
        if self.deletes.present:
            # Nearly always there is none: then the row need not be known yet.
            write = pattern.put(raw)
            if write is not None:
                self._meet_deletes(journalled, write)
        return journalled

    def _journalled(
        self,
        dialect: Dialect,
        raw: bytes,
        message: Message | None,
        tables: tuple[str, ...],
        pattern: Pattern | None,
    ) -> JournalledRequest:
        for table in tables:
            if not self._publisher.has_room(table):
                raise TableFull(self._publisher.why_full(table))
        received = self._clock()
        number = _number(dialect)
        intent = self._journal.append(
            raw, tables[0], listener=number, dialect=number, received=received
        )
        journalled = JournalledRequest(intent, dialect, raw, message, tables, received, pattern)
        self._backlog.append(journalled)
        if not self._gathering:
            self._work_later()
        return journalled

    def _flights_of(self, table: str) -> InFlightWrites:
        in_flight = self._in_flight.get(table)
        if in_flight is None:
            if len(self._in_flight) >= _MOST_TABLES:
                self._in_flight = {
                    name: each for name, each in self._in_flight.items() if len(each)
                }
            in_flight = self._in_flight[table] = InFlightWrites()
        return in_flight

    def end(self, journalled: JournalledRequest, reply: Message | None) -> None:
        """Take the reply of a request that was forwarded; None: its connection broke."""
        deletion = journalled.deletion
        if deletion is not None:
            self.deletes.answered(deletion)
            if not self._forgetting:
                self._forgetting = True
                self._at(_FORGET_SECONDS, self._forget_deletes)
        journalled.reply = reply
        self._backlog.append(journalled)
        if not self._gathering:
            self._work_later()

    def cancel(self, journalled: JournalledRequest) -> None:
        """Take back a request that was not forwarded after all."""
        if journalled.deletion is not None:
            self.deletes.cancel(journalled.deletion)
        journalled.cancelled = True
        self._backlog.append(journalled)
        self._work_later()

    def _forget_deletes(self) -> None:
        self._forgetting = False
        self.deletes.forget_old()

    def after(self, call: Callable[[], None]) -> None:
        """Run a call after all ends that were reported so far."""
        self._backlog.append(call)
        self._work_soon()

    def _work_later(self) -> None:
        if not self._gather:
            self._work_soon()
        elif not self._gathering:
            self._gathering = True
            self._at(self._gather, self._gathered)

    def _gathered(self) -> None:
        self.backlog_due = True
        self._at(_PATIENCE_SECONDS, self._work_if_due)

    def _work_if_due(self) -> None:
        if self.backlog_due:
            self.work()

    def _work_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._soon(self.work)

    def work(self) -> None:
        """Do what waits in the backlog."""
        if self.backlog_due:
            self.backlog_due = self._gathering = False
        self._scheduled = False
        backlog, self._backlog = self._backlog, []
        for step in backlog:
            if not isinstance(step, JournalledRequest):
                step()
            elif not step.departed:
                self._decode(step)
            elif step.cancelled:
                self._cancel(step)
            else:
                self._end(step, step.reply)
        self._count_puts()

    def _decode(self, journalled: JournalledRequest) -> None:
        journalled.departed = True
        in_flight: list[InFlightWrite] = []
        for table in journalled.tables:
            in_flight_write = InFlightWrite(journalled.intent)
            self._flights_of(table).begin(in_flight_write)
            in_flight.append(in_flight_write)
        journalled.in_flight = in_flight
        if journalled.hidden is not None:
            for table, rows in journalled.hidden:
                if table in journalled.tables:
                    in_flight[journalled.tables.index(table)].overlap(rows)
        pattern = journalled.pattern
        if pattern is not None:
            cell = pattern.cell(journalled.raw)
            if cell is not None:
                journalled.cell = cell
                self._in_flight[journalled.tables[0]].identify_row(in_flight[0], cell[0])
                return
        decoded = journalled.decoded
        if decoded is None:
            # A kind of put whose column has no qualifier this time.
            assert pattern is not None  # noqa: S101 - what has none was read when it came
            message = journalled.message = pattern.message(journalled.raw)
            decoded = journalled.decoded = decode_request(journalled.dialect, message)
        for part in _parts(decoded):
            for at, table in enumerate(journalled.tables):
                if table != part.table:
                    continue
                if isinstance(part, Write):
                    self._in_flight[table].identify(in_flight[at], part.cells.rows)
                else:
                    self._in_flight[table].identify_table(in_flight[at])

    def _land(self, journalled: JournalledRequest) -> None:
        for at, table in enumerate(journalled.tables):
            self._in_flight[table].end(journalled.in_flight[at])

    def _linger(self, journalled: JournalledRequest) -> None:
        """Have later writes of its rows overlap with it for a while; keep no more of it for that.

        A client may have sent many large ones.
        """
        for at, table in enumerate(journalled.tables):
            in_flight = self._in_flight[table]
            lingering = in_flight.linger(journalled.in_flight[at])
            self._at(_AFTERMATH_SECONDS, partial(in_flight.settle, lingering))

    def _cancel(self, journalled: JournalledRequest) -> None:
        self._land(journalled)
        self._journal.settle(journalled.intent)

    def _end(self, journalled: JournalledRequest, reply: Message | None) -> None:
        if reply is None:
            # HBase may still do it: until then later writes of its rows overlap with it.
            self._linger(journalled)
        else:
            self._land(journalled)
        cell = journalled.cell
        if cell is not None:
            pattern = journalled.pattern
            assert pattern is not None  # noqa: S101 - the cell was found by it
            if reply is not None and is_void(reply):
                self._publish_put(journalled, pattern, cell)
                return
            journalled.decoded = pattern.put(journalled.raw)
        decoded = journalled.decoded
        assert decoded is not None  # noqa: S101 - it was read before it was forwarded
        judgement = judge(journalled.dialect, decoded, reply)
        self._count(journalled, judgement.verdict.value)
        if judgement.verdict is Verdict.NOTHING:
            self._journal.settle(journalled.intent)
            return
        self._publish(journalled, decoded, judgement)

    def _publish_put(
        self, journalled: JournalledRequest, pattern: Pattern, cell: tuple[bytes, bytes, bytes]
    ) -> None:
        """Publish a put of one cell of which HBase says that it was done."""
        uncounted = self._uncounted
        if uncounted is not None and uncounted.pattern is not pattern:
            self._count_puts()
        self._uncounted = journalled
        self._puts += 1
        row, column, value = cell
        self._publisher.add_put(
            journalled.tables[0],
            journalled.intent,
            pattern.name,
            journalled.received,
            journalled.origin,
            row,
            column,
            pattern.timestamp,
            value,
            bool(journalled.in_flight[0].ambiguous),
        )

    def _count_puts(self) -> None:
        uncounted = self._uncounted
        if uncounted is not None:
            self._count(uncounted, "applied", self._puts)
            self._uncounted = None
            self._puts = 0

    def _count(self, journalled: JournalledRequest, outcome: str, count: int = 1) -> None:
        metrics = self._metrics
        name = _NAMES[_number(journalled.dialect)]
        metrics.count_request(name, _name(journalled), outcome, count)
        metrics.events[outcome] = metrics.events.get(outcome, 0) + count

    def _publish(
        self, journalled: JournalledRequest, decoded: Write | SchemaChange, judgement: Judgement
    ) -> None:
        outcome = OUTCOMES[judgement.verdict]
        if isinstance(decoded, SchemaChange):
            ended = EndedSchemaChange(
                journalled.intent, decoded.kind, outcome, journalled.received, decoded.family
            )
            self._publisher.add(journalled.tables[0], ended)
            return
        if len(journalled.tables) == 1 and not decoded.others:
            write = ended_write(
                journalled.intent,
                journalled.received,
                decoded,
                decoded,
                judgement,
                journalled.origin,
            )
            if not write.rows:
                self._journal.settle(journalled.intent)
                return
            ambiguous = journalled.in_flight[0].ambiguous
            if ambiguous:
                write.ambiguous = ambiguous.union(write.ambiguous)
            self._publisher.add(journalled.tables[0], write)
            return
        writes = ended_writes(
            journalled.intent, journalled.received, decoded, judgement, journalled.origin
        )
        published = False
        in_flight = dict(zip(journalled.tables, journalled.in_flight, strict=True))
        for table, write in writes:
            in_flight_write = in_flight.get(table)
            if in_flight_write is None or not write.rows or not self._publisher.takes(table):
                continue
            if in_flight_write.ambiguous:
                write.ambiguous = in_flight_write.ambiguous.union(write.ambiguous)
            self._publisher.add(table, write)
            published = True
        if not published:
            self._journal.settle(journalled.intent)


def _number(dialect: Dialect) -> int:
    """Return its position in ``DIALECTS``, without a call into the interpreter."""
    return 0 if dialect is _FIRST else 1


def _name(journalled: JournalledRequest) -> str:
    """Return the request's method."""
    if journalled.pattern is not None:
        return journalled.pattern.name
    return journalled.message.name if journalled.message is not None else ""


def _parts(decoded: Write | SchemaChange) -> tuple[Write | SchemaChange, ...]:
    return (decoded, *decoded.others) if isinstance(decoded, Write) else (decoded,)


def changes_cells(method: Method) -> bool:
    """Return whether a method may change what a table holds."""
    return method.effect is Effect.WRITE or method.effect is Effect.DEFINE
