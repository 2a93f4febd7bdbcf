"""A request that was forwarded, or is answered in HBase's place, until its reply is through."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from headgate.hbase import Method, Pattern
from headgate.observer.monitoring.metrics import Sample
from headgate.observer.recording.recorder import JournalledRequest, changes_cells
from headgate.wire import Message

_NAMED: Final = 100  # requests that one line of the log may name


class Exchange:
    """A request and the reply that is due for it."""

    __slots__ = (
        "begun",
        "forwarded",
        "hidden",
        "journalled",
        "local",
        "marked",
        "method",
        "number",
        "pattern",
        "sample",
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
        """The request's kind, where it is a known one."""
        self.tables = tables
        self.number: bytes | None = None
        """The client's sequence number, as in strict binary; None where it was not looked at."""
        self.journalled = journalled
        self.begun = False
        """Whether bytes of the reply have come: the server is done with the request."""
        self.forwarded = 0.0
        """When that was, in seconds: up to a tenth too early where its times are not observed."""
        self.sample: Sample | None = None
        """Where its times go, if it is observed."""
        self.local: bytes | None = None
        """The reply, when it does not come from HBase."""
        self.waiters: list[Callable[[], None]] | None = None
        self.marked = False
        """Whether the request was given notify cells."""
        self.hidden = False
        """Whether it is a call of the observer's own: the client must not see its reply."""

    def is_answered_by(self, reply: Message) -> bool:
        """Return whether a reply names the method and the sequence number of this request."""
        if reply.name != self.method.name:
            return False
        return self.number is None or self.number == number_of(reply)


def number_of(message: Message) -> bytes:
    """Return a message's sequence number as in strict binary: four bytes, the highest first."""
    return message.seqid.to_bytes(4, signed=True)


def named(exchanges: Iterable[Exchange]) -> dict[str, list[str] | list[int]]:
    """Return of what kind requests are, and which have events, for one line of the log."""
    known = list(islice(exchanges, _NAMED))
    return {
        "methods": sorted({each.method.name for each in known}),
        "tables": sorted({table for each in known for table in each.tables}),
        "intents": [each.journalled.intent for each in known if each.journalled is not None],
    }


def writes_of(table: str, exchanges: Iterable[Exchange]) -> list[Exchange]:
    """Return those requests that may change what a table holds."""
    return [
        exchange
        for exchange in exchanges
        if table in exchange.tables and changes_cells(exchange.method)
    ]
