"""The requests of one connection that were forwarded, and their replies.

``reply_states`` has the theory: which states the replies may be in, and what leads from one to the
other. Here the events are found in the bytes, and each state is acted on.
"""

from __future__ import annotations

from time import perf_counter
from typing import Final, final

from headgate.hbase import Pattern, lacks_notify_family
from headgate.observer.monitoring.client_log import ClientLog
from headgate.observer.monitoring.metrics import Sample
from headgate.observer.recording.recorder import changes_cells
from headgate.observer.sessions.connection_pair import PIPELINE_FULL, ConnectionPair
from headgate.observer.sessions.endpoint import Endpoint
from headgate.observer.sessions.exchange import (
    Exchange,
    UnconfirmedTables,
    named,
    own_call,
    writes_of,
)
from headgate.observer.sessions.replies import REPLY_LIMITS
from headgate.observer.sessions.reply_states import (
    ALL_ANSWERED,
    AT_ONCE,
    BEGUN,
    CALL_MARKED,
    CONNECTION_LOST,
    END_DUE,
    EXCEPTION_READ,
    FRAMED,
    FRAMES_SEEN,
    IN_SYNC,
    MARK_FOUND,
    MARK_LOST,
    OWN_REPLY_DUE,
    PARSED,
    REPLY_ASSUMED,
    REPLY_BEGAN,
    REPLY_PENDING,
    REPLY_READ,
    REQUEST_AHEAD,
    RESYNCING,
    STRAY_BYTES,
    TRACK_LOST,
    UNTRACKED,
    WAITING,
    WHOLE,
    Event,
    PassageState,
    StreamState,
)
from headgate.observer.sessions.resync_mark import ResyncMark
from headgate.wire import Message, MessageReader, MessageType, Protocol, ProtocolError, Transport

_clock: Final = perf_counter
_MOST: Final = 128  # requests in flight on one connection before its client must wait
_FEW: Final = 64
_FRAME_LENGTH: Final = 4  # bytes before each message of a framed transport


