"""Answers of the observer's own to one client, in HBase's place."""

from __future__ import annotations

from typing import final

from headgate.hbase import METHODS, Effect, Request, io_error_reply, method_of
from headgate.observer.monitoring.client_log import ClientLog
from headgate.observer.sessions.connection_pair import ConnectionPair
from headgate.observer.sessions.endpoint import Endpoint
from headgate.observer.sessions.exchange import Exchange
from headgate.observer.sessions.pipeline import Pipeline
from headgate.observer.sessions.write_rules import Refuse
from headgate.wire import (
    ApplicationError,
    Message,
    MessageReader,
    MessageType,
    ProtocolError,
    StructWriter,
    UnsupportedProtocol,
    write_exception,
    write_reply,
)


@final
class Answers:
    """What is answered here, each when its turn has come, and the close that waits for it."""

    def __init__(
        self, endpoint: Endpoint, log: ClientLog, connections: ConnectionPair, pipeline: Pipeline
    ) -> None:
        """Answer the client of the pair."""
        self._endpoint = endpoint
        self._log = log
        self._connections = connections
        self._pipeline = pipeline

    def answer(self, message: Message, reply: bytes) -> None:
        """Answer a request in HBase's place, when its turn has come."""
        exchange = Exchange(method_of(self._endpoint.dialect, message.name), (), None)
        exchange.local = reply
        if not self._pipeline.answer(exchange, message.transport):
            self._connections.abort()

    def io_error(self, message: Message, text: str) -> None:
        """Answer a request with an IOError that may be retried."""
        self.answer(message, io_error_reply(self._endpoint.dialect, message, text))

    def identification(self, message: Message) -> None:
        """Answer who the observer is."""
        body = StructWriter().binary(0, self._endpoint.identification).end()
        self.answer(message, write_reply(message, body))

    def refuse(self, error: ProtocolError, reader: MessageReader) -> None:
        """Answer what cannot be read, as far as the client can read that, and close."""
        self._endpoint.metrics.protocol_errors += 1
        self._log.warning("client refused", reason=str(error))
        if isinstance(error, UnsupportedProtocol):
            self._connections.send(error.answer)
        if reader.transport is not None:
            header = reader.header
            name, seqid = ("", 0) if header is None else (header.name, header.seqid)
            request = Message(
                b"", 0, name, MessageType.CALL, seqid, reader.transport, reader.protocol
            )
            text = f"headgate: {error}"
            reply = write_exception(request, ApplicationError.PROTOCOL_ERROR, text)
            self.answer(request, reply)
        self.close_when_answered()

    def refuse_oneway(self, message: Message) -> None:
        """Close over a call that wants no answer."""
        # HBase answers it all the same, and nobody reads that. None of its methods is oneway.
        self._endpoint.metrics.protocol_errors += 1
        self._log.warning("client refused: its call is oneway", request=message.seqid)
        self.close_when_answered()

    def refuse_unread(self, message: Message, error: ProtocolError) -> None:
        """Answer what cannot be read, or what HBase could read otherwise than it is read here."""
        endpoint = self._endpoint
        endpoint.metrics.decode_errors += 1
        name = message.name if message.name in METHODS[endpoint.dialect] else "(unknown)"
        endpoint.metrics.count_request(endpoint.name, name, "unreadable")
        self._log.warning(
            "a request cannot be read", method=name, request=message.seqid, reason=str(error)
        )
        text = (
            f"headgate: nobody can tell what this request would do: {error}; nothing was written, "
            "send it as HBase's own clients do"
        )
        self.answer(message, write_exception(message, ApplicationError.PROTOCOL_ERROR, text))

    def turn_down(self, request: Request, refusal: Refuse) -> None:
        """Answer a request that the rules refuse."""
        endpoint, message = self._endpoint, request.message
        if refusal.by_guard is None:
            endpoint.metrics.fenced += 1
            outcome = "fenced"
        else:
            guard = endpoint.guard
            assert guard is not None  # noqa: S101 - it refuses
            guard.note(refusal.by_guard, request, self._log)
            outcome = "denied"
        # What HBase has no method for has no name of its own.
        unknown = request.method.effect is Effect.UNKNOWN
        name = "(unknown)" if unknown else message.name
        endpoint.metrics.count_request(endpoint.name, name, outcome)
        reply = io_error_reply(endpoint.dialect, message, refusal.text, can_retry=False)
        self.answer(message, reply)

    def close_when_answered(self) -> None:
        """Take no more requests; close once those under way are answered."""
        self._connections.closing = True
        if self._pipeline.waits_for_reply():
            self._pipeline.parse_to_the_end()
        else:
            self._connections.end()
