"""Writes of the program that an observer is inside of: what a session is for a client's.

The caller of everything here is the observer's loop or holds its lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import structlog

from headgate.hbase import (
    Dialect,
    Effect,
    Method,
    TableIn,
    io_error_reply,
    method_of,
    peek_origins,
    peek_table,
    peek_tables,
)
from headgate.observer.admission import Admission
from headgate.observer.control import ControlState
from headgate.observer.journal import JournalError, JournalFull
from headgate.observer.metrics import Metrics
from headgate.observer.recorder import Recorder, Ticket
from headgate.wire import Message, ProtocolError

_log = structlog.get_logger("headgate.observer.passages")

_DIALECT: Final = Dialect.THRIFT1  # happybase's


class Passage:
    """One write, from the program's call to its reply."""

    __slots__ = (
        "_traffic",
        "decided",
        "message",
        "method",
        "refusal",
        "tables",
        "ticket",
        "waiters",
        "watched",
    )

    def __init__(
        self, traffic: Passages, message: Message, method: Method, tables: tuple[str, ...]
    ) -> None:
        self._traffic = traffic
        self.message = message
        self.method = method
        self.tables = tables
        self.watched: tuple[str, ...] = ()
        self.ticket: Ticket | None = None
        self.waiters: list[Callable[[], None]] | None = None
        self.refusal: bytes | None = None
        """The reply in HBase's place, where it must not be sent."""
        self.decided: threading.Event | None = None
        """Set once it may be sent or is refused; None where that is so already."""

    def try_again(self) -> bool:
        """Try to write it down; tell whether it waits no more."""
        return self._traffic.try_again(self)

    def give_up(self, reason: str) -> None:
        """Refuse it with an IOError that may be retried."""
        self._traffic.refuse(self, reason)


class Passages:
    """The program's writes under way."""

    def __init__(
        self,
        *,
        control: ControlState,
        recorder: Recorder,
        admission: Admission,
        metrics: Metrics,
    ) -> None:
        """Use what the observer has."""
        self._control = control
        self._recorder = recorder
        self._admission = admission
        self._metrics = metrics
        self._under_way: set[Passage] = set()
        self._waiting: set[Passage] = set()

    def __len__(self) -> int:
        return len(self._under_way)

    def unanswered(self, table: str) -> list[Passage]:
        """Return the writes of a table, watched or not, that are under way."""
        return [passage for passage in self._under_way if table in passage.tables]

    def begin(self, message: Message) -> Passage:
        """Take a request that may change cells; it may be sent when ``decided`` says so."""
        method = method_of(_DIALECT, message.name)
        passage = Passage(self, message, method, self._tables(message, method))
        if method.effect is Effect.WRITE and not self._may_write(passage):
            return passage
        control = self._control
        passage.watched = tuple(table for table in passage.tables if control.is_watched(table))
        if not passage.watched:
            self._under_way.add(passage)
        elif not self._record(passage):
            passage.decided = threading.Event()
            self._waiting.add(passage)
            self._admission.wait(passage)
        elif self._admission.syncs_each and passage.ticket is not None:
            passage.decided = threading.Event()
        return passage

    def _tables(self, message: Message, method: Method) -> tuple[str, ...]:
        try:
            if method.table is TableIn.STRUCTS:
                return peek_tables(_DIALECT, message)
            table = peek_table(_DIALECT, message)
        except ProtocolError as error:
            # HBase refuses it in its own words.
            _log.warning("a request names no table", method=message.name, reason=str(error))
            self._metrics.decode_errors += 1
            return ()
        return () if table is None else (table,)

    def _may_write(self, passage: Passage) -> bool:
        message = passage.message
        try:
            origins = peek_origins(_DIALECT, message)
        except ProtocolError as error:
            _log.warning("a request's origin is unreadable", reason=str(error))
            return True
        for origin in origins:
            fence = self._control.fence_above(origin)
            if fence is not None:
                self._metrics.fenced += 1
                self._metrics.count_request(_DIALECT.value, message.name, "fenced")
                text = (
                    f"headgate: run {origin.run} of {origin.dataflow}/{origin.action} may not "
                    f"write any more: its token {origin.token} is below the fence {fence}, "
                    "so a newer attempt has begun"
                )
                passage.refusal = io_error_reply(_DIALECT, message, text, can_retry=False)
                return False
        return True

    def _record(self, passage: Passage) -> bool:
        try:
            passage.ticket = self._recorder.begin(_DIALECT, passage.message, passage.watched)
        except (JournalFull, JournalError) as error:
            if not self._admission.passes:
                _log.warning("a write waits for room in the journal", reason=str(error))
                return False
            self._admission.let_pass(passage.watched)
        self._under_way.add(passage)
        return True

    def try_again(self, passage: Passage) -> bool:
        """Try to write a waiting request down; tell whether it waits no more."""
        if passage not in self._waiting:
            return True
        if passage.method.effect is Effect.WRITE and not self._may_write(passage):
            self._decide(passage)
            return True
        if not self._record(passage):
            return False
        if self._admission.syncs_each and passage.ticket is not None:
            self._waiting.discard(passage)
            self._admission.when_synced(lambda: self._decide(passage))
        else:
            self._decide(passage)
        return True

    def refuse(self, passage: Passage, reason: str) -> None:
        """Answer a waiting request with an IOError that may be retried."""
        if passage in self._waiting:
            self._metrics.count_request(_DIALECT.value, passage.message.name, "blocked")
            passage.refusal = io_error_reply(_DIALECT, passage.message, reason)
            self._decide(passage)

    def when_synced(self, passage: Passage) -> None:
        """Let a request go once the journal is on its disk; called in the loop only."""
        self._admission.when_synced(lambda: self._decide(passage))

    def _decide(self, passage: Passage) -> None:
        self._waiting.discard(passage)
        if passage.decided is not None:
            passage.decided.set()

    def answered(self, passage: Passage, reply: Message | None) -> None:
        """Take the reply to a request that was sent; None: its connection broke."""
        if passage not in self._under_way:
            return
        self._under_way.discard(passage)
        ticket = passage.ticket
        if ticket is not None:
            self._recorder.end(ticket, reply)
        else:
            outcome = "broken" if reply is None else "answered"
            self._metrics.count_request(_DIALECT.value, passage.message.name, outcome)
        for waiter in passage.waiters or ():
            self._recorder.after(waiter)

    def cancel(self, passage: Passage) -> None:
        """Take back a request of which nothing was sent."""
        if passage in self._waiting:
            self._waiting.discard(passage)
            self._admission.leave(passage)
        if passage not in self._under_way:
            return
        self._under_way.discard(passage)
        if passage.ticket is not None:
            self._recorder.cancel(passage.ticket)
        for waiter in passage.waiters or ():
            self._recorder.after(waiter)

    def end(self) -> None:
        """Refuse what waits, and end what was sent as unknown."""
        for passage in [*self._waiting, *self._under_way]:
            if passage.decided is not None and not passage.decided.is_set():
                self.cancel(passage)
                self._refuse_at_end(passage)
            else:
                self.answered(passage, None)

    def abort(self) -> None:
        """Refuse what waits, and forget what was sent: the next epoch finds it in the journal."""
        for passage in [*self._waiting, *self._under_way]:
            if passage.decided is not None and not passage.decided.is_set():
                self._refuse_at_end(passage)
        self._waiting.clear()
        self._under_way.clear()

    def _refuse_at_end(self, passage: Passage) -> None:
        text = "headgate: the observer in this program is ending; nothing was written, try again"
        passage.refusal = io_error_reply(_DIALECT, passage.message, text)
        self._decide(passage)
