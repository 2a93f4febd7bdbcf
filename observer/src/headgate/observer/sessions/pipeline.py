"""The requests of one connection that were forwarded, and their replies.

Reply bytes go back as they came. A reply is walked only where something hangs on it: the outcome of
a watched write, or the order of pipelined requests. Otherwise a reply's first bytes show that the
server is done, and the next request that it has been read. Where messages have no lengths that is
believed, not known: a watched write after it is forwarded with a number by which its reply is known
(see ``proofs``), and nothing else is taken for that. What else hangs on a reply's end, such as a
barrier or a reply of our own, waits for the reply to a call of our own that has such a number.
"""

from __future__ import annotations

from time import perf_counter
from typing import Final, final

from headgate.hbase import Effect, Pattern, lacks_notify_family
from headgate.observer.monitoring.client_log import ClientLog
from headgate.observer.monitoring.metrics import Sample
from headgate.observer.recording.recorder import changes_cells
from headgate.observer.sessions.connection_pair import PIPELINE_FULL, ConnectionPair
from headgate.observer.sessions.doubts import DoubtedTables
from headgate.observer.sessions.endpoint import Endpoint
from headgate.observer.sessions.exchange import Exchange, named, writes_of
from headgate.observer.sessions.proofs import Proof
from headgate.observer.sessions.replies import REPLY_LIMITS
from headgate.observer.sessions.requests.own_calls import own_call
from headgate.observer.upstreams.asking import PING
from headgate.wire import (
    Message,
    MessageReader,
    MessageType,
    Protocol,
    ProtocolError,
    Transport,
)

