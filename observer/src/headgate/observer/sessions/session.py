"""One client's connection, with the one connection to HBase's Thrift server that it is pinned to.

Request bytes go on as they came. What was forwarded, and its replies, are its pipeline's.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Final, cast

from headgate.events import Gate
from headgate.hbase import (
    METHODS,
    Definition,
    Effect,
    Pattern,
    Reading,
    Request,
    io_error_reply,
    method_of,
    read_request,
)
from headgate.observer.monitoring.client_log import ClientLog
from headgate.observer.monitoring.metrics import Sample
from headgate.observer.recording.journal_errors import JournalError, JournalFull
from headgate.observer.security.permits import Permit
from headgate.observer.sessions.acknowledgement import HeldReplies
from headgate.observer.sessions.endpoint import Endpoint
from headgate.observer.sessions.exchange import Exchange, named
from headgate.observer.sessions.identification import IDENTIFY
from headgate.observer.sessions.peers import has_taken_all
from headgate.observer.sessions.pipeline import Pipeline
from headgate.observer.sessions.sweeping import Stage
from headgate.observer.sessions.write_buffer import WriteBuffer
from headgate.observer.sessions.write_rules import Facts, Hold, Journal, Refuse, judge
from headgate.observer.upstreams.dialing import UpstreamsUnreachable
from headgate.observer.upstreams.pinning import PinnedConnection
from headgate.wire import (
    ApplicationError,
    Message,
    MessageReader,
    MessageType,
    Protocol,
    ProtocolError,
    StructWriter,
    UnsupportedProtocol,
    write_exception,
    write_reply,
)

_clock: Final = perf_counter
_LONG_READ: Final = 1 << 16  # bytes of a request that is not whole, after which others have a turn
_ORPHAN_SECONDS: Final = 60.0  # HBase's own default limit for an operation of a client
_QUIET_SECONDS: Final = 0.2  # without bytes for so long, a reply that was not walked is over
_MOST_CLEARED: Final = 4096  # kinds of request remembered for one client: one listener has as many


# Why no requests are read, as bits.
_HELD: Final = 1
_UPSTREAM_FULL: Final = 2
_PIPELINE: Final = 4
_OTHERS: Final = 8
_CLIENT_FULL: Final = 16
_TURN: Final = 32
_STOPPED: Final = _HELD | _CLIENT_FULL | _TURN
"""Neither are those taken that have been read."""


class Session:
    """The client's side, an ``asyncio.Protocol``. It lives until both connections are over.

    It does not derive from that class: what does is compiled to slower code.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        """Wait for a client of the endpoint."""
        self._endpoint = endpoint
        self._metrics = endpoint.metrics
        self._each = endpoint.timings.each
        self._dialect = endpoint.dialect
        self._methods = METHODS[endpoint.dialect]
        self._loop = endpoint.loop
        self._log = ClientLog(endpoint.log)
        self._client: asyncio.Transport | None = None
        self._facts = Facts(endpoint.control, endpoint.gates)
        self._permit: Permit | None = None
        """What the guard knows of the client; None where nothing hangs on that."""
        self._cleared: set[Pattern] = set()
        """Kinds of request that the guard lets this client make."""
        self._upstream: asyncio.Transport | None = None
        self._to_client: WriteBuffer | None = None
        """The way of replies back; None where they are held."""
        self._to_upstream: WriteBuffer | None = None
        self._straight: WriteBuffer | None = None
        """The way of requests that go on unread; None where they are read further on."""
        self._connecting: asyncio.Task[None] | None = None
        self._unreachable = ""
        self._reader = MessageReader(endpoint.limits, most=endpoint.part_bytes)
        self.pipeline = Pipeline(endpoint, self._log, self)
        self._paused = 0
        self._waiting: Request | None = None
        """What waits for room in the journal."""
        self._at_gate: Request | None = None
        self._reading: Reading | None = None
        """Of a request that is read in parts."""
        self._held_replies: HeldReplies | None = None
        self._closing = False
        self._parting = False
        self._eof = False
        self.requests_ended = False
        """Whether HBase was told that no more requests come."""
        self._orphaned: asyncio.TimerHandle | None = None

    # -- the client's connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a client, unless there are too many."""
        self._client = cast("asyncio.Transport", transport)
        log = self._log
        log.peer = transport.get_extra_info("peername")
        acknowledgements = self._endpoint.acknowledgements
        if acknowledgements is None:
            self._to_client = WriteBuffer(self._client)
        else:
            self._client = self._held_replies = acknowledgements.guard(self._client, log)
        metrics = self._metrics
        metrics.connections += 1
        limit = self._endpoint.most_connections
        if limit and metrics.connections > limit:
            # As HBase's own server does: an answer would have to wait for a request.
            metrics.count_refusal("connections")
            self.close()
            return
        metrics.connections_accepted += 1
        log.connection = metrics.connections_accepted
        self._endpoint.sessions.add(self)
        if self._endpoint.guard is not None:
            self.identify()

    def identify(self) -> None:
        """Ask the guard what is known of the client, and whether it may be here at all."""
        client, endpoint = self._client, self._endpoint
        guard = endpoint.guard
        if client is None or guard is None:
            self._permit = None
            self._facts = Facts(endpoint.control, endpoint.gates)
            return
        peer = self._log.peer
        if peer and not guard.admits(peer[0]):
            self.abort()
            return
        permit = self._permit = guard.permit(client.get_extra_info("peercert"))
        origin = None
        if permit is not None:
            self._cleared = guard.cleared(permit)
            origin = permit.origin
        self._facts = Facts(endpoint.control, endpoint.gates, guard, permit, origin)

    def data_received(self, data: bytes) -> None:
        """Take bytes from the client."""
        if self._closing:
            return
        try:
            self._receive(data)
        except Exception as error:  # noqa: BLE001 - a stranger's bytes must not end the process
            self._give_up_on(error)
            return
        # What the recorder does is about other clients too: an error there does end the process,
        # and the journal has what must not be lost.
        if self._endpoint.recorder.ripe:
            self._endpoint.recorder.work()

    def _receive(self, data: bytes) -> None:
        endpoint = self._endpoint
        endpoint.received_bytes += len(data)
        sample = endpoint.sample()
        if sample is not None:
            started = endpoint.now = _clock()
            if self._pass_known(data, started, sample):
                sample.added.append(_clock() - started)
                return
        else:
            if self._pass_known(data, endpoint.now, None):
                return
            started = _clock()
        self._reader.feed(data)
        if self._upstream is None and not self._unreachable:
            self._connect()
            return
        self._pump()
        self._each.added.append(_clock() - started)
        if len(data) >= _LONG_READ and self._reader.buffered:
            # A transport reads on as long as there is something: others would wait for all of it.
            self._pause(_OTHERS)
            self._loop.call_soon(self._unpause, _OTHERS)

    def eof_received(self) -> bool:
        """Pass the end of the client's requests on; replies may still come, except over TLS."""
        self._eof = True
        self._pass_end_on()
        return self._client is not None and self._client.can_write_eof()

    def _pass_end_on(self) -> None:
        if self._paused & _STOPPED:
            return
        upstream = self._upstream
        if upstream is not None and not upstream.is_closing() and self.waits_for_reply():
            if upstream.can_write_eof():
                upstream.write_eof()
                self.requests_ended = True
            else:
                self.close_when_answered()
        else:
            self._close()

    def pause_writing(self) -> None:
        """Read neither replies nor requests: the client is slow, and some are answered here."""
        self._pause(_CLIENT_FULL)
        if self._upstream is not None and not self._upstream.is_closing():
            self._upstream.pause_reading()

    def resume_writing(self) -> None:
        """Read replies and requests again."""
        if self._upstream is not None and not self._upstream.is_closing():
            self._upstream.resume_reading()
        self._go_on_after(_CLIENT_FULL)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the base's
        """End with the client, but hear HBase out about writes that are under way."""
        self._client = self._to_client = None
        if self._held_replies is not None:
            self._held_replies.clear()
        self._metrics.connections -= 1
        self._endpoint.admission.leave(self)
        self._endpoint.gates.leave(self)
        self._waiting = self._at_gate = self._reading = None
        if self._connecting is not None:
            self._connecting.cancel()
        upstream = self._upstream
        if upstream is None:
            self._endpoint.sessions.discard(self)
            return
        if self.pipeline.may_write():
            upstream.resume_reading()
            self._closing = True
            self.pipeline.walk_on()
            self._orphaned = self._loop.call_later(_ORPHAN_SECONDS, upstream.abort)
        else:
            upstream.close()

    # -- the connection to HBase

    def _connect(self) -> None:
        self._hold()
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._open())

    async def _open(self) -> None:
        try:
            dialer, formats = self._endpoint.dialer, self._endpoint.formats
            await dialer.connect(
                lambda upstream: PinnedConnection(self, dialer.pool, upstream, formats)
            )
        except UpstreamsUnreachable as error:
            self._unreachable = f"headgate: {error}"
            self._log.warning("upstream unreachable", reason=str(error))
        finally:
            self._connecting = None
        self._release()
        if self._unreachable:
            self.close_when_answered()

    def upstream_made(self, transport: asyncio.Transport) -> None:
        """Take the connection to HBase, or what stands for it."""
        self._upstream = transport
        self._to_upstream = WriteBuffer(transport)
        if self._client is None:
            transport.close()

    def upstream_settled(self, transport: asyncio.Transport) -> None:
        """Take the connection itself: HBase understands what the client sends."""
        self._upstream = transport
        self._to_upstream = self._straight = WriteBuffer(transport)

    def upstream_dropped(self) -> None:
        """Have no connection to HBase yet: it was made when nobody waited for it any more."""
        self._upstream = self._to_upstream = self._straight = None
        if self._client is None:
            self._endpoint.sessions.discard(self)

    def upstream_lost(self, error: Exception | None) -> None:
        """End with HBase's connection: what is under way may or may not have been done."""
        self._upstream = self._to_upstream = self._straight = None
        if self._orphaned is not None:
            self._orphaned.cancel()
        broken = self.pipeline.unanswered()
        if broken and self._client is not None:
            self._log.warning(
                "upstream closed the connection with requests under way",
                requests=len(broken),
                **named(broken),
                reason=str(error) if error else "closed",
            )
        self.pipeline.break_off()
        self._closing = True
        if self._client is None:
            self._endpoint.sessions.discard(self)
        else:
            self._client.close()

    def upstream_full(self) -> None:
        """Stop reading requests: HBase is slow."""
        self._pause(_UPSTREAM_FULL)

    def upstream_drained(self) -> None:
        """Read requests again."""
        self._unpause(_UPSTREAM_FULL)

    # -- requests

    def _pass_known(self, data: bytes, started: float, sample: Sample | None) -> bool:
        """Deal with a request like others before it, unread; tell whether it is one.

        What is not as it mostly is (a gate, a held connection, what the guard has not seen) is left
        to ``_dispatch``.
        """
        reader = self._reader
        write_buffer = self._straight
        if not reader.between_messages or write_buffer is None or self._paused & _STOPPED:
            return False
        endpoint = self._endpoint
        pattern = endpoint.patterns.find(data)
        if pattern is None or pattern.layout.transport is not reader.transport:
            return False
        permit = self._permit
        if permit is not None and pattern not in self._cleared:
            return False
        if not pattern.writes:
            if write_buffer.write(data):
                self.pipeline.follow(pattern, started, sample)
            if pattern.tables:
                endpoint.note_read(pattern, data)
        elif endpoint.gates.closed:
            return False
        elif not endpoint.control.is_watched(pattern.tables[0]):
            if write_buffer.write(data):
                self.pipeline.follow(pattern, started, sample)
        elif self._held_replies is not None or endpoint.looks_closer:
            return False
        else:
            try:
                journalled = endpoint.recorder.begin_alike(pattern, data, self._dialect)
            except (JournalFull, JournalError):
                return False
            if permit is not None:
                journalled.origin = permit.origin
            exchange = Exchange(pattern.method, pattern.tables, journalled, pattern)
            exchange.forwarded = started if sample is None else _clock()
            exchange.sample = sample
            layout, pipeline = pattern.layout, self.pipeline
            try:
                if write_buffer.write(
                    pipeline.judged(exchange, data, layout.body, layout.transport)
                ):
                    pipeline.append(exchange, layout.transport)
                else:
                    self._cancel(exchange)
            except Exception:
                # As in ``_forward_marked``: nobody knows whether it was sent.
                endpoint.recorder.end(journalled, None)
                raise
        return True

    def _pump(self) -> None:
        try:
            self._take_requests()
        except Exception as error:  # noqa: BLE001 - as in ``data_received``
            self._give_up_on(error)

    def _take_requests(self) -> None:
        reader = self._reader
        while not self._paused & _STOPPED and not self._closing and self._client is not None:
            try:
                message = reader.next_message()
            except ProtocolError as error:
                self._refuse(error)
                return
            if message is None:
                if reader.unfinished:
                    self._pause(_TURN)
                    self._loop.call_soon(self._go_on_after, _TURN)
                return
            if self._unreachable:
                self._answer(message, self._io_error(message, self._unreachable))
            else:
                self._dispatch(message)

    def _dispatch(self, message: Message) -> None:
        """Read a request, and do with it what is right now."""
        endpoint = self._endpoint
        if message.type is MessageType.ONEWAY:
            # HBase answers it all the same, and nobody reads that. None of its methods is oneway.
            self._metrics.protocol_errors += 1
            self._log.warning("client refused: its call is oneway", request=message.seqid)
            self.close_when_answered()
            return
        if message.name == IDENTIFY and message.name not in self._methods:
            body = StructWriter().binary(0, endpoint.identification).end()
            self._answer(message, write_reply(message, body))
            return
        if len(message.raw) > endpoint.part_bytes:
            self._reading = Reading(self._dialect, message, endpoint.limits)
            self._pause(_TURN)
            self._read_on(message)
            return
        try:
            request = read_request(self._dialect, message, endpoint.limits)
        except ProtocolError as error:
            self._refuse_unread(message, error)
            return
        endpoint.patterns.consider(request)
        self._wait_for_room(request, self._take(request))

    def _read_on(self, message: Message) -> None:
        """Read some more of a large request; take it, as if it came now, when all is read."""
        reading = self._reading
        if reading is None or self._closing:
            self._reading = None
            return
        try:
            request = reading.go_on(self._endpoint.part_bytes)
            if request is None:
                self._loop.call_soon(self._read_on, message)
                return
            self._reading = None
            self._wait_for_room(request, self._take(request))
        except ProtocolError as error:
            self._reading = None
            self._refuse_unread(message, error)
        except Exception as error:  # noqa: BLE001 - as in ``data_received``
            self._give_up_on(error)
            return
        self._go_on_after(_TURN)

    def _refuse_unread(self, message: Message, error: ProtocolError) -> None:
        """Answer what cannot be read, or what HBase could read otherwise than it is read here."""
        self._metrics.decode_errors += 1
        name = message.name if message.name in self._methods else "(unknown)"
        self._metrics.count_request(self._endpoint.name, name, "unreadable")
        self._log.warning(
            "a request cannot be read", method=name, request=message.seqid, reason=str(error)
        )
        text = (
            f"headgate: nobody can tell what this request would do: {error}; nothing was written, "
            "send it as HBase's own clients do"
        )
        self._answer(message, write_exception(message, ApplicationError.PROTOCOL_ERROR, text))

    def _take(self, request: Request) -> JournalFull | JournalError | None:
        """Do with a request what is right now; return why it must wait for room in the journal."""
        judgement = judge(request, self._facts)
        if isinstance(judgement, Refuse):
            self._turn_down(request, judgement)
            return None
        if self._permit is not None:
            self._clear(request)
        if isinstance(judgement, Hold):
            self._at_gate = request
            self._hold()
            self._endpoint.gates.hold(self, judgement.gate)
            return None
        if isinstance(judgement, Journal):
            return self._record(request, judgement.tables)
        if request.method.effect is Effect.READ and request.tables:
            self._endpoint.count_read(request.tables[0], request.message)
        self._forward(request.message, Exchange(request.method, request.tables, None))
        return None

    def _clear(self, request: Request) -> None:
        """Note that the guard lets this client make requests of the kind."""
        pattern = self._endpoint.patterns.find(request.message.raw)
        if pattern is not None:
            if len(self._cleared) >= _MOST_CLEARED:
                # Most of them are not remembered any more.
                self._cleared.clear()
            self._cleared.add(pattern)

    def _turn_down(self, request: Request, refusal: Refuse) -> None:
        message = request.message
        if refusal.by_guard is None:
            self._metrics.fenced += 1
            outcome = "fenced"
        else:
            guard = self._endpoint.guard
            assert guard is not None  # noqa: S101 - it refuses
            guard.note(refusal.by_guard, request, self._log)
            outcome = "denied"
        # What HBase has no method for has no name of its own.
        unknown = request.method.effect is Effect.UNKNOWN
        name = "(unknown)" if unknown else message.name
        self._metrics.count_request(self._endpoint.name, name, outcome)
        reply = io_error_reply(self._dialect, message, refusal.text, can_retry=False)
        self._answer(message, reply)

    def _warn(self, event: str, message: Message, error: Exception, table: str = "") -> None:
        about = {"table": table} if table else {}
        self._log.warning(
            event, method=message.name, request=message.seqid, **about, reason=str(error)
        )

    def _record(
        self, request: Request, tables: tuple[str, ...]
    ) -> JournalFull | JournalError | None:
        """Write a request down for its watched tables, and forward it; return why that waits."""
        endpoint = self._endpoint
        try:
            journalled = endpoint.recorder.begin(self._dialect, request, tables)
        except (JournalFull, JournalError) as error:
            if not endpoint.admission.may_pass(tables):
                return error
            endpoint.admission.let_pass(tables)
            self._forward_marked(request, Exchange(request.method, request.tables, None))
            return None
        journalled.origin = self._facts.origin
        exchange = Exchange(request.method, request.tables, journalled)
        if self._held_replies is not None:
            self._held_replies.hold(journalled.intent)
        if endpoint.admission.syncs_each:
            self._hold()
            endpoint.admission.when_synced(lambda: self._synced(request, exchange))
        else:
            self._forward_marked(request, exchange)
        return None

    def _wait_for_room(self, request: Request, why: JournalFull | JournalError | None) -> None:
        if why is not None:
            self._warn(
                "a write waits for room in the journal", request.message, why, request.tables[0]
            )
            self._waiting = request
            self._hold()
            self._endpoint.admission.wait(self, why)

    def _synced(self, request: Request, exchange: Exchange) -> None:
        if self._upstream is None or self._client is None:
            self._cancel(exchange)
            return
        judgement = judge(request, self._facts)
        journalled = exchange.journalled
        if (
            isinstance(judgement, Journal)
            and journalled is not None
            and judgement.tables == journalled.tables
        ):
            self._forward_marked(request, exchange)
            self._release()
            return
        # What is right for it is not any more what it was before it was on the disk.
        self._cancel(exchange)
        self._go_on_with(request)

    def _go_on_with(self, request: Request) -> None:
        """Take a request that was held as if it came now, and then what came behind it."""
        self._paused &= ~_HELD
        try:
            self._wait_for_room(request, self._take(request))
        except Exception as error:  # noqa: BLE001 - as in ``data_received``
            self._give_up_on(error)
            return
        self._let_go()

    def _let_go(self) -> None:
        """Read what came behind a request that was held, unless something else holds it now."""
        if not self._paused & _HELD:
            self._paused |= _HELD
            self._release()

    def _cancel(self, exchange: Exchange) -> None:
        self.pipeline.not_forwarded(exchange)
        if exchange.journalled is not None:
            self._endpoint.recorder.cancel(exchange.journalled)

    def try_again(self) -> bool:
        """Take the request that waits for room as if it came now; tell whether it waits no more."""
        request = self._waiting
        if request is None:
            return True
        self._waiting = None
        self._paused &= ~_HELD
        if self._take(request) is not None:
            self._waiting = request
            self._paused |= _HELD
            return False
        self._let_go()
        return True

    def give_up(self, reason: str) -> None:
        """Answer the waiting request with an IOError that may be retried."""
        if self._waiting is None:
            return
        message = self._waiting.message
        self._waiting = None
        self._metrics.count_request(self._endpoint.name, message.name, "blocked")
        self._answer(message, self._io_error(message, reason))
        self._release()

    # -- gates

    def client_is_gone(self) -> bool:
        """Return whether nobody waits for the answer to the request that a gate holds."""
        client = self._client
        return client is None or self._eof or self._endpoint.left(client)

    def gate_in_the_way(self) -> Gate | None:
        """Return the gate that is closed to the request that a gate held."""
        if self._at_gate is None:
            return None
        judgement = judge(self._at_gate, self._facts)
        return judgement.gate if isinstance(judgement, Hold) else None

    def go_on(self) -> None:
        """Take the request that a gate held as if it came now."""
        request, self._at_gate = self._at_gate, None
        if request is not None:
            self._go_on_with(request)

    def turn_away(self, reason: str) -> None:
        """Answer the request that a gate holds with an IOError that may be retried."""
        request, self._at_gate = self._at_gate, None
        if request is None:
            return
        message = request.message
        self._metrics.count_request(self._endpoint.name, message.name, "gated")
        self._answer(message, self._io_error(message, reason))
        self._release()

    def drop(self, reason: str) -> None:
        """Answer the request that a gate holds, should anybody listen, and end the connection."""
        self._closing = True
        self.turn_away(reason)
        self.close_when_answered()

    # -- to HBase

    def _forward_marked(self, request: Request, exchange: Exchange) -> None:
        """Forward a watched request, with notify cells where its table asks for them."""
        try:
            self._mark_and_forward(request, exchange)
        except Exception as error:  # noqa: BLE001 - as in ``data_received``
            if exchange.journalled is not None:
                # Nobody knows whether it was sent.
                self._endpoint.recorder.end(exchange.journalled, None)
            self._give_up_on(error)

    def _mark_and_forward(self, request: Request, exchange: Exchange) -> None:
        notify = self._endpoint.notify
        message, change = request.message, request.change
        if notify.asked:
            table = request.tables[0]
            if isinstance(change, Definition):
                notify.table_changes(change)
            else:
                origin = self._facts.origin
                marked = notify.marked_write(self._dialect, request, table, self._log, origin)
                if marked is not None:
                    exchange.marked = True
                    message = marked
        self._forward(message, exchange)

    def _forward(self, message: Message, exchange: Exchange) -> None:
        write_buffer = self._to_upstream
        exchange.forwarded = _clock()
        exchange.sample = self._each
        raw = message.raw
        if exchange.journalled is not None:
            raw = self.pipeline.judged(
                exchange, raw, message.body, message.transport, message.protocol
            )
        if write_buffer is None or not write_buffer.write(raw):
            # It broke a moment ago: nothing was sent, and the client is being closed.
            self._cancel(exchange)
            return
        self.pipeline.append(exchange, message.transport)

    @property
    def protocol(self) -> Protocol:
        """What the client's requests are written in."""
        return self._reader.protocol

    def send_on(self, call: bytes) -> bool:
        """Send a call of the observer's own behind what was forwarded; False: HBase is gone."""
        return self._to_upstream is not None and self._to_upstream.write(call)

    # -- replies

    def reply_received(self, data: bytes) -> None:
        """Take bytes from HBase."""
        self.pipeline.received(data)

    def send(self, data: bytes) -> None:
        """Send bytes to the client, if there is still one."""
        write_buffer = self._to_client
        if write_buffer is not None:
            write_buffer.write(data)
        elif self._client is not None:
            self._client.write(data)

    def all_answered(self) -> None:
        """Come to an end that had to wait for replies."""
        if self._closing:
            self._close()

    def abort_upstream(self) -> None:
        """Break the connection to HBase."""
        if self._upstream is not None:
            self._upstream.abort()

    # -- replies of our own

    def _io_error(self, message: Message, text: str) -> bytes:
        return io_error_reply(self._dialect, message, text)

    def _answer(self, message: Message, reply: bytes) -> None:
        """Answer a request in HBase's place, when its turn has come."""
        exchange = Exchange(method_of(self._dialect, message.name), (), None)
        exchange.local = reply
        if not self.pipeline.answer(exchange, message.transport):
            self.abort()

    def _refuse(self, error: ProtocolError) -> None:
        """Answer what cannot be read, as far as the client can read that, and close."""
        self._metrics.protocol_errors += 1
        self._log.warning("client refused", reason=str(error))
        reader = self._reader
        if isinstance(error, UnsupportedProtocol):
            self.send(error.answer)
        if reader.transport is not None:
            header = reader.header
            name, seqid = ("", 0) if header is None else (header.name, header.seqid)
            request = Message(
                b"", 0, name, MessageType.CALL, seqid, reader.transport, reader.protocol
            )
            text = f"headgate: {error}"
            reply = write_exception(request, ApplicationError.PROTOCOL_ERROR, text)
            self._answer(request, reply)
        self.close_when_answered()

    def _give_up_on(self, error: Exception) -> None:
        """Break the connection over a fault of the observer's own that its bytes have met."""
        self._metrics.count_refusal("fault")
        self._log.error("connection broken: its bytes met a fault of the observer", error)
        self.abort()

    # -- the end

    def waits_since(self) -> float | None:
        """Return when the oldest request under way was forwarded, or last got bytes of a reply."""
        return self.pipeline.waits_since()

    def waits_for_reply(self) -> bool:
        """Return whether a request is under way of whose reply nothing has come."""
        return self.pipeline.waits_for_reply()

    def quiet(self) -> bool:
        """Return whether the connection can be closed without cutting a request or a reply."""
        held = (self._waiting or self._at_gate or self._reading) is not None
        if self.waits_for_reply() or held or self._reader.buffered:
            return False
        pipeline = self.pipeline
        return not pipeline.in_flight or _clock() - pipeline.touched > _QUIET_SECONDS

    def drain(self) -> None:
        """Go towards the end: close between requests, take no more than those under way."""
        client = self._client
        if self.waits_for_reply():
            self.close_when_answered()
        elif client is not None and client.is_closing() and not client.can_write_eof():
            # TLS ends when the peer has taken leave too, which idle clients do not do. One call
            # later than the end began, for until then the transport may hold bytes itself.
            if self._parting and not client.get_write_buffer_size() and has_taken_all(client):
                self.abort()
            self._parting = True
        elif self.quiet():
            self.close()

    def stage(self) -> Stage:
        """Return at which stage the session is."""
        if self._closing:
            waits = self._client is None or self.waits_for_reply()
            return Stage.SERVER if waits else Stage.REPLIES
        if self._paused & _CLIENT_FULL:
            return Stage.REPLIES
        if self._paused:
            return Stage.SERVER
        if self._reader.buffered:
            return Stage.REQUEST
        if self._upstream is None:
            return Stage.SILENT
        return Stage.SERVER if self.waits_for_reply() else Stage.IDLE

    def progress(self) -> tuple[float, int, int]:
        """Return what is different after every request that was taken or answered."""
        client = self._client
        unsent = client.get_write_buffer_size() if client is not None else 0
        return self.pipeline.touched, len(self.pipeline.in_flight), unsent

    def expire(self, reason: str, *, at_once: bool) -> None:
        """Close a connection that its client only holds."""
        self._log.info("connection closed", reason=reason)
        if at_once:
            self.abort()
        else:
            self.close_when_answered()

    def close_when_answered(self) -> None:
        """Take no more requests; close once those under way are answered."""
        self._closing = True
        if self.waits_for_reply():
            self.pipeline.walk_on()
        else:
            self._close()

    def _close(self) -> None:
        if self._client is not None:
            self._client.close()
        elif self._upstream is not None:
            self._upstream.close()

    def close(self) -> None:
        """Close at once, in order: what is written is still sent."""
        self._closing = True
        self._close()

    def abort(self) -> None:
        """Break both connections: requests under way end as unknown."""
        self._closing = True
        self.abort_upstream()
        if self._client is not None:
            self._client.abort()

    # -- flow control

    def pipeline_full(self) -> None:
        """Stop reading requests: too many are under way."""
        self._pause(_PIPELINE)

    def pipeline_drained(self) -> None:
        """Read requests again."""
        self._unpause(_PIPELINE)

    def _hold(self) -> None:
        self._pause(_HELD)

    def _release(self) -> None:
        self._go_on_after(_HELD)

    def _go_on_after(self, reason: int) -> None:
        """Take the requests that have been read, and read on."""
        self._unpause(reason)
        self._pump()
        if self._eof:
            self._pass_end_on()

    def _pause(self, reason: int) -> None:
        if not self._paused and self._client is not None:
            self._client.pause_reading()
        self._paused |= reason

    def _unpause(self, reason: int) -> None:
        if self._paused & reason:
            self._paused &= ~reason
            if not self._paused and self._client is not None and not self._client.is_closing():
                self._client.resume_reading()
