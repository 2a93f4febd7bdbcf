"""Bytes from a client: known requests go on unread, all others are read one by one."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Final, final

from headgate.hbase import METHODS, Reading, read_request
from headgate.observer.monitoring.client_log import ClientLog
from headgate.observer.monitoring.metrics import Sample
from headgate.observer.recording.journal_errors import JournalError, JournalFull
from headgate.observer.sessions.connection_pair import OTHERS, STOPPED, TURN, ConnectionPair
from headgate.observer.sessions.endpoint import Endpoint
from headgate.observer.sessions.exchange import Exchange
from headgate.observer.sessions.holdings import LARGE
from headgate.observer.sessions.identification import IDENTIFY
from headgate.observer.sessions.pipeline import Pipeline
from headgate.observer.sessions.requests.answers import Answers
from headgate.observer.sessions.requests.dispatching import RequestDispatcher
from headgate.observer.sessions.requests.forwarding import Forwarder
from headgate.observer.sessions.write_rules import FORWARD, judge_known
from headgate.observer.upstreams.circles import (
    CHECKS,
    circle_reply,
    is_circle,
    passed_on,
    way_of,
)
from headgate.wire import Message, MessageReader, MessageType, ProtocolError

_clock: Final = perf_counter
_LONG_READ: Final = 1 << 16  # bytes of a request that is not whole, after which others have a turn


@final
class RequestIntake:
    """Reads a client's requests and hands each on to be dealt with."""

    def __init__(
        self,
        endpoint: Endpoint,
        log: ClientLog,
        connections: ConnectionPair,
        reader: MessageReader,
        pipeline: Pipeline,
        answers: Answers,
        connect: Callable[[], None],
    ) -> None:
        """Begin before the first byte; ``connect`` is called when HBase is needed."""
        self._endpoint = endpoint
        self._each = endpoint.timings.each
        self._dialect = endpoint.dialect
        self._methods = METHODS[endpoint.dialect]
        self._loop = endpoint.loop
        self._connections = connections
        self._reader = reader
        self._pipeline = pipeline
        self._answers = answers
        self._connect = connect
        self._forwarder = Forwarder(endpoint, log, connections, pipeline)
        self.dispatcher = RequestDispatcher(
            endpoint, log, connections, self._forwarder, answers, self.go_on_after
        )
        self.reading: Reading | None = None
        """Of a request that is read in parts."""
        self._read_bytes = 0
        """How long that is."""
        self._holds = False
        """True while the bytes kept for this client count towards ``limits.waiting_bytes``."""

    def receive(self, data: bytes) -> None:
        """Take bytes from the client."""
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
        connections = self._connections
        if connections.upstream is None and not connections.unreachable:
            self._note_holdings()
            self._connect()
            return
        self._pump()
        self._each.added.append(_clock() - started)
        if len(data) >= _LONG_READ and self._reader.buffered:
            # A transport reads on as long as there is something: others would wait for all of it.
            connections.pause(OTHERS)
            self._loop.call_soon(connections.resume, OTHERS)

    def _pass_known(self, data: bytes, started: float, sample: Sample | None) -> bool:
        """Deal with a request like others before it, unread; return whether it is one.

        Anything unusual (a closed gate, a held connection, a kind of request that the guard has not
        cleared) is left to ``_dispatch``.
        """
        reader, connections = self._reader, self._connections
        write_buffer = connections.straight
        if not reader.between_messages or write_buffer is None or connections.paused & STOPPED:
            return False
        endpoint = self._endpoint
        pattern = endpoint.patterns.find(data)
        if pattern is None or pattern.layout.transport is not reader.transport:
            return False
        permit = self.dispatcher.permit
        if permit is not None and pattern not in self.dispatcher.cleared:
            return False
        if not pattern.writes:
            if write_buffer.write(data):
                self._pipeline.follow(pattern, started, sample)
            if pattern.tables:
                endpoint.note_read(pattern, data)
            return True
        judgement = judge_known(pattern.tables, self.dispatcher.facts)
        if judgement is None:
            return False
        if judgement is FORWARD:
            if write_buffer.write(data):
                self._pipeline.follow(pattern, started, sample)
        elif connections.held_replies is not None or endpoint.looks_closer:
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
            layout, pipeline = pattern.layout, self._pipeline
            exchange.number = data[layout.body - 4 : layout.body]
            try:
                if write_buffer.write(
                    pipeline.marked(exchange, data, layout.body, layout.transport)
                ):
                    pipeline.append(exchange, layout.transport)
                else:
                    self._forwarder.cancel(exchange)
            except Exception:
                # As in ``Forwarder.forward_watched``: nobody knows whether it was sent.
                endpoint.recorder.end(journalled, None)
                raise
        return True

    def _pump(self) -> None:
        try:
            self._take_requests()
        except Exception as error:  # noqa: BLE001 - a stranger's bytes must not end the process
            self._connections.give_up_on(error)
        self._note_holdings()

    def _note_holdings(self) -> None:
        """Note how many bytes are kept for the client, where these are many."""
        size = self._reader.buffered + self._read_bytes + self.dispatcher.held_bytes
        if size >= LARGE or self._holds:
            self._holds = size >= LARGE
            self._endpoint.holdings.note(self, size)

    def let_go(self, reason: str) -> None:
        """Answer the request that is kept with the reason, and keep nothing more of it."""
        self._holds = False
        if self.dispatcher.holds():
            self.dispatcher.let_go(reason)
            return
        self.reading = None
        self._read_bytes = 0
        self._answers.refuse(ProtocolError(reason), self._reader)
        self._reader.drop()

    def _take_requests(self) -> None:
        reader, connections = self._reader, self._connections
        while (
            not connections.paused & STOPPED
            and not connections.closing
            and connections.client is not None
        ):
            try:
                message = reader.next_message()
            except ProtocolError as error:
                self._answers.refuse(error, reader)
                return
            if message is None:
                if reader.unfinished:
                    connections.pause(TURN)
                    self._loop.call_soon(self.go_on_after, TURN)
                return
            if connections.unreachable:
                self._answers.io_error(message, connections.unreachable)
            else:
                self._dispatch(message)

    def _dispatch(self, message: Message) -> None:
        """Read a request, and do with it what is right now."""
        endpoint = self._endpoint
        if message.type is MessageType.ONEWAY:
            self._answers.refuse_oneway(message)
            return
        if message.name == IDENTIFY and message.name not in self._methods:
            self._answers.identification(message)
            return
        if message.name in CHECKS and message.raw[message.body]:
            way = way_of(message)
            if way:
                self._pass_check_on(message, way)
                return
        if len(message.raw) > endpoint.max_bytes_per_turn:
            self.reading = Reading(self._dialect, message, endpoint.limits)
            self._read_bytes = len(message.raw)
            self._connections.pause(TURN)
            self._read_on(message)
            return
        try:
            request = read_request(self._dialect, message, endpoint.limits)
        except ProtocolError as error:
            self._answers.refuse_unread(message, error)
            return
        endpoint.patterns.consider(request)
        dispatcher = self.dispatcher
        dispatcher.wait_for_room(request, dispatcher.take(request))

    def _pass_check_on(self, message: Message, way: tuple[str, ...]) -> None:
        """Pass on another observer's check of its upstream, unless it has been here before."""
        mark = self._endpoint.dialer.mark
        on = (*way, mark)
        if is_circle(way, mark):
            self._answers.answer(message, circle_reply(message, on))
            return
        request = read_request(self._dialect, passed_on(message, on), self._endpoint.limits)
        self.dispatcher.wait_for_room(request, self.dispatcher.take(request))

    def _read_on(self, message: Message) -> None:
        """Read some more of a large request; take it, as if it came now, when all is read."""
        reading = self.reading
        if reading is None or self._connections.closing:
            self.reading = None
            return
        try:
            request = reading.go_on(self._endpoint.max_bytes_per_turn)
            if request is None:
                self._loop.call_soon(self._read_on, message)
                return
            self.reading = None
            self._read_bytes = 0
            self.dispatcher.wait_for_room(request, self.dispatcher.take(request))
        except ProtocolError as error:
            self.reading = None
            self._read_bytes = 0
            self._answers.refuse_unread(message, error)
        except Exception as error:  # noqa: BLE001 - a stranger's bytes must not end the process
            self._connections.give_up_on(error)
            return
        self.go_on_after(TURN)

    def go_on_after(self, reason: int) -> None:
        """Take the requests that have been read, and read on."""
        connections = self._connections
        connections.resume(reason)
        self._pump()
        if connections.eof:
            self.pass_end_on()

    def pass_end_on(self) -> None:
        """Let HBase know that the client sends no more requests, once all are taken."""
        connections = self._connections
        if connections.paused & STOPPED:
            return
        upstream = connections.upstream
        if upstream is not None and not upstream.is_closing() and self._pipeline.waits_for_reply():
            if upstream.can_write_eof():
                upstream.write_eof()
                connections.requests_ended = True
            else:
                self._answers.close_when_answered()
        else:
            connections.end()

    @property
    def buffered(self) -> int:
        """How many bytes wait for the rest of a request, or for their turn."""
        return self._reader.buffered

    def quiet(self) -> bool:
        """Return whether there is no request that is not forwarded or answered."""
        return self.reading is None and not self.dispatcher.holds() and not self._reader.buffered

    def leave(self) -> None:
        """Read nothing any more: the client is gone."""
        self.dispatcher.leave()
        self.reading = None
        self._endpoint.holdings.note(self, 0)