_clock: Final = perf_counter
_MOST: Final = 128  # requests under way on one connection before its client must wait
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
        self._replies: MessageReader | None = None
        self._walking = self._framed = False
        self._tracks = True
        self._left = 0
        """Bytes of the frame that is not walked, and of which some have come."""
        self._certain = True
        """Whether all replies up to that of the first in flight are known to be over."""
        self._doubted = DoubtedTables()
        self._proof: Proof | None = None
        """By what a reply is known; None before one has to be."""
        self._proven: Exchange | None = None
        """Whose reply that is, after which it is certain again; None: none is sought.

        Replies behind it are walked.
        """
        # Set while a reply of our own waits for its turn, or one to a call of our own is to be kept
        # from the client: replies then go back whole, one by one.
        self._by_message = False
        self._passed = 0
        """Bytes of a reply that went back before: it is certain whose it is, HBase is not asked."""
        self.in_flight: list[Exchange] = []
        """Oldest first. Mostly one: no deque."""
        self.touched = 0.0  # when bytes of a reply came last
        self.own_touched = 0.0  # when the last reply to a call of our own was whole

    def renew(self) -> None:
        """Begin anew, with another connection to HBase: nothing of the one before can come."""
        self.break_off()
        self._replies, self._left, self._passed = None, 0, 0
        self._walking = self._by_message = self._framed = False
        self._tracks = self._certain = True
        self._doubted.clear()

    # -- requests

    def follow(self, pattern: Pattern, forwarded: float, sample: Sample | None) -> None:
        """Wait for the reply to a known request that makes no events."""
        in_flight = self.in_flight
        if len(in_flight) == 1 and not self._walking and not self._left:
            head = in_flight[0]
            before = head.pattern
            if head.begun and before is not None:
                # Mostly so: the one before is over, as ``append`` says, and was like this one.
                if (
                    before.writes
                    and not self._certain
                    and head.tables[0] not in self._doubted.tables
                ):
                    self._doubted.add(head)
                self._certain = self._framed
                self._endpoint.note_answered(before)
                self._connections.scanners.note(pattern.method.name)
                head.pattern = pattern
                head.method = pattern.method
                head.tables = pattern.tables
                head.forwarded = forwarded
                head.sample = sample
                head.begun = False
                head.number = None
                return
        exchange = Exchange(pattern.method, pattern.tables, None, pattern)
        exchange.forwarded = forwarded
        exchange.sample = sample
        self.append(exchange, pattern.layout.transport)

    def judged(
        self,
        exchange: Exchange,
        raw: bytes,
        body: int,
        transport: Transport,
        protocol: Protocol = Protocol.BINARY,
    ) -> bytes:
        """Return what to forward of a request by whose reply its outcome is judged.

        That is the request, with another number where the place of its reply is not certain. It
        must be appended next, if it is forwarded.
        """
        if self._knows_place() or self._proven is not None or not self._tracks:
            return raw
        if transport is Transport.FRAMED:
            return raw
        return self._prove_by(exchange, raw, body, exchange.method.name, protocol)

    def _knows_place(self) -> bool:
        """Return whether it is certain where the reply to the next request will begin."""
        in_flight = self.in_flight
        return self._certain and (not in_flight or self._walking or not in_flight[0].begun)

    def _prove_by(
        self, exchange: Exchange, raw: bytes, body: int, name: str, protocol: Protocol
    ) -> bytes:
        """Return a request with a number by which its reply is known, which is sought."""
        proof = self._proof
        if proof is None:
            proof = self._proof = Proof()
        self._proven = exchange
        replies = self._replies
        if replies is not None and replies.buffered:
            self._replies = None
        return proof.begin(raw, body, name, protocol)

    def ask(self) -> bool:
        """Seek the reply to a call of our own; False: the connection is over.

        The client never sees the call, which HBase's Thrift server answers by itself.
        """
        connections = self._connections
        protocol = self._requests.protocol
        exchange, call, body = own_call(self._endpoint.dialect, protocol, framed=self._framed)
        if not self._framed:
            call = self._prove_by(exchange, call, body, PING, protocol)
        if connections.requests_ended:
            # Nothing can be sent any more: that HBase closes then says the same.
            exchange.begun = True
        elif not connections.send_on(call):
            self.not_forwarded(exchange)
            return False
        self.append(exchange, Transport.FRAMED if self._framed else Transport.BUFFERED)
        self._walking = self._by_message = True
        return True

    def not_forwarded(self, exchange: Exchange) -> None:
        """Forget a request of which ``judged`` returned what to forward: the connection broke."""
        if self._proven is exchange:
            self._proven = None
            self._certain = False

    def append(self, exchange: Exchange, transport: Transport) -> None:
        """Wait for the reply to a request that was forwarded."""
        if exchange.journalled is None:
            self._connections.scanners.note(exchange.method.name)
        in_flight = self.in_flight
        if in_flight and not self._walking:
            head = in_flight[0]
            if not head.begun or self._left:
                self._walking = True
            else:
                # The client has read that reply: a sequential one would not have gone on otherwise.
                if not self._framed:
                    if not self._certain:
                        self._doubted.add(head)
                    self._certain = False
                in_flight.pop(0)
                self.finish(head, None, "answered")
        if not self._tracks:
            self.finish(exchange, None, "untracked")
            return
        if self._replies is None:
            self._replies = MessageReader(REPLY_LIMITS, transport)
            self._framed = transport is Transport.FRAMED
        in_flight.append(exchange)
        if len(in_flight) >= _MOST:
            self._connections.pause(PIPELINE_FULL)

    def answer(self, exchange: Exchange, transport: Transport) -> bool:
        """Send a reply of our own when its turn has come; False: nobody knows when that is."""
        believed = transport is Transport.BUFFERED and not self._knows_place()
        if believed and self._proven is None and not self.ask():
            return False
        self.append(exchange, transport)
        if not self._tracks:
            return False
        if not self._by_message and self._replies is not None:
            self._by_message = True
            self._passed = self._replies.buffered
        self._send_locals()
        return True

    def finish(self, exchange: Exchange, reply: Message | None, outcome: str) -> None:
        """Count a request that has ended, and end what was journalled of it."""
        if exchange.hidden:
            self.own_touched = self.touched
            self.wake(exchange)
            return
        endpoint = self._endpoint
        journalled = exchange.journalled
        if exchange.marked and reply is not None and lacks_notify_family(reply):
            endpoint.notify.stop(exchange.tables[0], "HBase says that it lacks their family")
        if journalled is not None:
            endpoint.recorder.end(journalled, reply)
        elif exchange.pattern is not None and outcome == "answered":
            endpoint.note_answered(exchange.pattern)
        else:
            name = exchange.method.name
            if exchange.method.effect is Effect.UNKNOWN:
                name = "(unknown)"
            endpoint.metrics.count_request(endpoint.name, name, outcome)
        if exchange.waiters is not None:
            self.wake(exchange)

    def break_off(self) -> None:
        """End them all: no more bytes come, and what is under way may or may not have been done."""
        self._forget_proof()
        while self.in_flight:
            exchange = self.in_flight.pop(0)
            if exchange.local is None:
                self.finish(exchange, None, "answered" if exchange.begun else "broken")

    # -- replies

    def received(self, data: bytes) -> None:
        """Take bytes from HBase, and pass them on to the client first."""
        in_flight = self.in_flight
        head = in_flight[0] if in_flight else None
        sample = None if head is None else head.sample
        if head is not None and (sample is not None or head.begun or self._walking):
            started = _clock()
        else:
            started = self._endpoint.now
        self.touched = started
        self._endpoint.sent_bytes += len(data)
        if self._proven is not None:
            self._seek(data, started)
        elif head is None:
            self._connections.send(data)
            self._certain = False
            return
        else:
            if not self._by_message:
                self._connections.send(data)
            if self._walking or self._framed or head.journalled is not None:
                self._attribute(data, started, head)
            elif not head.begun:
                self._begin(head, started)
        if sample is not None:
            sample.added.append(_clock() - started)

    def _attribute(self, data: bytes, started: float, head: Exchange) -> None:
        """Find out whose reply bytes are that begin with the first one's."""
        sample = head.sample
        if self._left:
            self._pass_frame(data, started, head)
        elif self._walking:
            self._walk(data, started)
        elif head.journalled is not None:
            replies = self._replies
            known = self._endpoint.replies.find(data)
            if (
                known is not None
                and replies is not None
                and not replies.buffered
                and known.transport is replies.transport
                and known.name == head.method.name
                and data[known.body - 4 : known.body] == head.number
            ):
                self.in_flight.pop(0)
                if sample is not None:
                    sample.upstream.append(started - head.forwarded)
                self.finish(head, known, "answered")
            else:
                self._walk(data, started)
        elif not head.begun and len(data) < _FRAME_LENGTH:
            self._walking = True
            self._walk(data, started)
        else:
            left = _FRAME_LENGTH + int.from_bytes(data[:_FRAME_LENGTH]) - len(data)
            if head.begun or left < 0:
                self._lose_track("there are bytes behind the last reply")
                return
            self._left = left
            self._begin(head, started)

    def _begin(self, head: Exchange, started: float) -> None:
        """Note that the server is done with a request."""
        head.begun = True
        if head.sample is not None:
            head.sample.upstream.append(started - head.forwarded)
        if head.waiters is not None:
            self.wake(head)

    def _pass_frame(self, data: bytes, started: float, head: Exchange) -> None:
        """Take bytes of a frame that is not walked; what is behind it is the next one's."""
        part = data[: self._left]
        self._left -= len(part)
        if self._by_message:
            self._connections.send(part)
        if self._left or not self._walking:
            if len(part) < len(data):
                self._lose_track("there are bytes behind the last reply")
            return
        self.in_flight.pop(0)
        self.finish(head, None, "answered")
        self._send_locals()
        if len(part) < len(data):
            self._walk(data[len(part) :], started)
        elif not self.in_flight:
            self._connections.all_answered()

    def _seek(self, data: bytes, started: float) -> None:
        """Pass bytes on up to the reply that proves itself; all before it are over then."""
        proof = self._proof
        assert proof is not None  # noqa: S101 - else nothing is sought
        data, at = proof.search(data)
        if at < 0:
            if data:
                self._connections.send(data)
            return
        proven, self._proven = self._proven, None
        self._certain = True
        self._doubted.clear()
        if at:
            self._connections.send(data[:at])
        data = proof.shown(data, at)
        in_flight = self.in_flight
        while in_flight[0] is not proven:
            self.finish(in_flight.pop(0), None, "answered")
        if not self._by_message:
            self._connections.send(data)
        self._attribute(data, started, in_flight[0])

    def _forget_proof(self) -> None:
        self._proven = None
        if self._proof is not None and (withheld := self._proof.release()):
            self._connections.send(withheld)

    def walk_on(self) -> None:
        """Walk replies until nothing is under way, which ends a pair that is closing."""
        if not self._framed and not self._knows_place() and self._proven is None:
            self.ask()
        self._walking = True

    def _walk(self, data: bytes, started: float) -> None:
        replies = self._replies
        assert replies is not None  # noqa: S101 - made with the first request
        replies.feed(data)
        try:
            while self.in_flight:
                reply = replies.next_message()
                if reply is None:
                    break
                if not self.in_flight[0].is_answered_by(reply):
                    self._lose_track("a reply is not to the request that was sent")
                    return
                if len(reply.raw) == len(data):
                    self._endpoint.replies.remember(reply)
                exchange = self.in_flight.pop(0)
                if self._by_message and not exchange.hidden:
                    self._connections.send(reply.raw[self._passed :] if self._passed else reply.raw)
                    self._passed = 0
                if not self._certain:
                    self._doubted.add(exchange)
                if exchange.sample is not None:
                    exchange.sample.upstream.append(started - exchange.forwarded)
                outcome = "exception" if reply.type is MessageType.EXCEPTION else "answered"
                self.finish(exchange, reply, outcome)
                self._send_locals()
            if not self.in_flight and replies.buffered:
                self._lose_track("there are bytes behind the last reply")
                return
        except ProtocolError as error:
            self._lose_track(str(error))
            return
        if len(self.in_flight) <= _FEW:
            self._connections.resume(PIPELINE_FULL)
        if not self.in_flight:
            self._walking = self._by_message = False
            self._connections.all_answered()

    def _lose_track(self, reason: str) -> None:
        """Only pass bytes from here on: which reply is whose is not known any more.

        What is under way ends as unknown; later writes of the connection, too, where no number can
        mark their replies, since messages have lengths.
        """
        under_way = named(self.in_flight)
        self._log.warning("replies cannot be told apart", reason=reason, **under_way)
        if self._by_message:
            # A reply of our own waits for its turn, which is not known either.
            self._connections.abort_upstream()
            return
        self._walking = False
        self._left = 0
        if self._framed:
            self._tracks = False
        else:
            self._certain = False
            self._replies = None
        while self.in_flight:
            exchange = self.in_flight.pop(0)
            self._doubted.add(exchange)
            self.finish(exchange, None, "answered" if exchange.begun else "untracked")
        self._connections.resume(PIPELINE_FULL)
        self._connections.all_answered()

    def wake(self, exchange: Exchange) -> None:
        """Let those go on that wait for HBase to be done with a request."""
        if exchange.waiters is not None:
            for waiter in exchange.waiters:
                self._endpoint.recorder.after(waiter)
            exchange.waiters = None

    def _send_locals(self) -> None:
        in_flight = self.in_flight
        while in_flight and in_flight[0].local is not None:
            local = in_flight.pop(0).local
            if local is not None:
                self._connections.send(local)
        if not in_flight:
            self._walking = self._by_message = False

    # -- how it stands

    def unanswered(self) -> list[Exchange]:
        """Return the client's requests of whose replies nothing has come, as far as is known."""
        return [each for each in self.in_flight if not each.begun and not each.hidden]

    def undone(self, table: str) -> list[Exchange]:
        """Return by whose ends HBase will be known to have done all writes of a table so far.

        Where that is not certain HBase is asked.
        """
        if self._certain or self._framed:
            return [exchange for exchange in writes_of(table, self.in_flight) if not exchange.begun]
        if self._doubted.have(table) or writes_of(table, self.in_flight):
            if self._proven is None:
                self.ask()
            proven = self._proven
            return [*writes_of(table, self.in_flight), *([] if proven is None else [proven])]
        return []

    def may_write(self) -> bool:
        """Return whether HBase may have writes to do, of any table."""
        if self._certain or self._framed:
            return any(changes_cells(each.method) for each in self.unanswered())
        return bool(self._doubted.tables) or any(
            changes_cells(each.method) for each in self.in_flight
        )

    def is_over(self) -> bool:
        """Return whether it is certain that nothing can still come of what was forwarded."""
        if self._framed:
            return not self._left and not self.waits_for_reply()
        return self._certain and not self.in_flight

    def waits_for_reply(self) -> bool:
        """Return whether there is one."""
        return any(not exchange.begun for exchange in self.in_flight)

    def waits_since(self) -> float | None:
        """Return when the oldest request under way was forwarded, or last got bytes of a reply."""
        if not self.in_flight:
            return None
        head = self.in_flight[0]
        return max(head.forwarded, self.touched) if head.begun else head.forwarded
