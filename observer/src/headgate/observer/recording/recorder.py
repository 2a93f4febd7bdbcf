"""Writes of watched tables: written down before they are forwarded, told when they have ended.

Decoding waits in a backlog, so that requests and replies go on first and many small writes are
decoded in one go, best right after a small request was forwarded, when HBase has the next move. A
large one is not the moment: its Thrift server needs the processor to read it. Beginnings and ends
stay in their order in the backlog, which is what tells overlaps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from headgate.events import Origin, Outcome
from headgate.hbase import (
    Definition,
    Dialect,
    Effect,
    Judgement,
    Method,
    Pattern,
    Request,
    Verdict,
    Write,
    decode_request,
    is_void,
    judge,
)
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.publishing.ended import EndedDefinition, EndedWrite
from headgate.observer.publishing.publisher import Publisher
from headgate.observer.recording.journal import Journal
from headgate.observer.recording.journal_errors import TablesFull
from headgate.observer.recording.overlaps import Flight, TableFlights
from headgate.observer.recording.segments import Intent
from headgate.wire import Limits, Message, MessageReader, ProtocolError

DIALECTS: Final = (Dialect.THRIFT1, Dialect.THRIFT2)
"""A dialect's number in the journal is its position here."""
_FIRST: Final = DIALECTS[0]
_NAMES: Final = tuple(dialect.value for dialect in DIALECTS)

_AFTERMATH_SECONDS: Final = 60.0
"""How long a write whose connection broke may still take effect: HBase's ``hbase.rpc.timeout``."""

_PATIENCE_SECONDS: Final = 0.001
"""How long a ripe backlog waits for a request to be forwarded."""

_MOST_TABLES: Final = 10_000
"""Tables from which on those without a write under way are forgotten."""

_NONE: Final[frozenset[bytes]] = frozenset()
_NO_FLIGHTS: Final[list[Flight]] = []
_OUTCOMES: Final = {Verdict.APPLIED: Outcome.APPLIED, Verdict.UNKNOWN: Outcome.UNKNOWN}


