"""Writes of the program that an observer is inside of: what a session is for a client's.

The caller of everything here but ``read`` is the observer's loop or holds its lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import structlog
from msgspec import Struct

from headgate.events import Gate, Origin
from headgate.hbase import (
    Dialect,
    Request,
    SchemaChange,
    Write,
    io_error_reply,
    lacks_notify_family,
    read_request,
)
from headgate.observer.control.gates import WriteGates
from headgate.observer.control.notify import NotifyColumns
from headgate.observer.control.state import ControlState
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.recording.admission import WriteAdmission
from headgate.observer.recording.journal_errors import JournalError, JournalFull
from headgate.observer.recording.recent_deletes import Deletion, WriteOrder
from headgate.observer.recording.recorder import JournalledRequest, Recorder
from headgate.observer.sessions.write_rules import (
    Facts,
    Hold,
    JournalAndForward,
    Refuse,
    Wait,
    judge,
)
from headgate.wire import ApplicationError, Message, ProtocolError, write_exception

_log = structlog.get_logger("headgate.observer.embedded.writes")

_DIALECT: Final = Dialect.THRIFT1  # happybase's


class EmbeddedWrite:
    """One write, from the program's call to its reply."""

    __slots__ = (
        "_traffic",
        "decided",
        "deletion",
        "has_notify_cells",
        "held",
        "journalled",
        "message",
        "raw",
        "refusal",
        "request",
        "tables",
        "waiters",
        "watched",
    )

    def __init__(self, traffic: EmbeddedWrites, message: Message, request: Request | None) -> None:
        self._traffic = traffic
        self.message = message
        self.request = request
        """None where it cannot be read."""
        self.tables: tuple[str, ...] = () if request is None else request.tables
        self.raw = message.raw
        """What is to be sent: with notify cells where the table asks for them."""
        self.held = False
        """True while a gate holds the write, or it waits until no delete can hide it."""
        self.deletion: Deletion | None = None
        """Rows that an unrecorded write deletes from, if later writes may have to wait for it."""
        self.has_notify_cells = False
        """True if notify cells were added to the request."""
        self.watched: tuple[str, ...] = ()
        """The tables that it is recorded for, or should have been."""
        self.journalled: JournalledRequest | None = None
        self.waiters: list[Callable[[], None]] | None = None
        self.refusal: bytes | None = None
        """The reply in HBase's place, where it must not be sent."""
        self.decided: threading.Event | None = None
        """Set once it may be sent or is refused; None where that is so already."""

    # -- what admission asks

    def try_again(self) -> bool:
        """Try to write it down; return whether it waits no more."""
        return self._traffic.try_again(self)

    def give_up(self, reason: str) -> None:
        """Refuse it with an IOError that may be retried."""
        self._traffic.refuse(self, reason, "blocked")

    # -- what gates ask

    def client_is_gone(self) -> bool:
        """Return whether nobody waits for it: the program is here."""
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


class Unread(Struct, frozen=True):
    """A request that cannot be read, or that HBase could read otherwise than it is read here."""

    message: Message
    error: ProtocolError


def read(message: Message) -> Request | Unread:
    """Read a request for ``EmbeddedWrites.begin``; this alone needs neither loop nor lock."""
    try:
        return read_request(_DIALECT, message)
    except ProtocolError as error:
        return Unread(message, error)


