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
    Definition,
    Dialect,
    Request,
    io_error_reply,
    lacks_notify_family,
    read_request,
)
from headgate.observer.control.gates import Gates
from headgate.observer.control.notify import NotifyColumns
from headgate.observer.control.state import ControlState
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.recording.admission import Admission
from headgate.observer.recording.journal_errors import JournalError, JournalFull
from headgate.observer.recording.recorder import Recorder, Ticket
from headgate.observer.sessions.write_rules import Facts, Hold, Journal, Refuse, judge
from headgate.wire import ApplicationError, Message, ProtocolError, write_exception

_log = structlog.get_logger("headgate.observer.embedded.passages")

_DIALECT: Final = Dialect.THRIFT1  # happybase's


class Passage:
    """One write, from the program's call to its reply."""

    __slots__ = (
        "_traffic",
        "at_gate",
        "decided",
        "marked",
        "message",
        "raw",
        "refusal",
        "request",
        "tables",
        "ticket",
        "waiters",
        "watched",
    )

    def __init__(self, traffic: Passages, message: Message, request: Request | None) -> None:
        self._traffic = traffic
        self.message = message
        self.request = request
        """None where it cannot be read."""
        self.tables: tuple[str, ...] = () if request is None else request.tables
        self.raw = message.raw
        """What is to be sent: with notify cells where the table asks for them."""
        self.at_gate = False
        """Whether a gate holds it."""
        self.marked = False
        """Whether it has such cells."""
        self.watched: tuple[str, ...] = ()
        """The tables that it is recorded for, or should have been."""
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


class Unread(Struct, frozen=True):
    """A request that cannot be read, or that HBase could read otherwise than it is read here."""

    message: Message
    error: ProtocolError


def read(message: Message) -> Request | Unread:
    """Read a request, as ``Passages.begin`` takes it; this alone needs neither loop nor lock."""
    try:
        return read_request(_DIALECT, message)
    except ProtocolError as error:
        return Unread(message, error)


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
        self._facts = Facts(control, gates, origin=origin)
        self._soon = soon
        self._gates = gates
        self._notify = notify
        self._recorder = recorder
        self._admission = admission
        self._metrics = metrics
        self._under_way: set[Passage] = set()
        self._waiting: set[Passage] = set()

    def __len__(self) -> int:
        return len(self._under_way)

    def undone(self, table: str) -> list[Passage]:
        """Return the writes of a table, watched or not, that are under way."""
        return [passage for passage in self._under_way if table in passage.tables]

    def begin(self, asked: Request | Unread) -> Passage:
        """Take a request that may change cells; it may be sent when ``decided`` says so."""
        if isinstance(asked, Unread):
            return self._unread(asked.message, asked.error)
        passage = Passage(self, asked.message, asked)
        if self._take(passage):
            self._mark(passage)
        else:
            passage.decided = threading.Event()
            self._waiting.add(passage)
        return passage

    def _unread(self, message: Message, error: ProtocolError) -> Passage:
        """Refuse what cannot be read, or what HBase could read otherwise than it is read here."""
        passage = Passage(self, message, None)
        self._metrics.decode_errors += 1
        self._metrics.count_request(_DIALECT.value, message.name, "unreadable")
        _log.warning("a request cannot be read", method=message.name, reason=str(error))
        text = f"headgate: nobody can tell what this request would do: {error}; nothing was written"
        passage.refusal = write_exception(message, ApplicationError.PROTOCOL_ERROR, text)
        return passage

    def _take(self, passage: Passage) -> bool:
        """Do with a request what is right now; tell whether it may be sent or is refused."""
        why = self._try(passage)
        if why is None:
            return self._is_decided(passage)
        _log.warning("a write waits for room in the journal", reason=str(why))
        self._admission.wait(passage, why)
        return False

    def _try(self, passage: Passage) -> JournalFull | JournalError | None:
        """Do with a request what is right now; return why it must wait for room."""
        request = passage.request
        assert request is not None  # noqa: S101 - what cannot be read is refused at once
        judgement = judge(request, self._facts)
        passage.at_gate = isinstance(judgement, Hold)
        if isinstance(judgement, Refuse):
            self._metrics.fenced += 1
            self._metrics.count_request(_DIALECT.value, passage.message.name, "fenced")
            passage.refusal = io_error_reply(
                _DIALECT, passage.message, judgement.text, can_retry=False
            )
        elif isinstance(judgement, Hold):
            self._gates.hold(passage, judgement.gate)
        elif isinstance(judgement, Journal):
            return self._record(passage, request, judgement.tables)
        else:
            passage.watched = ()
            self._under_way.add(passage)
        return None

    def _is_decided(self, passage: Passage) -> bool:
        return not passage.at_gate and self._is_safe(passage)

    def _mark(self, passage: Passage) -> None:
        """Put notify cells into what is about to be sent, where its table asks for them."""
        notify, request = self._notify, passage.request
        if not notify.asked or not passage.watched or passage.refusal is not None:
            return
        if request is None:
            return
        if isinstance(request.change, Definition):
            notify.table_changes(request.change)
            return
        origin = self._facts.origin
        marked = notify.marked_write(_DIALECT, request, passage.watched[0], _log, origin)
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
        if passage not in self._waiting or passage.request is None:
            return
        judgement = judge(passage.request, self._facts)
        if isinstance(judgement, Journal) and judgement.tables == passage.watched:
            self._decide(passage)
            return
        # What is right for it is not any more what it was before it was on the disk.
        self._take_back(passage)
        if self._take(passage):
            self._decide(passage)

    def closed_gate(self, passage: Passage) -> Gate | None:
        """Return a closed gate that must hold a request; None if there is none."""
        if passage.request is None:
            return None
        judgement = judge(passage.request, self._facts)
        return judgement.gate if isinstance(judgement, Hold) else None

    def _record(
        self, passage: Passage, request: Request, tables: tuple[str, ...]
    ) -> JournalFull | JournalError | None:
        """Write a request down; return why the journal did not take it, where writes must wait."""
        passage.watched = tables
        try:
            passage.ticket = self._recorder.begin(_DIALECT, request, tables)
        except (JournalFull, JournalError) as error:
            if not self._admission.may_pass(tables):
                return error
            self._admission.let_pass(tables)
        else:
            passage.ticket.origin = self._facts.origin
        self._under_way.add(passage)
        return None

    def try_again(self, passage: Passage) -> bool:
        """Take what waits for room as if it came now; tell whether it waits for that no more."""
        if passage not in self._waiting:
            return True
        if self._try(passage) is not None:
            return False
        if self._is_decided(passage):
            self._decide(passage)
        return True

    def go_on(self, passage: Passage) -> None:
        """Take what a gate held as if it came now."""
        if passage in self._waiting and self._take(passage):
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