@final
class Pipeline:
    """What a session has forwarded to HBase, until it is wholly answered."""

    def __init__(
        self, endpoint: Endpoint, log: ClientLog, connections: ConnectionPair, reader: MessageReader
    ) -> None:
        """Begin with none; the client's requests are read by ``reader``."""
        self._endpoint = endpoint
        self._log = log
        self._connections = connections
        self._requests = reader
        self._stream: StreamState = IN_SYNC
        self._passage: PassageState = AT_ONCE
        self._replies: MessageReader | None = None
        """The parser of replies; None before a request shows their transport."""
        self._frame_left = 0
        """Bytes to come of a frame that goes back unparsed."""
        self._sent_of_reply = 0
        """Bytes of the oldest reply that went back before replies had to be whole."""
        self._mark: ResyncMark | None = None
        """The connection's mark; None before a call has to be marked."""
        self._resync_on: Exchange | None = None
        """The exchange whose marked reply restores synchronisation; None while in sync."""
        self._unconfirmed = UnconfirmedTables()
        self.in_flight: list[Exchange] = []
        """Requests without a whole reply, oldest first. Mostly one: no deque."""
        self.touched = 0.0  # when bytes of a reply came last
        self.own_touched = 0.0  # when the last reply to a call of the observer's own was whole

    def renew(self) -> None:
        """Begin anew, with another connection to HBase: nothing of the one before can come."""
        self.break_off()
        self._stream, self._passage = IN_SYNC, AT_ONCE
        self._replies, self._frame_left, self._sent_of_reply = None, 0, 0
        self._unconfirmed.clear()

    # -- requests

    def follow(self, pattern: Pattern, forwarded: float, sample: Sample | None) -> None:
        """Wait for the reply to a known request that makes no events."""
        in_flight = self.in_flight
        if in_flight and self._passage is AT_ONCE and not self._frame_left:
            head = in_flight[0]
            before = head.pattern
            if head.state is BEGUN and before is not None:
                # The common case: as in ``append``, but the exchange is used again.
                stream = self._stream
                unsure = before.writes and not stream.earlier_over
                if unsure and head.tables[0] not in self._unconfirmed.names:
                    self._unconfirmed.add(head)
                self._stream = stream.after[REPLY_ASSUMED]
                self._endpoint.note_answered(before)
                self._connections.scanners.note(pattern.name)
                if before is not pattern:
                    head.pattern = pattern
                    head.method = pattern.method
                    head.tables = pattern.tables
                head.forwarded = forwarded
                head.sample = sample
                head.state = WAITING
                return
        exchange = Exchange(pattern.method, pattern.tables, None, pattern)
        exchange.forwarded = forwarded
        exchange.sample = sample
        self.append(exchange, pattern.layout.transport)

    def marked(
        self,
        exchange: Exchange,
        raw: bytes,
        body: int,
        transport: Transport,
        protocol: Protocol = Protocol.BINARY,
    ) -> bytes:
        """Return what to forward of a watched write, so that its reply can be matched to it.

        That is the request, marked where only that shows its reply. It must be appended next, if it
        is forwarded.
        """
        if not self._stream.needs_mark or transport is Transport.FRAMED:
            return raw
        return self._mark_call(exchange, raw, body, protocol)

    def _mark_call(self, exchange: Exchange, raw: bytes, body: int, protocol: Protocol) -> bytes:
        mark = self._mark
        if mark is None:
            mark = self._mark = ResyncMark()
        self._resync_on = exchange
        replies = self._replies
        if replies is not None and replies.buffered:
            self._replies = None
        return mark.mark(raw, body, exchange.method.name, protocol)

    def make_own_call(self) -> bool:
        """Make a call whose reply shows that all earlier ones are over; False: it is not possible.

        The client never sees the call, which HBase's Thrift server answers by itself.
        """
        if self._stream is UNTRACKED:
            return False
        if self._resync_on is not None:
            return True
        connections = self._connections
        protocol, framed = self._requests.protocol, self._stream is FRAMED
        exchange, call, body = own_call(self._endpoint.dialect, protocol, framed=framed)
        if not framed:
            call = self._mark_call(exchange, call, body, protocol)
        if connections.requests_ended:
            # Nothing can be sent any more: that HBase closes then says the same.
            exchange.state = BEGUN
        elif not connections.send_on(call):
            self.not_forwarded(exchange)
            return False
        self.append(exchange, Transport.FRAMED if framed else Transport.BUFFERED)
        self._passage = self._passage.after[OWN_REPLY_DUE]
        return True

    def not_forwarded(self, exchange: Exchange) -> None:
        """Forget a request of which ``marked`` returned what to forward: the connection broke."""
        if self._resync_on is exchange:
            self._lose_mark()

    def append(self, exchange: Exchange, transport: Transport) -> None:
        """Wait for the reply to a request that was forwarded."""
        if exchange.journalled is None:
            self._connections.scanners.note(exchange.method.name)
        in_flight = self.in_flight
        if in_flight and self._passage is AT_ONCE:
            head = in_flight[0]
            if head.state is WAITING or self._frame_left:
                self._passage = self._passage.after[REQUEST_AHEAD]
            else:
                if not self._stream.earlier_over:
                    self._unconfirmed.add(head)
                self._stream = self._stream.after[REPLY_ASSUMED]
                in_flight.pop(0)
                self.finish(head, None, REPLY_ASSUMED)
        if self._replies is None and not self._begin_replies(transport):
            self.finish(exchange, None, TRACK_LOST)
            return
        if exchange is self._resync_on:
            self._stream = self._stream.after[CALL_MARKED]
        in_flight.append(exchange)
        if len(in_flight) >= _MOST:
            self._connections.pause(PIPELINE_FULL)

    def _begin_replies(self, transport: Transport) -> bool:
        """Have a parser of replies; False: they cannot be matched any more."""
        if self._stream is UNTRACKED:
            return False
        self._replies = MessageReader(REPLY_LIMITS, transport)
        if transport is Transport.FRAMED:
            self._stream = self._stream.after[FRAMES_SEEN]
        return True

    def answer(self, exchange: Exchange, transport: Transport) -> bool:
        """Send a reply of our own when its turn has come; False: nobody knows when that is."""
        unsure = self._stream.needs_mark and transport is Transport.BUFFERED
        if unsure and not self.make_own_call():
            return False
        self.append(exchange, transport)
        replies = self._replies
        if replies is None:
            return False
        if self._passage is not WHOLE:
            self._passage = self._passage.after[OWN_REPLY_DUE]
            self._sent_of_reply = replies.buffered
        self._send_own_replies()
        return True

    def finish(self, exchange: Exchange, reply: Message | None, event: Event) -> None:
        """End an exchange that is no longer in flight: count it, and report what was journalled."""
        endpoint = self._endpoint
        journalled = exchange.journalled
        if exchange.has_notify_cells and reply is not None and lacks_notify_family(reply):
            endpoint.notify.stop(exchange.tables[0], "HBase says that it lacks their family")
        if journalled is not None:
            endpoint.recorder.end(journalled, reply)
        elif exchange.hidden:
            self.own_touched = self.touched
        else:
            endpoint.count_ended(exchange, exchange.state.after[event])
        if exchange.waiters is not None:
            exchange.wake(endpoint.recorder)

    def break_off(self) -> None:
        """End them all: no more bytes come, and what is under way may or may not have been done."""
        if self._resync_on is not None:
            self._lose_mark()
        while self.in_flight:
            exchange = self.in_flight.pop(0)
            if exchange.local is None:
                self.finish(exchange, None, CONNECTION_LOST)

    # -- replies

    def received(self, data: bytes) -> None:
        """Take bytes from HBase, and pass them on to the client first."""
        endpoint, in_flight = self._endpoint, self.in_flight
        endpoint.sent_bytes += len(data)
        if not in_flight:
            self.touched = endpoint.now
            self._connections.send(data)
            self._stream = self._stream.after[STRAY_BYTES]
            return
        head, stream = in_flight[0], self._stream
        sample = head.sample
        if self._passage is AT_ONCE and stream is not RESYNCING:
            begun = head.state is BEGUN
            started = self.touched = endpoint.now if sample is None and not begun else _clock()
            self._connections.send(data)
            if head.journalled is not None or stream is FRAMED:
                self._attribute(data, started, head)
            elif not begun:
                self._note_begun(head, started)
        else:
            started = self.touched = _clock()
            if stream is RESYNCING:
                self._seek_mark(data, started)
            else:
                if self._passage is PARSED:
                    self._connections.send(data)
                self._attribute(data, started, head)
        if sample is not None:
            sample.added.append(_clock() - started)

    def _attribute(self, data: bytes, started: float, head: Exchange) -> None:
        """Match bytes to requests; they begin with a reply's bytes to the oldest one."""
        if self._passage is not AT_ONCE:
            if self._frame_left:
                self._pass_frame(data, started, head)
            else:
                self._parse(data, started)
        elif head.journalled is not None:
            replies = self._replies
            known = self._endpoint.replies.find(data)
            if (
                known is not None
                and replies is not None
                and known.transport is replies.transport
                and known.name == head.method.name
                and data[known.body - 4 : known.body] == head.number
            ):
                self.in_flight.pop(0)
                if head.sample is not None:
                    head.sample.upstream.append(started - head.forwarded)
                self.finish(head, known, REPLY_READ)
            else:
                self._parse(data, started)
        elif self._frame_left:
            self._pass_frame(data, started, head)
        elif head.state is WAITING and len(data) < _FRAME_LENGTH:
            self._parse(data, started)
        else:
            left = _FRAME_LENGTH + int.from_bytes(data[:_FRAME_LENGTH]) - len(data)
            if head.state is BEGUN or left < 0:
                self._lose_track("there are bytes behind the last reply")
                return
            self._frame_left = left
            self._note_begun(head, started)

    def _note_begun(self, head: Exchange, started: float) -> None:
        """Note that the first bytes of a reply came, and that they are not parsed."""
        head.state = head.state.after[REPLY_BEGAN]
        self._stream = self._stream.after[REPLY_BEGAN]
        if head.sample is not None:
            head.sample.upstream.append(started - head.forwarded)
        if head.waiters is not None:
            head.wake(self._endpoint.recorder)

    def _pass_frame(self, data: bytes, started: float, head: Exchange) -> None:
        """Take bytes of an unparsed frame; those behind it are the next request's."""
        part = data[: self._frame_left]
        self._frame_left -= len(part)
        if self._passage is WHOLE:
            self._connections.send(part)
        if self._frame_left or self._passage is AT_ONCE:
            if len(part) < len(data):
                self._lose_track("there are bytes behind the last reply")
            return
        self.in_flight.pop(0)
        self.finish(head, None, REPLY_READ)
        self._send_own_replies()
        if len(part) < len(data):
            self._parse(data[len(part) :], started)
        elif not self.in_flight:
            self._connections.all_answered()

    def _seek_mark(self, data: bytes, started: float) -> None:
        """Pass bytes on up to the reply to the marked call; all replies before it are over then."""
        mark = self._mark
        assert mark is not None  # noqa: S101 - a call was marked with it
        data, at = mark.search(data)
        if at < 0:
            if data:
                self._connections.send(data)
            return
        found, self._resync_on = self._resync_on, None
        self._stream = self._stream.after[MARK_FOUND]
        self._unconfirmed.clear()
        if at:
            self._connections.send(data[:at])
        data = mark.unmarked(data, at)
        in_flight = self.in_flight
        while in_flight[0] is not found:
            self.finish(in_flight.pop(0), None, MARK_FOUND)
        if self._passage is not WHOLE:
            self._connections.send(data)
        self._attribute(data, started, in_flight[0])

    def _lose_mark(self) -> None:
        self._resync_on = None
        self._stream = self._stream.after[MARK_LOST]
        if self._mark is not None and (withheld := self._mark.release()):
            self._connections.send(withheld)

    def parse_to_the_end(self) -> None:
        """Parse replies until nothing is in flight, which ends a pair that is closing."""
        if self._stream.needs_mark:
            self.make_own_call()
        self._passage = self._passage.after[END_DUE]

    def _parse(self, data: bytes, started: float) -> None:
        replies = self._replies
        assert replies is not None  # noqa: S101 - made with the first request
        replies.feed(data)
        in_flight = self.in_flight
        try:
            while in_flight:
                reply = replies.next_message()
                if reply is None:
                    break
                if not in_flight[0].is_answered_by(reply):
                    self._lose_track("a reply is not to the request that was sent")
                    return
                if len(reply.raw) == len(data):
                    self._endpoint.replies.remember(reply)
                self._take_reply(in_flight.pop(0), reply, started)
            if not in_flight and replies.buffered:
                self._lose_track("there are bytes behind the last reply")
                return
        except ProtocolError as error:
            self._lose_track(str(error))
            return
        if len(in_flight) <= _FEW:
            self._connections.resume(PIPELINE_FULL)
        if in_flight:
            self._passage = self._passage.after[REPLY_PENDING]
        else:
            self._passage = self._passage.after[ALL_ANSWERED]
            self._connections.all_answered()

    def _take_reply(self, exchange: Exchange, reply: Message, started: float) -> None:
        if self._passage is WHOLE and not exchange.hidden:
            sent, self._sent_of_reply = self._sent_of_reply, 0
            self._connections.send(reply.raw[sent:])
        if not self._stream.earlier_over:
            self._unconfirmed.add(exchange)
        if exchange.sample is not None:
            exchange.sample.upstream.append(started - exchange.forwarded)
        failed = reply.type is MessageType.EXCEPTION
        self.finish(exchange, reply, EXCEPTION_READ if failed else REPLY_READ)
        self._send_own_replies()

    def _lose_track(self, reason: str) -> None:
        """Only pass bytes from here on: no reply can be matched to its request any more.

        What is in flight ends as unknown; later writes of the connection, too, where no mark can
        restore the order, since messages have lengths.
        """
        self._log.warning("replies cannot be told apart", reason=reason, **named(self.in_flight))
        if self._passage is WHOLE:
            # A reply of our own waits for its turn, which is not known either.
            self._connections.abort_upstream()
            return
        self._passage = self._passage.after[TRACK_LOST]
        self._stream = self._stream.after[TRACK_LOST]
        self._replies, self._frame_left = None, 0
        while self.in_flight:
            exchange = self.in_flight.pop(0)
            self._unconfirmed.add(exchange)
            self.finish(exchange, None, TRACK_LOST)
        self._connections.resume(PIPELINE_FULL)
        self._connections.all_answered()

    def _send_own_replies(self) -> None:
        in_flight = self.in_flight
        while in_flight and (local := in_flight[0].local) is not None:
            in_flight.pop(0)
            self._connections.send(local)
        if not in_flight:
            self._passage = self._passage.after[ALL_ANSWERED]

    # -- how it stands

    def unanswered(self) -> list[Exchange]:
        """Return the client's requests of whose replies nothing has come, as far as is known."""
        return [each for each in self.in_flight if each.state is WAITING and not each.hidden]

    def undone(self, table: str) -> list[Exchange]:
        """Return requests that prove earlier writes of a table; HBase is asked where none does."""
        writes = writes_of(table, self.in_flight)
        if self._stream.earlier_over:
            return [exchange for exchange in writes if exchange.state is WAITING]
        if not writes and not self._unconfirmed.have(table):
            return []
        self.make_own_call()
        proof = [] if self._resync_on is None else [self._resync_on]
        return [*writes_of(table, self.in_flight), *proof]

    def may_write(self) -> bool:
        """Return whether HBase may have writes to do, of any table."""
        if self._stream.earlier_over:
            return any(changes_cells(each.method) for each in self.unanswered())
        forwarded = any(changes_cells(each.method) for each in self.in_flight)
        return forwarded or bool(self._unconfirmed.names)

    def is_over(self) -> bool:
        """Return whether it is certain that nothing can still come of what was forwarded."""
        stream = self._stream
        if stream is FRAMED or stream is UNTRACKED:
            return not self._frame_left and not self.waits_for_reply()
        return stream is IN_SYNC and not self.in_flight

    def waits_for_reply(self) -> bool:
        """Return whether a request is in flight of whose reply nothing has come."""
        return any(exchange.state is WAITING for exchange in self.in_flight)

    def waits_since(self) -> float | None:
        """Return when the oldest request under way was forwarded, or last got bytes of a reply."""
        if not self.in_flight:
            return None
        head = self.in_flight[0]
        return max(head.forwarded, self.touched) if head.state is BEGUN else head.forwarded