class Ticket:
    """A journalled request from before it is forwarded to its end."""

    __slots__ = (
        "cancelled",
        "cell",
        "decoded",
        "departed",
        "dialect",
        "flights",
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
        self.flights: list[Flight] = _NO_FLIGHTS
        """One for each table, once it has departed."""
        self.cell: tuple[bytes, bytes, bytes] | None = None
        """Row, column and value of what is known to be a put of one cell."""
        self.decoded: Write | Definition | None = None
        self.origin: Origin | None = None
        """Who wrote, where the request itself does not say."""
        self.reply: Message | None = None
        """HBase's, once it has ended; none came where its connection broke."""
        self.cancelled = False


# What waits in the backlog: a ticket for its beginning and again for its end, or a call to make.
_Step = Ticket | Callable[[], None]


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
        gather_seconds: float = 0.0,
    ) -> None:
        """Connect the recorder.

        ``clock`` is Unix time in seconds, ``soon`` runs a call after what there is to send was
        sent, ``later`` after so many seconds. Writes wait ``gather_seconds`` for others to be
        decoded and published with.
        """
        self._journal = journal
        self._publisher = publisher
        self._metrics = metrics
        self._clock = clock
        self._soon = soon
        self._at = later
        self._gather = gather_seconds
        self._flights: dict[str, TableFlights] = {}
        self._backlog: list[_Step] = []
        self._gathering = False
        self.ripe = False
        """Whether the backlog has gathered for long enough.

        Whoever forwards a small request may call ``work`` then: while HBase does that request, no
        client waits for what is done here. If nobody does, it is done a moment later.
        """
        self._due = False
        self._uncounted: Ticket | None = None
        """The last of some puts alike that were done and are not counted yet."""
        self._puts = 0
        """How many they are."""

    def lowest_unfinished(self, table: str) -> int:
        """Return the lowest intent of the table that was not given to the publisher."""
        flights = self._flights.get(table)
        lowest = flights.lowest() if flights is not None else None
        if lowest is not None:
            return lowest
        # What waits there came after all that is under way otherwise.
        for step in self._backlog:
            if isinstance(step, Ticket) and not step.departed and table in step.tables:
                return step.intent
        return self._journal.next_intent

    def begin(
        self,
        dialect: Dialect,
        request: Request,
        tables: tuple[str, ...],
    ) -> Ticket:
        """Write a request down that is about to be forwarded; ``tables`` are those watched.

        Raises:
            JournalFull: there is no room.
            JournalError: the journal's disk refused.
        """
        message = request.message
        ticket = self._journalled(dialect, message.raw, message, tables, None)
        ticket.decoded = request.change
        return ticket

    def begin_alike(self, pattern: Pattern, raw: bytes, dialect: Dialect) -> Ticket:
        """Do as ``begin`` for a request that is known to be of the kind."""
        return self._journalled(dialect, raw, None, pattern.tables, pattern)

    def _journalled(
        self,
        dialect: Dialect,
        raw: bytes,
        message: Message | None,
        tables: tuple[str, ...],
        pattern: Pattern | None,
    ) -> Ticket:
        for table in tables:
            if not self._publisher.has_room(table):
                raise TablesFull(
                    "the control topic is lost, or a pattern of watch.tables is too wide, and too "
                    "many tables are written to"
                )
        received = self._clock()
        number = _number(dialect)
        intent = self._journal.append(
            raw, tables[0], listener=number, dialect=number, received=received
        )
        ticket = Ticket(intent, dialect, raw, message, tables, received, pattern)
        self._backlog.append(ticket)
        self._work_later()
        return ticket

    def _flights_of(self, table: str) -> TableFlights:
        flights = self._flights.get(table)
        if flights is None:
            if len(self._flights) >= _MOST_TABLES:
                self._flights = {name: each for name, each in self._flights.items() if len(each)}
            flights = self._flights[table] = TableFlights()
        return flights

    def end(self, ticket: Ticket, reply: Message | None) -> None:
        """Take the reply of a request that was forwarded; None: its connection broke."""
        ticket.reply = reply
        self._backlog.append(ticket)
        self._work_later()

    def cancel(self, ticket: Ticket) -> None:
        """Take back a request that was not forwarded after all."""
        ticket.cancelled = True
        self._backlog.append(ticket)
        self._work_later()

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
        self.ripe = True
        self._at(_PATIENCE_SECONDS, self._work_if_ripe)

    def _work_if_ripe(self) -> None:
        if self.ripe:
            self.work()

    def _work_soon(self) -> None:
        if not self._due:
            self._due = True
            self._soon(self.work)

    def work(self) -> None:
        """Do what waits in the backlog."""
        if self.ripe:
            self.ripe = self._gathering = False
        self._due = False
        backlog, self._backlog = self._backlog, []
        for step in backlog:
            if not isinstance(step, Ticket):
                step()
            elif not step.departed:
                self._decode(step)
            elif step.cancelled:
                self._cancel(step)
            else:
                self._end(step, step.reply)
        self._count_puts()

    def _decode(self, ticket: Ticket) -> None:
        ticket.departed = True
        flights: list[Flight] = []
        for table in ticket.tables:
            flight = Flight(ticket.intent)
            self._flights_of(table).depart(flight)
            flights.append(flight)
        ticket.flights = flights
        pattern = ticket.pattern
        if pattern is not None:
            cell = pattern.cell(ticket.raw)
            if cell is not None:
                ticket.cell = cell
                self._flights[ticket.tables[0]].identify_row(flights[0], cell[0])
                return
        decoded = ticket.decoded
        if decoded is None:
            # A kind of put whose column has no qualifier this time.
            assert pattern is not None  # noqa: S101 - what has none was read when it came
            message = ticket.message = pattern.message(ticket.raw)
            decoded = ticket.decoded = decode_request(ticket.dialect, message)
        for part in _parts(decoded):
            for at, table in enumerate(ticket.tables):
                if table == part.table:
                    rows = part.cells.rows if isinstance(part, Write) else ()
                    self._flights[table].identify(flights[at], rows)

    def _land(self, ticket: Ticket) -> None:
        for at, table in enumerate(ticket.tables):
            self._flights[table].land(ticket.flights[at])

    def _cancel(self, ticket: Ticket) -> None:
        self._land(ticket)
        self._journal.settle(ticket.intent)

    def _end(self, ticket: Ticket, reply: Message | None) -> None:
        if reply is None:
            # HBase may still do it: until then later writes of its rows overlap with it.
            self._at(_AFTERMATH_SECONDS, lambda: self._land(ticket))
        else:
            self._land(ticket)
        cell = ticket.cell
        if cell is not None:
            pattern = ticket.pattern
            assert pattern is not None  # noqa: S101 - the cell was found by it
            if reply is not None and is_void(reply):
                self._publish_put(ticket, pattern, cell)
                return
            ticket.decoded = pattern.put(ticket.raw)
        decoded = ticket.decoded
        assert decoded is not None  # noqa: S101 - it was read before it was forwarded
        judgement = judge(ticket.dialect, decoded, reply)
        self._count(ticket, judgement.verdict.value)
        if judgement.verdict is Verdict.NOTHING:
            self._journal.settle(ticket.intent)
            return
        self._publish(ticket, decoded, judgement)

    def _publish_put(
        self, ticket: Ticket, pattern: Pattern, cell: tuple[bytes, bytes, bytes]
    ) -> None:
        """Publish a put of one cell of which HBase says that it was done."""
        uncounted = self._uncounted
        if uncounted is not None and uncounted.pattern is not pattern:
            self._count_puts()
        self._uncounted = ticket
        self._puts += 1
        row, column, value = cell
        self._publisher.add_put(
            ticket.tables[0],
            ticket.intent,
            pattern.name,
            ticket.received,
            ticket.origin,
            row,
            column,
            pattern.timestamp,
            value,
            bool(ticket.flights[0].ambiguous),
        )

    def _count_puts(self) -> None:
        uncounted = self._uncounted
        if uncounted is not None:
            self._count(uncounted, "applied", self._puts)
            self._uncounted = None
            self._puts = 0

    def _count(self, ticket: Ticket, outcome: str, count: int = 1) -> None:
        metrics = self._metrics
        name = _NAMES[_number(ticket.dialect)]
        metrics.count_request(name, _name(ticket), outcome, count)
        metrics.events[outcome] = metrics.events.get(outcome, 0) + count

    def _publish(self, ticket: Ticket, decoded: Write | Definition, judgement: Judgement) -> None:
        outcome = _OUTCOMES[judgement.verdict]
        if isinstance(decoded, Definition):
            ended = EndedDefinition(
                ticket.intent, decoded.kind, outcome, ticket.received, decoded.family
            )
            self._publisher.add(ticket.tables[0], ended)
            return
        if len(ticket.tables) == 1 and not decoded.others:
            write = _ended_write(
                ticket.intent, ticket.received, decoded, decoded, judgement, ticket.origin
            )
            if not write.rows:
                self._journal.settle(ticket.intent)
                return
            ambiguous = ticket.flights[0].ambiguous
            if ambiguous:
                write.ambiguous = ambiguous.union(write.ambiguous)
            self._publisher.add(ticket.tables[0], write)
            return
        writes = ended_writes(ticket.intent, ticket.received, decoded, judgement, ticket.origin)
        published = False
        flights = dict(zip(ticket.tables, ticket.flights, strict=True))
        for table, write in writes:
            flight = flights.get(table)
            if flight is None or not write.rows or not self._publisher.takes(table):
                continue
            if flight.ambiguous:
                write.ambiguous = flight.ambiguous.union(write.ambiguous)
            self._publisher.add(table, write)
            published = True
        if not published:
            self._journal.settle(ticket.intent)