class EmbeddedWrites:
    """The program's writes under way."""

    def __init__(
        self,
        *,
        control: ControlState,
        recorder: Recorder,
        admission: WriteAdmission,
        gates: WriteGates,
        notify: NotifyColumns,
        metrics: Metrics,
        soon: Callable[[Callable[[], None]], object],
        later: Callable[[float, Callable[[], None]], object],
        origin: Origin | None = None,
        strict: bool = False,
    ) -> None:
        """Use what the observer has.

        ``soon`` runs a call in its loop, ``later`` after so many seconds; neither waits. ``origin``
        is whose the writes are that name none themselves, ``strict`` whether writes wait until no
        delete can hide them.
        """
        self._order = WriteOrder(recorder.deletes, strict=strict)
        self._facts = Facts(control, gates, origin=origin, order=self._order)
        self._soon = soon
        self._later = later
        self._gates = gates
        self._notify = notify
        self._recorder = recorder
        self._admission = admission
        self._metrics = metrics
        self._under_way: set[EmbeddedWrite] = set()
        self._waiting: set[EmbeddedWrite] = set()

    def __len__(self) -> int:
        return len(self._under_way)

    def undone(self, table: str) -> list[EmbeddedWrite]:
        """Return the writes of a table, watched or not, that are under way."""
        return [embedded for embedded in self._under_way if table in embedded.tables]

    def begin(self, asked: Request | Unread) -> EmbeddedWrite:
        """Take a request that may change cells; it may be sent when ``decided`` says so."""
        if isinstance(asked, Unread):
            return self._unread(asked.message, asked.error)
        embedded = EmbeddedWrite(self, asked.message, asked)
        if self._take(embedded):
            self._mark(embedded)
        else:
            embedded.decided = threading.Event()
            self._waiting.add(embedded)
        return embedded

    def _unread(self, message: Message, error: ProtocolError) -> EmbeddedWrite:
        """Refuse what cannot be read, or what HBase could read otherwise than it is read here."""
        embedded = EmbeddedWrite(self, message, None)
        self._metrics.decode_errors += 1
        self._metrics.count_request(_DIALECT.value, message.name, "unreadable")
        _log.warning("a request cannot be read", method=message.name, reason=str(error))
        text = f"headgate: nobody can tell what this request would do: {error}; nothing was written"
        embedded.refusal = write_exception(message, ApplicationError.PROTOCOL_ERROR, text)
        return embedded

    def _take(self, embedded: EmbeddedWrite) -> bool:
        """Do with a request what is right now; return whether it may be sent or is refused."""
        why = self._try(embedded)
        if why is None:
            return self._is_decided(embedded)
        _log.warning("a write waits for room in the journal", reason=str(why))
        self._admission.wait(embedded, why)
        return False

    def _try(self, embedded: EmbeddedWrite) -> JournalFull | JournalError | None:
        """Do with a request what is right now; return why it must wait for room."""
        request = embedded.request
        assert request is not None  # noqa: S101 - what cannot be read is refused at once
        judgement = judge(request, self._facts)
        embedded.held = isinstance(judgement, Hold | Wait)
        if isinstance(judgement, Refuse):
            self._metrics.fenced += 1
            self._metrics.count_request(_DIALECT.value, embedded.message.name, "fenced")
            embedded.refusal = io_error_reply(
                _DIALECT, embedded.message, judgement.text, can_retry=False
            )
        elif isinstance(judgement, Hold):
            self._gates.hold(embedded, judgement.gate)
        elif isinstance(judgement, Wait):
            self._later(judgement.seconds, lambda: self.go_on(embedded))
        elif isinstance(judgement, JournalAndForward):
            return self._record(embedded, request, judgement.tables)
        else:
            embedded.watched = ()
            self._send_unrecorded(embedded, request)
        return None

    def _send_unrecorded(self, embedded: EmbeddedWrite, request: Request) -> None:
        if isinstance(request.change, Write):
            embedded.deletion = self._order.begin(request.change)
        self._under_way.add(embedded)

    def _is_decided(self, embedded: EmbeddedWrite) -> bool:
        return not embedded.held and self._is_safe(embedded)

    def _mark(self, embedded: EmbeddedWrite) -> None:
        """Put notify cells into what is about to be sent, where its table asks for them."""
        notify, request = self._notify, embedded.request
        if not notify.asked or not embedded.watched or embedded.refusal is not None:
            return
        if request is None:
            return
        if isinstance(request.change, SchemaChange):
            notify.table_changes(request.change)
            return
        origin = self._facts.origin
        marked = notify.marked_write(_DIALECT, request, embedded.watched[0], _log, origin)
        if marked is not None:
            embedded.raw = marked.raw
            embedded.has_notify_cells = True

    def _is_safe(self, embedded: EmbeddedWrite) -> bool:
        """Return whether what was written down need not reach the disk first."""
        if not self._admission.syncs_each or embedded.journalled is None:
            return True
        self._soon(lambda: self._admission.when_synced(lambda: self._synced(embedded)))
        return False

    def _synced(self, embedded: EmbeddedWrite) -> None:
        if embedded not in self._waiting or embedded.request is None:
            return
        judgement = judge(embedded.request, self._facts)
        if isinstance(judgement, JournalAndForward) and judgement.tables == embedded.watched:
            self._decide(embedded)
            return
        # What is right for it is not any more what it was before it was on the disk.
        self._take_back(embedded)
        if self._take(embedded):
            self._decide(embedded)

    def closed_gate(self, embedded: EmbeddedWrite) -> Gate | None:
        """Return a closed gate that must hold a request; None if there is none."""
        if embedded.request is None:
            return None
        judgement = judge(embedded.request, self._facts)
        return judgement.gate if isinstance(judgement, Hold) else None

    def _record(
        self, embedded: EmbeddedWrite, request: Request, tables: tuple[str, ...]
    ) -> JournalFull | JournalError | None:
        """Write a request down; return why the journal did not take it, where writes must wait."""
        embedded.watched = tables
        try:
            embedded.journalled = self._recorder.begin(_DIALECT, request, tables)
        except (JournalFull, JournalError) as error:
            if not self._admission.may_pass(tables):
                return error
            self._admission.let_pass(tables)
            self._send_unrecorded(embedded, request)
        else:
            embedded.journalled.origin = self._facts.origin
            self._under_way.add(embedded)
        return None

    def try_again(self, embedded: EmbeddedWrite) -> bool:
        """Take what waits for room as if it came now; return whether it waits no more."""
        if embedded not in self._waiting:
            return True
        if self._try(embedded) is not None:
            return False
        if self._is_decided(embedded):
            self._decide(embedded)
        return True

    def go_on(self, embedded: EmbeddedWrite) -> None:
        """Take what a gate held as if it came now."""
        if embedded in self._waiting and self._take(embedded):
            self._decide(embedded)

    def refuse(self, embedded: EmbeddedWrite, reason: str, outcome: str) -> None:
        """Answer a waiting request with an IOError that may be retried."""
        if embedded in self._waiting:
            self._metrics.count_request(_DIALECT.value, embedded.message.name, outcome)
            embedded.refusal = io_error_reply(_DIALECT, embedded.message, reason)
            self._decide(embedded)

    def _decide(self, embedded: EmbeddedWrite) -> None:
        self._waiting.discard(embedded)
        self._mark(embedded)
        if embedded.decided is not None:
            embedded.decided.set()

    def answered(self, embedded: EmbeddedWrite, reply: Message | None) -> None:
        """Take the reply to a request that was sent; None: its connection broke."""
        if embedded not in self._under_way:
            return
        self._under_way.discard(embedded)
        if embedded.has_notify_cells and reply is not None and lacks_notify_family(reply):
            self._notify.stop(embedded.watched[0], "HBase says that it lacks their family")
        journalled = embedded.journalled
        if journalled is not None:
            self._recorder.end(journalled, reply)
        else:
            self._delete_is_over(embedded)
            outcome = "broken" if reply is None else "answered"
            self._metrics.count_request(_DIALECT.value, embedded.message.name, outcome)
        waiters, embedded.waiters = embedded.waiters, None
        for waiter in waiters or ():
            self._recorder.after(waiter)

    def _delete_is_over(self, embedded: EmbeddedWrite) -> None:
        deletion, embedded.deletion = embedded.deletion, None
        if deletion is not None:
            self._order.deletes.answered(deletion)

    def cancel(self, embedded: EmbeddedWrite) -> None:
        """Take back a request of which nothing was sent."""
        if embedded in self._waiting:
            self._waiting.discard(embedded)
            self._admission.leave(embedded)
            self._gates.leave(embedded)
        self._take_back(embedded)

    def _take_back(self, embedded: EmbeddedWrite) -> None:
        if embedded not in self._under_way:
            return
        self._under_way.discard(embedded)
        if embedded.journalled is not None:
            self._recorder.cancel(embedded.journalled)
            embedded.journalled = None
        self._delete_is_over(embedded)
        waiters, embedded.waiters = embedded.waiters, None
        for waiter in waiters or ():
            self._recorder.after(waiter)

    def end(self) -> None:
        """Refuse what waits, and end what was sent as unknown."""
        for embedded in list(self._waiting):
            self.cancel(embedded)
            self._refuse_at_end(embedded)
        for embedded in list(self._under_way):
            self.answered(embedded, None)

    def abort(self) -> None:
        """Refuse what waits, and forget what was sent: the next epoch finds it in the journal."""
        for embedded in list(self._waiting):
            self._refuse_at_end(embedded)
        self._waiting.clear()
        self._under_way.clear()

    def _refuse_at_end(self, embedded: EmbeddedWrite) -> None:
        text = "headgate: the observer in this program is ending; nothing was written, try again"
        embedded.refusal = io_error_reply(_DIALECT, embedded.message, text)
        self._decide(embedded)
