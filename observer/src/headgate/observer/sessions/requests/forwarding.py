"""Requests on their way to HBase: marked where their tables ask for that, sent, and waited for."""

from __future__ import annotations

from time import perf_counter
from typing import Final, final

from headgate.events import Origin
from headgate.hbase import Request, SchemaChange
from headgate.observer.monitoring.client_log import ClientLog
from headgate.observer.sessions.connection_pair import ConnectionPair
from headgate.observer.sessions.endpoint import Endpoint
from headgate.observer.sessions.exchange import Exchange, number_of
from headgate.observer.sessions.holdings import COUNTED
from headgate.observer.sessions.pipeline import Pipeline
from headgate.wire import Message

_clock: Final = perf_counter


@final
class Forwarder:
    """Sends a client's requests on to HBase."""

    def __init__(
        self, endpoint: Endpoint, log: ClientLog, connections: ConnectionPair, pipeline: Pipeline
    ) -> None:
        """Forward to the pair's connection to HBase."""
        self._endpoint = endpoint
        self._each = endpoint.timings.each
        self._log = log
        self._connections = connections
        self._pipeline = pipeline
        self._unanswered = 0
        """Bytes that were forwarded and that HBase has not begun to answer, of large requests."""

    def has_room(self, size: int) -> bool:
        """Return whether a request of so many bytes may be forwarded now."""
        return self._endpoint.holdings.has_room(size, self._unanswered)

    def _count(self, exchange: Exchange, size: int) -> None:
        """Count a request towards the memory limit until HBase answers, or the connection ends."""
        holdings = self._endpoint.holdings
        holdings.unanswered += size
        self._unanswered += size

        def answered() -> None:
            holdings.unanswered -= size
            self._unanswered -= size

        exchange.waiters = [*(exchange.waiters or ()), answered]

    def forward_watched(self, request: Request, exchange: Exchange, origin: Origin | None) -> None:
        """Forward a watched request, with notify cells where its table asks for them.

        ``origin`` is who wrote, where the request itself does not say.
        """
        try:
            self._add_cells_and_forward(request, exchange, origin)
        except Exception as error:  # noqa: BLE001 - a stranger's bytes must not end the process
            if exchange.journalled is not None:
                # Nobody knows whether it was sent.
                self._endpoint.recorder.end(exchange.journalled, None)
            exchange.wake(self._endpoint.recorder)
            self._connections.give_up_on(error)

    def _add_cells_and_forward(
        self, request: Request, exchange: Exchange, origin: Origin | None
    ) -> None:
        notify = self._endpoint.notify
        message, change = request.message, request.change
        if notify.asked:
            table = request.tables[0]
            if isinstance(change, SchemaChange):
                notify.table_changes(change)
            else:
                dialect = self._endpoint.dialect
                marked = notify.marked_write(dialect, request, table, self._log, origin)
                if marked is not None:
                    exchange.has_notify_cells = True
                    message = marked
        self.forward(message, exchange)

    def forward(self, message: Message, exchange: Exchange) -> None:
        """Send a request, and wait for its reply."""
        write_buffer = self._connections.to_upstream
        exchange.number = number_of(message)
        exchange.forwarded = _clock()
        exchange.sample = self._each
        raw = message.raw
        if exchange.journalled is not None:
            raw = self._pipeline.marked(
                exchange, raw, message.body, message.transport, message.protocol
            )
        if write_buffer is None or not write_buffer.write(raw):
            # It broke a moment ago: nothing was sent, and the client is being closed.
            self.cancel(exchange)
            return
        if len(message.raw) >= COUNTED:
            self._count(exchange, len(message.raw))
        self._pipeline.append(exchange, message.transport)

    def cancel(self, exchange: Exchange) -> None:
        """Forget a request that was not sent after all."""
        self._pipeline.not_forwarded(exchange)
        exchange.wake(self._endpoint.recorder)
        if exchange.journalled is not None:
            self._endpoint.recorder.cancel(exchange.journalled)