def _number(dialect: Dialect) -> int:
    """Return its position in ``DIALECTS``, without a call into the interpreter."""
    return 0 if dialect is _FIRST else 1


def _name(ticket: Ticket) -> str:
    """Return the request's method."""
    if ticket.pattern is not None:
        return ticket.pattern.name
    return ticket.message.name if ticket.message is not None else ""


def _parts(decoded: Write | Definition) -> tuple[Write | Definition, ...]:
    return (decoded, *decoded.others) if isinstance(decoded, Write) else (decoded,)


def ended_writes(
    intent: int,
    received: float,
    decoded: Write,
    judgement: Judgement,
    origin: Origin | None = None,
) -> list[tuple[str, EndedWrite]]:
    """Return what is to be published of a write, by table; the reply's values are in it.

    ``origin`` is who wrote, where the request itself does not say.
    """
    return [
        (part.table, _ended_write(intent, received, decoded, part, judgement, origin))
        for part in (decoded, *decoded.others)
    ]


def _ended_write(
    intent: int,
    received: float,
    decoded: Write,
    part: Write,
    judgement: Judgement,
    origin: Origin | None,
) -> EndedWrite:
    columns = judgement.cells if part is decoded else part.cells
    rows = columns.rows
    return EndedWrite(
        intent,
        decoded.method,
        _OUTCOMES[judgement.verdict],
        received,
        decoded.writer(origin),
        columns.kinds,
        rows,
        columns.columns,
        columns.timestamps,
        columns.values,
        frozenset(rows[i] for i in part.ambiguous) if part.ambiguous else _NONE,
    )


class Unreadable(Struct, frozen=True):
    """A journalled request that cannot be decoded: only its table and time are known."""

    intent: int
    table: str
    received: float
    reason: str


def recovered(intent: Intent) -> list[tuple[str, EndedWrite | EndedDefinition]] | Unreadable:
    """Return what a journalled request may have done, by table, with outcome unknown.

    What can have done nothing, whatever HBase made of it, is left out.
    """
    reader = MessageReader(Limits(max_frame=1 << 31, max_string=1 << 31, max_container=1 << 31))
    dialect = DIALECTS[intent.dialect]
    try:
        reader.feed(intent.request)
        message = reader.next_message()
        if message is None:
            return Unreadable(intent.number, intent.table, intent.received, "it is incomplete")
        decoded = decode_request(dialect, message)
    except (ProtocolError, ValueError) as error:
        return Unreadable(intent.number, intent.table, intent.received, str(error))
    judgement = judge(dialect, decoded, None)
    if isinstance(decoded, Definition):
        ended = EndedDefinition(
            intent.number, decoded.kind, Outcome.UNKNOWN, intent.received, decoded.family
        )
        return [(decoded.table, ended)]
    if judgement.verdict is Verdict.NOTHING:
        return []
    writes = ended_writes(intent.number, intent.received, decoded, judgement)
    return [(table, write) for table, write in writes if write.rows]


def changes_cells(method: Method) -> bool:
    """Tell whether a method may change what a table holds."""
    return method.effect is Effect.WRITE or method.effect is Effect.DEFINE
