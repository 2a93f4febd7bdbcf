"""Writes of the program that an observer is inside of: what a session is for a client's.

The caller of everything here is the observer's loop or holds its lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import structlog

from headgate.events import Gate, Origin
from headgate.hbase import (
    Dialect,
    Effect,
    Method,
    TableIn,
    Write,
    decode_request,
    io_error_reply,
    lacks_notify_family,
    method_of,
    peek_origins,
    peek_table,
    peek_tables,
)
from headgate.observer.control.gates import Gates
from headgate.observer.control.notify import NotifyColumns
from headgate.observer.control.state import ControlState
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.recording.admission import Admission
from headgate.observer.recording.journal_errors import JournalError, JournalFull
from headgate.observer.recording.recorder import Recorder, Ticket
from headgate.wire import LimitExceeded, Message, ProtocolError

_log = structlog.get_logger("headgate.observer.embedded.passages")

_DIALECT: Final = Dialect.THRIFT1  # happybase's


class Passage:
    """One write, from the program's call to its reply."""

    __slots__ = (
        "_traffic",
        "decided",
        "marked",
        "message",
        "method",
        "raw",
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
        self.raw = message.raw
        """What is to be sent: with notify cells where the table asks for them."""
        self.marked = False
        """Whether it has such cells."""
        self.watched: tuple[str, ...] = ()
        self.ticket: Ticket | None = None
        self.waiters: list[Callable[[], None]] | None = None
        self.refusal: bytes | None = None
        """The reply in HBase's place, where it must not be sent."""
        self.decided: threading.Event | None = None
        """Set once it may be sent or is refused; None where that is so already."""

    # -- what admission asks

    def try_again(self) -> bool:
        """Try to write it down; tell whether it waits no more."""
        return self._traffic.try_again(self)

    def give_up(self, reason: str) -> None:
        """Refuse it with an IOError that may be retried."""
        self._traffic.refuse(self, reason, "blocked")

    # -- what gates ask

    def client_is_gone(self) -> bool:
        """Tell whether nobody waits for it: the program is here."""
        return False

    def gate_in_the_way(self) -> Gate | None:
        """Return a closed gate that must hold it; None if there is none."""
        return self._traffic.closed_gate(self)

    def go_on(self) -> None:
        """Take it as if it came now."""
        self._traffic.go_on(self)

    def turn_away(self, reason: str) -> None:
        """Refuse it with an IOError that may be retried."""
        self._traffic.refuse(self, reason, "gated")

    drop = turn_away


class Passages:
    """The program's writes under way."""

    def __init__(
        self,
        *,
        control: ControlState,
        recorder: Recorder,
        admission: Admission,
        gates: Gates,
        notify: NotifyColumns,
        metrics: Metrics,
        soon: Callable[[Callable[[], None]], object],
        origin: Origin | None = None,
    ) -> None:
        """Use what the observer has.

        ``soon`` runs a call in its loop, which must not wait. ``origin`` is whose the writes are
        that name none themselves.
        """
        self._origin = origin
        self._soon = soon
        self._gates = gates
        self._notify = notify
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
        try:
            passage = Passage(self, message, method, self._tables(message, method))
        except LimitExceeded as error:
            # Among its tables there may be watched ones.
            passage = Passage(self, message, method, ())
            text = f"headgate: {error}; nothing was written"
            passage.refusal = io_error_reply(_DIALECT, message, text, can_retry=False)
            return passage
        if self._admit(passage):
            self._mark(passage)
        else:
            passage.decided = threading.Event()
            self._waiting.add(passage)
        return passage

    def _admit(self, passage: Passage) -> bool:
        """Ask all that must be asked of a request; tell whether it has its answer."""
        if passage.method.effect is Effect.WRITE:
            if not self._may_write(passage):
                return True
            if self._is_held(passage):
                return False
        control = self._control
        passage.watched = tuple(table for table in passage.tables if control.is_watched(table))
        if not passage.watched:
            self._under_way.add(passage)
            return True
        refusal = self._record(passage)
        if refusal is not None:
            self._admission.wait(passage, refusal)
            return False
        return self._is_safe(passage)

    def _mark(self, passage: Passage) -> None:
        """Put notify cells into what is about to be sent, where its table asks for them."""
        notify = self._notify
        if not notify.asked or not passage.watched or passage.refusal is not None:
            return
        table = passage.watched[0]
        if passage.method.effect is Effect.DEFINE:
            notify.table_changes(_DIALECT, passage.message, table)
            return
        marked = notify.marked_write(_DIALECT, passage.message, table, _log, self._origin)
        if marked is not None:
            passage.raw = marked.raw
            passage.marked = True

    def _is_safe(self, passage: Passage) -> bool:
        """Tell whether what was written down need not reach the disk first."""
        if not self._admission.syncs_each or passage.ticket is None:
            return True
        self._soon(lambda: self._admission.when_synced(lambda: self._synced(passage)))
        return False

    def _synced(self, passage: Passage) -> None:
        if passage not in self._waiting:
            return
        if passage.method.effect is Effect.WRITE:
            # A fence may have risen meanwhile, or a gate closed.
            refused = not self._may_write(passage)
            if refused or self._is_held(passage):
                self._take_back(passage)
                if refused:
                    self._decide(passage)
                return
        self._decide(passage)

    def _is_held(self, passage: Passage) -> bool:
        gate = self.closed_gate(passage)
        if gate is None:
            return False
        self._gates.hold(passage, gate)
        return True

    def closed_gate(self, passage: Passage) -> Gate | None:
        """Return a closed gate that must hold a request; None if there is none."""
        if not self._gates.closed:
            return None
        try:
            write = decode_request(_DIALECT, passage.message)
            origins = peek_origins(_DIALECT, passage.message)
            if not origins and self._origin is not None:
                origins = (self._origin,)
        except ProtocolError as error:
            # As far as is known HBase refuses it too; nobody can tell what it would touch.
            _log.warning("a gate cannot tell what a write touches", reason=str(error))
            return None
        assert isinstance(write, Write)  # noqa: S101 - definitions are not asked about
        return self._gates.in_the_way(write, origins)

    def _tables(self, message: Message, method: Method) -> tuple[str, ...]:
        try:
            if method.table is TableIn.STRUCTS:
                return peek_tables(_DIALECT, message)
            table = peek_table(_DIALECT, message)
        except LimitExceeded:
            raise
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

    def _record(self, passage: Passage) -> JournalFull | JournalError | None:
        """Write a request down; return why the journal did not take it, where writes must wait."""
        try:
            passage.ticket = self._recorder.begin(_DIALECT, passage.message, passage.watched)
        except (JournalFull, JournalError) as error:
            if not self._admission.may_pass(passage.watched):
                _log.warning("a write waits for room in the journal", reason=str(error))
                return error
            self._admission.let_pass(passage.watched)
        else:
            passage.ticket.origin = self._origin
        self._under_way.add(passage)
        return None

    def try_again(self, passage: Passage) -> bool:
        """Try to write down what waits for room; tell whether it waits for that no more."""
        if passage not in self._waiting:
            return True
        if passage.method.effect is Effect.WRITE:
            if not self._may_write(passage):
                self._decide(passage)
                return True
            if self._is_held(passage):
                return True
        if self._record(passage) is not None:
            return False
        if self._is_safe(passage):
            self._decide(passage)
        return True

    def go_on(self, passage: Passage) -> None:
        """Take what a gate held as if it came now."""
        if passage in self._waiting and self._admit(passage):
            self._decide(passage)

    def refuse(self, passage: Passage, reason: str, outcome: str) -> None:
        """Answer a waiting request with an IOError that may be retried."""
        if passage in self._waiting:
            self._metrics.count_request(_DIALECT.value, passage.message.name, outcome)
            passage.refusal = io_error_reply(_DIALECT, passage.message, reason)
            self._decide(passage)

    def _decide(self, passage: Passage) -> None:
        self._waiting.discard(passage)
        self._mark(passage)
        if passage.decided is not None:
            passage.decided.set()

    def answered(self, passage: Passage, reply: Message | None) -> None:
        """Take the reply to a request that was sent; None: its connection broke."""
        if passage not in self._under_way:
            return
        self._under_way.discard(passage)
        if passage.marked and reply is not None and lacks_notify_family(reply):
            self._notify.stop(passage.watched[0], "HBase says that it lacks their family")
        ticket = passage.ticket
        if ticket is not None:
            self._recorder.end(ticket, reply)
        else:
            outcome = "broken" if reply is None else "answered"
            self._metrics.count_request(_DIALECT.value, passage.message.name, outcome)
        waiters, passage.waiters = passage.waiters, None
        for waiter in waiters or ():
            self._recorder.after(waiter)

    def cancel(self, passage: Passage) -> None:
        """Take back a request of which nothing was sent."""
        if passage in self._waiting:
            self._waiting.discard(passage)
            self._admission.leave(passage)
            self._gates.leave(passage)
        self._take_back(passage)

    def _take_back(self, passage: Passage) -> None:
        if passage not in self._under_way:
            return
        self._under_way.discard(passage)
        if passage.ticket is not None:
            self._recorder.cancel(passage.ticket)
            passage.ticket = None
        waiters, passage.waiters = passage.waiters, None
        for waiter in waiters or ():
            self._recorder.after(waiter)

    def end(self) -> None:
        """Refuse what waits, and end what was sent as unknown."""
        for passage in list(self._waiting):
            self.cancel(passage)
            self._refuse_at_end(passage)
        for passage in list(self._under_way):
            self.answered(passage, None)

    def abort(self) -> None:
        """Refuse what waits, and forget what was sent: the next epoch finds it in the journal."""
        for passage in list(self._waiting):
            self._refuse_at_end(passage)
        self._waiting.clear()
        self._under_way.clear()

    def _refuse_at_end(self, passage: Passage) -> None:
        text = "headgate: the observer in this program is ending; nothing was written, try again"
        passage.refusal = io_error_reply(_DIALECT, passage.message, text)
        self._decide(passage)
