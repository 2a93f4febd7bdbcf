"""A request that was forwarded, or is answered in HBase's place, until its reply is through."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from time import perf_counter
from typing import Final, final

from headgate.hbase import Dialect, Method, Pattern, method_of
from headgate.observer.monitoring.metrics import Sample
from headgate.observer.recording.recorder import JournalledRequest, Recorder, changes_cells
from headgate.observer.sessions.reply_states import WAITING, ExchangeState
from headgate.observer.upstreams.asking import PING
from headgate.wire import Message, MessageType, Protocol, write_header

_clock: Final = perf_counter
_NAMED: Final = 100  # requests that one line of the log may name
_MOST_TABLES: Final = 64  # tables that one connection remembers by their names
_EVERY_TABLE: Final = ""  # the name of none


class Exchange:
    """A request and the reply that is due for it."""

    __slots__ = (
        "forwarded",
        "has_notify_cells",
        "hidden",
        "journalled",
        "local",
        "method",
        "number",
        "pattern",
        "sample",
        "state",
        "tables",
        "waiters",
    )

    def __init__(
        self,
        method: Method,
        tables: tuple[str, ...],
        journalled: JournalledRequest | None,
        pattern: Pattern | None = None,
    ) -> None:
        self.method = method
        self.pattern = pattern
        """The request's kind; None where it is not a known one."""
        self.tables = tables
        self.number: bytes | None = None
        """The client's sequence number, as in strict binary; None where it was not looked at."""
        self.journalled = journalled
        """The journalled request; None where no event is published."""
        self.state: ExchangeState = WAITING
        self.forwarded = 0.0
        """Time of forwarding in seconds; up to 0.1 s too early where the times are not observed."""
        self.sample: Sample | None = None
        """Where the exchange's times are observed; None where they are not."""
        self.local: bytes | None = None
        """The observer's own reply in HBase's place; None where HBase replies."""
        self.waiters: list[Callable[[], None]] | None = None
        """Calls that wait until HBase is known to be done with the request."""
        self.has_notify_cells = False
        """True if notify cells were added to the request."""
        self.hidden = False
        """True for a call of the observer's own: the client must not see its reply."""

    def wake(self, recorder: Recorder) -> None:
        """Run the calls that wait, after all ends that the recorder has heard of so far."""
        waiters, self.waiters = self.waiters or (), None
        for waiter in waiters:
            recorder.after(waiter)

    def is_answered_by(self, reply: Message) -> bool:
        """Return whether a reply names the method and the sequence number of this request."""
        if reply.name != self.method.name:
            return False
        return self.number is None or self.number == number_of(reply)


def number_of(message: Message) -> bytes:
    """Return a message's sequence number as in strict binary: four bytes, the highest first."""
    return message.seqid.to_bytes(4, signed=True)


def own_call(dialect: Dialect, protocol: Protocol, *, framed: bool) -> tuple[Exchange, bytes, int]:
    """Return the exchange of an observer's own call, its bytes, and where its arguments begin.

    The client sees nothing of it. HBase's Thrift servers answer it by themselves, in some 50 us: no
    region server hears of it.
    """
    exchange = Exchange(method_of(dialect, PING), (), None)
    exchange.hidden = True
    exchange.number = bytes(4)
    exchange.forwarded = _clock()
    head = write_header(protocol, PING.encode(), MessageType.CALL, 0)
    if framed:
        head = (len(head) + 1).to_bytes(4) + head
    return exchange, head + b"\x00", len(head)


def named(exchanges: Iterable[Exchange]) -> dict[str, list[str] | list[int]]:
    """Return methods, tables and intents of requests, as fields for one line of the log."""
    known = list(islice(exchanges, _NAMED))
    return {
        "methods": sorted({each.method.name for each in known}),
        "tables": sorted({table for each in known for table in each.tables}),
        "intents": [each.journalled.intent for each in known if each.journalled is not None],
    }


def writes_of(table: str, exchanges: Iterable[Exchange]) -> list[Exchange]:
    """Return the requests that may change what a table holds."""
    return [
        exchange
        for exchange in exchanges
        if table in exchange.tables and changes_cells(exchange.method)
    ]


@final
class UnconfirmedTables:
    """Tables with writes whose replies were only assumed to be over: HBase may still do them."""

    __slots__ = ("names",)

    def __init__(self) -> None:
        """Begin with none."""
        self.names: set[str] = set()

    def add(self, exchange: Exchange) -> None:
        """Add the tables of a request, unless it changes nothing."""
        if changes_cells(exchange.method):
            names = self.names
            names.update(exchange.tables)
            if len(names) > _MOST_TABLES:
                self.names = {_EVERY_TABLE}

    def have(self, table: str) -> bool:
        """Return whether a write of the table may be unconfirmed."""
        return table in self.names or _EVERY_TABLE in self.names

    def clear(self) -> None:
        """Forget all: their writes are over."""
        self.names.clear()
